import HTTPMessage
import Primitives

/// Why there is no token, one case for each thing the caller can be told. What January said, not what we answer: the HTTP status is
/// chosen where responses are made.
package enum JanuaryFailure: Error, Equatable, Sendable {
    /// 401: neither key is accepted.
    case keyRejected
    /// 403: client tokens are off, or the key is for another API version (both `forbidden`), or it is a client token.
    case forbidden(JanuaryErrorCode)
    /// The month's requests or credits are spent: `request_limit_exceeded` or `credit_limit_exceeded`.
    case quotaExhausted(JanuaryErrorCode)
    /// 400 or another 4xx without a case of its own: what we ask for is wrong for this account.
    case rejectedRequest(status: Int, JanuaryErrorCode)
    /// A 201 that fails the checks.
    case invalidAnswer(MintAnswerProblem)
    /// A success or redirect that is no 201.
    case unexpectedStatus(Int)
    /// An answer that is no HTTP, too large, or compressed beyond reading.
    case unreadableAnswer
    /// Refused, connect timed out, DNS, TLS, closed before anything was written: nothing was sent.
    case unreachable(UpstreamError.NotSentReason)
    /// 5xx, 408, 425.
    case unavailable(status: Int, JanuaryErrorCode)
    /// The connection broke after the request was sent.
    case connectionBroken
    /// What the breaker answers while January fails in a row (`reason` is `.unreachable` or `.unavailable`): it was not asked.
    case failing(BreakerReason, retryAfter: Duration)
    /// 429, and while its `Retry-After` lasts: 0 s…30 s, the default where January gave none.
    case rateLimited(retryAfter: Duration)
    /// The budget ran out while January was waited for.
    case timedOut(sent: Bool)
    /// The budget had run down before anything could be sent, so nothing was.
    case tooLate
    /// As many mints as allowed wait for a connection: load was shed.
    case overloaded
    /// The caller was gone, or `beforeSend` said no, before the request was sent.
    case cancelled

    /// Bounded: log field and metric label, finer than the code of our error body.
    package var reason: String {
        switch self {
        case .keyRejected: "key_rejected"
        case .forbidden: "forbidden"
        case .quotaExhausted: "quota_exhausted"
        case .rejectedRequest: "rejected_request"
        case .invalidAnswer(let problem): problem.rawValue
        case .unexpectedStatus: "unexpected_status"
        case .unreadableAnswer: "unreadable_answer"
        case .unreachable(let reason): reason.rawValue
        case .unavailable: "unavailable"
        case .connectionBroken: "connection_broken"
        case .failing: "failing"
        case .rateLimited: "rate_limited"
        case .timedOut(sent: true): "no_answer_in_time"
        case .timedOut(sent: false): "not_sent_in_time"
        case .tooLate: "too_late"
        case .overloaded: "too_many_waiting"
        case .cancelled: "cancelled"
        }
    }

    /// For our own `Retry-After`; `nil` where waiting has no known end.
    package var retryAfter: Duration? {
        switch self {
        case .failing(_, let duration), .rateLimited(let duration): duration
        default: nil
        }
    }

    package var isSecurityEvent: Bool {
        if case .invalidAnswer(let problem) = self { problem.isSecurityEvent } else { false }
    }

}

extension JanuaryFailure {
    /// How long nothing is sent after a 429 that does not say.
    package static let defaultRateLimitWait = Duration.seconds(2)

    /// What an answer other than 201 means. The `code` decides where the status leaves it open, never the message.
    init(status: Int, code: JanuaryErrorCode, retryAfter: Duration?) {
        switch (status, code) {
        case (401, _): self = .keyRejected
        case (400..<500, .requestLimitExceeded), (400..<500, .creditLimitExceeded): self = .quotaExhausted(code)
        case (403, _): self = .forbidden(code)
        case (408, _), (425, _), (500..<600, _): self = .unavailable(status: status, code)
        case (429, _): self = .rateLimited(retryAfter: retryAfter ?? Self.defaultRateLimitWait)
        case (400..<500, _): self = .rejectedRequest(status: status, code)
        default: self = .unexpectedStatus(status)
        }
    }

    init(_ error: UpstreamError) {
        switch error {
        case .notSent(.tooManyWaiting): self = .overloaded
        case .notSent(.tooLate): self = .tooLate
        case .notSent(.cancelled): self = .cancelled
        case .notSent(let reason): self = .unreachable(reason)
        case .broken(.reset), .broken(.closedEarly): self = .connectionBroken
        case .broken(.malformed), .broken(.tooLarge), .broken(.undecodable): self = .unreadableAnswer
        case .timedOut(let sent): self = .timedOut(sent: sent)
        }
    }
}
