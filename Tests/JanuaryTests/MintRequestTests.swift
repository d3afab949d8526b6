import HTTPMessage
import Primitives
import StrictJSON
import Testing

@testable import January

@Suite struct MintRequestTests {
    @Test func bodyHasExactlyTheThreeMembersWithSortedUniqueScopes() {
        let terms = MintTerms(scopes: ["foods:read", "food_logs:write", "foods:read", "food_logs:read"], ttlSeconds: 900)
        #expect(terms.scopes == ["food_logs:read", "food_logs:write", "foods:read"])
        #expect(
            String(decoding: MintRequest.body(endUserID: "acme-17", terms: terms), as: UTF8.self)
                == #"{"end_user_id":"acme-17","scopes":["food_logs:read","food_logs:write","foods:read"],"ttl_seconds":900}"#)
    }

    @Test(arguments: [#"a"b"#, #"a\b"#, "a\u{1}b", "tab\t", "é", "日本", "😀", "</script>", ""])
    func anyEndUserIDReadsBackAsItself(id: String) throws {
        let body = MintRequest.body(endUserID: id, terms: MintTerms(scopes: ["s"], ttlSeconds: 300))
        let object = try #require(try JSONValue.parse(body).object)
        #expect(object["end_user_id"] == .string(id))
        #expect(object.members.map(\.name) == ["end_user_id", "scopes", "ttl_seconds"])
    }

    @Test func fieldsOfAKeyAreRenderedOnceAndPrintAsNothing() throws {
        let ring = KeyRing(first: try APIKey(Secret("sk-abc")), userAgent: "january-token-endpoint/1.0.0")
        let fields = ring.keys.current.fields
        var lines: [String] = []
        Fields(fields).forEach { lines.append("\(String(decoding: $0, as: UTF8.self)): \(String(decoding: $1, as: UTF8.self))") }
        #expect(
            lines.sorted() == [
                "accept-encoding: identity", "accept: application/json", "authorization: Bearer sk-abc",
                "content-type: application/json", "user-agent: january-token-endpoint/1.0.0",
            ])
        #expect("\(fields)" == "<redacted>")
    }
}
