import January
import Telemetry

/// A mint as its audit record shows it.
struct AuditedMint {
    let terms: GrantedTerms
    /// Of the token that January gave; `nil`: it gave none.
    let tokenFingerprint: UInt64?
    /// Something was sent and no answer came: a token may exist that nobody holds.
    let isLost: Bool

    /// `nil` where January was not asked.
    init?(_ terms: GrantedTerms, _ outcome: MintOutcome) {
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
            write(.mint) { add(outcome, mint, to: &$0) }
        } else if outcome.code == .accessRevoked || outcome.code == .revocationInProgress {
            write(.mintRefused) { add(outcome, nil, to: &$0) }
        }
    }

    private func add(_ outcome: RequestOutcome, _ mint: AuditedMint?, to line: inout LogLine) {
        line.add("request_id", hex: outcome.requestID.high, outcome.requestID.low)
        if let id = outcome.endUserID { addEndUser(id, to: &line) }
        line.add("outcome", Self.outcome(outcome, mint))
        line.add("code", outcome.code?.rawValue ?? "ok")
        if let mint {
            if let fingerprint = mint.tokenFingerprint { line.add("token_sha256", hex: fingerprint) }
            line.add("scopes", mint.terms.scopes)
            line.add("ttl_seconds", mint.terms.mint.ttlSeconds)
        }
        if let verifier = outcome.verifier { line.add("verifier", verifier) }
        if let id = outcome.januaryRequestID { line.add("january_request_id", id) }
        if let id = outcome.clientRequestID { line.add("client_request_id", id) }
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
