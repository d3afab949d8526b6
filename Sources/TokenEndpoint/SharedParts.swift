import EndUsers
import HTTPClient
import HTTPMessage
import January
import Primitives
import Telemetry

/// What all loops share and no reload replaces: atomics, short locks, and values that never change.
final class SharedParts: Sendable {
    let lifecycle: Lifecycle
    let mintsInFlight: MintsInFlight
    let keys: KeyRing
    let mintBreaker: Breaker
    let metrics: EndpointMetrics
    let recorder: OutcomeRecorder
    let log: Log
    let hash: EndUserHash

    init(config: RootConfig, lifecycle: Lifecycle, keys: KeyRing, log: Log, metrics: Metrics, time: any TimeSource) {
        self.lifecycle = lifecycle
        self.keys = keys
        self.log = log
        hash = EndUserHash(config.log)
        mintsInFlight = MintsInFlight(maxCount: config.january.maxInFlight)
        mintBreaker = Breaker()
        self.metrics = EndpointMetrics(metrics)
        recorder = OutcomeRecorder(log: log, metrics: metrics, hash: hash)
        self.metrics.register(
            metrics, mintsInFlight: mintsInFlight, breaker: mintBreaker, keys: keys, time: time)
    }

    /// What an operator has to know about January's refusals and odd answers, beside the line of the request itself.
    func january(_ failure: JanuaryFailure, _ outcome: MintOutcome, endUserID: EndUserID?) {
        let attempt = outcome.second ?? outcome.first
        func fields() -> [LogField] {
            var fields = [
                LogField("code", Problem(failure).code.rawValue), LogField("reason", failure.reason.description),
                LogField("key_fingerprint", keys.keys.current.key.fingerprint),
            ]
            if let status = attempt?.status { fields.append(LogField("january_status", status)) }
            if let code = attempt?.code { fields.append(LogField("january_code", code.rawValue)) }
            if let id = outcome.requestID { fields.append(LogField("january_request_id", id)) }
            if let reason = outcome.tlsFailure { fields.append(LogField("tls", reason.description)) }
            return fields
        }
        if failure.isSecurityEvent {
            metrics.securityEvents(failure.reason.description).add()
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

    /// The other key has worked where the current one was refused.
    func keySwitched(to slot: KeySlot) {
        metrics.keySwitches(slot).add()
        log.write(
            .warning, "January rejects the current API key; the other one is in use now",
            [LogField("slot", slot.rawValue), LogField("key_fingerprint", keys.keys.current.key.fingerprint)])
    }
}
