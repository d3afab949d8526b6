import Digests
import JanuarySimulator
import Primitives
import StrictJSON
import Testing

/// From a good session to a person January may know, and to what that person may do.
@Suite(.serialized)
struct PersonScenarioTests {
    // MARK: Machines and anonymous people

    private func auth0(_ more: String = "") -> String {
        """
            - type: auth0
              domain: acme.test
              audience: \(EndpointFixture.audience)
              algorithms: [ES256]
              jwks_url: ORIGIN/idp/jwks.json
        \(more)
        """
    }

    private func fixture(_ sessions: String, issuer: String) async throws -> EndpointFixture {
        var configuration = EndpointFixture.simulatorWithKeys
        configuration.issuer = issuer
        let fixture = try await EndpointFixture(sessions: sessions, simulator: configuration)
        try await fixture.awaitReady()
        return fixture
    }

    @Test
    func aMachineIsNoEndUserUnlessMachinesAreAllowed() async throws {
        let strict = try await fixture(auth0(), issuer: "https://acme.test/")
        for (subject, claims) in [("app@clients", [:]), ("app", ["gty": "client-credentials"])] as [(String, JSONObject)] {
            let answer = try await strict.mint(try strict.session(subject, claims: claims, algorithm: .es256))
            #expect(answer.status == 403)
            #expect(answer.code == "no_end_user")
        }
        let person = try await strict.mint(try strict.session("auth0|1", algorithm: .es256))
        #expect(person.status == 201)
        #expect(strict.mintsReceived == 1)
        let open = try await fixture(auth0("      allow_machines: true"), issuer: "https://acme.test/")
        let machine = try await open.mint(try open.session("app", claims: ["gty": "client-credentials"], algorithm: .es256))
        #expect(machine.status == 201)
    }

    @Test
    func anAnonymousSignInIsNoEndUserUnlessAllowed() async throws {
        func firebase(_ more: String = "") -> String {
            """
                - type: firebase
                  project_id: \(EndpointFixture.audience)
                  algorithms: [ES256]
                  jwks_url: ORIGIN/idp/jwks.json
            \(more)
            """
        }
        let issuer = "https://securetoken.google.com/\(EndpointFixture.audience)"
        let strict = try await fixture(firebase(), issuer: issuer)
        let session = try strict.session(claims: ["firebase": ["sign_in_provider": "anonymous"]], algorithm: .es256)
        let answer = try await strict.mint(session)
        #expect(answer.status == 403)
        #expect(answer.code == "no_end_user")
        let open = try await fixture(firebase("      allow_anonymous: true"), issuer: issuer)
        let allowed = try await open.mint(
            try open.session(claims: ["firebase": ["sign_in_provider": "anonymous"]], algorithm: .es256))
        #expect(allowed.status == 201)
    }

    // MARK: End users

    struct Mapping: Sendable {
        let from: String
        let subject: String
        let claims: JSONObject
        /// The ID, or the code of the refusal.
        let expected: String
        let isID: Bool

        init(_ from: String, _ claims: JSONObject, id: String) {
            (self.from, self.claims, expected, isID, subject) = (from, claims, id, true, "user-1")
        }
        init(_ from: String, _ claims: JSONObject = [:], subject: String = "user-1", refused: String) {
            (self.from, self.claims, expected, isID, self.subject) = (from, claims, refused, false, subject)
        }
    }

    static let mappings: [Mapping] = [
        Mapping("subject", [:], id: "user-1"),
        Mapping("uid", ["uid": "u-7"], id: "u-7"),
        Mapping("uid", ["uid": 17], id: "17"),
        Mapping("/user/id", ["user": ["id": "deep"]], id: "deep"),
        Mapping("uid", ["uid": .string(String(repeating: "é", count: 32))], id: String(repeating: "é", count: 32)),
        Mapping("uid", refused: "no_end_user"),
        Mapping("uid", ["uid": true], refused: "no_end_user"),
        Mapping("uid", ["uid": 1.5], refused: "no_end_user"),
        Mapping("uid", ["uid": ["a"]], refused: "no_end_user"),
        Mapping("uid", ["uid": ""], refused: "invalid_end_user_id"),
        Mapping("uid", ["uid": "  "], refused: "invalid_end_user_id"),
        Mapping("uid", ["uid": " a"], refused: "invalid_end_user_id"),
        Mapping("uid", ["uid": "a\nb"], refused: "invalid_end_user_id"),
        Mapping("uid", ["uid": "a\u{2028}b"], refused: "invalid_end_user_id"),
        Mapping("uid", ["uid": "a\u{200b}b"], refused: "invalid_end_user_id"),
        Mapping("uid", ["uid": .string(String(repeating: "a", count: 65))], refused: "invalid_end_user_id"),
        Mapping("subject", subject: "kim@example.com", refused: "invalid_end_user_id"),
        Mapping("email", ["email": "kim@example.com"], refused: "no_end_user"),
        Mapping("email", ["email": "kim@example.com", "email_verified": false], refused: "no_end_user"),
        Mapping("email", ["email": "kim@example.com", "email_verified": true], refused: "invalid_end_user_id"),
    ]

    @Test
    func aSessionIsMappedToAnEndUserOrRefusedWithoutAMint() async throws {
        for from in Set(Self.mappings.map(\.from)).sorted() {
            let fixture = try await EndpointFixture(more: "end_user_id: { from: \(from) }")
            for row in Self.mappings where row.from == from {
                let before = fixture.mintsReceived
                let answer = try await fixture.mint(try fixture.session(row.subject, claims: row.claims))
                let what = Comment(rawValue: "\(row.from) \(row.expected) \(row.claims)")
                if row.isID {
                    #expect(answer.status == 201, what)
                    #expect(answer.json["end_user_id"] as? String == row.expected, what)
                } else {
                    #expect(answer.status == 403, what)
                    #expect(answer.code == row.expected, what)
                    #expect(fixture.mintsReceived == before, what)
                    let line = try await fixture.requestLine(of: answer)
                    #expect(line["level"]?.string == (row.expected == "invalid_end_user_id" ? "warning" : "info"), what)
                }
            }
        }
    }

    @Test
    func hmacHidesThePersonAndIsStable() async throws {
        let secret = "an end-user secret of 32 bytes.."
        let fixture = try await EndpointFixture(
            more: "end_user_id: { from: email, transform: hmac, secret_file: end_user_secret, prefix: acme- }",
            files: ["end_user_secret": secret])
        let message = Array("\(EndpointFixture.issuer)\0kim@example.com".utf8)
        let digits = Hex.encode(HMACKey(.sha256, key: Secret(secret)).authenticate(message))
        let expected = "acme-" + digits.prefix(32)
        for verified in [true, "true"] as [JSONValue] {
            let answer = try await fixture.mint(
                try fixture.session(claims: ["email": "kim@example.com", "email_verified": verified]))
            #expect(answer.status == 201)
            #expect(answer.json["end_user_id"] as? String == expected)
        }
        let unverified = try await fixture.mint(try fixture.session(claims: ["email": "kim@example.com"]))
        #expect(unverified.code == "no_end_user")
    }

    @Test
    func aHeaderWithAnotherUserIsCountedAndNeverRead() async throws {
        let fixture = try await EndpointFixture()
        let session = try fixture.session("user-1")
        for field in ["January-End-User-ID: user-2", "x-end-user-id: user-2", "January-End-User-ID: user-1"] {
            let answer = try await fixture.mint(session, fields: [field])
            #expect(answer.json["end_user_id"] as? String == "user-1")
        }
        let mismatches = try await fixture.metric("user_header_mismatch_total")
        #expect(mismatches == 2)
    }

    // MARK: Policy

    static let policy = """
        features: []
        feature_scopes: { coach: ["glucose:read", "foods:read"] }
        grants:
          - { when: { claim: plan, in: [free, pro] }, features: [food_search] }
          - { when: { claim: plan, equals: pro }, features: [coach, food_diary], ttl_seconds: 900 }
          - { when: { claim: device, equals: kiosk }, features: [], ttl_seconds: 300 }
        """

    @Test
    func thePolicyDecidesScopesAndLifetime() async throws {
        let fixture = try await EndpointFixture(grants: Self.policy)
        let rows: [(JSONObject, [String], Int)] = [
            (["plan": "free"], ["foods:read"], 1800),
            (["plan": "pro"], ["food_logs:read", "food_logs:write", "foods:read", "glucose:read"], 900),
            (["plan": "free", "device": "kiosk"], ["foods:read"], 300),
            (["plan": "pro", "device": "kiosk"], ["food_logs:read", "food_logs:write", "foods:read", "glucose:read"], 300),
        ]
        for (claims, scopes, lifetime) in rows {
            let answer = try await fixture.mint(try fixture.session(claims: claims))
            #expect(answer.status == 201)
            #expect(answer.json["scopes"] as? [String] == scopes)
            #expect(answer.json["expires_in"] as? Int == lifetime)
        }
        let before = fixture.mintsReceived
        for claims in [[:], ["plan": "other"], ["device": "kiosk"], ["plan": true]] as [JSONObject] {
            let answer = try await fixture.mint(try fixture.session(claims: claims))
            #expect(answer.status == 403)
            #expect(answer.code == "no_features")
        }
        #expect(fixture.mintsReceived == before)
    }

    @Test
    func neitherBodyNorQueryIsReadForMeaning() async throws {
        let fixture = try await EndpointFixture()
        let body = #"{"end_user_id":"user-2","scopes":["glucose:read"],"ttl_seconds":7200}"#
        let request = """
            POST /january/client-token?end_user_id=user-2&ttl_seconds=7200 HTTP/1.1\r
            Host: localhost\r
            Connection: close\r
            Content-Type: application/json\r
            Content-Length: \(body.utf8.count)\r
            Authorization: Bearer \(try fixture.session("user-1"))\r
            \r
            \(body)
            """
        let answer = try await fixture.exchange(request, port: fixture.port)
        #expect(answer.status == 201)
        #expect(answer.json["end_user_id"] as? String == "user-1")
        #expect(answer.json["scopes"] as? [String] == ["foods:read"])
        #expect(answer.json["expires_in"] as? Int == 1800)
    }
}
