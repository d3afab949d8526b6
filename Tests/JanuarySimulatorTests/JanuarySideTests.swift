import Primitives
import StrictJSON
import TestSupport
import Testing

@testable import JanuarySimulator

/// January without a socket: requests in, answers out, the time in the test's hand.
private struct January {
    var side: JanuarySide
    var now = WallInstant(secondsSinceEpoch: 1_795_996_800)
    var number = 0

    static let key = "Bearer " + SimulatorSettings.developmentKey

    init(_ change: (inout SimulatorSettings) -> Void = { _ in }) {
        var settings = SimulatorSettings()
        settings.keys["sk-old"] = .otherVersion
        settings.keys["sk-gone"] = .deleted
        change(&settings)
        side = JanuarySide(settings: settings, tokenCapacity: 100_000, seed: 1)
    }

    mutating func call(
        _ method: String, _ path: String, _ authorization: String? = January.key, endUserIDs: [String] = [],
        body: String = "", fault: Fault.Content = Fault.Content()
    ) -> Answer {
        number += 1
        let request = JanuaryRequest(
            method, path, authorization: authorization.map { [$0] } ?? [], endUserIDs: endUserIDs, body: Array(body.utf8))
        return side.answer(Routes.match(method: method, path: path), request, fault: fault, now: now, number: number)
    }

    mutating func mint(
        _ body: String = #"{"end_user_id":"u1","scopes":["foods:read"]}"#, key: String? = January.key,
        fault: Fault.Content = Fault.Content()
    ) -> Answer {
        call("POST", "/v1.2/auth/client-tokens", key, body: body, fault: fault)
    }

    mutating func token(_ user: String = "u1", _ scopes: [String] = ["foods:read"], ttl: Int = 1800) -> String {
        let list = scopes.map { "\"\($0)\"" }.joined(separator: ",")
        return mint(#"{"end_user_id":"\#(user)","scopes":[\#(list)],"ttl_seconds":\#(ttl)}"#).mintedToken ?? ""
    }

    mutating func revoke(_ user: String = "u1", key: String? = January.key, fault: Fault.Content = Fault.Content()) -> Answer {
        call("POST", "/v1.2/auth/client-token-revocations", key, body: #"{"end_user_id":"\#(user)"}"#, fault: fault)
    }

    mutating func foods(_ token: String) -> Answer { call("GET", "/v1.2/foods", "Bearer " + token) }
}

/// Status and code, for tables.
private struct Verdict: Equatable, CustomStringConvertible {
    let status: Int
    let code: String?
    init(_ status: Int, _ code: String? = nil) {
        self.status = status
        self.code = code
    }
    init(_ answer: Answer) { self.init(answer.status, answer.code) }
    var description: String { "\(status) \(code ?? "")" }
}

extension Answer {
    fileprivate var json: JSONObject { (try? JSONValue.parse(body.span.bytes))?.object ?? JSONObject() }
}

@Suite struct JanuarySideTests {
    // MARK: Keys

    static let keys: [(String?, Int, String)] = [
        (nil, 401, "unauthorized"),
        ("", 401, "unauthorized"),
        ("Bearer", 401, "unauthorized"),
        ("Bearer ", 401, "unauthorized"),
        ("Basic abc", 401, "unauthorized"),
        ("Bearer sk-unknown", 401, "unauthorized"),
        ("Bearer sk-gone", 401, "unauthorized"),
        (SimulatorSettings.developmentKey, 401, "unauthorized"),
        ("Bearer sk-old", 403, "forbidden"),
        ("Bearer ct-anything", 403, "client_token_not_allowed"),
    ]

    @Test(arguments: keys)
    func aWrongKeyIsRefusedEverywhereAsItsStateSays(authorization: String?, status: Int, code: String) {
        var january = January()
        #expect(Verdict(january.mint(key: authorization)) == Verdict(status, code))
        #expect(Verdict(january.revoke(key: authorization)) == Verdict(status, code))
        #expect(Verdict(january.call("GET", "/v1.2/credits", authorization)) == Verdict(status, code))
        #expect(january.side.tokens.mintedCount == 0)
    }

    @Test func theSchemeIsReadInAnyCaseAndTwoAuthorizationLinesAreNone() {
        var january = January()
        #expect(january.mint(key: "bEARER " + SimulatorSettings.developmentKey).status == 201)
        let twice = JanuaryRequest(
            "GET", "/v1.2/credits", authorization: [January.key, January.key])
        let answer = january.side.answer(
            .operation(.credits), twice, fault: Fault.Content(), now: january.now, number: 1)
        #expect(Verdict(answer) == Verdict(401, "unauthorized"))
    }

    @Test func theDevelopmentKeyHasTheShapeOfARealOne() {
        #expect(SimulatorSettings.developmentKey.utf8.count == 46)
        #expect(SimulatorSettings.developmentKey.hasPrefix("sk-simulator"))
    }

    @Test(arguments: [
        (January.key, Verdict(403, "forbidden")), ("Bearer sk-old", Verdict(403, "forbidden")),
        ("Bearer sk-unknown", Verdict(401, "unauthorized")),
    ])
    private func anotherVersionsPathIsForbiddenForAKnownKey(key: String, expected: Verdict) {
        var january = January()
        #expect(Verdict(january.call("GET", "/v1.1/credits", key)) == expected)
    }

    // MARK: The account switch

    @Test func withClientTokensOffMintingIsForbiddenAndTheRestGoesOn() {
        var january = January { $0.clientTokensEnabled = false }
        #expect(Verdict(january.mint()) == Verdict(403, "forbidden"))
        #expect(Verdict(january.revoke()) == Verdict(200))
        #expect(Verdict(january.call("GET", "/v1.2/credits")) == Verdict(200))
    }

    @Test func whereClientTokensAreNotConfiguredMintAndRevocationAreUnavailable() {
        var january = January { $0.clientTokensConfigured = false }
        #expect(Verdict(january.mint()) == Verdict(503, "service_unavailable"))
        #expect(january.mint().retryAfter == nil)
        #expect(Verdict(january.revoke()) == Verdict(503, "service_unavailable"))
        january.side.settings.unavailableRetryAfter = 7
        #expect(january.mint().retryAfter == "7")
    }

    // MARK: Mint

    @Test func aMintAnswersWithTheFiveMembers() {
        var january = January()
        let answer = january.mint(#"{"end_user_id":"user-1","scopes":["water_logs:read","foods:read"],"ttl_seconds":300}"#)
        #expect(answer.status == 201)
        let token = answer.json["token"]?.string ?? ""
        #expect(token.hasPrefix("ct-") && token.utf8.count == 46)
        #expect(token.utf8.dropFirst(3).allSatisfy { ASCII.isDigit($0) || ASCII.isLetter($0) })
        #expect(
            answer.json == [
                "token": .string(token), "expires_in": 300, "expires_at": "2026-11-30T00:05:00.000Z",
                "end_user_id": "user-1", "scopes": ["water_logs:read", "foods:read"],
            ])
    }

    static let sixtyFour = String(repeating: "x", count: 64)

    static let bodies: [(String, Bool)] = [
        (#"{"end_user_id":"u","scopes":["foods:read"]}"#, true),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":300}"#, true),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":7200}"#, true),
        (#"{"end_user_id":"\#(sixtyFour)","scopes":["foods:read"]}"#, true),
        (#"{"end_user_id":"u","scopes":[\#(Scope.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ","))]}"#, true),
        (#"{"end_user_id":"\#(sixtyFour)x","scopes":["foods:read"]}"#, false),
        (#"{"end_user_id":"","scopes":["foods:read"]}"#, false),
        (#"{"end_user_id":" \t","scopes":["foods:read"]}"#, false),
        (#"{"end_user_id":7,"scopes":["foods:read"]}"#, false),
        (#"{"scopes":["foods:read"]}"#, false),
        (#"{"end_user_id":"u"}"#, false),
        (#"{"end_user_id":"u","scopes":[]}"#, false),
        (#"{"end_user_id":"u","scopes":"foods:read"}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:write"]}"#, false),
        (#"{"end_user_id":"u","scopes":["food_scans:write"]}"#, false),
        (#"{"end_user_id":"u","scopes":[1]}"#, false),
        (#"{"end_user_id":"u","scopes":[\#(Array(repeating: "\"foods:read\"", count: 11).joined(separator: ","))]}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":299}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":7201}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":1800.5}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":"1800"}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":null}"#, false),
        (#"{"end_user_id":"u","scopes":["foods:read"],"ttl_seconds":1e999}"#, false),
        ("", false),
        ("[]", false),
        ("{", false),
    ]

    @Test(arguments: bodies)
    func aMintIsValidatedByJanuarysLimits(body: String, isValid: Bool) {
        var january = January()
        #expect(Verdict(january.mint(body)) == (isValid ? Verdict(201) : Verdict(400, "invalid_request")))
        #expect(january.side.tokens.mintedCount == (isValid ? 1 : 0))
    }

    static let duplicates: [(DuplicateScopes, [String]?)] = [
        (.keep, ["foods:read", "foods:read"]), (.collapse, ["foods:read"]), (.refuse, nil),
    ]

    @Test(arguments: duplicates)
    func duplicateScopesAreASetting(setting: DuplicateScopes, echoed: [String]?) {
        var january = January { $0.duplicateScopes = setting }
        let answer = january.mint(#"{"end_user_id":"u","scopes":["foods:read","foods:read"]}"#)
        #expect(answer.json["scopes"]?.array?.compactMap(\.string) == echoed)
        #expect(answer.status == (echoed == nil ? 400 : 201))
    }

    @Test(arguments: [(UnknownMembers.ignore, 201), (.refuse, 400)])
    func unknownMembersAreASetting(setting: UnknownMembers, status: Int) {
        var january = January { $0.unknownMembers = setting }
        #expect(january.mint(#"{"end_user_id":"u","scopes":["foods:read"],"more":1}"#).status == status)
    }

    /// A family emoji is 1 character, 7 scalars, 11 UTF-16 units and 25 bytes.
    @Test(arguments: [(LengthUnit.characters, 64), (.scalars, 9), (.utf16, 5), (.bytes, 2)])
    func whatSixtyFourCountsIsASetting(unit: LengthUnit, most: Int) {
        var january = January { $0.lengthUnit = unit }
        for (count, status) in [(most, 201), (most + 1, 400)] {
            let user = String(repeating: "👨‍👩‍👧‍👦", count: count)
            #expect(january.mint(#"{"end_user_id":"\#(user)","scopes":["foods:read"]}"#).status == status)
        }
    }

    @Test(arguments: [
        ([MintCheck.key, .enabled, .body], Verdict(401, "unauthorized")),
        ([MintCheck.enabled, .key, .body], Verdict(403, "forbidden")),
        ([MintCheck.body, .enabled, .key], Verdict(400, "invalid_request")),
    ])
    private func theOrderOfTheChecksIsASetting(order: [MintCheck], expected: Verdict) {
        var january = January {
            $0.mintCheckOrder = order
            $0.clientTokensEnabled = false
        }
        #expect(Verdict(january.mint("{}", key: nil)) == expected)
    }

    // MARK: Tokens

    @Test func aTokenWorksThenIsExpiredThenIsUnknown() {
        var january = January { $0.purgeDelay = .seconds(60) }
        let token = january.token(ttl: 300)
        let start = january.now
        let steps: [(Int64, Verdict)] = [
            (0, Verdict(200)), (299, Verdict(200)), (300, Verdict(401, "token_expired")), (359, Verdict(401, "token_expired")),
            (360, Verdict(401, "token_invalid")),
        ]
        for (seconds, expected) in steps {
            january.now = start + .seconds(seconds)
            #expect(Verdict(january.foods(token)) == expected)
        }
        #expect(Verdict(january.foods("ct-never")) == Verdict(401, "token_invalid"))
    }

    @Test(arguments: [0, 1, 60])
    func aRevokedTokenWorksUntilTheCacheHasNoticed(delay: Int64) {
        var january = January { $0.revocationDelay = .seconds(delay) }
        let token = january.token()
        #expect(january.revoke().json == ["revoked_count": 1])
        if delay > 0 {
            january.now = january.now + .seconds(delay) + .nanoseconds(-1)
            #expect(january.foods(token).status == 200)
            #expect(january.side.tokens.live(of: "u1", now: january.now, settings: january.side.settings).count == 1)
            january.now = january.now + .nanoseconds(1)
        }
        #expect(Verdict(january.foods(token)) == Verdict(401, "token_revoked"))
        #expect(january.side.tokens.live(of: "u1", now: january.now, settings: january.side.settings).isEmpty)
        january.now = january.now + .seconds(1_800)
        #expect(Verdict(january.foods(token)) == Verdict(401, "token_revoked"))
    }

    @Test func aRevocationCountsOnlyWhatItStops() {
        var january = January()
        _ = january.token("u1", ttl: 300)
        january.now = january.now + .seconds(300)
        let live = january.token("u1")
        let other = january.token("u2")
        #expect(january.revoke("u1").json == ["revoked_count": 1])
        #expect(january.revoke("u1").json == ["revoked_count": 0])
        #expect(january.revoke("nobody").json == ["revoked_count": 0])
        #expect(Verdict(january.foods(live)) == Verdict(401, "token_revoked"))
        #expect(january.foods(other).status == 200)
        // Nothing at January keeps a revoked user from a new token.
        #expect(january.foods(january.token("u1")).status == 200)
    }

    @Test func oneRevocationStopsFiveHundredTokens() {
        var january = January()
        for _ in 0..<1_001 { _ = january.token() }
        #expect((0..<4).map { _ in january.revoke().json["revoked_count"]?.number?.integer } == [500, 500, 1, 0])
    }

    @Test func aRevocationThatFailsHalfWayIsPickedUpByTheNext() {
        var january = January()
        for _ in 0..<10 { _ = january.token() }
        var fault = Fault.Content()
        fault.revocationStopsAfter = 4
        let answer = january.revoke(fault: fault)
        #expect(Verdict(answer) == Verdict(503, "client_token_revocation_incomplete"))
        #expect(answer.json["message"]?.string?.hasPrefix("4 tokens") == true)
        #expect(january.revoke().json == ["revoked_count": 6])
    }

    @Test func aTokenOfTheSameInstantMaySurviveARevocation() {
        var january = January { $0.revocationRaceWindow = .milliseconds(5) }
        let old = january.token()
        january.now = january.now + .milliseconds(10)
        let young = january.token()
        #expect(january.revoke().json == ["revoked_count": 1])
        #expect(january.foods(old).status == 401)
        #expect(january.foods(young).status == 200)
        january.now = january.now + .milliseconds(10)
        #expect(january.revoke().json == ["revoked_count": 1])
    }

    @Test(arguments: [
        (#"{"end_user_id":""}"#, 400), (#"{"end_user_id":"\#(sixtyFour)x"}"#, 400), ("{}", 400), ("", 400),
        (#"{"end_user_id":"\#(sixtyFour)"}"#, 200),
    ])
    func aRevocationIsValidated(body: String, status: Int) {
        var january = January()
        #expect(january.call("POST", "/v1.2/auth/client-token-revocations", body: body).status == status)
    }

    @Test func theOldFormOfARevocationIsNotServed() {
        var january = January()
        let answer = january.call("DELETE", "/v1.2/auth/client-tokens")
        #expect(answer.status == 405)
        #expect(answer.allow == ["POST"])
    }

    // MARK: Operations and scopes

    static let operations: [(String, String, Scope)] = [
        ("GET", "/v1.2/foods", .foodsRead), ("GET", "/v1.2/foods/autocomplete", .foodsRead),
        ("GET", "/v1.2/foods/42", .foodsRead), ("GET", "/v1.2/foods/barcode/0123", .foodsRead),
        ("POST", "/v1.2/foods/42/alternatives", .foodsRead), ("GET", "/v1.2/restaurants", .restaurantsRead),
        ("GET", "/v1.2/restaurants/7/menu-items", .restaurantsRead), ("GET", "/v1.2/menu-items", .restaurantsRead),
        ("POST", "/v1.2/food-analysis/image", .foodAnalysisWrite), ("POST", "/v1.2/food-analysis/text", .foodAnalysisWrite),
        ("POST", "/v1.2/food-analysis/corrections", .foodAnalysisWrite), ("POST", "/v1.2/food-logs", .foodLogsWrite),
        ("GET", "/v1.2/food-logs", .foodLogsRead), ("GET", "/v1.2/food-logs/summary", .foodLogsRead),
        ("GET", "/v1.2/food-logs/9", .foodLogsRead), ("PATCH", "/v1.2/food-logs/9", .foodLogsWrite),
        ("DELETE", "/v1.2/food-logs/9", .foodLogsWrite), ("POST", "/v1.2/water-logs", .waterLogsWrite),
        ("GET", "/v1.2/water-logs", .waterLogsRead), ("DELETE", "/v1.2/water-logs/9", .waterLogsWrite),
        ("POST", "/v1.2/weight-logs", .weightLogsWrite), ("GET", "/v1.2/weight-logs", .weightLogsRead),
        ("POST", "/v1.2/glucose/predictions", .glucoseRead),
    ]

    @Test(arguments: operations)
    func anOperationTakesItsScopeAndNoOther(method: String, path: String, scope: Scope) {
        var january = January()
        let right = january.token("u1", [scope.rawValue])
        let others = january.token("u1", Scope.allCases.filter { $0 != scope }.map(\.rawValue))
        #expect(Verdict(january.call(method, path, "Bearer " + right)) == Verdict(200))
        #expect(Verdict(january.call(method, path, "Bearer " + others)) == Verdict(403, "scope_insufficient"))
        #expect(Verdict(january.call(method, path, nil)) == Verdict(401, "unauthorized"))
        #expect(Verdict(january.call(method, path, "Bearer sk-old")) == Verdict(403, "forbidden"))
    }

    @Test(arguments: [
        ("POST", "/v1.2/chat/completions"), ("POST", "/v1.2/literature/search"), ("POST", "/v1.2/extractions"),
        ("GET", "/v1.2/extractions/1"), ("GET", "/v1.2/patients/1/snapshot"),
    ])
    func anOperationForKeysRefusesClientTokens(method: String, path: String) {
        var january = January()
        let token = january.token("u1", Scope.allCases.map(\.rawValue))
        #expect(Verdict(january.call(method, path, "Bearer " + token)) == Verdict(403, "client_token_not_allowed"))
        #expect(Verdict(january.call(method, path)) == Verdict(200))
    }

    @Test func theHeaderMayNotDisagreeWithTheTokenOnLogOperations() {
        var january = January()
        let token = "Bearer " + january.token("u1", ["foods:read", "food_logs:read"])
        #expect(january.call("GET", "/v1.2/food-logs", token, endUserIDs: ["u1"]).status == 200)
        #expect(
            Verdict(january.call("GET", "/v1.2/food-logs", token, endUserIDs: ["u2"])) == Verdict(403, "end_user_id_mismatch"))
        #expect(january.call("GET", "/v1.2/foods", token, endUserIDs: ["u2"]).status == 200)
    }

    @Test func anAPIKeyHasToNameTheEndUserOnLogOperations() {
        var january = January()
        #expect(Verdict(january.call("GET", "/v1.2/food-logs")) == Verdict(400, "end_user_id_required"))
        #expect(january.call("GET", "/v1.2/food-logs", endUserIDs: ["u1"]).json["end_user_id"] == "u1")
    }

    @Test(arguments: [
        ("GET", "/v1.2/auth/client-tokens", 405), ("POST", "/v1.2/credits", 405), ("GET", "/v1.2/auth/client-tokens/", 404),
        ("POST", "/v1.2/foods/autocomplete", 405), ("OPTIONS", "/v1.2/foods", 405), ("GET", "/", 404), ("GET", "/v1.2", 404),
        ("GET", "/v1.2/foods/", 404), ("GET", "*", 404),
    ])
    func anythingElseIsNotServed(method: String, path: String, status: Int) {
        var january = January()
        #expect(january.call(method, path).status == status)
    }

    // MARK: Limits

    @Test func theThreeLimitsAreIndependentAndNameTheEndOfTheirWindow() {
        var january = January {
            $0.mintLimit = RateLimit(2, per: .seconds(10))
            $0.revokeLimit = RateLimit(1, per: .seconds(20))
        }
        func statuses(_ count: Int, _ call: () -> Answer) -> [Int] { (0..<count).map { _ in call().status } }
        #expect(statuses(3) { january.mint() } == [201, 201, 429])
        #expect(statuses(2) { january.revoke() } == [200, 429])
        #expect(statuses(61) { january.call("GET", "/v1.2/credits") } == Array(repeating: 200, count: 60) + [429])
        january.now = january.now + .milliseconds(1_500)
        let limited = january.mint()
        #expect(Verdict(limited) == Verdict(429, "rate_limited"))
        #expect(limited.retryAfter == "9")
        #expect(january.revoke().retryAfter == "19")
        january.now = january.now + .milliseconds(8_500)
        #expect(january.mint().status == 201)
        #expect(january.revoke().status == 429)
        january.side.settings.sendsRetryAfter = false
        #expect(january.revoke().retryAfter == nil)
    }

    @Test(arguments: SpentCeiling.allCases)
    func aSpentCeilingNeverSaysWhenToComeBackAndSparesCredits(ceiling: SpentCeiling) {
        var january = January()
        let token = january.token()
        january.side.settings.spentCeiling = ceiling
        for answer in [january.mint(), january.foods(token)] {
            #expect(Verdict(answer) == Verdict(429, ceiling.rawValue))
            #expect(answer.retryAfter == nil)
        }
        #expect(january.call("GET", "/v1.2/credits").status == 200)
        #expect(january.revoke().status == 200)
    }

    // MARK: Documents

    @Test func theCreditsDocumentHasItsSevenMembers() {
        var january = January()
        #expect(
            january.call("GET", "/v1.2/credits").json == [
                "plan": "development", "period_start": "2026-11-01", "period_end": "2026-11-30",
                "resets_at": "2026-12-01T00:00:00.000Z", "included_credits": 10_000, "used_credits": 0,
                "remaining_credits": 10_000,
            ])
        january.side.settings.credits.includedCredits = nil
        #expect(january.call("GET", "/v1.2/credits").json["remaining_credits"] == .null)
    }

    @Test func anErrorHasMessageAndCodeAndInItsEarlyFormALink() {
        var january = January()
        #expect(january.mint("{}").json.members.map(\.name) == ["message", "code"])
        january.side.settings.docsURL = "https://example.com/errors"
        #expect(january.mint("{}").json.members.map(\.name) == ["message", "code", "docs_url"])
    }

    @Test func endUsersAreToldApartByTheirBytes() {
        var january = January()
        _ = january.token("\u{E9}")
        #expect(january.revoke("e\u{301}").json == ["revoked_count": 0])
        #expect(january.revoke("\u{E9}").json == ["revoked_count": 1])
    }
}
