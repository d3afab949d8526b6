import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import Telemetry

/// The management listener: `/healthz`, `/readyz`, `/metrics`. On one loop.
final class ManagementEndpoint: RequestHandler {
    private enum Route {
        case health, ready, metrics
    }

    private static let routes: [(path: [UInt8], route: Route)] = [
        (Array("/healthz".utf8), .health), (Array("/readyz".utf8), .ready), (Array("/metrics".utf8), .metrics),
    ]
    private static let methods: StaticString = "GET, HEAD"

    private let readiness: Readiness
    private let metrics: Metrics
    private let tokens: [Secret]
    /// Off loopback everything but the health routes needs a token.
    private let needsToken: Bool
    private var responder = Responder()

    init(readiness: Readiness, metrics: Metrics, config: ManagementConfig) {
        self.readiness = readiness
        self.metrics = metrics
        tokens = config.tokens
        needsToken = !(config.address?.socketAddress.isLoopbackOrLocal ?? true)
    }

    func admit(_ exchange: ServerExchange) -> Admission {
        guard let route = route(of: exchange) else {
            return .answer(responder.problem(Problem(.notFound), id: responder.makeRequestID()))
        }
        guard exchange.head.method == .get || exchange.head.method == .head else {
            return .answer(responder.problem(.methodNotAllowed(allow: Self.methods), id: responder.makeRequestID()))
        }
        if route == .metrics && needsToken && !isAuthorized(exchange.head.fields) {
            var problem = Problem(.managementUnauthorized)
            problem.challenge = .noSession
            return .answer(responder.problem(problem, id: responder.makeRequestID()))
        }
        return .read(keepContent: false)
    }

    func handle(_ exchange: ServerExchange) {
        let id = responder.makeRequestID()
        switch route(of: exchange) {
        case .health?: exchange.respond(responder.json(status: 200, Array(#"{"status":"ok"}"#.utf8), id: id))
        case .ready?:
            let state = readiness.state()
            exchange.respond(responder.json(status: state.status, state.body, id: id))
        case .metrics?:
            let page = metrics.prometheusText()
            var response = responder.content(status: 200, type: Metrics.contentType, page, id: id)
            HeadEncoder.field(.vary, literal: "Accept-Encoding", to: &response.fields)
            if Gzip.isAccepted(exchange.head.fields), let compressed = Gzip.compress(page) {
                response.content = compressed
                HeadEncoder.field(.contentEncoding, literal: "gzip", to: &response.fields)
            }
            exchange.respond(response)
        case nil: exchange.respond(responder.problem(Problem(.notFound), id: id))
        }
    }

    func refuse(_ refusal: RequestRefusal, from peer: SocketAddress) -> ServerResponse {
        responder.problem(Problem(refusal), id: responder.makeRequestID())
    }

    private func route(of exchange: ServerExchange) -> Route? {
        Self.routes.first { exchange.head.target.pathEquals($0.path) }?.route
    }

    /// Bearer, or the password of HTTP Basic, as scrapers send it. Every token is compared, and each in constant time.
    private func isAuthorized(_ fields: Fields) -> Bool {
        guard fields.count(of: .authorization) == 1, let value = fields.first(.authorization),
            let space = value.firstIndex(of: ASCII.space)
        else { return false }
        let scheme = value[..<space]
        var given = Array(value[value.index(after: space)...])
        if ASCII.equalIgnoringCase(scheme, "basic".utf8) {
            guard let decoded = Base64.decode(String(decoding: given, as: UTF8.self)),
                let colon = decoded.firstIndex(of: UInt8(ascii: ":"))
            else { return false }
            given = Array(decoded[decoded.index(after: colon)...])
        } else if !ASCII.equalIgnoringCase(scheme, "bearer".utf8) {
            return false
        }
        var found = false
        for token in tokens where token.equals(Secret(given)) { found = true }
        return found
    }
}
