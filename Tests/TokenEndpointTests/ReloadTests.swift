import JanuarySimulator
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// One configuration in the place of another in a server that runs: what changes, what goes on, what is refused.
@Suite(.serialized) struct ReloadTests {
    private static let nextKey = "sk-next-0123456789abcdef"

    @Test func whatIsGrantedChangesAndWhatWasCountedStays() async throws {
        let fixture = try await EndpointFixture(
            more:
                "rate_limits: { per_address: false, per_session: false, per_end_user: { requests: 1, per_seconds: 3600, burst: 3 } }"
        )
        let session = try fixture.session()
        #expect(try await fixture.mint(session).json["scopes"] as? [String] == ["foods:read"])
        #expect(try await fixture.reload { $0 = $0.replacing("[food_search]", with: "[glucose]") } == .reloaded)
        for _ in 0..<2 { #expect(try await fixture.mint(session).json["scopes"] as? [String] == ["glucose:read"]) }
        #expect(try await fixture.mint(session).code == "rate_limited")
        // Three more, of which three are used up.
        #expect(try await fixture.reload { $0 = $0.replacing("burst: 3", with: "burst: 6") } == .reloaded)
        for _ in 0..<3 { #expect(try await fixture.mint(session).status == 201) }
        #expect(try await fixture.mint(session).code == "rate_limited")
        #expect(try await fixture.metric(#"reloads_total{result="ok"}"#) == 2)
    }

    /// A change, and the keys it is refused for.
    @Test(arguments: [
        ("listen: \"127.0.0.1:0\"\n", "listen: \"127.0.0.2:0\"\n", ["listen"]),
        ("management: { listen: \"127.0.0.1:0\"", "management: { listen: \"[::1]:0\"", ["management.listen"]),
        ("loops: 2", "loops: 1", ["http.loops"]),
        ("state: \"sqlite:state.db\"", "state: \"sqlite:other.db\"", ["state"]),
        ("fences: {}", "fences: { keep_days: 7 }", ["fences.keep_days"]),
        ("hash_secret_file: hash", "hash_secret_file: token", ["log.hash_secret_file"]),
        ("fences: {}", "fences: {}\naudit: { file: audit.jsonl }", ["audit.file"]),
        ("fences: {}", "fences: {}\ntracing: { otlp_url: \"http://127.0.0.1:9\" }", ["tracing"]),
        ("fences: {}", "fences: {}\nend_user_id: { prefix: acme- }", ["end_user_id.prefix"]),
        ("fences: {}", "fences: {}\nend_user_id: { from: uid }", ["end_user_id.from"]),
        ("audience: test-api", "audience: test-api\n      namespace: other", ["sessions.verifiers[].namespace"]),
        ("audience: test-api", "audience: test-api\n      prefix: other-", ["sessions.verifiers[].prefix"]),
        ("loops: 2", "loops: 3 }\nend_user_id: { prefix: a-", ["http.loops", "end_user_id.prefix"]),
    ])
    func whatNeedsARestartIsRefusedByName(change: (from: String, to: String, keys: [String])) async throws {
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed + "\nlog: { hash_secret_file: hash, requests: all }\nfences: {}",
            files: EndpointFixture.managementFiles.merging(["hash": "0123456789abcdef0123"]) { first, _ in first })
        let result = try await fixture.reload { text in
            #expect(text.contains(change.from))
            text = text.replacing(change.from, with: change.to)
        }
        #expect(result == .refused(change.keys.map { "\($0): cannot change on reload; restart the server" }))
        #expect(try await fixture.mint(try fixture.session()).status == 201)
        #expect(try await fixture.metric(#"reloads_total{result="failed"}"#) == 1)
    }

    @Test func otherKeysAreInForceAtOnceAndCloseTheBreaker() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.configure { $0.keys = [Self.nextKey: .valid] }
        #expect(try await fixture.mint(try fixture.session()).code == "january_key_rejected")
        #expect(try await fixture.metric(#"breaker_state{reason="key"}"#) == 1)
        try fixture.write("api_key", Self.nextKey)
        #expect(try await fixture.reload(.files) == .reloaded)
        #expect(try await fixture.metric(#"breaker_state{reason="key"}"#) == 0)
        #expect(try await fixture.mint(try fixture.session()).status == 201)
        #expect(fixture.logLines("the API keys were read again and have changed").count == 1)
        #expect(fixture.logLines("API key changed").count == 1)
        #expect(!fixture.logs.text.contains("sk-"))
    }

    @Test func otherManagementTokensAreInForceAtOnce() async throws {
        let fixture = try await EndpointFixture(more: EndpointFixture.managed, files: EndpointFixture.managementFiles)
        let new = "another-token-0123456789abcdef-xyz"
        #expect(try await fixture.manage("GET /january/end-users/u", token: new).status == 401)
        try fixture.write("token", new)
        #expect(try await fixture.reload(.files) == .reloaded)
        #expect(try await fixture.manage("GET /january/end-users/u", token: new).status == 200)
        #expect(try await fixture.manage("GET /january/end-users/u").status == 401)
        #expect(
            try await fixture.manage("GET /january/end-users/u", token: "second-" + EndpointFixture.managementToken).status == 200
        )
    }

    /// Everybody would become somebody else, and every log line name them anew.
    @Test func aChangedSecretFileAloneChangesNobody() async throws {
        let fixture = try await EndpointFixture(
            more: "end_user_id: { transform: hmac, secret_file: secret }\nlog: { hash_secret_file: hash }",
            files: ["secret": String(repeating: "a", count: 32), "hash": String(repeating: "h", count: 32)])
        let session = try fixture.session()
        let before = try await fixture.mint(session).json["end_user_id"] as? String
        try fixture.write("secret", String(repeating: "b", count: 32))
        try fixture.write("hash", String(repeating: "i", count: 32))
        #expect(try await fixture.reload(.files) == .reloaded)
        #expect(try await fixture.mint(session).json["end_user_id"] as? String == before)
        let warnings = fixture.logLines("a secret that says who is who has changed; the old one stays until the next start")
        #expect(warnings.compactMap { $0["key"]?.string } == ["end_user_id.secret_file", "log.hash_secret_file"])
        let result = try await fixture.reload(.signal)
        #expect(
            result
                == .refused(
                    ["log.hash_secret_file", "end_user_id.secret_file"].map {
                        "\($0): cannot change on reload; restart the server"
                    }))
    }

    @Test func aKeySetThatCannotBeLoadedRefusesTheReload() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let result = try await fixture.reload { $0 = $0.replacing("/idp/jwks.json", with: "/nowhere") }
        #expect(result == .refused(["sessions.verifiers: the key set of jwt cannot be loaded: status"]))
        #expect(try await fixture.mint(try fixture.session(algorithm: .es256)).status == 201)
        #expect(try await fixture.get("/readyz").body == #"{"status":"ready"}"#)
    }

    @Test func aNewKeySetIsLoadedBeforeAnybodyNeedsIt() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let session = try fixture.session(algorithm: .es256)
        for round in 1...10 {
            // Another place of the same keys: another key set.
            #expect(try await fixture.reload { $0 = $0.replacing("jwks.json", with: "jwks.json?\(round)") } == .reloaded)
            #expect(try await fixture.mint(session).status == 201)
        }
        let page = try await fixture.get("/metrics").body
        #expect(page.split(separator: "\n").filter { $0.hasPrefix("january_endpoint_jwks_age_seconds{") }.count == 1)
    }

    @Test func aKeySetWhoseSettingsAreTheSameIsNotLoadedAgain() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let loads = try await fixture.metric(#"jwks_refreshes_total{source="jwt",result="ok"}"#)
        for _ in 0..<5 { #expect(try await fixture.reload() == .reloaded) }
        #expect(try await fixture.metric(#"jwks_refreshes_total{source="jwt",result="ok"}"#) == loads)
    }

    @Test func connectionsToJanuaryAreKeptUnlessTheirSettingsChange() async throws {
        let fixture = try await EndpointFixture(more: "http: { loops: 1 }")
        let session = try fixture.session()
        #expect(try await fixture.mint(session).status == 201)
        #expect(try await fixture.reload { $0 = $0.replacing("[food_search]", with: "[glucose]") } == .reloaded)
        #expect(try await fixture.mint(session).status == 201)
        #expect(fixture.simulator.requests(of: .mint).map(\.connection).reduce(into: Set()) { $0.insert($1) }.count == 1)
        // A mint that is under way ends on the connection it has, and its pool goes when nobody can need it any more.
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        async let held = fixture.mint(session)
        try await fixture.awaitMintsReceived(3)
        let result = try await fixture.reload {
            $0 = $0.replacing("api_key_file: api_key\n", with: "api_key_file: api_key\n  connect_seconds: 3\n")
        }
        #expect(result == .reloaded)
        #expect(try await fixture.mint(session).status == 201)
        fixture.simulator.release()
        #expect(try await held.status == 201)
        #expect(fixture.simulator.requests(of: .mint).map(\.connection).reduce(into: Set()) { $0.insert($1) }.count == 2)
        #expect(try await fixture.metric(#"january_connections{state="idle"}"#) == 2)
        await fixture.advance(by: .seconds(11))
        try await fixture.awaitMetric(#"january_connections{state="idle"}"#, 1)
    }

    @Test func reloadsThatRaceLeaveOneOfThemWhole() async throws {
        let fixture = try await EndpointFixture()
        let session = try fixture.session()
        let features = ["food_search", "glucose", "restaurants", "water_log"]
        let scopes: [[String]] = [
            ["foods:read"], ["glucose:read"], ["restaurants:read"], ["water_logs:read", "water_logs:write"],
        ]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<16 {
                group.addTask {
                    let result = try await fixture.reload { $0 = $0.replacing("[food_search]", with: "[\(features[index % 4])]") }
                    #expect(result == .reloaded)
                }
                group.addTask {
                    let answer = try await fixture.mint(session)
                    #expect(answer.status == 201)
                    #expect(scopes.contains(answer.json["scopes"] as? [String] ?? []))
                }
            }
            try await group.waitForAll()
        }
        var last: Set<[String]> = []
        for _ in 0..<8 { last.insert(try await fixture.mint(session).json["scopes"] as? [String] ?? []) }
        #expect(last.count == 1)
        #expect(try await fixture.metric(#"reloads_total{result="ok"}"#) == 16)
    }

    @Test func limitsAndTimeOutsOfTheListenerFollow() async throws {
        let fixture = try await EndpointFixture(more: "http: { loops: 1 }")
        let open = try fixture.connect()
        try open.send(EndpointFixture.mintRequest(try fixture.session()))
        #expect(try await EndpointFixture.receive(open).status == 201)
        let result = try await fixture.reload {
            $0 = $0.replacing("loops: 1", with: "loops: 1, request_line_bytes: 256")
        }
        #expect(result == .reloaded)
        // The connection has stayed, and its next request is measured by the new limits.
        try open.send("GET /\(String(repeating: "x", count: 300)) HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try await EndpointFixture.receive(open).status == 414)
    }

    @Test func moreConnectionsToJanuaryAreUsedAtOnce() async throws {
        let fixture = try await EndpointFixture(january: "max_connections: 1", more: "http: { loops: 1 }")
        let session = try fixture.session()
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint, times: nil))
        async let first = fixture.mint(session)
        try await fixture.awaitMintsReceived(1)
        // Waits for the one connection.
        async let second = fixture.mint(session)
        try await eventually("waiting") { fixture.endpoint.shared.load.snapshot.waiting == 1 }
        // One that waits and one that is served: a third would not be let in with a single connection.
        #expect(try await fixture.reload { $0 = $0.replacing("max_connections: 1", with: "max_connections: 3") } == .reloaded)
        async let third = fixture.mint(session)
        try await fixture.awaitMintsReceived(3)
        fixture.simulator.release()
        #expect(try await [first.status, second.status, third.status] == [201, 201, 201])
    }

    @Test func linesOfTheManagementListenerFollow() async throws {
        let fixture = try await EndpointFixture(more: "log: { requests: none }")
        _ = try await fixture.get("/healthz")
        #expect(try await fixture.reload { $0 = $0.replacing("requests: none", with: "requests: all") } == .reloaded)
        let answer = try await fixture.get("/healthz")
        #expect(try await fixture.requestLine(of: answer)["listener"]?.string == "management")
        #expect(fixture.logLines("request").count == 1)
    }

    @Test func whatCountsAtTheStartOnlyIsNamed() async throws {
        let fixture = try await EndpointFixture()
        let more = "\nstate_must_exist: true\nend_user_id: { accept_new_mapping: true }\n"
        #expect(try await fixture.reload { $0 += more } == .reloaded)
        let lines = fixture.logLines("a key has changed that counts at the start only")
        #expect(lines.compactMap { $0["key"]?.string } == ["state_must_exist", "end_user_id.accept_new_mapping"])
    }

    @Test func aDrainIsNotDisturbed() async throws {
        let fixture = try await EndpointFixture(more: "drain: { delay_seconds: 120, timeout_seconds: 600 }")
        fixture.endpoint.drain {}
        #expect(try await fixture.reload { $0 = $0.replacing("[food_search]", with: "[glucose]") } == .draining)
        #expect(try await fixture.metric(#"reloads_total{result="failed"}"#) == 0)
        #expect(try await fixture.mint(try fixture.session()).json["scopes"] as? [String] == ["foods:read"])
    }
}
