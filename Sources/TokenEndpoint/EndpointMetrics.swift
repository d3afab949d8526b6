import HTTPClient
import HTTPMessage
import HTTPServer
import January
import Primitives
import Revocations
import Telemetry

/// The metrics of the endpoint itself; sessions and key sets register their own.
final class EndpointMetrics: Sendable {
    let userHeaderMismatch: Counter
    let overloaded: Counter
    /// Tokens that January made while a revocation came up.
    let withheld: Counter
    private let metrics: Metrics
    private let januaryRequests: LabeledCounter<JanuaryLabels>
    let januaryDuration: Histogram

    init(_ metrics: Metrics) {
        self.metrics = metrics
        userHeaderMismatch = metrics.counter(
            "user_header_mismatch_total",
            help: "Requests whose end-user header differs from the session's end user; it is ignored.")
        overloaded = metrics.counter("overloaded_total", help: "Requests refused because too much was waiting.")
        withheld = metrics.counter(
            "withheld_tokens_total", help: "Tokens not delivered because a revocation had come up; its sweep takes them.")
        januaryRequests = metrics.counters("january_requests_total", help: "Requests to January.", by: JanuaryLabels.self)
        // Every series from the start, so that an alert on its increase sees the first one.
        for problem in MintAnswerProblem.allCases where problem.isSecurityEvent {
            _ = metrics.counter(Self.securityName, help: Self.securityHelp, labels: [("kind", problem.rawValue)])
        }
        for reason in HTTPParseError.Reason.allCases {
            _ = metrics.counter(Self.httpName, help: Self.httpHelp, labels: [("reason", reason.rawValue)])
        }
        januaryDuration = metrics.histogram(
            "january_request_duration_seconds", help: "From the decision to ask January to its whole answer.")
    }

    private static let httpName: StaticString = "http_errors_total"
    private static let httpHelp: StaticString = "Requests refused for their form."
    private static let securityName: StaticString = "security_events_total"
    private static let securityHelp: StaticString = "Things that must not happen."

    /// A refused message, by what was wrong with it.
    func httpErrors(_ reason: String) -> Counter {
        metrics.counter(Self.httpName, help: Self.httpHelp, labels: [("reason", reason)])
    }

    func securityEvents(_ kind: String) -> Counter {
        metrics.counter(Self.securityName, help: Self.securityHelp, labels: [("kind", kind)])
    }

    /// Calls to January's revocation.
    func sweeps(_ result: String) -> Counter {
        metrics.counter(
            "revocation_sweeps_total", help: "Calls to January's revocation that were sent.", labels: [("result", result)])
    }

    /// Fail-overs to the key of this slot.
    func keySwitches(_ slot: KeySlot) -> Counter {
        metrics.counter(
            "api_key_switches_total", help: "January rejected the current key and accepted the other one.",
            labels: [("slot", slot.rawValue)])
    }

    func count(_ outcome: MintOutcome, _ requestID: RequestID, loop: LoopEndpoint) {
        if let first = outcome.first { count(first) }
        if let second = outcome.second { count(second) }
        if let slot = outcome.switchedTo { loop.shared.keySwitched(to: slot, requestID: requestID) }
    }

    private func count(_ attempt: JanuaryAttempt) {
        januaryRequests.add(JanuaryLabels(status: attempt.status, code: attempt.code))
        januaryDuration.observe(attempt.duration)
    }

    func count(_ outcome: RevocationOutcome) {
        for attempt in [outcome.first, outcome.second] {
            guard let attempt else { continue }
            januaryRequests.add(JanuaryLabels(operation: .revoke, status: attempt.status, code: attempt.code))
        }
    }

    /// Values that are kept elsewhere and read when somebody looks.
    func register(
        _ metrics: Metrics, mintsInFlight: MintsInFlight, load: MintLoad, breaker: Breaker, keys: KeyRing,
        time: any TimeSource
    ) {
        metrics.gauges("in_flight", help: "Mints under way.") { [([], Double(mintsInFlight.count))] }
        metrics.gauges("mints_waiting", help: "Mints under way that wait for a connection to January.") {
            [([], Double(load.snapshot.waiting))]
        }
        metrics.gauges(
            "january_service_seconds",
            help: "How long January takes by the last measurements; load is shed by it. NaN: not measured."
        ) { [([], load.snapshot.serviceTime?.fractionalSeconds ?? .nan)] }
        metrics.gauges("breaker_state", help: "1: mints are held back for this reason.", labels: ["reason"]) {
            let open = Set(breaker.openReasons(now: time.monotonic()))
            return BreakerReason.allCases.map { ([$0.rawValue], open.contains($0) ? 1 : 0) }
        }
        metrics.gauges("api_key_current", help: "1: the key of this slot is in use.", labels: ["slot"]) {
            let current = keys.keys.current.slot
            return KeySlot.allCases.map { ([$0.rawValue], $0 == current ? 1 : 0) }
        }
    }

    func register(_ metrics: Metrics, server: Server, client: HTTPClientCounters) {
        let counters = server.counters
        metrics.gauges("connections", help: "Open connections of clients.") { [([], Double(counters.open.load()))] }
        metrics.counters(
            "connections_refused_total", help: "Connections that were closed before they had a request.", labels: ["reason"]
        ) {
            [
                (["max_connections"], Double(counters.refusedForMaxConnections.load())),
                (["max_connections_per_address"], Double(counters.refusedForAddress.load())),
                (["descriptors"], Double(counters.refusedForDescriptors.load())),
                (["longest_waiting"], Double(counters.closedForRoom.load())),
                (["tls_handshake"], Double(counters.failedHandshakes.load())),
                (["tls_handshake_timeout"], Double(counters.lateHandshakes.load())),
            ]
        }
        metrics.gauges("january_connections", help: "Connections to January.", labels: ["state"]) {
            [
                (["idle"], Double(client.idle)), (["leased"], Double(client.leased)),
                (["connecting"], Double(client.connecting)),
            ]
        }
    }
}

/// The labels of `january_requests_total`.
struct JanuaryLabels: MetricLabels {
    static let names: [StaticString] = ["operation", "status", "code"]
    enum Operation: UInt8, Sendable { case mint, revoke }

    var operation = Operation.mint
    let status: Int?
    let code: JanuaryErrorCode?

    private static let ordinals = Dictionary(
        uniqueKeysWithValues: JanuaryErrorCode.allCases.enumerated().map { ($1, UInt64($0 + 1)) })

    var identity: UInt64 {
        UInt64(operation.rawValue) << 32 | UInt64(status ?? 0) << 16 | (code.flatMap { Self.ordinals[$0] } ?? 0)
    }

    /// No answer is status `none`; a success has the code `ok`.
    var values: [String] {
        [
            operation == .mint ? "mint" : "revoke", status.map(String.init) ?? "none",
            code?.rawValue ?? (status == 201 || status == 200 ? "ok" : "none"),
        ]
    }
}
