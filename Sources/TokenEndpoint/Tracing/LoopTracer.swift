import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import Telemetry

/// Tracing as one loop sees it: makes ids and writes spans. Confined to its loop.
final class LoopTracer {
    let shared: Tracing
    private let loop: EventLoop
    private var random = RandomPool()

    init(_ shared: Tracing, loop: EventLoop) {
        self.shared = shared
        self.loop = loop
    }

    /// The trace of a request that has just come: the caller's, or a new one.
    ///
    /// - Parameter route: of bounded variety; `nil`: there is nothing at this path.
    func begin(_ exchange: ServerExchange, route: String?) -> RequestTrace {
        let fields = exchange.head.fields
        let (parent, state) = Self.parent(in: fields)
        let now = loop.time.monotonic()
        return RequestTrace(
            context: context(in: parent), parent: parent?.spanID ?? 0, state: state, tracer: self, head: exchange.head,
            route: route,
            clock: SpanClock(monotonic: now, wall: loop.time.wall()), began: exchange.headCompletedAt)
    }

    /// A trace of its own, for what no single request asks for.
    func root() -> TraceContext { context(in: nil) }

    func makeSpanID() -> UInt64 {
        while true {
            let (high, low) = random.next128()
            if high != 0 { return high }
            if low != 0 { return low }
        }
    }

    var now: MonotonicInstant { loop.time.monotonic() }
    var clock: SpanClock { SpanClock(monotonic: loop.time.monotonic(), wall: loop.time.wall()) }

    func export(_ span: [UInt8]) { shared.export(span) }

    private func context(in parent: TraceContext?) -> TraceContext {
        let spanID = makeSpanID()
        let (high, low) = random.next128()
        let isSampled = shared.sampler.samples(high ^ low)
        if let parent {
            return TraceContext(
                traceHigh: parent.traceHigh, traceLow: parent.traceLow, spanID: spanID, isSampled: isSampled)
        }
        let id = random.next128()
        // Zeros would be no id; they come once in 2^128.
        return TraceContext(traceHigh: id.0, traceLow: id.1 | (id.0 == 0 ? 1 : 0), spanID: spanID, isSampled: isSampled)
    }

    /// Where there is no `traceparent`, or more than one, or a malformed one, `tracestate` is worth nothing either (section 4.3).
    static func parent(in fields: Fields) -> (context: TraceContext?, state: [UInt8]) {
        guard case .one(let value) = fields.single(.traceparent), let context = TraceContext.parse(value) else {
            return (nil, [])
        }
        return (context, TraceState.combined(fields.values(.tracestate)))
    }
}

/// Both clocks read at one moment: times of a span lie apart as far as the monotonic one says, whatever somebody does to the other.
struct SpanClock: Sendable {
    let monotonic: MonotonicInstant
    let wall: WallInstant

    func wall(at instant: MonotonicInstant) -> WallInstant { wall + (instant - monotonic) }
}
