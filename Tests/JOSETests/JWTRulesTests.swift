import JOSE
import Primitives
import StrictJSON
import Testing

@Suite struct JWTRulesTests {
    static let issuer = "https://issuer.example/"
    static let now = WallInstant(secondsSinceEpoch: 1_800_000_000)
    static let good: JSONObject = [
        "iss": .string(issuer), "aud": ["other", "app"], "sub": "user-1", "iat": 1_799_999_990, "exp": 1_800_000_300,
    ]

    static func rules(_ change: (inout JWTRules) -> Void = { _ in }) -> JWTRules {
        var rules = JWTRules(issuers: [issuer], audience: ["app", "web"], algorithms: [.rs256, .es256])
        change(&rules)
        return rules
    }

    private static func header(_ members: JSONObject) throws -> JOSEHeader {
        try CompactJWS.parse("\(Base64URL.encode(members.encoded())).e30.").header
    }

    private func refusal(_ rules: JWTRules, _ object: JSONObject, now: WallInstant = JWTRulesTests.now) throws -> JWTRefusal? {
        let claims = try JWTClaims(object)
        do {
            try rules.check(claims, now: now)
            return nil
        } catch { return error }
    }

    // MARK: Header

    static let headers: [(JSONObject, JWTRefusal?)] = [
        (["alg": "RS256"], nil), (["alg": "ES256", "typ": "JWT"], nil), (["alg": "ES256", "typ": "jwt"], nil),
        (["alg": "ES256", "typ": "at+JWT"], nil), (["alg": "ES256", "typ": "application/at+jwt"], nil),
        (["alg": "ES256", "typ": "APPLICATION/JWT"], nil), (["alg": "ES256", "typ": "none"], .typeNotAllowed),
        (["alg": "ES256", "typ": ""], .typeNotAllowed), (["alg": "ES256", "typ": "dpop+jwt"], .typeNotAllowed),
        (["alg": "ES256", "typ": "application/application/jwt"], .typeNotAllowed),
        (["alg": "ES256", "typ": " JWT"], .typeNotAllowed),
        (["alg": "RS384"], .algorithmNotAllowed), (["alg": "HS256"], .algorithmNotAllowed),
        (["alg": "none"], .algorithmNotAllowed),
        (["alg": "NONE"], .algorithmNotAllowed), (["alg": "rs256"], .algorithmNotAllowed), (["alg": ""], .algorithmNotAllowed),
        (["alg": "RS256", "crit": []], .criticalHeader), (["alg": "none", "crit": ["exp"]], .criticalHeader),
        (["alg": "RS256", "zip": "DEF"], .criticalHeader), (["alg": "RS256", "b64": false], .criticalHeader),
        (["alg": "RS256", "jwk": ["kty": "oct"], "jku": "https://x", "x5u": "https://x", "x5c": []], nil),
    ]

    @Test(arguments: headers)
    func headersAreChecked(members: JSONObject, expected: JWTRefusal?) throws {
        let header = try Self.header(members)
        if let expected {
            #expect(throws: expected) { try Self.rules().check(header) }
        } else {
            #expect(try Self.rules().check(header) == header.algorithm)
        }
    }

    @Test func requiredTypesExcludeTokensWithoutType() throws {
        let rules = Self.rules { $0.types = ["application/At+JWT"] }
        #expect(try rules.check(Self.header(["alg": "RS256", "typ": "at+jwt"])) == .rs256)
        #expect(throws: JWTRefusal.typeNotAllowed) { try rules.check(Self.header(["alg": "RS256"])) }
        #expect(throws: JWTRefusal.typeNotAllowed) { try rules.check(Self.header(["alg": "RS256", "typ": "JWT"])) }
    }

    // MARK: Claims

    private static func with(_ members: JSONObject) -> JSONObject {
        var object = good
        for member in members.members { object[member.name] = member.value.isNull ? nil : member.value }
        return object
    }

    /// Members are put into good claims; `null` takes one away.
    static let claims: [(JSONObject, JWTRefusal?)] = [
        ([:], nil), (["iss": .null], .issuer), (["iss": "https://issuer.example"], .issuer),
        (["iss": "HTTPS://ISSUER.EXAMPLE/"], .issuer),
        (["iss": "https://issuer.example//"], .issuer), (["aud": .null], .audience), (["aud": "web"], nil),
        (["aud": "other"], .audience),
        (["aud": []], .audience), (["aud": "app web"], .audience), (["aud": "App"], .audience), (["aud": "app "], .audience),
        (["exp": .null], .missingExpiration), (["exp": 0], .expired), (["exp": -1], .expired), (["exp": 1e300], nil),
        (["nbf": 1_800_000_000], nil), (["nbf": 1_800_003_600], .notYetValid), (["nbf": 0], nil), (["iat": .null], nil),
        (["iat": 1_900_000_000], nil), (["sub": .null], .missingSubject), (["cnf": ["jkt": "x"]], .boundToken),
        (["cnf": "x"], .boundToken),
        // One failing step ends the check, in this order.
        (["iss": "x", "aud": "x", "exp": 0], .issuer), (["aud": "x", "exp": 0], .audience),
        (["exp": 0, "nbf": 1_900_000_000], .expired),
    ]

    @Test(arguments: claims)
    func claimsAreChecked(members: JSONObject, expected: JWTRefusal?) throws {
        #expect(try refusal(Self.rules(), Self.with(members)) == expected)
    }

    /// RFC 7519 section 4.1.4: refused from the second of `exp` on, plus the allowed skew; section 4.1.5 for `nbf`.
    @Test(
        arguments: [
            (0, "exp", -1.0, JWTRefusal.expired), (0, "exp", 0, .expired), (0, "exp", 0.5, nil), (0, "exp", 1, nil),
            (60, "exp", -61, .expired),
            (60, "exp", -60, .expired), (60, "exp", -59.5, nil), (60, "exp", -59, nil), (300, "exp", -299, nil),
            (0, "nbf", 0, nil),
            (0, "nbf", 0.5, .notYetValid), (0, "nbf", 1, .notYetValid), (60, "nbf", 60, nil), (60, "nbf", 60.5, .notYetValid),
        ] as [(Int, String, Double, JWTRefusal?)])
    func clocksMayDifferByTheSkew(skew: Int, claim: String, offset: Double, expected: JWTRefusal?) throws {
        let rules = Self.rules { $0.clockSkew = .seconds(skew) }
        let value = try #require(JSONNumber(1_800_000_000 + offset))
        #expect(try refusal(rules, Self.with([claim: .number(value)])) == expected)
    }

    @Test(
        arguments: [
            (["iat": 1_800_000_000, "exp": 1_800_003_600], nil),
            (["iat": 1_799_999_999, "exp": 1_800_003_600], .lifetimeTooLong),
            (["iat": 1_799_999_000, "exp": 1_800_002_600], nil), (["iat": .null, "exp": 1_800_003_600], nil),
            (["iat": .null, "exp": 1_800_003_660], nil), (["iat": .null, "exp": 1_800_003_661], .lifetimeTooLong),
            (["iat": 1_800_000_060, "exp": 1_800_003_660], nil),
            (["iat": 1_900_000_000, "exp": 1_900_003_600], .lifetimeTooLong),
            (["exp": 1e300], .lifetimeTooLong),
        ] as [(JSONObject, JWTRefusal?)])
    func lifetimeIsLimited(members: JSONObject, expected: JWTRefusal?) throws {
        #expect(try refusal(Self.rules { $0.maxLifetime = .seconds(3_600) }, Self.with(members)) == expected)
    }

    @Test func whatIsNotConfiguredIsNotChecked() throws {
        let rules = Self.rules {
            $0.issuers = nil
            $0.audience = nil
            $0.requiresSubject = false
            $0.allowBoundTokens = true
        }
        #expect(try refusal(rules, ["exp": 1_800_000_300, "cnf": [:]]) == nil)
        #expect(try refusal(Self.rules { $0.issuers = [] }, Self.good) == .issuer)
        #expect(try refusal(Self.rules { $0.audience = [] }, Self.good) == .audience)
    }

    @Test func issuersAreComparedByBytes() throws {
        let rules = Self.rules { $0.issuers = ["https://\u{E9}.example"] }
        #expect(try refusal(rules, Self.with(["iss": "https://e\u{301}.example"])) == .issuer)
        #expect(try refusal(rules, Self.with(["iss": "https://\u{E9}.example"])) == nil)
    }

    // MARK: Trace and words

    @Test func aTraceListsEveryStep() throws {
        let trace = JWTTrace()
        _ = try Self.rules().check(Self.header(["alg": "RS256", "typ": "JWT"]), trace: trace)
        try Self.rules().check(JWTClaims(Self.good), now: Self.now, trace: trace)
        #expect(
            trace.entries.map { "\($0.step.rawValue): \($0.verdict.rawValue): \($0.text)" } == [
                "crit: ok: no critical extension", "alg: ok: RS256", "typ: ok: \"JWT\"", "iss: ok: as configured",
                "aud: ok: as configured",
                "exp: ok: not expired", "nbf: skipped: there is no nbf", "lifetime: skipped: no longest lifetime is configured",
                "sub: ok: a non-empty string", "cnf: skipped: the token is not bound to a key",
            ])
    }

    @Test func aTraceShowsTheFailureAndWhatWasNotReached() throws {
        let trace = JWTTrace()
        let claims = try JWTClaims(Self.with(["aud": "secret-audience"]))
        #expect(throws: JWTRefusal.audience) { try Self.rules().check(claims, now: Self.now, trace: trace) }
        #expect(trace.entries.map(\.verdict) == [.ok, .failed, .skipped, .skipped, .skipped, .skipped, .skipped])
        #expect(trace.entries[1].text == "does not hold what is configured: \"app\", \"web\"")
        #expect(trace.entries.dropFirst(2).allSatisfy { $0.text == "not reached" })
        #expect(!trace.entries.contains { $0.text.contains("secret-audience") })
    }

    @Test func aTraceShowsClaimsOnlyWhereAskedTo() throws {
        let trace = JWTTrace(showsClaims: true)
        try Self.rules().check(JWTClaims(Self.good), now: Self.now, trace: trace)
        let text = trace.entries.map(\.text).joined(separator: "\n")
        for value in [Self.issuer, "\"app\"", "300.0 s from now", "\"user-1\""] { #expect(text.contains(value), "\(value)") }
    }

    @Test(
        arguments: [
            (.format(.notThreeParts), "malformed"), (.claims(.notObject), "malformed"), (.criticalHeader, "malformed"),
            (.algorithmNotAllowed, "signature"), (.typeNotAllowed, "malformed"), (.unknownKeyID, "unknown key"),
            (.noFittingKey, "unknown key"), (.ambiguousKey, "unknown key"), (.signature, "signature"), (.issuer, "issuer"),
            (.audience, "audience"), (.missingExpiration, "malformed"), (.expired, "expired"), (.notYetValid, "not yet valid"),
            (.lifetimeTooLong, "malformed"), (.missingSubject, "malformed"), (.boundToken, "malformed"),
        ] as [(JWTRefusal, String)])
    func refusalsHaveACoarseWord(refusal: JWTRefusal, word: String) {
        #expect(refusal.description == word)
    }
}
