@testable import January
import Primitives
import StrictJSON

// January's 201: the quick reader never says anything else than the strict parser, and only an answer to exactly what was asked for is
// delivered, with its bytes as they came.

private let terms = MintTerms(scopes: ["foods:read", "food_logs:read", "food_logs:write"], ttlSeconds: 1800)
private let user = "user-1"

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    let strict = try? MintAnswerMembers.parse(bytes)
    if let quick = MintAnswerMembers.scan(bytes) {
        require(strict != nil, "read quickly and no strict JSON")
        require(quick == strict, "read quickly: \(quick), strictly: \(String(describing: strict))")
    }
    do {
        let answer = try MintAnswer.check(bytes, endUserID: user, terms: terms)
        require(answer.body == bytes, "other bytes")
        require(answer.expiresIn > 60 && answer.expiresIn <= 1800, "lifetime")
        guard let object = (try? JSONValue.parse(bytes))?.object else { return CInt(fail("delivered and no object")) }
        require(object["end_user_id"] == .string(user), "somebody else's")
        require(object["token"]?.string?.utf8.starts(with: "ct-".utf8) ?? false, "no client token")
        let scopes = (object["scopes"]?.array ?? []).compactMap(\.string).sorted()
        require(scopes == ["food_logs:read", "food_logs:write", "foods:read"], "scopes \(scopes)")
        let withAlias = answer.bodyWithExpiresInAlias()
        let again = (try? JSONValue.parse(withAlias, limits: JSONLimits(bytes: 70_000)))?.object
        require(again?["expires_in"] == object["expires_in"], "the lifetime beside its alias")
        if object["expiresIn"] == nil {
            require(again?["expiresIn"]?.number?.integer == Int64(answer.expiresIn), "alias")
            require(again?.count == object.count + 1, "one member more")
        } else {
            require(withAlias == bytes, "an answer that has the alias")
        }
        require(!"\(answer)".contains("ct-"), "a token in print")
    } catch {
        require(strict != nil || [.notJSON, .notAnObject].contains(error), "refused for \(error)")
    }
    // What is asked for is JSON that says it, whatever the ID is.
    let id = text(bytes.prefix(64))
    let request = MintRequest.body(endUserID: id, terms: terms)
    guard let asked = (try? JSONValue.parse(request))?.object else { return CInt(fail("the request is no JSON")) }
    require(asked["end_user_id"]?.string.map { $0.hasSameBytes(as: id) } ?? false && asked.count == 3, "the request")
    return 0
}

private func fail(_ what: String) -> Int {
    require(false, what)
    return 0
}
