import January
import Revocations
import Telemetry

/// Revocations as metrics, audit records and lines of the log.
extension SharedParts {
    /// Any thread.
    func record(_ event: RevocationEvent) {
        switch event {
        case .requested(let status, let request, let joined):
            var fields = [
                LogField("id", status.id), audit.endUser(request.endUserID), LogField("block", status.block.rawValue),
                LogField("requested_by", request.requestedBy), LogField("joined", .boolean(joined)),
            ]
            if let reason = request.reason { fields.append(LogField("reason", reason)) }
            audit.write(.revocationRequested, Self.requestID(request.requestID) + fields)
        case .swept(let result, let id, let endUserID):
            if case .held = result { return }
            metrics.sweeps(result.label).add()
            var fields = [LogField("id", id), audit.endUser(endUserID), LogField("result", result.label)]
            switch result {
            case .revoked(let count): fields.append(LogField("revoked_count", count))
            case .failed(let reason, _): fields.append(LogField("reason", reason))
            case .held: break
            }
            audit.write(.revocationSwept, fields)
        case .completed(let status, let endUserID, let isLate):
            audit.write(
                .revocationCompleted,
                [
                    LogField("id", status.id), audit.endUser(endUserID), LogField("block", status.block.rawValue),
                    LogField("revoked_count", status.revokedCount), LogField("late", .boolean(isLate)),
                ])
        case .lifted(let endUserID, let requestedBy, let requestID, let takesEffect):
            audit.write(
                .revocationLifted,
                Self.requestID(requestID) + [
                    audit.endUser(endUserID), LogField("requested_by", requestedBy),
                    LogField("takes_effect", .boolean(takesEffect)),
                ])
        }
    }

    /// Of the request that caused it, first as in every line.
    private static func requestID(_ id: String?) -> [LogField] { id.map { [LogField("request_id", $0)] } ?? [] }

    /// What an operator has to know about January's answers to revocations.
    func revoked(_ outcome: RevocationOutcome) {
        guard case .failure(let failure) = outcome.result, let attempt = outcome.second ?? outcome.first else { return }
        func fields() -> [LogField] {
            var fields = [LogField("reason", outcome.reason), LogField("key_fingerprint", attempt.keyFingerprint)]
            if let status = attempt.status { fields.append(LogField("january_status", status)) }
            return fields
        }
        switch failure {
        case .keyRejected, .forbidden:
            log.write(
                .error, "January refuses to revoke with this API key; revocations wait until it is replaced", fields(),
                callerCaused: true)
        case .rejectedRequest:
            log.write(.error, "January refuses a revocation; it is tried again", fields(), callerCaused: true)
        default: log.write(.warning, "a revocation call failed; it is tried again", fields(), callerCaused: true)
        }
    }
}

extension SweepResult {
    /// Bounded: the label `result`.
    var label: String {
        switch self {
        case .revoked(0): "none_left"
        case .revoked: "revoked"
        case .held: "held"
        case .failed(let reason, _):
            JanuaryErrorCode(rawValue: reason)?.rawValue ?? (Self.reasons.contains(reason) ? reason : "other")
        }
    }

    private static let reasons: Set<String> = [
        "connection_broken", "no_answer_in_time", "not_sent_in_time", "refused", "connect_timeout", "dns", "tls",
        "unexpected_status",
        "unreadable_answer", "too_many_waiting", "closed_before_send", "unavailable",
    ]
}
