import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import Revocations
import Telemetry

/// The management listener on its one loop: health, readiness, metrics, status, and revocations through ``RevocationHandler``.
///
/// It answers from the first moment on: until the state is open (another process may have the file), probes are told that the process
/// starts, and what needs the state is 503.
final class ManagementEndpoint: RequestHandler {
    /// What there is once the state is open.
    struct Parts {
        let readiness: Readiness
        let status: StatusReport
        /// `nil`: there is no state.
        let control: (any RevocationControl)?
        /// `nil`: nothing is traced.
        let tracer: LoopTracer?
    }

    private let loop: EventLoop
    private let metrics: Metrics
    private let log: Log
    private var lines: ManagementLines
    private var access: ManagementAccess
    private var responder = Responder()
    private var subjects: SubjectMapping
    private var revocations: RevocationHandler
    private let unanswered = RevocationHandler.Unanswered()
    private var parts: Parts?
    private lazy var page = StatusPage()

    init(loop: EventLoop, metrics: Metrics, log: Log, config: RootConfig) {
        self.loop = loop
        self.metrics = metrics
        self.log = log
        lines = ManagementLines(loop: loop, log: log, requests: config.log.requests)
        access = ManagementAccess(config.management)
        subjects = SubjectMapping(config)
        revocations = RevocationHandler(loop: loop, control: nil, subjects: subjects, unanswered: unanswered)
    }

    /// The state is open, or there is none.
    func started(_ parts: Parts) {
        self.parts = parts
        revocations = RevocationHandler(loop: loop, control: parts.control, subjects: subjects, unanswered: unanswered)
    }

    /// Requests that wait for the state, or for January.
    var unansweredCount: Int { unanswered.count }

    /// Requests that are under way keep the old configuration.
    func replace(_ config: RootConfig) {
        lines = ManagementLines(loop: loop, log: log, requests: config.log.requests)
        access.replace(config.management)
        subjects = SubjectMapping(config)
        revocations = RevocationHandler(loop: loop, control: parts?.control, subjects: subjects, unanswered: unanswered)
    }

    // MARK: RequestHandler

    /// In this order: is there such a path, such a method, may this caller, is it JSON that is sent.
    func admit(_ exchange: ServerExchange) -> Admission {
        let head = exchange.head
        guard let route = ManagementRoute(head.target) else { return refuse(Problem(.notFound), exchange) }
        if head.method == .options {
            return .answer(responder.options(allow: route.methods, id: responder.makeRequestID()))
        }
        guard route.allows(head.method) else { return refuse(.methodNotAllowed(allow: route.methods), exchange) }
        if case .refused(let problem) = check(route, exchange) { return refuse(problem, exchange) }
        guard head.method == .post else { return .read(keepContent: false) }
        return Self.isJSON(head.fields) ? .read(keepContent: true) : refuse(Problem(.unsupportedMediaType), exchange)
    }

    func handle(_ exchange: ServerExchange) {
        let id = responder.makeRequestID()
        lines.follow(exchange, id)
        follow(exchange, id)
        switch ManagementRoute(exchange.head.target) {
        case .health?: exchange.respond(responder.json(status: 200, Array(#"{"status":"ok"}"#.utf8), id: id))
        case .ready?:
            let state = parts?.readiness.state() ?? .starting(waitingFor: ["state"])
            exchange.respond(responder.json(status: state.status, state.body, id: id))
        case .metrics?: exchange.respond(metricsPage(exchange.head.fields, id))
        case .status?:
            let starting = Problem(.stateUnavailable, reason: "starting", retryAfter: 1)
            exchange.respond(
                parts.map { responder.json(status: 200, $0.status.body(), id: id) } ?? responder.problem(starting, id: id))
        case .statusPage?: exchange.respond(page.response(to: exchange.head.fields, responder, id: id))
        case .everything?, nil:
            exchange.respond(responder.problem(Self.forOperators(Problem(.notFound)), id: id))
        case let route?:
            if let name = exchange.principal {
                revocations.handle(exchange, route, id: id, tokenName: name)
            } else {
                exchange.respond(responder.problem(Problem(.internalError), id: id))
            }
        }
    }

    func refuse(_ refusal: RequestRefusal, from peer: SocketAddress) -> ServerResponse {
        responder.problem(Self.forOperators(Problem(refusal)), id: responder.makeRequestID())
    }

    /// Most codes' own messages speak to an app's developer.
    private static func forOperators(_ problem: Problem) -> Problem {
        var problem = problem
        switch problem.code {
        case .notFound: problem.detail = problem.detail ?? "There is nothing at this path of the management listener."
        case .methodNotAllowed: problem.detail = "This path answers other methods, see Allow."
        case .badRequest where problem.member == nil:
            problem.detail = problem.detail ?? "The request is not valid HTTP/1.1 or can be read in two ways."
        case .contentTooLarge: problem.detail = "The content is too large for a request to revoke."
        case .headerFieldsTooLarge: problem.detail = "The request fields are too large or too many."
        default: break
        }
        return problem
    }

    private func refuse(_ problem: Problem, _ exchange: ServerExchange) -> Admission {
        let id = responder.makeRequestID()
        let response = responder.problem(Self.forOperators(problem), id: id)
        lines.write(exchange, id, response)
        trace(of: exchange)?.ended(status: response.status, requestID: id)
        return .answer(response)
    }

    // MARK: Traces

    /// Ends the span when the response is given, whenever that is.
    private func follow(_ exchange: ServerExchange, _ id: RequestID) {
        guard let trace = trace(of: exchange) else { return }
        let other = exchange.onResponse
        exchange.onResponse = { response in
            other?(response)
            trace.ended(status: response.status, requestID: id)
        }
    }

    /// Of what people and programs ask for; probes and scrapes come every few seconds and would be most of all spans.
    private func trace(of exchange: ServerExchange) -> RequestTrace? {
        guard let tracer = parts?.tracer, let route = ManagementRoute(exchange.head.target)?.traced else { return nil }
        return tracer.begin(exchange, route: route)
    }

    // MARK: Access

    private func check(_ route: ManagementRoute, _ exchange: ServerExchange) -> ManagementAccess.Finding {
        let reads = exchange.head.method == .get || exchange.head.method == .head
        let finding = access.check(route, reads: reads, exchange.head.fields, peer: exchange.peer, now: loop.now)
        switch finding {
        case .granted(let name): exchange.principal = name
        case .refused(let problem):
            if ["wrong_token", "wrong_tokens"].contains(problem.reason) {
                let address = exchange.peer.ip?.description ?? "unix"
                log.write(
                    .warning, "a wrong management token was sent", [LogField("address", address)], callerCaused: true)
            }
        }
        return finding
    }

    /// `application/json`, in UTF-8 and without a coding; without a Content-Type the content can be nothing else, either.
    private static func isJSON(_ fields: Fields) -> Bool {
        if let coding = fields.first(.contentEncoding), !ASCII.equalIgnoringCase(coding, "identity".utf8) { return false }
        guard let type = fields.first(.contentType) else { return true }
        guard fields.count(of: .contentType) == 1 else { return false }
        let parts = type.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map { part in
            part.drop(while: isBlank).reversed().drop(while: isBlank).reversed()
        }
        guard ASCII.equalIgnoringCase(Array(parts[0]), "application/json".utf8) else { return false }
        return parts.dropFirst().allSatisfy { parameter in
            let text = Array(parameter)
            return text.isEmpty || ASCII.equalIgnoringCase(text, "charset=utf-8".utf8)
                || ASCII.equalIgnoringCase(text, "charset=\"utf-8\"".utf8)
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == ASCII.space || byte == 0x09 }

    // MARK: Metrics

    private func metricsPage(_ fields: Fields, _ id: RequestID) -> ServerResponse {
        let page = metrics.prometheusText()
        var response = responder.content(status: 200, type: Metrics.contentType, page, id: id)
        HeadEncoder.field(.vary, literal: "Accept-Encoding", to: &response.fields)
        if Gzip.isAccepted(fields), let compressed = Gzip.compress(page) {
            response.content = compressed
            HeadEncoder.field(.contentEncoding, literal: "gzip", to: &response.fields)
        }
        return response
    }
}
