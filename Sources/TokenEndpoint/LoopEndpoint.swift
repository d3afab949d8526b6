import EventLoop
import HTTPClient
import HTTPMessage
import HTTPServer
import January
import Primitives
import RateLimiting
import Revocations
import Sessions
import Telemetry

/// What one loop has of a generation: the verifiers with their scratch memory and January's client. A request holds it to its end.
final class LoopGeneration {
    let shared: Generation
    let sessions: LoopSessionVerifier
    let january: JanuaryClient
    /// What ``january`` sends through, for whoever puts other connections in its place.
    let connections: HTTPClient?
    /// Of this generation and those before it that sent through the same connections: no request of theirs is longer under way.
    let longestBudget: Duration

    /// - Parameter previous: whose connections these are, too.
    init(
        _ shared: Generation, sessions: LoopSessionVerifier, january: JanuaryClient, connections: HTTPClient? = nil,
        previous: LoopGeneration? = nil
    ) {
        let budget = shared.config.january.budget
        longestBudget = max(previous?.longestBudget ?? budget, budget)
        self.shared = shared
        self.sessions = sessions
        self.january = january
        self.connections = connections
    }
}

/// The public listener on one loop: routes, and what is answered without a mint.
final class LoopEndpoint: RequestHandler {
    let loop: EventLoop
    let shared: SharedParts
    private(set) var limits: any LimitStore
    private(set) var limitKeys: LimitKeyMaker
    /// `nil`: there is no state.
    let revocations: (any RevocationControl)?
    /// Where replicas share the state.
    let sharedGate: RedisMintGate?
    /// `nil`: nothing is traced.
    let tracer: LoopTracer?
    /// Of the public listener, for ``WayReport``.
    let counters: ServerCounters?
    var responder = Responder()
    private(set) var generation: LoopGeneration

    init(
        loop: EventLoop, shared: SharedParts, limits: any LimitStore, limitKeys: LimitKeyMaker = LimitKeyMaker(),
        revocations: (any RevocationControl)?, sharedGate: RedisMintGate?, tracer: LoopTracer? = nil,
        counters: ServerCounters? = nil,
        generation: LoopGeneration
    ) {
        self.loop = loop
        self.shared = shared
        self.limits = limits
        self.limitKeys = limitKeys
        self.revocations = revocations
        self.sharedGate = sharedGate
        self.tracer = tracer
        self.counters = counters
        self.generation = generation
    }

    /// Requests that are under way keep the old one.
    func replace(_ generation: LoopGeneration) { self.generation = generation }

    /// Counts elsewhere from now on. What the old store is still being asked it answers by itself.
    func replace(_ limits: any LimitStore, keys: LimitKeyMaker) {
        (self.limits as? RedisLimitStore)?.stop()
        self.limits = limits
        limitKeys = keys
    }

    // MARK: RequestHandler

    func admit(_ exchange: ServerExchange) -> Admission {
        let route = generation.shared.routes.route(of: exchange.head.target)
        switch generation.shared.routes.decide(exchange.head, route) {
        case .mint, .signOut, .health: return .read(keepContent: false)
        case .options(let allow):
            let id = responder.makeRequestID()
            record(exchange, route, status: 204, nil, id)
            return .answer(responder.options(allow: allow, id: id))
        case .refuse(let problem):
            let id = responder.makeRequestID()
            record(exchange, route, status: problem.code.status, problem, id)
            return .answer(responder.problem(problem, id: id))
        }
    }

    func handle(_ exchange: ServerExchange) {
        let id = responder.makeRequestID()
        // `admit` has let through nothing else: POST and DELETE on a token path, and the health route.
        switch exchange.head.method {
        case .get, .head:
            let isDraining = shared.lifecycle.isDraining
            let status = isDraining ? 503 : 200
            exchange.respond(responder.json(status: status, isDraining ? Self.draining : Self.healthy, id: id))
            record(exchange, .health, status: status, isDraining ? Problem(.draining) : nil, id)
        case .delete: serve(exchange, MintHandler.signOutSteps, id)
        case .post, .put, .connect, .options, .trace, .patch, .other: serve(exchange, MintHandler.mintSteps, id)
        }
    }

    private func serve(_ exchange: ServerExchange, _ steps: [MintHandler.Step], _ id: RequestID) {
        let handler = MintHandler(exchange, requestID: id, loop: self, generation: generation, steps: steps)
        // Only configured paths lead here.
        if let tracer { handler.trace = tracer.begin(exchange, route: exchange.head.target.path) }
        handler.start()
    }

    func refuse(_ refusal: RequestRefusal, from peer: SocketAddress) -> ServerResponse {
        let problem = Problem(refusal)
        let id = responder.makeRequestID()
        shared.metrics.httpErrors(problem.reason).add()
        shared.recorder.record(
            RequestOutcome(
                route: .other, method: .other, status: problem.code.status, code: problem.code, reason: problem.reason,
                requestID: id, duration: nil, isExpected: true), as: generation.shared.config.log)
        return responder.problem(problem, id: id)
    }

    private static let healthy = Array(#"{"status":"ok"}"#.utf8)
    private static let draining = Array(#"{"status":"draining"}"#.utf8)

    // MARK: What requests have in common

    private func record(
        _ exchange: ServerExchange, _ route: RequestOutcome.Route, status: Int, _ problem: Problem?, _ id: RequestID
    ) {
        var outcome = RequestOutcome(
            route: route, method: RequestMethod(exchange.head.method), status: status, code: problem?.code, requestID: id,
            duration: loop.time.monotonic() - exchange.headCompletedAt)
        outcome.reason = problem?.reason ?? ""
        outcome.clientRequestID = clientRequestID(exchange, generation.shared)
        // Load balancers ask on while we drain: no line for each.
        outcome.isExpected = route == .health
        // Nor a span.
        if let tracer, route != .health {
            outcome.trace = tracer.begin(exchange, route: route == .token ? exchange.head.target.path : nil)
        }
        shared.recorder.record(outcome, as: generation.shared.config.log)
    }

    /// The request ID of a trusted proxy, if it is one that may go into a log.
    func clientRequestID(_ exchange: ServerExchange, _ generation: Generation) -> String? {
        guard !generation.config.trustedProxies.isEmpty, generation.config.trustedProxies.contains(exchange.peer),
            exchange.head.fields.count(of: .xRequestID) == 1, let value = exchange.head.fields.first(.xRequestID),
            (1...128).contains(value.count),
            value.allSatisfy({ ASCII.isLetter($0) || ASCII.isDigit($0) || "._-".utf8.contains($0) })
        else { return nil }
        return String(decoding: value, as: UTF8.self)
    }

    /// Whom the request counts for. A proxy nobody named is counted, and named in the log once.
    func clientAddress(_ exchange: ServerExchange, _ generation: Generation) -> ClientAddress {
        let proxies = generation.config.trustedProxies
        let client = ClientAddress.find(peer: exchange.peer, fields: exchange.head.fields, proxies: proxies)
        if client.isUnconfiguredProxy { shared.unconfiguredProxy(client, field: proxies.field) }
        return client
    }
}
