import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// What operators see: log lines, metrics, and what neither may ever hold.
@Suite(.serialized)
struct OperatorTests {
    /// Through every kind of outcome with markers in every place a secret can be.
    @Test
    func noSecretIsEverLoggedOrShown() async throws {
        let fixture = try await EndpointFixture(secondKey: BreakerScenarioTests.nextKey)
        let good = try fixture.session(claims: ["marker": "claim-marker-1"])
        var pages: [String] = []
        let faults: [Fault?] = [
            nil, .refused(401, "unauthorized"), .refused(403, "forbidden"), .refused(500, "internal_error"),
            .echo(endUserID: "user-2"), .notJSON, .disrupted(.resetAfterCommit),
            .answered(500, body: #"{"code":"internal_error","message":"body-marker-2 sk-body-marker"}"#),
        ]
        for fault in faults {
            if let fault { fixture.simulator.addFault(FaultRule(fault, on: .mint)) }
            let answer = try await fixture.mint(
                good, fields: ["Cookie: session=cookie-marker-3", "January-End-User-ID: header-marker-4"])
            if answer.status != 201 { pages.append(answer.body) }
            await fixture.advance(by: .seconds(6))
        }
        for bad in [String(good.dropLast(4)) + "AAAA", "opaque-marker-5", good + "." + good] {
            pages.append(try await fixture.mint(bad).body)
        }
        pages.append(try await fixture.mint(nil, fields: ["Authorization: Basic basic-marker-6"]).body)
        pages.append(
            try await fixture.exchange(
                "POST /path-marker-7?query-marker-8 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", port: fixture.port
            ).body)
        pages.append(try await fixture.get("/metrics").body)
        pages.append(try await fixture.get("/readyz").body)
        let text = fixture.logs.text + pages.joined()
        let tokens = fixture.simulator.tokens(of: "user-1")
        #expect(!tokens.isEmpty)
        var secrets = [
            SimulatorSettings.developmentKey, BreakerScenarioTests.nextKey, EndpointFixture.sessionSecret, "sk-body-marker",
            "body-marker-2", "claim-marker-1", "cookie-marker-3", "header-marker-4", "opaque-marker-5", "basic-marker-6",
            "path-marker-7", "query-marker-8", "user-1",
        ]
        secrets += good.split(separator: ".").dropFirst().map(String.init)
        for secret in secrets { #expect(!text.contains(secret), "\(secret)") }
        #expect(!text.contains("ct-"))
    }

    @Test
    func theEndUserIsAHashUnlessPlainIsAskedFor() async throws {
        let hashed = try await EndpointFixture()
        _ = try await hashed.mint(try hashed.session("user-1"))
        _ = try await hashed.mint(try hashed.session("user-1"))
        try await eventually("two lines") { hashed.logLines("request").count == 2 }
        let hashes = hashed.logLines("request").map { $0.members.first { $0.name.hasPrefix("end_user") }?.value.string ?? "" }
        #expect(hashes.count == 2 && hashes[0] == hashes[1] && hashes[0].utf8.count == 32)
        let plain = try await EndpointFixture(more: "log: { requests: all, end_user_id: plain }")
        _ = try await plain.requestLine(of: try await plain.mint(try plain.session("user-1")))
        #expect(plain.logs.text.contains("user-1"))
    }

    @Test(arguments: ["errors", "all", "none"])
    func requestLinesAreWrittenAsAskedFor(_ which: String) async throws {
        let fixture = try await EndpointFixture(
            more: "log: { requests: \(which) }\nend_user_id: { from: uid }")
        let session = try fixture.session(claims: ["uid": "u"])
        var expected: [String] = []
        func step(_ answer: EndpointFixture.Answer, isError: Bool) {
            if which == "all" || (which == "errors" && isError) { expected.append(answer.fields["x-request-id"] ?? "") }
        }
        step(try await fixture.mint(session), isError: false)
        step(try await fixture.mint(nil), isError: false)
        step(try await fixture.mint(try fixture.session()), isError: false)
        step(try await fixture.mint(try fixture.session(claims: ["uid": " "])), isError: true)
        step(try await fixture.get("/nothing", port: fixture.port), isError: false)
        step(try await fixture.get("/healthz", port: fixture.port), isError: false)
        for (status, code) in [(500, "internal_error"), (400, "invalid_request"), (403, "forbidden")] {
            fixture.simulator.addFault(FaultRule(.refused(status, code), on: .mint))
            step(try await fixture.mint(session), isError: true)
        }
        // Lines are written right behind the responses; those of one loop in their order.
        try await eventually("\(expected.count) lines") { fixture.logLines("request").count >= expected.count }
        let lines = fixture.logLines("request")
        #expect(lines.compactMap { $0["request_id"]?.string }.sorted() == expected.sorted())
        for line in lines {
            #expect(line["type"]?.string == "request")
            for field in ["time", "level", "code", "status", "duration_ms", "route", "method"] {
                #expect(line[field] != nil, "\(field)")
            }
        }
    }

    /// A caller cannot fill the log: ten lines a second, and the next one says how many were left out.
    @Test
    func errorLinesThatCallersCauseAreLimited() async throws {
        let fixture = try await EndpointFixture(more: "log: { requests: errors }\nend_user_id: { from: uid }")
        let session = try fixture.session(claims: ["uid": " "])
        for _ in 0..<15 { _ = try await fixture.mint(session) }
        try await fixture.awaitMetric(
            #"requests_total{route="token",method="POST",status="403",code="invalid_end_user_id"}"#, 15)
        let written = fixture.logLines("request").count
        await fixture.advance(by: .seconds(2))
        _ = try await fixture.requestLine(of: try await fixture.mint(session))
        let lines = fixture.logLines("request")
        let leftOut = lines.compactMap { $0["left_out"]?.number?.integer }.reduce(0, +)
        // A slow machine may spread the fifteen over more than a second; none is lost without being counted.
        #expect(written >= 10)
        #expect(Int64(lines.count) + leftOut == 16)
    }

    @Test
    func aClientRequestIDIsTakenFromATrustedProxyOnlyAndOnlyIfItIsOne() async throws {
        let trusted = try await EndpointFixture(more: "trusted_proxies: [127.0.0.1/32]")
        let rows: [([String], String?)] = [
            (["X-Request-Id: abc-1._Z"], "abc-1._Z"),
            (["X-Request-Id: \(String(repeating: "a", count: 128))"], String(repeating: "a", count: 128)),
            (["X-Request-Id: \(String(repeating: "a", count: 129))"], nil),
            (["X-Request-Id: a b"], nil), (["X-Request-Id: a\"b"], nil), (["X-Request-Id: "], nil),
            (["X-Request-Id: a", "X-Request-Id: b"], nil), ([], nil),
        ]
        for (fields, expected) in rows {
            let answer = try await trusted.mint(try trusted.session(), fields: fields)
            #expect(answer.fields["x-request-id"] != expected)
            let line = try await trusted.requestLine(of: answer)
            #expect(line["client_request_id"]?.string == expected, "\(fields)")
        }
        let untrusted = try await EndpointFixture(more: "trusted_proxies: [10.0.0.0/8]")
        let answer = try await untrusted.mint(try untrusted.session(), fields: ["X-Request-Id: abc"])
        let line = try await untrusted.requestLine(of: answer)
        #expect(line["client_request_id"] == nil)
    }

    static let families = [
        "requests_total", "request_duration_seconds_bucket", "mint_duration_seconds_bucket", "january_requests_total",
        "january_request_duration_seconds_bucket",
        "sessions_total", "connections", "in_flight", "breaker_state", "jwks_age_seconds", "connections_refused_total",
        "http_errors_total", "overloaded_total", "security_events_total", "jwks_refreshes_total", "january_connections",
        "api_key_current", "undelivered_tokens_total", "user_header_mismatch_total",
    ]

    @Test
    func theMetricsAreThereAndTheirLabelsAreBounded() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let session = try fixture.session(algorithm: .es256)
        _ = try await fixture.mint(session)
        fixture.simulator.addFault(FaultRule(.refused(400, "code-marker"), on: .mint))
        _ = try await fixture.mint(session)
        fixture.simulator.addFault(FaultRule(.echo(endUserID: "user-marker"), on: .mint))
        _ = try await fixture.mint(session)
        _ = try await fixture.mint(try fixture.session(algorithm: .es256) { $0.header = ["kid": "kid-marker"] })
        for line in ["MARKER /january/client-token", "GET /path-marker"] {
            _ = try await fixture.exchange("\(line) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", port: fixture.port)
        }
        _ = try await fixture.exchange("GET / HTTP/1.1\r\n\r\n", port: fixture.port)
        try await fixture.awaitMetric(#"requests_total{route="other",method="other",status="400",code="bad_request"}"#, 1)
        let page = try await fixture.get("/metrics").body
        #expect(!page.lowercased().contains("marker"))
        #expect(!page.contains("user-1"))
        for family in Self.families {
            #expect(page.contains("\njanuary_endpoint_\(family)"), "\(family)")
        }
        for sample in [
            #"requests_total{route="token",method="POST",status="201",code="ok"} 1"#,
            #"requests_total{route="token",method="other",status="405",code="method_not_allowed"} 1"#,
            #"requests_total{route="other",method="GET",status="404",code="not_found"} 1"#,
            #"january_requests_total{operation="mint",status="201",code="ok"} 2"#,
            #"january_requests_total{operation="mint",status="400",code="other"} 1"#,
            #"sessions_total{verifier="jwt",verdict="refused",reason="unknown_key"} 1"#,
        ] {
            #expect(page.contains("\njanuary_endpoint_\(sample)\n"), "\(sample)")
        }
    }
}
