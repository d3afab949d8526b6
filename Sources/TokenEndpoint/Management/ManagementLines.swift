import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import StrictJSON
import Telemetry

/// The line of each request to the management listener, by the same `log.requests` as those of the public one: all, those that failed here
/// (status 500 and over), or none.
struct ManagementLines {
    let loop: EventLoop
    let log: Log
    let requests: LogRequests

    /// Writes the line when the response is given, whenever that is.
    func follow(_ exchange: ServerExchange, _ id: RequestID) {
        guard requests != .none else { return }
        let line = line(of: exchange, id)
        exchange.onResponse = { line($0) }
    }

    func write(_ exchange: ServerExchange, _ id: RequestID, _ response: ServerResponse) { line(of: exchange, id)(response) }

    /// Holds what it needs, and not the exchange, which holds it.
    private func line(of exchange: ServerExchange, _ id: RequestID) -> (ServerResponse) -> Void {
        let route = ManagementRoute(exchange.head.target)
        // A probe that is told "not now" has found no error.
        let isProbe = route == .health || route == .ready
        let (method, began, token) = (RequestMethod(exchange.head.method), exchange.headCompletedAt, exchange.principal)
        return { response in
            guard requests == .all || (requests == .errors && response.status >= 500 && !isProbe) else { return }
            var fields = [LogField("request_id", id.text)]
            if let code = Self.code(of: response) { fields.append(LogField("code", code)) }
            fields += [
                LogField("status", response.status), LogField("listener", "management"),
                LogField("route", route?.label ?? "other"), LogField("method", method.label),
                LogField("duration_ms", .milliseconds(loop.time.monotonic() - began)),
            ]
            if let token { fields.append(LogField("token_name", token)) }
            log.write(
                response.status >= 500 && !isProbe ? .error : .info, "request", fields, type: .request,
                callerCaused: requests != .all)
        }
    }

    /// Errors have theirs in their content; `nil`: a failure without one, as a probe that is told "not now".
    private static func code(of response: ServerResponse) -> String? {
        guard response.status >= 400 else { return "ok" }
        let content = response.content
        return (try? JSONValue.parse(content.span.bytes))?.object?["code"]?.string
    }
}

extension ManagementRoute {
    /// Bounded, for log lines.
    fileprivate var label: String {
        switch self {
        case .health: "health"
        case .ready: "ready"
        case .revocations, .revocation: "revocations"
        case .endUser, .block: "end_users"
        case .metrics: "metrics"
        case .status, .statusPage: "status"
        case .everything: "other"
        }
    }
}
