import EventLoop
import HTTPClient
import HTTPMessage
import HTTPServer
import Primitives
import TLS
import Telemetry

/// Tracing as a whole: what all loops share, and the loop that exports. Absent where `tracing.otlp_url` names nobody.
///
/// Spans are written by the loop of their request and left in a bounded queue; nothing of a request ever waits for them.
final class Tracing: Sendable {
    /// On the way out: everything that waits gets one more attempt and no longer than this.
    static let flushTimeout = Duration.seconds(2)
    private static let scope = "january-token-endpoint"

    let queue: SpanQueue
    let sampler: SpanSampler
    /// Where we listen, as spans say it.
    let server: SpanServer
    /// `nil`: there is no management listener.
    let managementServer: SpanServer?
    private let counters: SpanCounters
    /// Of its own: making and sending a batch takes its time, which is nobody's.
    let loop: EventLoop
    private let exporter: LoopBound<SpanExporter>

    /// - Returns: `nil` where nothing is traced.
    static func start(
        _ config: RootConfig, listening: SocketAddress, management: SocketAddress?, upstream: UpstreamParts, log: Log,
        metrics: Metrics,
        time: any TimeSource, settings: SpanExportMachine.Settings = .init()
    ) throws(TokenEndpoint.StartError) -> Tracing? {
        guard let collector = config.tracing.collector else { return nil }
        do throws(SystemError) {
            let loop = try EventLoop(name: "tracing", time: time)
            loop.start()
            return Tracing(
                collector, config.tracing, SpanServer(listening, scheme: config.tls == nil ? "http" : "https"),
                management.map { SpanServer($0, scheme: "http") }, loop: loop, upstream: upstream, log: log, metrics: metrics,
                settings: settings)
        } catch {
            throw .system(error)
        }
    }

    private init(
        _ collector: TracingConfig.Collector, _ config: TracingConfig, _ server: SpanServer, _ managementServer: SpanServer?,
        loop: EventLoop,
        upstream: UpstreamParts, log: Log, metrics: Metrics, settings: SpanExportMachine.Settings
    ) {
        let queue = SpanQueue()
        let counters = SpanCounters(metrics, queue: queue)
        let envelope = SpanEnvelope(
            resource: [
                ("service.name", Self.scope), ("service.version", TokenEndpoint.version),
                ("service.instance.id", Self.instanceID()),
            ], scope: (Self.scope, TokenEndpoint.version))
        self.queue = queue
        self.counters = counters
        self.loop = loop
        sampler = SpanSampler(ratio: config.sampleRatio)
        self.server = server
        self.managementServer = managementServer
        // Made here and used on its loop only.
        self.exporter = LoopBound(
            SpanExporter(
                loop: loop, exchange: upstream.tracingClient(on: loop), collector: collector, envelope: envelope, queue: queue,
                counters: counters, log: log, settings: settings), on: loop)
    }

    /// A version 4 UUID, new with every process: replicas with one configuration stay apart.
    private static func instanceID() -> String {
        var bytes = SystemRandom.bytes(16)
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = Hex.encode(bytes).utf8
        var text = ""
        for (index, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(index) { text += "-" }
            text.unicodeScalars.append(Unicode.Scalar(digit))
        }
        return text
    }

    func tracer(on loop: EventLoop) -> LoopTracer { LoopTracer(self, loop: loop) }

    /// Any thread; never blocks.
    func export(_ span: [UInt8]) {
        switch queue.offer(span) {
        case .quietly: break
        case .dropped: counters.dropped(.queueFull)
        case .asTheFirst: loop.execute { [exporter] in exporter.value.spansCame(isFull: false) }
        case .asTheLastOfABatch: loop.execute { [exporter] in exporter.value.spansCame(isFull: true) }
        }
    }

    /// When no more spans come: exports what is there, then ends the loop.
    func stop(then done: @escaping @Sendable () -> Void) {
        loop.execute { [loop, exporter] in
            exporter.value.flush(within: Self.flushTimeout) { loop.stop(then: done) }
        }
    }
}

/// Decides by chance which requests are recorded. Nothing a caller sends has a part in it: neither its trace id, which it may have chosen
/// for that, nor its `sampled` flag.
struct SpanSampler: Sendable, Equatable {
    /// Below it is sampled; `nil`: everything is.
    private let threshold: UInt64?

    init(ratio: Double) {
        // 2^64 itself does not fit.
        threshold = ratio >= 1 ? nil : UInt64(max(0, ratio) * 0x1p64)
    }

    func samples(_ random: UInt64) -> Bool { threshold.map { random < $0 } ?? true }
}

/// `server.address` and `server.port` of our own spans: what the configuration says, never what a caller calls us.
struct SpanServer: Sendable, Equatable {
    let address: String
    let port: Int?
    let scheme: String

    init(_ listening: SocketAddress, scheme: String) {
        self.scheme = scheme
        switch listening {
        case .unix(let path):
            address = path
            port = nil
        case .ip(let ip, let port):
            address = ip.description
            self.port = Int(port)
        }
    }
}
