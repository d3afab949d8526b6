import Configuration
import EventLoop
import Foundation
import HTTPClient
import HTTPMessage
import Primitives
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The exporter against a collector on a real socket. Time stands still unless a test moves it.
@Suite(.serialized) struct SpanExporterTests {
    private final class Rig: Sendable {
        let time = ShiftedTime(isFrozen: true)
        let loop: EventLoop
        let queue: SpanQueue
        let metrics = Metrics()
        let logs = LogMemory()
        private let exporter: LoopBound<SpanExporter>

        init(port: UInt16, target: String = "/v1/traces", login: BasicLogin? = nil, limits: SpanQueue.Limits = .init())
            throws
        {
            loop = try EventLoop(name: "export", time: time)
            loop.start()
            queue = SpanQueue(limits: limits)
            let origin = try #require(Origin(scheme: .http, host: "127.0.0.1", port: Int(port)))
            let client = HTTPClient(
                loop: loop, tls: nil, budget: ConnectionBudget(limit: 2), resolver: Resolver(time: time))
            exporter = LoopBound(
                SpanExporter(
                    loop: loop, exchange: client, collector: .init(origin: origin, target: target, login: login),
                    envelope: SpanEnvelope(resource: Self.resource, scope: ("scope", "1")), queue: queue,
                    counters: SpanCounters(metrics, queue: queue),
                    log: Log(level: .debug, format: .json, time: time, output: logs)),
                on: loop)
        }

        deinit { loop.stop() }

        private static let resource: [(key: StaticString, value: String)] = [
            ("service.name", "january-token-endpoint"), ("service.version", "1"),
            ("service.instance.id", "00000000-0000-4000-8000-000000000000"),
        ]

        /// Offers spans; the exporter has heard of them when this returns.
        func offer(_ count: Int, _ name: String = "span") async {
            for number in 0..<count {
                var span = SpanText(
                    TraceContext(traceHigh: 1, traceLow: 2, spanID: UInt64(number + 1), isSampled: true), parent: 0,
                    hasRemoteParent: false, kind: .client, name: "\(name) \(number)",
                    start: WallInstant(nanosecondsSinceEpoch: 1), end: WallInstant(nanosecondsSinceEpoch: 2))
                span.end(isError: false)
                switch queue.offer(span.bytes) {
                case .quietly: break
                case .dropped: metrics.counter("test_dropped", help: "").add()
                case .asTheFirst: loop.execute { [exporter] in exporter.value.spansCame(isFull: false) }
                case .asTheLastOfABatch: loop.execute { [exporter] in exporter.value.spansCame(isFull: true) }
                }
            }
            await loop.run {}
        }

        func advance(by duration: Duration) async {
            time.advance(by: duration)
            await loop.run {}
            await loop.run {}
        }

        func flush() -> Promise<Void> {
            let done = Promise<Void>("flushed")
            loop.execute { [exporter] in exporter.value.flush(within: .seconds(2)) { done.fulfil(()) } }
            return done
        }

        func metric(_ name: String) -> Int {
            let page = String(decoding: metrics.prometheusText(), as: UTF8.self)
            let line = page.split(separator: "\n").first { $0.hasPrefix("january_endpoint_\(name) ") }
            return line.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
        }

        func dropped(_ reason: String) -> Int { metric("spans_dropped_total{reason=\"\(reason)\"}") }

        func lines(_ message: String) -> [JSONObject] {
            logs.lines.compactMap { try? JSONValue.parse(Array($0.utf8).span.bytes) }.compactMap(\.object)
                .filter { $0["message"]?.string == message }
        }

        static let failing = "spans cannot be exported; requests go on"
    }

    private static func rig(
        limits: SpanQueue.Limits = .init(), login: BasicLogin? = nil,
        behave: @escaping @Sendable (CollectorDouble.Request, Int) -> CollectorDouble.Behaviour = { _, _ in .answer("200 OK") },
        _ body: (Rig, CollectorDouble) async throws -> Void
    ) async throws {
        let collector = try CollectorDouble(behave: behave)
        defer { collector.stop() }
        try await body(try Rig(port: collector.port, login: login, limits: limits), collector)
    }

    @Test func whatComesWithinASecondGoesTogetherOnOneConnection() async throws {
        try await Self.rig { rig, collector in
            await rig.offer(3, "first")
            await rig.advance(by: .milliseconds(900))
            #expect(collector.requests.isEmpty)
            await rig.advance(by: .milliseconds(200))
            try await eventually("exported") { rig.metric("spans_exported_total") == 3 }
            await rig.offer(2, "second")
            await rig.advance(by: .milliseconds(1100))
            try await eventually("exported") { rig.metric("spans_exported_total") == 5 }
            #expect(collector.requests.count == 2 && collector.connectionCount == 1)
            #expect(
                try ExportedSpan.all(collector).map(\.name) == ["first 0", "first 1", "first 2", "second 0", "second 1"])
            let head = try #require(collector.requests.first).head
            #expect(head.hasPrefix("POST /v1/traces HTTP/1.1\r\n"))
            #expect(
                head.contains("User-Agent: \(TokenEndpoint.userAgent)") || head.contains("user-agent: \(TokenEndpoint.userAgent)")
            )
            #expect(rig.metric("spans_waiting") == 0 && rig.lines(Rig.failing).isEmpty)
        }
    }

    @Test func aFullBatchGoesAtOnce() async throws {
        var limits = SpanQueue.Limits()
        limits.batchCount = 10
        try await Self.rig(limits: limits) { rig, collector in
            await rig.offer(25)
            // Two batches without any time; the rest with its second.
            try await eventually("two batches") { rig.metric("spans_exported_total") == 20 }
            await rig.advance(by: .milliseconds(1100))
            try await eventually("the rest") { rig.metric("spans_exported_total") == 25 }
            #expect(try collector.requests.map { try ExportedSpan.read($0).count } == [10, 10, 5])
        }
    }

    @Test func aNameAndPasswordAreSentAndNotShown() async throws {
        try await Self.rig(login: .init(username: "user", password: Secret("leak-marker"))) { rig, collector in
            await rig.offer(1)
            await rig.advance(by: .seconds(2))
            try await eventually("exported") { rig.metric("spans_exported_total") == 1 }
            let expected = "authorization: basic " + Data("user:leak-marker".utf8).base64EncodedString().lowercased()
            #expect(collector.requests.first?.head.lowercased().contains(expected) == true)
            #expect(!rig.logs.text.contains("leak-marker"))
        }
    }

    @Test func a503IsTriedAgainWhenItsRetryAfterHasPassed() async throws {
        try await Self.rig(behave: { _, number in
            number == 1 ? .answer("503 Service Unavailable", fields: "Retry-After: 7\r\n") : .answer("200 OK")
        }) { rig, collector in
            await rig.offer(2)
            await rig.advance(by: .milliseconds(1100))
            try await eventually("refused once") { !rig.lines(Rig.failing).isEmpty }
            let line = try #require(rig.lines(Rig.failing).first)
            #expect(line["status"] == 503 && line["reason"] == "status" && line["level"] == "warning")
            #expect(line["url"]?.string == "http://127.0.0.1:\(collector.port)/v1/traces")
            // What comes meanwhile waits, too.
            await rig.offer(3, "later")
            await rig.advance(by: .milliseconds(6900))
            #expect(collector.requests.count == 1)
            await rig.advance(by: .milliseconds(200))
            try await eventually("taken") { rig.metric("spans_exported_total") == 2 }
            #expect(collector.requests.count == 2 && collector.requests[0].body == collector.requests[1].body)
            #expect(rig.lines("spans are exported again").count == 1)
            await rig.advance(by: .milliseconds(1100))
            try await eventually("the others") { rig.metric("spans_exported_total") == 5 }
            #expect(rig.dropped("failed") == 0)
        }
    }

    @Test(arguments: [
        "400 Bad Request", "401 Unauthorized", "404 Not Found", "413 Content Too Large", "500 Internal Server Error",
        "307 Temporary Redirect",
    ])
    func whatIsRefusedIsDroppedAndCountedAndNotTriedAgain(status: String) async throws {
        try await Self.rig(behave: { _, number in
            number == 1 ? .answer(status, fields: "Location: /elsewhere\r\nRetry-After: 0\r\n") : .answer("200 OK")
        }) { rig, collector in
            await rig.offer(2, "refused")
            await rig.advance(by: .milliseconds(1100))
            try await eventually("dropped") { rig.dropped("refused") == 2 }
            await rig.offer(1, "next")
            await rig.advance(by: .milliseconds(1100))
            try await eventually("the next") { rig.metric("spans_exported_total") == 1 }
            #expect(collector.requests.count == 2)
            #expect(rig.lines(Rig.failing).count == 1)
        }
    }

    @Test func whatTheCollectorLeavesOutIsCounted() async throws {
        try await Self.rig(behave: { _, _ in
            .answer("200 OK", body: #"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"leak-marker"}}"#)
        }) { rig, _ in
            await rig.offer(5)
            await rig.advance(by: .milliseconds(1100))
            try await eventually("exported") { rig.metric("spans_exported_total") == 3 }
            #expect(rig.dropped("rejected") == 2)
            #expect(!rig.logs.text.contains("leak-marker"))
        }
    }

    /// A collector that is not there costs its queue and one batch, says so once, and is asked ever less often.
    @Test func aCollectorThatIsDownCostsItsBoundAndNothingMore() async throws {
        let gone = try CollectorDouble()
        let port = gone.port
        gone.stop()
        try await eventually("the port is closed") { (try? RawClient(port: port)) == nil }
        var limits = SpanQueue.Limits()
        limits.spanCount = 8
        limits.batchCount = 4
        let rig = try Rig(port: port, limits: limits)
        await rig.offer(4)
        try await eventually("tried") { !rig.lines(Rig.failing).isEmpty }
        #expect(rig.lines(Rig.failing).first?["reason"] == "refused")
        await rig.offer(20)
        #expect(rig.queue.count == 8)
        #expect(rig.metric("test_dropped") == 12)
        // Four pauses of at most 8 s, then the batch is dropped.
        try await eventually("given up") {
            await rig.advance(by: .seconds(1))
            return rig.dropped("failed") >= 4
        }
        #expect(rig.lines(Rig.failing).count == 1)
        #expect(rig.queue.count <= 8)
    }

    /// Accepts and never answers: each attempt ends with its deadline, whoever offers spans waits for nothing.
    @Test func aCollectorThatIsSilentIsGivenUpAfterItsTime() async throws {
        try await Self.rig(behave: { _, number in number == 1 ? .silence : .answer("200 OK") }) { rig, collector in
            await rig.offer(1)
            await rig.advance(by: .milliseconds(1100))
            try await eventually("asked") { collector.requests.count == 1 }
            await rig.offer(100)
            #expect(rig.queue.count == 100)
            await rig.advance(by: .seconds(9))
            #expect(rig.lines(Rig.failing).isEmpty)
            await rig.advance(by: .seconds(2))
            try await eventually("given up") { !rig.lines(Rig.failing).isEmpty }
            #expect(rig.lines(Rig.failing).first?["reason"] == "timed_out")
            await rig.advance(by: .seconds(2))
            try await eventually("sent again") { rig.metric("spans_exported_total") >= 1 }
            await rig.advance(by: .seconds(2))
            try await eventually("everything") { rig.metric("spans_exported_total") == 101 }
        }
    }

    /// An answer that is cut at any byte, or too large, is no answer.
    @Test func anAnswerThatIsCutIsNone() async throws {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        let cuts = (0..<whole.utf8.count).map { String(decoding: Array(whole.utf8).prefix($0), as: UTF8.self) }
        try await Self.rig(behave: { _, number in
            number <= cuts.count ? .cut(cuts[number - 1]) : .answer("200 OK")
        }) { rig, collector in
            await rig.offer(1)
            try await eventually("taken in the end", within: 60) {
                // One that was dropped meanwhile makes room for another.
                if rig.queue.count == 0 { await rig.offer(1) }
                await rig.advance(by: .seconds(1))
                return rig.metric("spans_exported_total") > 0
            }
            #expect(collector.requests.count > cuts.count)
        }
        try await Self.rig(behave: { _, number in
            number == 1 ? .answer("200 OK", body: String(repeating: "x", count: 70_000)) : .answer("200 OK")
        }) { rig, _ in
            await rig.offer(1)
            await rig.advance(by: .milliseconds(1100))
            try await eventually("too large") { rig.lines(Rig.failing).first?["reason"] == "too_large" }
            await rig.advance(by: .seconds(2))
            try await eventually("taken") { rig.metric("spans_exported_total") == 1 }
        }
    }

    // MARK: The end

    @Test func aFlushSendsEverythingThatWaitsAtOnce() async throws {
        var limits = SpanQueue.Limits()
        limits.batchCount = 10
        try await Self.rig(limits: limits) { rig, collector in
            await rig.offer(9)
            try await rig.flush().value()
            #expect(rig.metric("spans_exported_total") == 9)
            // There is an end: what comes now stays where it is.
            await rig.offer(1)
            try await rig.flush().value()
            #expect(collector.requests.count == 1)
        }
        try await Self.rig { rig, collector in
            try await rig.flush().value()
            #expect(collector.connectionCount == 0)
        }
    }

    @Test func aFlushEndsWithItsTimeWhateverTheCollectorDoes() async throws {
        try await Self.rig(behave: { _, _ in .silence }) { rig, collector in
            await rig.offer(5)
            let flushed = rig.flush()
            try await eventually("asked") { collector.requests.count == 1 }
            await rig.advance(by: .milliseconds(1900))
            #expect(!flushed.isFulfilled)
            await rig.advance(by: .milliseconds(200))
            try await flushed.value()
            #expect(rig.dropped("shutdown") == 5)
        }
        try await Self.rig(behave: { _, _ in .answer("503 Service Unavailable", fields: "Retry-After: 1\r\n") }) {
            rig, collector in
            await rig.offer(5)
            // No second attempt, no wait.
            try await rig.flush().value()
            #expect(collector.requests.count == 1)
            #expect(rig.dropped("shutdown") == 5)
        }
    }
}
