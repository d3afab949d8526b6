import HTTPMessage
import Primitives
import Telemetry

/// Gives every request a trace of its own: what goes out for many (key sets), or later than anybody waits for it (revocations).
///
/// Loop-confined, as the exchange it stands before.
final class TracedExchange: HTTPExchange {
    private let exchange: any HTTPExchange
    private let tracer: LoopTracer
    private let tellsServer: Bool
    private let names: Names

    /// What is said of a URL besides the URL.
    enum Names {
        /// Paths are the same for everybody, and part of the span's name.
        case byPath
        case byMethod
    }

    /// - Parameter tellsServer: sends `traceparent`. January gets it, nobody else: an identity provider has no part in our traces.
    init(_ exchange: any HTTPExchange, tracer: LoopTracer, tellsServer: Bool, names: Names) {
        self.exchange = exchange
        self.tracer = tracer
        self.tellsServer = tellsServer
        self.names = names
    }

    func send(
        _ request: consuming UpstreamRequest, deadline: MonotonicInstant, beforeSend: (() -> Bool)?,
        completion: @escaping (Result<UpstreamResponse, UpstreamError>) -> Void
    ) {
        let context = tracer.root()
        if tellsServer { TraceFields.append(context, to: &request.fields) }
        guard context.isSampled else {
            return exchange.send(request, deadline: deadline, beforeSend: beforeSend, completion: completion)
        }
        let (method, origin, target) = (RequestMethod(request.method), request.origin, request.target)
        let clock = tracer.clock
        exchange.send(request, deadline: deadline, beforeSend: beforeSend) { [tracer, names] result in
            let template: String? =
                switch names {
                case .byPath: target
                case .byMethod: nil
                }
            var span = SpanText.ofCall(
                context, parent: 0, method: method, origin: origin, target: target, template: template, start: clock.wall,
                end: clock.wall(at: tracer.now))
            switch result {
            case .success(let response): span.endCall(status: response.status, error: nil)
            case .failure(let error): span.endCall(status: nil, error: error)
            }
            tracer.export(span.bytes)
            completion(result)
        }
    }

    var lastTLSFailure: StaticString? { exchange.lastTLSFailure }
    var brokenResponseFields: Fields? { exchange.brokenResponseFields }
}
