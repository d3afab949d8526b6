import January
import Telemetry

/// A mint as its audit record shows it.
struct AuditedMint {
    let terms: MintTerms
    /// Of the token that January gave; `nil`: it gave none.
    let tokenFingerprint: String?
    /// Something was sent and no answer came: a token may exist that nobody holds.
    let isLost: Bool

    /// `nil` where January was not asked.
    init?(_ terms: MintTerms, _ outcome: MintOutcome) {
        guard let attempt = outcome.second ?? outcome.first else { return nil }
        self.terms = terms
        isLost = attempt.status == nil && attempt.error?.wasSent ?? false
        switch outcome.result {
        case .success(let delivery): tokenFingerprint = delivery.answer.tokenFingerprint
        case .failure: tokenFingerprint = nil
        }
    }
}

extension AuditLog {
    /// The record of a request, if it is one that gets one: January was asked for a token, or a fence or an unfinished revocation stood before it.
    func record(_ outcome: RequestOutcome) {
        if let mint = outcome.mint {
            write(.mint, fields(outcome, mint))
        } else if outcome.code == .accessRevoked || outcome.code == .revocationInProgress {
            write(.mintRefused, fields(outcome, nil))
        }
    }

    private func fields(_ outcome: RequestOutcome, _ mint: AuditedMint?) -> [LogField] {
        var fields: [LogField] = []
        fields.reserveCapacity(10)
        fields.append(LogField("request_id", outcome.requestID.text))
        if let id = outcome.endUserID { fields.append(endUser(id)) }
        fields.append(LogField("outcome", Self.outcome(outcome, mint)))
        fields.append(LogField("code", outcome.code?.rawValue ?? "ok"))
        if let mint {
            if let fingerprint = mint.tokenFingerprint { fields.append(LogField("token_sha256", fingerprint)) }
            fields.append(LogField("scopes", .strings(mint.terms.scopes)))
            fields.append(LogField("ttl_seconds", mint.terms.ttlSeconds))
        }
        if let verifier = outcome.verifier { fields.append(LogField("verifier", verifier)) }
        if let id = outcome.januaryRequestID { fields.append(LogField("january_request_id", id)) }
        if let id = outcome.clientRequestID { fields.append(LogField("client_request_id", id)) }
        return fields
    }

    /// `withheld`: January gave a token, and it was not passed on.
    private static func outcome(_ outcome: RequestOutcome, _ mint: AuditedMint?) -> String {
        guard let mint else { return "refused" }
        if mint.tokenFingerprint != nil {
            return outcome.status == 201 ? outcome.isUndelivered ? "undelivered" : "delivered" : "withheld"
        }
        return mint.isLost ? "lost" : "failed"
    }
}
