import Foundation
import HTTPMessage
import January
import JanuarySimulator
import Primitives
import StrictJSON
import TLS
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The whole endpoint between an app that may bring a trace of its own, January, and a collector.
@Suite(.serialized) struct TracingScenarioTests {
    private static let traceID = "0af7651916cd43dd8448eb211c80319c"
    private static let callerSpan = "b7ad6b7169203331"
    private static let traceparent = "traceparent: 00-\(traceID)-\(callerSpan)-01"

    private static func tracing(_ collector: CollectorDouble, _ more: String = "") -> String {
        "tracing: { otlp_url: \"http://127.0.0.1:\(collector.port)\"\(more) }"
    }

    private static func collector(
        behave: @escaping @Sendable (CollectorDouble.Request, Int) -> CollectorDouble.Behaviour = { _, _ in .answer("200 OK") }
    ) throws -> CollectorDouble { try CollectorDouble(behave: behave) }

    /// The spans that have come, once there are as many as expected.
    private static func spans(_ collector: CollectorDouble, _ count: Int) async throws -> [ExportedSpan] {
        try await eventually("\(count) spans") { ((try? ExportedSpan.all(collector))?.count ?? 0) >= count }
        let spans = try ExportedSpan.all(collector)
        #expect(spans.count == count, "\(spans.map(\.name))")
        #expect(Set(spans.map(\.spanID)).count == spans.count)
        return spans
    }

    // MARK: One mint

    @Test func aMintIsASpanWithAChildInTheCallersTraceAndJanuaryIsTold() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(more: Self.tracing(collector))
        let answer = try await fixture.mint(
            try fixture.session(), fields: [Self.traceparent, "tracestate: rojo=1 , congo=t61rcWkgMzE", "tracestate: x=\"y\""])
        #expect(answer.status == 201)
        let spans = try await Self.spans(collector, 2)
        let server = try #require(spans.first { $0.isServer })
        let client = try #require(spans.first { !$0.isServer })
        #expect(server.traceID == Self.traceID && client.traceID == Self.traceID)
        #expect(server.parentSpanID == Self.callerSpan && client.parentSpanID == server.spanID)
        #expect(server.traceState == "rojo=1,congo=t61rcWkgMzE,x=\"y\"" && client.traceState == server.traceState)
        #expect(server.name == "POST /january/client-token")
        #expect(client.name == "POST /v1.2/auth/client-tokens")
        #expect(!server.isError && !client.isError)
        // The call lies within the request.
        #expect(server.start <= client.start && client.end <= server.end)
        let id = try #require(answer.fields["x-request-id"])
        #expect(
            server.attributes == [
                "http.request.method": "POST", "http.response.status_code": "201", "http.route": "/january/client-token",
                "url.path": "/january/client-token", "url.scheme": "http", "server.address": "127.0.0.1",
                "server.port": "\(fixture.port)", "network.protocol.version": "1.1", "january_endpoint.request_id": id,
                "january_endpoint.january_request_id": try #require(answer.fields["january-request-id"]),
                "january_endpoint.verifier": "jwt",
            ])
        #expect(
            client.attributes == [
                "http.request.method": "POST", "http.response.status_code": "201", "server.address": "127.0.0.1",
                "server.port": "\(fixture.simulator.port)", "network.protocol.version": "1.1",
                "url.full": "\(fixture.simulator.origin)/v1.2/auth/client-tokens", "url.template": "/v1.2/auth/client-tokens",
            ])
        let request = try #require(fixture.simulator.requests(of: .mint).first)
        #expect(request.field(.traceparent) == "00-\(Self.traceID)-\(client.spanID)-01")
        #expect(request.field(.tracestate) == "rojo=1,congo=t61rcWkgMzE,x=\"y\"")
        #expect(try await fixture.requestLine(of: answer)["trace_id"]?.string == Self.traceID)
        try await fixture.awaitMetric("spans_exported_total", 2)
        #expect(try await fixture.metric("spans_dropped_total{reason=\"failed\"}") == 0)
    }

    @Test(arguments: [
        [], ["traceparent: 00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"],
        ["traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01"], ["traceparent: garbage"],
        [traceparent, traceparent], [traceparent, "traceparent: 00-\(traceID)-0000000000000001-01"], ["traceparent:"],
    ])
    func whatIsNoTraceOfTheCallersIsIgnoredAndANewOneBegins(fields: [String]) async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(more: Self.tracing(collector))
        let session = try fixture.session()
        #expect(try await fixture.mint(session, fields: fields + ["tracestate: a=1"]).status == 201)
        #expect(try await fixture.mint(session, fields: fields + ["tracestate: a=1"]).status == 201)
        let spans = try await Self.spans(collector, 4)
        // Each request a trace of its own.
        let traces = Set(spans.map(\.traceID))
        #expect(traces.count == 2 && !traces.contains(Self.traceID))
        #expect(spans.filter(\.isServer).allSatisfy { $0.parentSpanID == nil && $0.traceState == nil })
        for request in fixture.simulator.requests(of: .mint) {
            let sent = try #require(request.field(.traceparent).flatMap { TraceContext.parse(Array($0.utf8)[...]) })
            #expect(traces.contains(sent.traceID) && sent.isSampled)
            #expect(request.field(.tracestate) == nil)
        }
    }

    @Test func aMalformedTracestateIsLeftOutAndTheTraceGoesOn() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(more: Self.tracing(collector))
        let answer = try await fixture.mint(try fixture.session(), fields: [Self.traceparent, "tracestate: a=1,a=2"])
        #expect(answer.status == 201)
        let spans = try await Self.spans(collector, 2)
        #expect(spans.allSatisfy { $0.traceID == Self.traceID && $0.traceState == nil })
        #expect(fixture.simulator.requests(of: .mint).first?.field(.tracestate) == nil)
    }

    // MARK: Sampling

    /// Neither `sampled` nor any trace ID makes a difference to what the configuration says.
    @Test(arguments: ["00", "01", "ff"])
    func noCallerMakesUsSampleAgainstTheConfiguration(flags: String) async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let never = try await EndpointFixture(more: Self.tracing(collector, ", sample_ratio: 0"))
        let session = try never.session()
        for id in [Self.traceID, String(repeating: "f", count: 32), "0000000000000000000000000000000" + "1"] {
            #expect(try await never.mint(session, fields: ["traceparent: 00-\(id)-\(Self.callerSpan)-\(flags)"]).status == 201)
            let sent = try #require(never.simulator.requests(of: .mint).last?.field(.traceparent))
            // The trace goes on all the same, and says that we record nothing.
            #expect(sent.hasPrefix("00-\(id)-") && sent.hasSuffix("-00") && !sent.contains(Self.callerSpan))
        }
        let always = try await EndpointFixture(more: Self.tracing(collector))
        let answer = try await always.mint(
            try always.session(), fields: ["traceparent: 00-\(Self.traceID)-\(Self.callerSpan)-\(flags)"])
        #expect(answer.status == 201)
        #expect(always.simulator.requests(of: .mint).last?.field(.traceparent)?.hasSuffix("-01") == true)
        // Of the second endpoint alone.
        _ = try await Self.spans(collector, 2)
        #expect(try await never.metric("spans_exported_total") == 0)
    }

    @Test func aPartOfThemMeansAPartOfThem() {
        var random = SeededRandom(seed: 20_261_130)
        for (ratio, range) in [(0, 0...0), (1e-30, 0...0), (0.1, 800...1200), (0.5, 4700...5300), (1, 10_000...10_000)]
            as [(Double, ClosedRange<Int>)]
        {
            let sampler = SpanSampler(ratio: ratio)
            #expect(range.contains((0..<10_000).count { _ in sampler.samples(random.next()) }), "\(ratio)")
        }
        #expect(SpanSampler(ratio: 1).samples(.max))
        #expect(SpanSampler(ratio: 0.9999999999999999).samples(0) && !SpanSampler(ratio: 0.9999999999999999).samples(.max))
        #expect(!SpanSampler(ratio: 0).samples(0))
    }

    @Test func withoutACollectorNothingIsTracedAndNothingPassedOn() async throws {
        let fixture = try await EndpointFixture()
        let answer = try await fixture.mint(try fixture.session(), fields: [Self.traceparent, "tracestate: a=1"])
        #expect(answer.status == 201)
        let request = try #require(fixture.simulator.requests(of: .mint).first)
        #expect(request.field(.traceparent) == nil && request.field(.tracestate) == nil)
        #expect(try await fixture.requestLine(of: answer)["trace_id"] == nil)
        #expect(fixture.endpoint.tracing == nil)
        #expect(!(try await fixture.get("/metrics").body.contains("spans_")))
    }

    // MARK: What goes wrong

    @Test func aSecondKeyIsASecondCall() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let next = BreakerScenarioTests.nextKey
        let fixture = try await EndpointFixture(more: Self.tracing(collector), secondKey: next) {
            $0.configure { $0.keys = [next: .valid] }
        }
        #expect(try await fixture.mint(try fixture.session()).status == 201)
        let spans = try await Self.spans(collector, 3)
        let server = try #require(spans.first { $0.isServer })
        let calls = spans.filter { !$0.isServer }
        #expect(calls.map { $0.attributes["http.response.status_code"] } == ["401", "201"])
        #expect(calls.map { $0.attributes["http.request.resend_count"] } == [nil, "1"])
        #expect(calls.map { $0.attributes["error.type"] } == ["401", nil])
        #expect(calls.map(\.isError) == [true, false] && !server.isError)
        #expect(calls.allSatisfy { $0.parentSpanID == server.spanID && $0.traceID == server.traceID })
        #expect(calls[0].end <= calls[1].end)
        let sent = fixture.simulator.requests(of: .mint).compactMap { $0.field(.traceparent) }
        #expect(sent == calls.map { "00-\(server.traceID)-\($0.spanID)-01" })
    }

    @Test func failuresSayWhatTheyAre() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(more: Self.tracing(collector))
        fixture.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .mint))
        #expect(try await fixture.mint(try fixture.session()).status == 503)
        var spans = try await Self.spans(collector, 2)
        let server = try #require(spans.first { $0.isServer })
        let client = try #require(spans.first { !$0.isServer })
        #expect(server.isError && server.attributes["error.type"] == "january_unavailable")
        #expect(server.attributes["january_endpoint.code"] == "january_unavailable")
        #expect(server.attributes["january_endpoint.reason"] == "unavailable")
        #expect(server.attributes["http.response.status_code"] == "503")
        #expect(client.isError && client.attributes["error.type"] == "500")
        #expect(client.attributes["january_endpoint.january_code"] == "internal_error")

        fixture.simulator.addFault(FaultRule(.disrupted(.closeBeforeCommit), on: .mint))
        #expect(try await fixture.mint(try fixture.session("user-2")).status == 503)
        spans = try await Self.spans(collector, 4)
        let broken = try #require(spans.last { !$0.isServer })
        #expect(broken.isError && broken.attributes["error.type"] == "closed_early")
        #expect(broken.attributes["http.response.status_code"] == nil)

        // A caller's own mistake is no error of ours, and January has no part in it.
        #expect(try await fixture.mint("no.session.atall").status == 401)
        spans = try await Self.spans(collector, 5)
        let refused = try #require(spans.last)
        #expect(refused.isServer && !refused.isError && refused.attributes["error.type"] == nil)
        #expect(refused.attributes["january_endpoint.code"] == "invalid_session")
    }

    @Test func otherRequestsAreSpansAndProbesAreNot() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(more: Self.tracing(collector))
        for request in [
            "GET /healthz", "HEAD /healthz", "OPTIONS /healthz", "OPTIONS /january/client-token?leak-marker=1",
            "GET /january/client-token", "POST /leak-marker", "LEAKMARKER /january/client-token",
        ] {
            _ = try await fixture.exchange(
                "\(request) HTTP/1.1\r\nHost: leak-marker\r\nConnection: close\r\n\r\n", port: fixture.port)
        }
        _ = try await fixture.exchange("POST / HTTP/1.0\r\n\r\n", port: fixture.port)
        for path in ["/healthz", "/readyz", "/metrics", "/status.json"] { _ = try await fixture.get(path) }
        let spans = try await Self.spans(collector, 5)
        #expect(
            spans.map(\.name) == [
                "OPTIONS /january/client-token", "GET /january/client-token", "POST", "HTTP /january/client-token", "POST",
            ])
        #expect(spans.map { $0.attributes["http.response.status_code"] } == ["204", "405", "404", "405", "404"])
        #expect(
            spans.map { $0.attributes["url.path"] } == [
                "/january/client-token", "/january/client-token", "REDACTED", "/january/client-token", "REDACTED",
            ])
        #expect(spans[3].attributes["http.request.method"] == "_OTHER")
        #expect(spans[4].attributes["network.protocol.version"] == "1.0")
        let sent = collector.requests.map { String(decoding: $0.body, as: UTF8.self) }.joined()
        #expect(!sent.lowercased().contains("leak") && !sent.contains("marker"))
    }

    /// Keys are loaded for everybody, so the load is in nobody's trace, and the identity provider hears of none.
    @Test func aLoadOfKeysIsATraceOfItsOwn() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), more: Self.tracing(collector),
            simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let span = try #require(try await Self.spans(collector, 1).first)
        #expect(!span.isServer && span.parentSpanID == nil && span.name == "GET")
        #expect(span.attributes["url.full"] == "\(fixture.simulator.origin)/idp/jwks.json")
        #expect(span.attributes["http.response.status_code"] == "200")
        let request = try #require(fixture.simulator.requests(of: .keySet).first)
        #expect(request.field(.traceparent) == nil)
    }

    @Test func aRevocationIsASpanAndItsCallsAreTracesOfTheirOwn() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed + "\n" + Self.tracing(collector), files: EndpointFixture.managementFiles)
        let answer = try await fixture.manage(
            "POST /january/client-token-revocations", fields: [Self.traceparent], body: #"{"end_user_id":"person-of-marker"}"#)
        #expect(answer.status == 200)
        _ = try await fixture.manage("GET /january/end-users/person-of-marker")
        _ = try await fixture.manage("GET /january/end-users/person-of-marker", token: nil)
        let spans = try await Self.spans(collector, 4)
        let sweep = try #require(spans.first { !$0.isServer })
        #expect(sweep.name == "POST /v1.2/auth/client-token-revocations" && sweep.parentSpanID == nil)
        #expect(
            fixture.simulator.requests(of: .revoke).first?.field(.traceparent) == "00-\(sweep.traceID)-\(sweep.spanID)-01")
        let requests = spans.filter(\.isServer)
        #expect(
            requests.map(\.name) == [
                "POST /january/client-token-revocations", "GET /january/end-users/{end_user_id}",
                "GET /january/end-users/{end_user_id}",
            ])
        #expect(requests.map { $0.attributes["http.response.status_code"] } == ["200", "200", "401"])
        #expect(requests[0].traceID == Self.traceID && requests[0].parentSpanID == Self.callerSpan)
        let sent = collector.requests.map { String(decoding: $0.body, as: UTF8.self) }.joined()
        #expect(!sent.contains("person-of-marker"))
    }

    // MARK: The collector

    /// Down, silent or refusing: every mint is answered as if nothing were.
    @Test(arguments: ["down", "silent", "refusing"])
    func noRequestDependsOnTheCollector(_ what: String) async throws {
        let collector = try Self.collector { _, _ in what == "silent" ? .silence : .answer("400 Bad Request") }
        defer { collector.stop() }
        if what == "down" {
            collector.stop()
            try await eventually("the port is closed") { (try? RawClient(port: collector.port)) == nil }
        }
        let fixture = try await EndpointFixture(more: Self.tracing(collector))
        let client = try fixture.connect()
        for number in 0..<300 {
            try client.send(EndpointFixture.mintRequest(try fixture.session("user-\(number)")))
            #expect(try await EndpointFixture.receive(client).status == 201)
        }
        #expect(fixture.mintsReceived == 300)
        if what == "refusing" {
            try await eventually("dropped") { (try? await fixture.metric("spans_dropped_total{reason=\"refused\"}")) == 600 }
        }
    }

    @Test func theCollectorsCertificateIsVerified() async throws {
        let certificates = try TestCertificates.shared.get()
        let authority = String(decoding: certificates.authority, as: UTF8.self)
        let identity = try certificates.issue("IP:127.0.0.1")
        var configuration = EndpointFixture.quickSimulator
        configuration.tls = try TLSServerContext(certificates: identity.certificate, privateKey: Secret(identity.privateKey))
        // A server that speaks TLS and knows no spans: what it answers says whether it was believed.
        let server = try Simulator(configuration)
        try server.start()
        defer { server.stop() }
        for (caFile, key, expected) in [
            (", ca_file: ca.pem", "status", 404), ("", "tls", "unknown_issuer"),
        ] as [(String, String, JSONValue)] {
            let fixture = try await EndpointFixture(
                more: "tracing: { otlp_url: \"https://127.0.0.1:\(server.port)\"\(caFile) }", files: ["ca.pem": authority])
            #expect(try await fixture.mint(try fixture.session()).status == 201)
            try await eventually("a line") { !fixture.logLines("spans cannot be exported; requests go on").isEmpty }
            #expect(fixture.logLines("spans cannot be exported; requests go on").first?[key] == expected)
        }
    }

    /// Time goes on for loops that may have ended meanwhile: nobody waits for their turn.
    private static func advance(_ fixture: EndpointFixture, by duration: Duration) {
        fixture.time.advance(by: duration)
        for loop in fixture.endpoint.loops { loop.execute {} }
        fixture.endpoint.tracing?.loop.execute {}
    }

    @Test func theDrainSendsTheLastSpans() async throws {
        let collector = try Self.collector()
        defer { collector.stop() }
        // Time stands still: nothing is exported before the end.
        let fixture = try await EndpointFixture(more: Self.tracing(collector), isTimeFrozen: true)
        #expect(try await fixture.mint(try fixture.session()).status == 201)
        #expect(collector.requests.isEmpty)
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        try await eventually("drained") {
            Self.advance(fixture, by: .milliseconds(1))
            return done.isFulfilled
        }
        #expect(try ExportedSpan.all(collector).count == 2)
    }

    @Test func aSilentCollectorHoldsTheEndUpForTwoSecondsAtMost() async throws {
        let collector = try Self.collector { _, _ in .silence }
        defer { collector.stop() }
        let fixture = try await EndpointFixture(more: Self.tracing(collector), isTimeFrozen: true)
        #expect(try await fixture.mint(try fixture.session()).status == 201)
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        try await eventually("the flush has begun") {
            Self.advance(fixture, by: .milliseconds(1))
            return collector.requests.count == 1
        }
        #expect(!done.isFulfilled)
        Self.advance(fixture, by: .milliseconds(2100))
        try await eventually("drained") {
            Self.advance(fixture, by: .zero)
            return done.isFulfilled
        }
    }
}
