import EventLoop
import HTTPMessage
import Primitives
import Telemetry

/// What became of one request: the one value from which its metrics and its log line are made, and nothing else.
struct RequestOutcome {
    var route: Route
    var method: RequestMethod
    var status: Int
    /// `nil`: no error.
    var code: ProblemCode?
    /// Finer than the code, bounded.
    var reason = ""
    var requestID: RequestID
    var clientRequestID: String?
    var januaryRequestID: String?
    /// `nil` for what never became a request: nothing began that could have lasted.
    var duration: Duration?
    var verifier: String?
    var endUserID: String?
    /// What an operator can do something about.
    var isForTheOperator = false
    /// The response could not be given to the client.
    var isUndelivered = false
    /// January was asked for a token.
    var hasAskedJanuary = false
    /// What January was asked for, where the audit trail is to have it; `nil`: it was not asked.
    var mint: AuditedMint?
    /// Nothing for an error log although its status is 500 or more: a probe during the drain, a scanner that speaks another protocol.
    var isExpected = false
    /// `nil`: nothing is traced.
    var trace: RequestTrace?

    enum Route: UInt8, Sendable, CaseIterable {
        case token, health, other
        var label: String {
            switch self {
            case .token: "token"
            case .health: "health"
            case .other: "other"
            }
        }
    }
}

/// A method as a label: the standard ones or `other`.
enum RequestMethod: UInt8, Sendable, CaseIterable {
    case get, head, post, put, delete, connect, options, trace, patch, other

    init(_ method: Method) {
        self =
            switch method {
            case .get: .get
            case .head: .head
            case .post: .post
            case .put: .put
            case .delete: .delete
            case .connect: .connect
            case .options: .options
            case .trace: .trace
            case .patch: .patch
            case .other: .other
            }
    }

    var label: String {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .connect: "CONNECT"
        case .options: "OPTIONS"
        case .trace: "TRACE"
        case .patch: "PATCH"
        case .other: "other"
        }
    }
}

/// The labels of `requests_total`.
struct RequestLabels: MetricLabels {
    static let names: [StaticString] = ["route", "method", "status", "code"]
    let route: RequestOutcome.Route
    let method: RequestMethod
    let status: Int
    let code: ProblemCode?

    private static let ordinals = Dictionary(uniqueKeysWithValues: ProblemCode.allCases.enumerated().map { ($1, UInt64($0 + 1)) })

    var identity: UInt64 {
        let code = code.flatMap { Self.ordinals[$0] } ?? 0
        return UInt64(route.rawValue) << 40 | UInt64(method.rawValue) << 32 | UInt64(status) << 16 | code
    }

    /// A success has the code `ok`.
    var values: [String] { [route.label, method.label, String(status), code?.rawValue ?? "ok"] }
}

/// Turns outcomes into metrics and log lines. Shared by all loops.
final class OutcomeRecorder: Sendable {
    private let log: Log
    private let audit: AuditLog
    private let requests: LabeledCounter<RequestLabels>
    private let duration: Histogram
    /// Without probes, and what is refused at once: how long who gets a token waits for it.
    let mintDuration: Histogram
    private let undelivered: Counter
    private let hash: EndUserHash

    init(log: Log, audit: AuditLog, metrics: Metrics, hash: EndUserHash) {
        self.log = log
        self.audit = audit
        self.hash = hash
        requests = metrics.counters("requests_total", help: "Requests answered on the public listener.", by: RequestLabels.self)
        duration = metrics.histogram(
            "request_duration_seconds", help: "From the complete head of a request to its response, public listener.")
        mintDuration = metrics.histogram(
            "mint_duration_seconds", help: "From the complete head of a mint that January was asked for to its response.")
        undelivered = metrics.counter(
            "undelivered_tokens_total", help: "Tokens January minted for clients that had hung up by then.")
    }

    func record(_ outcome: RequestOutcome, as config: LogConfig) {
        requests.add(RequestLabels(route: outcome.route, method: outcome.method, status: outcome.status, code: outcome.code))
        if let took = outcome.duration {
            duration.observe(took)
            if outcome.hasAskedJanuary { mintDuration.observe(took) }
        }
        if outcome.isUndelivered && outcome.status == 201 { undelivered.add() }
        audit.record(outcome)
        if let trace = outcome.trace { trace.ended(outcome) }
        guard isLogged(outcome, config.requests) else { return }
        let level: LogLevel =
            outcome.isExpected ? .info : outcome.status >= 500 ? .error : outcome.isForTheOperator ? .warning : .info
        log.write(level, "request", fields(outcome, config), type: .request, callerCaused: config.requests != .all)
    }

    private func isLogged(_ outcome: RequestOutcome, _ requests: LogRequests) -> Bool {
        switch requests {
        case .all: true
        case .errors: outcome.isForTheOperator || (outcome.status >= 500 && !outcome.isExpected)
        case .none: false
        }
    }

    private func fields(_ outcome: RequestOutcome, _ config: LogConfig) -> [LogField] {
        var fields = [
            LogField("request_id", outcome.requestID.text),
            LogField("code", outcome.code?.rawValue ?? "ok"),
            LogField("status", outcome.status),
            LogField("route", outcome.route.label),
            LogField("method", outcome.method.label),
        ]
        if let took = outcome.duration { fields.append(LogField("duration_ms", .milliseconds(took))) }
        if !outcome.reason.isEmpty { fields.append(LogField("reason", outcome.reason)) }
        if let id = outcome.clientRequestID { fields.append(LogField("client_request_id", id)) }
        if let id = outcome.januaryRequestID { fields.append(LogField("january_request_id", id)) }
        if let verifier = outcome.verifier { fields.append(LogField("verifier", verifier)) }
        if let endUserID = outcome.endUserID { fields.append(hash.field(endUserID, as: config.endUserID)) }
        if outcome.isUndelivered { fields.append(LogField("undelivered", .boolean(true))) }
        if let trace = outcome.trace { fields.append(LogField("trace_id", trace.context.traceID)) }
        return fields
    }
}
