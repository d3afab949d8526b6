import EventLoop
import HTTPClient
import HTTPMessage
import January
import Primitives

/// What a reload puts another in the place of, as one value. Any thread; requests do not look here but hold the generation they began with.
final class InForce: Sendable {
    struct Value: Sendable {
        let generation: Generation
        let upstream: UpstreamParts
        /// `nil`: limits are counted in memory.
        let limits: SharedLimits?
        var config: RootConfig { generation.config }
    }

    private let current: Lock<Value>

    init(_ generation: Generation, _ upstream: UpstreamParts, _ limits: SharedLimits?) {
        current = Lock(Value(generation: generation, upstream: upstream, limits: limits))
    }

    var value: Value { current.withLock { $0 } }

    func replace(_ generation: Generation, _ upstream: UpstreamParts, _ limits: SharedLimits?) {
        current.withLock { $0 = Value(generation: generation, upstream: upstream, limits: limits) }
    }
}

/// January's client for work that no request belongs to. Confined to its loop; takes other connections when those in force are others.
final class ClientInForce {
    private let inForce: InForce
    private let loop: EventLoop
    /// `nil`: nothing is traced.
    private let tracer: LoopTracer?
    private let time: any TimeSource
    private var made: (upstream: UpstreamParts, connections: HTTPClient, client: JanuaryClient)?

    init(_ inForce: InForce, loop: EventLoop, tracer: LoopTracer?, time: any TimeSource) {
        self.inForce = inForce
        self.loop = loop
        self.tracer = tracer
        self.time = time
    }

    func client() -> JanuaryClient {
        let upstream = inForce.value.upstream
        if let made, made.upstream.sharesJanuary(with: upstream) { return made.client }
        // A call that is under way ends on the old connections.
        made?.connections.drain()
        let connections = upstream.januaryClient(on: loop)
        var exchange: any HTTPExchange = connections
        if let tracer { exchange = TracedExchange(exchange, tracer: tracer, tellsServer: true, names: .byPath) }
        let client = JanuaryClient(exchange: exchange, time: time)
        made = (upstream, connections, client)
        return client
    }
}
