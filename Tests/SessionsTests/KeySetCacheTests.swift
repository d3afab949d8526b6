import HTTPMessage
import JOSE
import Primitives
import StrictJSON
import Testing

@testable import Sessions

/// Key sets over the network: the real cache and verifier on real loops, a scripted provider, a clock moved by hand.
@Suite(.serialized)
struct KeySetCacheTests {
    private static let url = "https://issuer.example/jwks.json"
    private static let first = SigningKey.generate(.es256, keyID: "k1")
    private static let second = SigningKey.generate(.es256, keyID: "k2")

    private static func rig(_ extra: String = "", source: String = "jwks_url: \"\(url)\"") throws -> SessionRig {
        let read = ReadSessions(verifiers: [
            "{ type: jwt, issuer: \"https://issuer.example\", audience: api, algorithms: [ES256], \(source)\(extra) }"
        ])
        #expect(read.problems == [])
        return try SessionRig(read.config)
    }

    private static func loaded(_ extra: String = "") async throws -> SessionRig {
        let rig = try rig(extra)
        rig.provider.set(url, .page(body: [first].keySet))
        await rig.start()
        return rig
    }

    @Test func theSetIsLoadedAtStartAndTokensAreAccepted() async throws {
        let rig = try await Self.loaded()
        #expect(await rig.verify(Self.first.sign(claims: rig.claims())) == .accepted())
        #expect(rig.provider.requestedURLs == [Self.url])
        #expect(rig.provider.maxBytes == [512 * 1024])
        #expect(rig.provider.timeouts == [.nanoseconds(rig.time.monotonic().nanoseconds) + .seconds(5)])
        let state = try #require(rig.shared.keySets.first).state
        #expect(state.snapshot?.set.keys.count == 1)
        #expect(state.failingSince == nil)
        #expect(state.snapshot?.lastUsed == rig.time.monotonic())
        #expect(rig.metric("jwks_refreshes_total{source=\"jwt\",result=\"ok\"}") == 1)
        await rig.pass(.seconds(7))
        #expect(rig.metric("jwks_age_seconds{source=\"jwt\"}") == 7.009)
        #expect(rig.metric("sessions_total{verifier=\"jwt\",verdict=\"accepted\",reason=\"person\"}") == 1)
    }

    @Test func aRotatedKeyIsFetchedWhileTheRequestWaits() async throws {
        let rig = try await Self.loaded()
        rig.provider.set(Self.url, .held)
        let waiting = await rig.verifying(Self.second.sign(claims: rig.claims()))
        let other = await rig.verifying(Self.second.sign(claims: rig.claims()))
        await rig.settle()
        #expect(waiting.current == nil)
        await rig.release(.page(body: [Self.first, Self.second].keySet))
        #expect(await waiting.value == .accepted())
        #expect(await other.value == .accepted())
        #expect(rig.provider.requestedURLs.count == 2)
        #expect(waiting.trace.contains("key set: ok: loaded again, the key is there"))
        #expect(rig.logged.lines.contains { $0.contains("key set changed") && $0.contains("\"new_key_ids\":[\"k2\"]") })
    }

    @Test func aKeyThatIsNotThereAfterALoadIsRefused() async throws {
        let rig = try await Self.loaded()
        #expect(await rig.verify(Self.second.sign(claims: rig.claims())) == .refused(.unknownKey))
        #expect(rig.provider.requestedURLs.count == 2)
        // Whatever callers send: one load in 30 s, and no 503 for a token older than that load.
        for _ in 0..<50 { #expect(await rig.verify(Self.second.sign(claims: rig.claims())) == .refused(.unknownKey)) }
        #expect(rig.provider.requestedURLs.count == 2)
        await rig.pass(.seconds(30))
        #expect(await rig.verify(Self.second.sign(claims: rig.claims())) == .refused(.unknownKey))
        #expect(rig.provider.requestedURLs.count == 3)
    }

    /// The set's only key has no ID and would fit: it is not the key that the token names.
    @Test func anUnknownKeyIDLoadsTheSetAnewThoughAKeyWithoutOneFits() async throws {
        let unnamed = SigningKey.generate(.es256)
        let rig = try Self.rig()
        rig.provider.set(Self.url, .page(body: [unnamed].keySet))
        await rig.start()
        #expect(await rig.verify(unnamed.sign(claims: rig.claims())) == .accepted())
        #expect(rig.provider.requestedURLs.count == 1)
        #expect(
            await rig.verify(unnamed.sign(header: ["alg": "ES256", "kid": "k1"], claims: rig.claims())) == .refused(.unknownKey))
        #expect(rig.provider.requestedURLs.count == 2)
        for _ in 0..<20 { _ = await rig.verify(Self.first.sign(claims: rig.claims())) }
        #expect(rig.provider.requestedURLs.count == 2)
        await rig.pass(.seconds(30))
        rig.provider.set(Self.url, .page(body: [unnamed, Self.first].keySet))
        #expect(await rig.verify(Self.first.sign(claims: rig.claims())) == .accepted())
        #expect(rig.provider.requestedURLs.count == 3)
    }

    @Test func aTokenThatMayBeNewerThanTheSetIsToldToComeBack() async throws {
        let rig = try await Self.loaded()
        _ = await rig.verify(Self.second.sign(claims: rig.claims()))
        await rig.pass(.seconds(10))
        let token = Self.second.sign(claims: rig.claims(["iat": nil]))
        #expect(await rig.verify(token) == .unavailable(.keyNotYetKnown, retryAfter: 20))
        #expect(rig.metric("sessions_total{verifier=\"jwt\",verdict=\"unavailable\",reason=\"key_not_yet_known\"}") == 1)
    }

    @Test func aTokenThatWouldBeRefusedAnywayLoadsNothing() async throws {
        let rig = try await Self.loaded()
        let long = rig.time.wall().secondsSinceEpoch - 3600
        #expect(await rig.verify(Self.second.sign(claims: rig.claims(["exp": .number(JSONNumber(long))]))) == .refused(.expired))
        #expect(await rig.verify(Self.second.sign(claims: rig.claims(audience: "other"))) == .refused(.audience))
        #expect(rig.provider.requestedURLs.count == 1)
    }

    @Test func theRequestWaitsTwoSecondsAtMost() async throws {
        let rig = try await Self.loaded()
        rig.provider.set(Self.url, .held)
        await rig.pass(.seconds(3))
        let waiting = await rig.verifying(Self.second.sign(claims: rig.claims(["iat": nil])))
        await rig.settle()
        await rig.pass(.milliseconds(1980))
        #expect(waiting.current == nil)
        await rig.pass(.milliseconds(20))
        #expect(await waiting.value == .unavailable(.keyNotYetKnown, retryAfter: 28))
        // The load goes on for those who come later.
        await rig.release(.page(body: [Self.second].keySet))
        #expect(await rig.verify(Self.second.sign(claims: rig.claims())) == .accepted())
    }

    @Test func aProviderThatIsDownAtStartIsTriedAgainAndNobodyIsRefused() async throws {
        let rig = try Self.rig()
        rig.provider.set(Self.url, .failure(.notSent(.refused)))
        await rig.start()
        let began = rig.time.monotonic()
        let token = Self.first.sign(claims: rig.claims())
        #expect(await rig.verify(token) == .unavailable(.keysUnavailable, retryAfter: 2))
        let state = try #require(rig.shared.keySets.first).state
        #expect(state.snapshot == nil)
        #expect(state.failingSince == began)
        #expect(state.lastFailure == .notSent(.refused))
        #expect(rig.metric("jwks_refreshes_total{source=\"jwt\",result=\"refused\"}") == 2)
        rig.provider.set(Self.url, .page(body: [Self.first].keySet))
        await rig.pass(.seconds(2))
        #expect(await rig.verify(Self.first.sign(claims: rig.claims())) == .accepted())
        #expect(try #require(rig.shared.keySets.first).state.failingSince == nil)
        #expect(rig.logged.lines.filter { $0.contains("key set could not be loaded") }.count == 1)
        #expect(rig.logged.lines.contains { $0.contains("key set can be loaded again") })
    }

    /// An operator who looks at the log now, and not when it began, sees it.
    @Test func aFailureThatGoesOnIsSaidAgainOnceAMinuteWithoutKeysAndEveryTenMinutesWithThem() async throws {
        let rig = try Self.rig()
        rig.provider.set(Self.url, .tlsFailure("certificate_expired"))
        await rig.start()
        func warnings() -> [String] {
            rig.logged.lines.filter { $0.contains("key set could not be loaded") && $0.contains("\"level\":\"warning\"") }
        }
        for _ in 0..<60 { await rig.pass(.seconds(10)) }
        #expect((9...11).contains(warnings().count), "\(warnings().count)")
        #expect(warnings().allSatisfy { $0.contains("\"reason\":\"tls\"") && $0.contains("\"tls\":\"certificate_expired\"") })
        // Another reason is news at once.
        rig.provider.set(Self.url, .failure(.notSent(.dns)))
        await rig.pass(.seconds(60))
        #expect(warnings().last?.contains("\"reason\":\"dns\"") == true)

        let stale = try await Self.loaded()
        stale.provider.set(Self.url, .failure(.notSent(.refused)))
        for _ in 0..<180 { await stale.pass(.seconds(10)) }
        let repeated = stale.logged.lines.filter { $0.contains("key set could not be loaded") && $0.contains("warning") }
        #expect((2...3).contains(repeated.count), "\(repeated.count)")
        #expect(repeated.allSatisfy { $0.contains("\"has_keys\":true") })
    }

    @Test(
        arguments: [
            (.page(status: 500, body: "{}"), .status(500)),
            (.page(status: 302, fields: [("location", "/x")], body: ""), .status(302)),
            (.page(body: "<html>"), .notJSON), (.page(body: "[]"), .notJSON), (.page(body: "{\"keys\":[]}"), .empty),
            (.page(body: "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}"), .empty), (.failure(.broken(.tooLarge)), .tooLarge),
            (.page(body: String(repeating: " ", count: 524_289)), .tooLarge), (.failure(.timedOut(sent: true)), .timedOut),
            (.failure(.broken(.reset)), .broken), (.failure(.notSent(.tls)), .notSent(.tls)),
            (.failure(.notSent(.dns)), .notSent(.dns)), (.failure(.notSent(.connectTimeout)), .notSent(.connectTimeout)),
            (.failure(.notSent(.tooLate)), .timedOut), (.tlsFailure("certificate_expired"), .tls("certificate_expired")),
        ] as [(ScriptedProvider.Answer, KeySetLoadFailure)])
    func aBadAnswerNeverReplacesAGoodSet(answer: ScriptedProvider.Answer, failure: KeySetLoadFailure) async throws {
        let rig = try await Self.loaded()
        rig.provider.set(Self.url, answer)
        await rig.pass(.seconds(600))
        #expect(rig.provider.requestedURLs.count == 2)
        #expect(try #require(rig.shared.keySets.first).state.lastFailure == failure)
        #expect(await rig.verify(Self.first.sign(claims: rig.claims())) == .accepted())
    }

    @Test func aSetThatCannotBeRefreshedIsGivenUpAfterMaxStale() async throws {
        let rig = try await Self.loaded(", refresh_seconds: 100, max_stale_seconds: 50")
        rig.provider.set(Self.url, .failure(.notSent(.dns)))
        await rig.pass(.seconds(149))
        #expect(await rig.verify(Self.first.sign(claims: rig.claims())) == .accepted())
        await rig.pass(.seconds(2))
        if case .unavailable(.keysUnavailable, _) = await rig.verify(Self.first.sign(claims: rig.claims())) {
        } else {
            Issue.record("a set that is too old was used")
        }
    }

    @Test(
        arguments: [
            ([], 600), ([("cache-control", "public, max-age=120")], 120),
            ([("Cache-Control", "MAX-AGE=\"200\" , must-revalidate")], 200),
            ([("cache-control", "max-age=1")], 60), ([("cache-control", "max-age=99999999999999999999")], 86_400),
            ([("cache-control", "max-age=300"), ("age", "100")], 200), ([("cache-control", "max-age=300"), ("age", "400")], 60),
            ([("cache-control", "max-age=300"), ("age", "x")], 300), ([("cache-control", "s-maxage=100")], 600),
            ([("cache-control", "max-age=-5")], 600), ([("cache-control", "no-store")], 600),
            ([("cache-control", "max-age=500"), ("cache-control", "max-age=400")], 400),
        ] as [([(String, String)], Int)])
    func theNextLoadComesWhenTheAnswerIsNoLongerFresh(fields: [(String, String)], seconds: Int) async throws {
        let rig = try Self.rig()
        rig.provider.set(Self.url, .page(fields: fields, body: [Self.first].keySet))
        await rig.start()
        await rig.pass(.seconds(seconds) - .milliseconds(20))
        #expect(rig.provider.requestedURLs.count == 1)
        await rig.pass(.milliseconds(20))
        #expect(rig.provider.requestedURLs.count == 2)
    }

    // MARK: Discovery

    private static let document = "https://issuer.example/.well-known/openid-configuration"

    @Test func theDiscoveryDocumentNamesTheKeySet() async throws {
        let discovered = try Self.rig(source: "name: acme")
        discovered.provider.set(
            Self.document, .page(body: "{\"issuer\":\"https://issuer.example\",\"jwks_uri\":\"https://keys.example/k\"}"))
        discovered.provider.set("https://keys.example/k", .page(body: [Self.first].keySet))
        await discovered.start()
        #expect(discovered.provider.requestedURLs == [Self.document, "https://keys.example/k"])
        #expect(await discovered.verify(Self.first.sign(claims: discovered.claims())) == .accepted())
        #expect(discovered.metric("jwks_refreshes_total{source=\"acme\",result=\"ok\"}") == 1)
    }

    @Test(
        arguments: [
            ("{\"issuer\":\"https://issuer.example/\",\"jwks_uri\":\"https://keys.example/k\"}", .issuerMismatch),
            ("{\"jwks_uri\":\"https://keys.example/k\"}", .issuerMismatch),
            ("{\"issuer\":\"https://issuer.example\"}", .keySetURL),
            ("{\"issuer\":\"https://issuer.example\",\"jwks_uri\":\"http://keys.example/k\"}", .keySetURL),
            ("{\"issuer\":\"https://issuer.example\",\"jwks_uri\":\"http://10.0.0.1/k\"}", .keySetURL),
            ("{\"issuer\":\"https://issuer.example\",\"jwks_uri\":\"https://u:p@keys.example/k\"}", .keySetURL),
            ("{\"issuer\":\"https://issuer.example\",\"issuer\":\"x\"}", .notJSON), ("[1]", .notJSON), ("", .notJSON),
        ] as [(String, KeySetLoadFailure)])
    func aDiscoveryDocumentThatIsNotTheIssuersIsAFailure(body: String, failure: KeySetLoadFailure) async throws {
        let rig = try Self.rig(source: "name: acme")
        rig.provider.set(Self.document, .page(body: body))
        await rig.start()
        #expect(rig.provider.requestedURLs == [Self.document])
        #expect(try #require(rig.shared.keySets.first).state.lastFailure == failure)
    }

    // MARK: Sharing

    @Test func verifiersOfOneSourceShareItsLoads() async throws {
        let verifier = { (audience: String) in
            "{ type: jwt, issuer: \"https://issuer.example\", audience: \(audience), algorithms: [ES256], jwks_url: \"\(Self.url)\" }"
        }
        let rig = try SessionRig(ReadSessions(verifiers: [verifier("web"), verifier("app")]).config)
        rig.provider.set(Self.url, .page(body: [Self.first].keySet))
        await rig.start()
        #expect(rig.provider.requestedURLs.count == 1)
        #expect(rig.shared.keySets.map(\.name) == ["jwt"])
        for audience in ["web", "app"] {
            #expect(await rig.verify(Self.first.sign(claims: rig.claims(audience: audience))) == .accepted())
        }
        #expect(await rig.verify(Self.first.sign(claims: rig.claims(audience: "tv"))) == .refused(.audience))
        #expect(rig.metric("sessions_total{verifier=\"jwt-2\",verdict=\"accepted\",reason=\"person\"}") == 1)
    }

    @Test func anUnchangedSourceGoesOnAfterAReload() async throws {
        let rig = try await Self.loaded()
        let next = SessionVerifiers(rig.shared.config, previous: rig.shared)
        #expect(next.keySets.first === rig.shared.keySets.first)
        rig.shared.stop(inFavourOf: next)
        await rig.settle()
        await rig.pass(.seconds(600))
        #expect(rig.provider.requestedURLs.count == 2)
        next.stop()
        await rig.settle()
        await rig.pass(.seconds(600))
        #expect(rig.provider.requestedURLs.count == 2)
    }

    @Test func beforeTheStartNothingIsKnown() async throws {
        let rig = try Self.rig()
        #expect(await rig.verify(Self.first.sign(claims: rig.claims())) == .unavailable(.keysUnavailable, retryAfter: 1))
    }
}
