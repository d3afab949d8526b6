import JOSE
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// Sessions as apps send them: refused in so many words, and key sets that come, go and rotate.
@Suite(.serialized)
struct SessionScenarioTests {
    private func challenge(_ description: String) -> String {
        #"Bearer realm="january", error="invalid_token", error_description="\#(description)""#
    }

    @Test
    func aRefusedSessionSaysCoarselyWhyAndCostsNoMint() async throws {
        let fixture = try await EndpointFixture()
        let good = try fixture.session()
        let rows: [(String, String, String)] = [
            ("expired", "expired", try fixture.session(expiresIn: .seconds(-61))),
            ("not yet valid", "not_yet_valid", try fixture.session(claims: ["nbf": 4_000_000_000])),
            ("signature", "signature", String(good.dropLast(8)) + "AAAAAAAA"),
            ("signature", "signature", try other(fixture)),
            ("audience", "audience", try fixture.session { $0.audience = ["another"] }),
            ("malformed", "missing_expiration", try fixture.session { $0.expiresIn = nil }),
            ("malformed", "missing_subject", try fixture.session(nil)),
            ("malformed", "bound_token", try fixture.session(claims: ["cnf": ["jkt": "x"]])),
            ("malformed", "critical_header", try fixture.session { $0.header = ["crit": ["exp"]] }),
            ("malformed", "type", try fixture.session { $0.header = ["typ": "dpop+jwt"] }),
            ("signature", "algorithm", "eyJhbGciOiJub25lIn0." + good.split(separator: ".")[1] + "."),
            ("malformed", "not_a_jwt", good + ".x"),
            ("malformed", "format", good.split(separator: ".").dropLast().joined(separator: ".") + ".="),
        ]
        for (description, reason, token) in rows {
            let answer = try await fixture.mint(token)
            let what = Comment(rawValue: "\(description), \(reason)")
            #expect(answer.status == 401, what)
            #expect(answer.code == "invalid_session", what)
            #expect(answer.fields["www-authenticate"] == challenge(description), what)
            let line = try await fixture.requestLine(of: answer)
            #expect(line["reason"]?.string == reason, what)
        }
        #expect(fixture.mintsReceived == 0)
    }

    /// Signed with another secret of the same length.
    private func other(_ fixture: EndpointFixture) throws -> String {
        let secret = fixture.simulator.snapshot().identity.sharedSecret
        defer { fixture.simulator.changeIdentity { $0.sharedSecret = secret } }
        fixture.simulator.changeIdentity { $0.sharedSecret = Secret("fedcba9876543210fedcba9876543210") }
        return try fixture.session()
    }

    @Test
    func anUnknownIssuerIsRefused() async throws {
        let fixture = try await EndpointFixture()
        let answer = try await fixture.mint(try fixture.session { $0.issuer = "https://elsewhere.test" })
        #expect(answer.status == 401)
        #expect(answer.fields["www-authenticate"] == challenge("issuer"))
    }

    @Test
    func oneSessionInOneFieldOrNone() async throws {
        let fixture = try await EndpointFixture(
            sessions: nil, more: "", grants: "features: [food_search]")
        let session = try fixture.session()
        let none = try await fixture.mint(nil)
        #expect(none.status == 401)
        #expect(none.fields["www-authenticate"] == #"Bearer realm="january""#)
        let basic = try await fixture.mint(nil, fields: ["Authorization: Basic dTpw"])
        #expect(basic.status == 401)
        let two = try await fixture.mint(session, fields: ["Authorization: Bearer \(session)"])
        #expect(two.status == 401)
        #expect(two.code == "invalid_session")
        let anyCase = try await fixture.mint(nil, fields: ["authorization: bEARER  \(session)"])
        #expect(anyCase.status == 201)
        let long = try await fixture.mint(session + String(repeating: "x", count: 16 * 1024))
        #expect(long.status == 431 || long.status == 401)
        #expect(fixture.mintsReceived == 1)
    }

    @Test
    func theFirstPlaceThatHoldsASessionDecides() async throws {
        let fixture = try await EndpointFixture(
            sessions: """
                    - type: jwt
                      issuer: \(EndpointFixture.issuer)
                      audience: \(EndpointFixture.audience)
                      hmac_secret_file: session_secret
                      algorithms: [HS256]
                  from: [{ header: X-Session }, bearer]
                """)
        let session = try fixture.session()
        let header = try await fixture.mint(nil, fields: ["X-Session: \(session)"])
        #expect(header.status == 201)
        let bearer = try await fixture.mint(session)
        #expect(bearer.status == 201)
        let badFirst = try await fixture.mint(session, fields: ["X-Session: bad"])
        #expect(badFirst.status == 401)
    }

    // MARK: Key sets

    @Test
    func aRotatedKeyIsLoadedOnceAndItsSessionsGoOn() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let old = try fixture.session(algorithm: .es256)
        let before = try await fixture.mint(old)
        #expect(before.status == 201)
        #expect(fixture.simulator.counts(of: .keySet).received == 1)
        fixture.simulator.rotateKey(.es256)
        let new = try fixture.session(algorithm: .es256)
        for session in [new, old, new] {
            let answer = try await fixture.mint(session)
            #expect(answer.status == 201)
        }
        #expect(fixture.simulator.counts(of: .keySet).received == 2)
    }

    @Test
    func anUnknownKeyIs401AfterALoadAndLoadsAtMostOncePer30Seconds() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let hidden = fixture.simulator.rotateKey(.es256)
        fixture.simulator.setKeyStatus(.withdrawn, of: hidden)
        let stranger = try fixture.session(algorithm: .es256) {
            $0.keyID = hidden
            $0.issuedAgo = .seconds(60)
        }
        for _ in 0..<5 {
            let answer = try await fixture.mint(stranger)
            #expect(answer.status == 401)
            #expect(answer.fields["www-authenticate"] == challenge("unknown key"))
        }
        #expect(fixture.simulator.counts(of: .keySet).received == 2)
        await fixture.advance(by: .seconds(31))
        _ = try await fixture.mint(stranger)
        #expect(fixture.simulator.counts(of: .keySet).received == 3)
    }

    /// Two rotations in half a minute: the second key's sessions are told to come back, never that they are bad.
    @Test
    func aKeyThatMayBeNewerThanTheSetIs503UntilTheNextLoadIsAllowed() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        fixture.simulator.rotateKey(.es256)
        let first = try await fixture.mint(try fixture.session(algorithm: .es256))
        #expect(first.status == 201)
        await fixture.advance(by: .seconds(5))
        fixture.simulator.rotateKey(.es256)
        let session = try fixture.session(algorithm: .es256)
        let early = try await fixture.mint(session)
        #expect(early.status == 503)
        #expect(early.code == "session_backend_unavailable")
        let wait = try #require(Int(early.fields["retry-after"] ?? ""))
        #expect((1...30).contains(wait))
        #expect(fixture.simulator.counts(of: .keySet).received == 2)
        await fixture.advance(by: .seconds(wait))
        let later = try await fixture.mint(session)
        #expect(later.status == 201)
    }

    @Test
    func withoutAKeySetTheServerIsNotReadyAndSaysComeBack() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys
        ) {
            $0.addFault(FaultRule(.refused(500, "internal_error"), on: .keySet, times: nil))
        }
        try await eventually("tried") { fixture.simulator.counts(of: .keySet).received > 0 }
        let starting = try await fixture.get("/readyz")
        #expect(starting.status == 503)
        #expect(starting.body == #"{"status":"starting","waiting_for":["jwks:jwt"]}"#)
        let session = try fixture.session(algorithm: .es256)
        let answer = try await fixture.mint(session)
        #expect(answer.status == 503)
        #expect(answer.code == "session_backend_unavailable")
        #expect((Int(answer.fields["retry-after"] ?? "") ?? 0) >= 1)
        #expect(fixture.mintsReceived == 0)
        fixture.simulator.clearFaults()
        await fixture.advance(by: .seconds(61))
        try await fixture.awaitReady()
        let ready = try await fixture.mint(session)
        #expect(ready.status == 201)
    }

    static let spoiled: [(String, Fault)] = [
        ("status", .refused(503, "service_unavailable")),
        ("not_json", .with { $0.content.body = Array("<html>".utf8) }),
        ("empty", .with { $0.content.body = Array(#"{"keys":[]}"#.utf8) }),
        ("too_large", .with { $0.content.body = [UInt8](repeating: 0x20, count: 512 * 1024 + 1) }),
        ("status", .redirect(302, to: "/idp/jwks.json")),
        ("broken", .disrupted(.resetBeforeCommit)),
    ]

    @Test
    func aFailedRefreshNeverReplacesAGoodSetAndReadinessStays() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        for (index, (name, fault)) in Self.spoiled.enumerated() {
            let rule = fixture.simulator.addFault(FaultRule(fault, on: .keySet, times: nil))
            await fixture.advance(by: .seconds(601))
            try await eventually(name) {
                let count = try? await fixture.metric(#"jwks_refreshes_total{source="jwt",result="\#(name)"}"#)
                return (count ?? 0) > 0
            }
            let answer = try await fixture.mint(try fixture.session(algorithm: .es256))
            #expect(answer.status == 201, "\(name) \(index)")
            let ready = try await fixture.get("/readyz")
            #expect(ready.status == 200)
            #expect(ready.body == #"{"status":"degraded","reasons":["jwks:jwt"]}"#)
            fixture.simulator.removeFault(id: rule)
            await fixture.advance(by: .seconds(61))
            try await eventually("ready again") { (try? await fixture.get("/readyz"))?.body == #"{"status":"ready"}"# }
        }
    }

    @Test
    func aSetThatCannotBeRefreshedForADayIsNoLongerUsed() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        fixture.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .keySet, times: nil))
        await fixture.advance(by: .seconds(86_400))
        let stale = try await fixture.mint(try fixture.session(algorithm: .es256))
        #expect(stale.status == 201)
        await fixture.advance(by: .seconds(601))
        let tooOld = try await fixture.mint(try fixture.session(algorithm: .es256))
        #expect(tooOld.status == 503)
        #expect(tooOld.code == "session_backend_unavailable")
        let ready = try await fixture.get("/readyz")
        #expect(ready.status == 200)
    }

    /// The wait for keys is part of the budget, and at most two seconds of it.
    @Test(arguments: [("1", 1_100), ("8", 2_100)])
    func aKeySetThatDoesNotAnswerIs503(_ budget: String, _ milliseconds: Int) async throws {
        let fixture = try await EndpointFixture(
            january: "budget_seconds: \(budget)", sessions: EndpointFixture.keySetVerifier(),
            simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        fixture.simulator.addFault(FaultRule(.disrupted(.hangBeforeCommit), on: .keySet))
        await fixture.advance(by: .seconds(2))
        fixture.simulator.rotateKey(.es256)
        let session = try fixture.session(algorithm: .es256)
        async let answer = fixture.mint(session)
        try await eventually("asked") { fixture.simulator.counts(of: .keySet).received == 2 }
        await fixture.advance(by: .milliseconds(milliseconds))
        let got = try await answer
        #expect(got.status == 503)
        #expect(got.code == "session_backend_unavailable")
        #expect(got.fields["retry-after"] != nil)
        #expect(fixture.mintsReceived == 0)
    }

    @Test
    func discoveryLeadsToTheKeysAndMustNameItsIssuer() async throws {
        let issuer = """
                - type: oidc
                  issuer: ORIGIN/idp
                  audience: \(EndpointFixture.audience)
            """
        var configuration = EndpointFixture.simulatorWithKeys
        configuration.issuer = ""
        let fixture = try await EndpointFixture(sessions: issuer, simulator: configuration) { simulator in
            let origin = simulator.origin
            simulator.changeIdentity { $0.issuer = origin + "/idp" }
        }
        try await fixture.awaitReady()
        let answer = try await fixture.mint(try fixture.session(algorithm: .es256))
        #expect(answer.status == 201)

        let impostor = try await EndpointFixture(sessions: issuer, simulator: configuration)
        try await impostor.awaitMetric(#"jwks_refreshes_total{source="oidc",result="issuer_mismatch"}"#, 1)
        let starting = try await impostor.get("/readyz")
        #expect(starting.status == 503)
    }
}

@Suite(.serialized)
struct LargeSessionTests {
    /// One megabyte is refused while it arrives: the fields of a request have a bound, and behind it nothing is read.
    @Test(arguments: [16_000, 17_000, 1_000_000])
    func aSessionThatIsTooLargeIsRefusedAndTheServerLivesOn(bytes: Int) async throws {
        let fixture = try await EndpointFixture()
        let answer = try await fixture.exchange(
            "POST /january/client-token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
                + String(repeating: "a", count: bytes) + "\r\n\r\n", port: fixture.port)
        #expect(answer.status == (bytes < 16_384 ? 401 : 431))
        let good = try await fixture.mint(try fixture.session("user-1"))
        #expect(good.status == 201)
    }
}
