import Configuration
import Revocations
import Testing

@testable import TokenEndpoint

/// The body of a revocation and the query of a list, without sockets.
struct RevocationBodyTests {
    private static let u200 = String(repeating: "ü", count: 200)
    private static let u64 = String(repeating: "ü", count: 64)

    @Test(
        arguments: [
            (#"{"end_user_id":"u1"}"#, RevocationBody(person: .endUser("u1"))),
            (
                #" {"block":"sessions","end_user_id":"u1","reason":"left"} "#,
                RevocationBody(person: .endUser("u1"), block: .sessions, reason: "left")
            ),
            (#"{"end_user_id":"u1","block":"user"}"#, RevocationBody(person: .endUser("u1"), block: .user)),
            (
                #"{"end_user_id":"u1","block":"none","reason":""}"#,
                RevocationBody(person: .endUser("u1"), block: .none, reason: "")
            ),
            (#"{"subject":"s"}"#, RevocationBody(person: .subject("s", issuer: nil))),
            (#"{"subject":"","issuer":"https://i"}"#, RevocationBody(person: .subject("", issuer: "https://i"))),
            (#"{"end_user_id":"auth0|abc"}"#, RevocationBody(person: .endUser("auth0|abc"))),
            // Older software may have minted for an address; what is minted for here is narrower.
            (#"{"end_user_id":"a@b.example"}"#, RevocationBody(person: .endUser("a@b.example"))),
            (#"{"end_user_id":"\#(u64)"}"#, RevocationBody(person: .endUser(u64))),
            (#"{"end_user_id":"u","reason":"\#(u200)"}"#, RevocationBody(person: .endUser("u"), reason: u200)),
        ] as [(String, RevocationBody)])
    func whatIsUnderstood(text: String, expected: RevocationBody) throws {
        #expect(try RevocationBody.parse(Array(text.utf8)) == expected)
    }

    @Test(
        arguments: [
            ("", nil), (" ", nil), ("{", nil), ("null", nil), ("[]", nil), (#""u1""#, nil), ("1", nil),
            (#"{"end_user_id":"u1"}x"#, nil),
            (#"{"end_user_id":"u1",}"#, nil), (#"{'end_user_id':'u1'}"#, nil), ("{\"end_user_id\":\"\u{1}\"}", nil),
            (#"{"end_user_id":"\ud800"}"#, nil), ("\u{FEFF}{}", nil), ("end_user_id=u1", nil),
            (String(repeating: "[", count: 100), nil),
            ("{}", "end_user_id"), (#"{"block":"user"}"#, "end_user_id"), (#"{"issuer":"i"}"#, "end_user_id"),
            (#"{"end_user_id":"u1","subject":"s"}"#, "subject"),
            (#"{"end_user_id":"u1","issuer":"i"}"#, "issuer"),
            (#"{"end_user_id":null}"#, "end_user_id"), (#"{"end_user_id":1}"#, "end_user_id"),
            (#"{"end_user_id":["u1"]}"#, "end_user_id"), (#"{"end_user_id":{}}"#, "end_user_id"),
            (#"{"end_user_id":true}"#, "end_user_id"),
            (#"{"subject":17}"#, "subject"), (#"{"subject":null}"#, "subject"), (#"{"subject":"s","issuer":null}"#, "issuer"),
            (#"{"subject":"s","issuer":[]}"#, "issuer"),
            (#"{"end_user_id":"u1","block":null}"#, "block"), (#"{"end_user_id":"u1","block":true}"#, "block"),
            (#"{"end_user_id":"u1","block":"User"}"#, "block"), (#"{"end_user_id":"u1","block":""}"#, "block"),
            (#"{"end_user_id":"u1","block":"all"}"#, "block"),
            (#"{"end_user_id":"u1","reason":null}"#, "reason"), (#"{"end_user_id":"u1","reason":5}"#, "reason"),
            (#"{"end_user_id":"u","reason":"\#(u200)x"}"#, "reason"),
            (#"{"end_user_id":"u1","ttl":1}"#, "ttl"), (#"{"end_user_id":"u1","":1}"#, ""),
            (#"{"End_User_ID":"u1"}"#, "End_User_ID"), (#"{"end_user_id":"u1","reasn":"x"}"#, "reasn"),
            (#"{"end_user_id":"u1","end_user_id":"u1"}"#, "end_user_id"),
            (#"{"end_user_id":"u1","block":"none","block":"user"}"#, "block"),
            (#"{"end_user_id":""}"#, "end_user_id"), (#"{"end_user_id":"  "}"#, "end_user_id"),
            (#"{"end_user_id":"a\u0000b"}"#, "end_user_id"), (#"{"end_user_id":"a\nb"}"#, "end_user_id"),
            (#"{"end_user_id":"\#(u64)x"}"#, "end_user_id"),
        ] as [(String, String?)])
    func whatIsNotIsRefusedByName(text: String, member: String?) {
        do throws(BadMember) {
            let body = try RevocationBody.parse(Array(text.utf8))
            Issue.record("accepted \(text): \(body)")
        } catch {
            #expect(error.member == member, "\(text)")
            #expect(error.problem.code == .badRequest)
        }
    }

    /// Cut anywhere it is no body, and never a shorter one.
    @Test func aBodyCutAtAnyByteIsRefused() {
        let text = Array(#"{"end_user_id":"u1","block":"sessions","reason":"gone"}"#.utf8)
        for length in 0..<text.count {
            #expect(throws: BadMember.self) { try RevocationBody.parse(Array(text[..<length])) }
        }
    }

    @Test func aLongUnknownNameIsShortened() {
        let name = String(repeating: "n", count: 65)
        do throws(BadMember) {
            _ = try RevocationBody.parse(Array(#"{"\#(name)":1}"#.utf8))
            Issue.record("accepted")
        } catch {
            #expect(error.member == String(repeating: "n", count: 64) + "…")
        }
    }

    // MARK: Query

    private static let id = "rv_0123456789abcdef0123456789abcdef"

    @Test(
        arguments: [
            (nil, RevocationListQuery()), ("", RevocationListQuery()), ("status=pending", RevocationListQuery(pendingOnly: true)),
            ("limit=1", RevocationListQuery(limit: 1)), ("limit=200", RevocationListQuery(limit: 200)),
            ("after=\(id)&limit=2&status=pending", RevocationListQuery(pendingOnly: true, limit: 2, after: id)),
            ("st%61tus=pend%69ng", RevocationListQuery(pendingOnly: true)),
        ] as [(String?, RevocationListQuery)])
    func queriesThatAreUnderstood(text: String?, expected: RevocationListQuery) throws {
        #expect(try RevocationListQuery.parse(text.map { Array($0.utf8)[...] }) == expected)
    }

    @Test(arguments: [
        ("limit=0", "limit"), ("limit=201", "limit"), ("limit=", "limit"), ("limit", "limit"), ("limit=-1", "limit"),
        ("limit=1.0", "limit"), ("limit=+1", "limit"), ("limit=1&limit=1", "limit"), ("limit=99999999999999999999", "limit"),
        ("status=", "status"), ("status=complete", "status"), ("status=Pending", "status"),
        ("status=pending&status=pending", "status"),
        ("after=", "after"), ("after=rv_1", "after"), ("after=\(id.uppercased())", "after"), ("after=\(id)0", "after"),
        ("state=pending", "state"), ("Limit=1", "Limit"), ("limit=1&x", "x"),
    ])
    func queriesThatAreNot(text: String, member: String) {
        do throws(BadMember) {
            _ = try RevocationListQuery.parse(Array(text.utf8)[...])
            Issue.record("accepted \(text)")
        } catch {
            #expect(error.member == member, "\(text)")
        }
    }

    // MARK: Percent-encoding

    @Test(
        arguments: [
            ("u1", "u1"), ("auth0%7Cabc", "auth0|abc"), ("a%2Fb", "a/b"), ("a%2fb", "a/b"), ("a%252Fb", "a%2Fb"), ("%C3%BC", "ü"),
            ("a+b", "a+b"), ("%", nil), ("%4", nil), ("%zz", nil), ("%ff", nil), ("%C3", nil), ("", ""),
        ] as [(String, String?)])
    func segmentsAreDecodedOnce(text: String, expected: String?) {
        #expect(PercentEncoding.text(Array(text.utf8)[...]) == expected)
    }

    @Test(arguments: ["u1", "auth0|abc", "a/b", "%2F", "ü", "a b", "?#&="])
    func whatIsEncodedDecodesToItself(text: String) {
        let encoded = PercentEncoding.encode(text)
        #expect(encoded.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"/?#".utf8.contains($0) })
        #expect(PercentEncoding.text(Array(encoded.utf8)[...]) == text)
    }
}
