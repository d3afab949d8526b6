import EndUsers
import HTTPClient
import HTTPMessage
import January
import Primitives
import RateLimiting
import Revocations
import Telemetry

/// What all loops share and no reload replaces: atomics, short locks, and values that never change.
final class SharedParts: Sendable {
    let lifecycle: Lifecycle
    let mintsInFlight: MintsInFlight
    let gate: MintGate
    let keys: KeyRing
    let mintBreaker: Breaker
    let load: MintLoad
    let metrics: EndpointMetrics
    let recorder: OutcomeRecorder
    /// Cells of the rate limits; with a shared store, what decides while it is away.
    let localLimits = MemoryLimitStore()
    let limitMetrics: LimitMetrics
    let log: Log
    let hash: EndUserHash
    let audit: AuditLog

    init(
        config: RootConfig, lifecycle: Lifecycle, keys: KeyRing, log: Log, auditOutput: (any LogOutput)?, metrics: Metrics,
        time: any TimeSource, mintsInFlight: MintsInFlight, fences: FenceTable?, hash: EndUserHash
    ) {
        self.lifecycle = lifecycle
        self.keys = keys
        self.log = log
        self.hash = hash
        self.mintsInFlight = mintsInFlight
        gate = MintGate(mints: mintsInFlight, fences: fences, hash: hash)
        mintBreaker = Breaker()
        load = MintLoad(connections: config.january.maxConnections, budget: config.january.budget)
        self.metrics = EndpointMetrics(metrics)
        limitMetrics = LimitMetrics(metrics, store: localLimits)
        let audit = AuditLog(
            config.audit, log: log, output: auditOutput, time: time, hash: hash, endUserID: config.log.endUserID)
        self.audit = audit
        recorder = OutcomeRecorder(log: log, audit: audit, metrics: metrics, hash: hash)
        metrics.counters("audit_dropped_total", help: "Audit records that were lost.") { [([], Double(audit.droppedCount))] }
        self.metrics.register(
            metrics, mintsInFlight: mintsInFlight, load: load, breaker: mintBreaker, keys: keys, time: time)
    }

    /// What an operator has to know about January's refusals and odd answers, beside the line of the request itself.
    func january(_ failure: JanuaryFailure, _ outcome: MintOutcome, endUserID: EndUserID?, requestID: RequestID) {
        let attempt = outcome.second ?? outcome.first
        func fields() -> [LogField] {
            var fields = [
                LogField("request_id", requestID.text), LogField("code", Problem(failure).code.rawValue),
                LogField("reason", failure.reason.description),
                LogField("key_fingerprint", attempt?.keyFingerprint ?? keys.keys.current.key.fingerprint),
            ]
            if let status = attempt?.status { fields.append(LogField("january_status", status)) }
            if let code = attempt?.code { fields.append(LogField("january_code", code.rawValue)) }
            if let id = outcome.requestID { fields.append(LogField("january_request_id", id)) }
            if let reason = outcome.tlsFailure { fields.append(LogField("tls", reason.description)) }
            return fields
        }
        if failure.isSecurityEvent {
            metrics.securityEvents(failure.reason.description).add()
            audit.write(.securityEvent, fields() + [LogField("kind", failure.reason.description)] + endUser(endUserID))
            log.write(
                .error, "January answered with a token for somebody else or with other scopes; it was not delivered", fields(),
                callerCaused: true)
        }
        // While the breaker answers there is nothing new to say.
        guard attempt != nil else { return }
        switch failure {
        case .keyRejected: log.write(.error, "January rejects the API key", fields(), callerCaused: true)
        case .forbidden:
            log.write(
                .error, "January forbids minting: client tokens are off for the account, or the key is for another API version",
                fields(), callerCaused: true)
        case .quotaExhausted: log.write(.error, "the January account's monthly quota is used up", fields(), callerCaused: true)
        case .rejectedRequest:
            log.write(.error, "January refuses the scopes or the lifetime asked for", fields(), callerCaused: true)
        case .unreachable(.tls):
            log.write(
                .error, "no TLS connection to January: its certificate is not accepted, or nobody speaks TLS at this address",
                fields(), callerCaused: true)
        default: break
        }
    }

    private func endUser(_ endUserID: EndUserID?) -> [LogField] { endUserID.map { [audit.endUser($0.text)] } ?? [] }

    /// The other key has worked where the current one was refused.
    ///
    /// - Parameter requestID: of the mint that found out; `nil` where a sweep did.
    func keySwitched(to slot: KeySlot, requestID: RequestID? = nil) {
        metrics.keySwitches(slot).add()
        var fields = requestID.map { [LogField("request_id", $0.text)] } ?? []
        let keys = keys.keys
        fields += [LogField("slot", slot.rawValue), LogField("key_fingerprint", keys.current.key.fingerprint)]
        if let other = keys.other { fields.append(LogField("other_key_fingerprint", other.key.fingerprint)) }
        audit.write(.keyChanged, fields)
        log.write(
            .warning, "January rejects the current API key; the other one is in use now", fields)
    }

    /// A peer sends the field of a proxy and is not in `trusted_proxies`: no limit per address can tell apart who is behind it.
    func unconfiguredProxy(_ client: ClientAddress, field: ProxyField) {
        guard limitMetrics.countsFirstUnconfiguredProxy() else { return }
        log.write(
            .warning,
            "a proxy is not in trusted_proxies, so there is no limit per address; add it if it is yours",
            [LogField("trusted_proxies", client.address?.range ?? "unix:"), LogField("field", field.rawValue)])
    }
}
