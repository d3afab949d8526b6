import EndUsers
import HTTPMessage
import HTTPServer
import January
import RateLimiting
import Revocations
import Sessions

/// An error as the caller gets it: one code, and the few things that vary. **The one place** where internal errors become status, code and
/// fields.
struct Problem: Sendable, Equatable {
    var code: ProblemCode
    /// Whole seconds for `Retry-After`.
    var retryAfter: Int?
    /// For 405 and OPTIONS.
    var allow: StaticString?
    /// With `error` only when a session was sent (RFC 6750 section 3.1).
    var challenge: Challenge?
    /// For 429: the limit that decided.
    var limit: LimitNotice?
    /// Bounded, for the log and metrics: finer than the code.
    var reason: String
    /// Instead of the code's own message.
    var detail: StaticString?
    /// Management API: the member or parameter that is wrong.
    var member: String?

    enum Challenge: Sendable, Equatable {
        case noSession
        case invalidToken(String)
        /// `wasSent`: a token, and it was a wrong one. `asksForBasic`: it may come as a password, too.
        case management(wasSent: Bool, asksForBasic: Bool)
    }

    init(_ code: ProblemCode, reason: String = "", retryAfter: Int? = nil) {
        self.code = code
        self.reason = reason
        self.retryAfter = retryAfter
    }

    static func == (left: Self, right: Self) -> Bool {
        left.code == right.code && left.retryAfter == right.retryAfter && left.challenge == right.challenge
            && left.reason == right.reason && left.limit == right.limit && left.member == right.member
            && left.detail?.description == right.detail?.description && left.allow?.description == right.allow?.description
    }

    static func methodNotAllowed(allow: StaticString) -> Problem {
        var problem = Problem(.methodNotAllowed)
        problem.allow = allow
        return problem
    }

    init(_ refusal: RequestRefusal) {
        switch refusal {
        case .timedOut: self.init(.requestTimeout, reason: "timed_out")
        case .malformed(let error): self.init(Self.code(of: error), reason: error.reason.rawValue)
        case .unencrypted:
            self.init(.badRequest, reason: "plain_http")
            detail = "This port speaks HTTPS. Ask again with https://."
        }
    }

    private static func code(of error: HTTPParseError) -> ProblemCode {
        switch error.status {
        case 413: .contentTooLarge
        case 414: .uriTooLong
        case 417: .expectationFailed
        case 431: .headerFieldsTooLarge
        case 501: .notImplemented
        case 505: .httpVersionNotSupported
        default: .badRequest
        }
    }

    init(_ refusal: SessionRefusal) {
        self.init(.invalidSession, reason: refusal.reason.rawValue)
        challenge = refusal.description.map { .invalidToken($0) } ?? .noSession
    }

    init(_ limit: LimitNotice) {
        self.init(.rateLimited, reason: limit.name.rawValue, retryAfter: limit.retryAfter)
        self.limit = limit
    }

    init(_ unavailable: SessionUnavailable) {
        self.init(.sessionBackendUnavailable, reason: unavailable.reason.rawValue, retryAfter: unavailable.retryAfter)
    }

    /// `nil` where nothing is in the way.
    init?(_ decision: FenceDecision) {
        switch decision {
        case .free: return nil
        case .revoked: self.init(.accessRevoked)
        case .inProgress: self.init(.revocationInProgress, retryAfter: 2)
        case .unavailable: self.init(.stateUnavailable, reason: "unreadable", retryAfter: 2)
        }
    }

    init(_ error: EndUserError) {
        switch error {
        case .noEndUser: self.init(.noEndUser, reason: error.reason)
        case .invalid: self.init(.invalidEndUserID, reason: error.reason)
        }
    }

    init(_ failure: JanuaryFailure) {
        self.init(Self.code(of: failure), reason: failure.reason.description)
        retryAfter = failure.retryAfter.map(RetryAfter.wholeSeconds)
    }

    private static func code(of failure: JanuaryFailure) -> ProblemCode {
        switch failure {
        case .keyRejected: .januaryKeyRejected
        case .forbidden: .januaryForbidden
        case .quotaExhausted: .januaryQuotaExhausted
        case .rejectedRequest: .januaryRejectedRequest
        case .invalidAnswer, .unexpectedStatus, .unreadableAnswer: .januaryInvalidResponse
        case .unreachable, .failing(.unreachable, _): .januaryUnreachable
        case .unavailable, .connectionBroken, .failing: .januaryUnavailable
        case .rateLimited: .januaryRateLimited
        case .timedOut, .tooLate: .januaryTimeout
        case .overloaded: .overloaded
        case .cancelled: .clientGone
        }
    }

    /// For the app's developer: what to do.
    var message: StaticString {
        if let detail { return detail }
        guard code == .invalidSession else { return code.message }
        return switch reason {
        case "no_session": "No session was sent. Sign in and send the session as Authorization: Bearer."
        case "ambiguous_credential": "More than one session was sent. Send exactly one Authorization field."
        case "malformed_credential", "not_a_jwt":
            "This is no session that is understood here. Send Authorization: Bearer and the session."
        case "audience", "required_claim":
            "This session is for another audience or client. Have the app ask for a session for this API; operators: see sessions.verifiers."
        case "no_verifier_for_issuer", "issuer", "algorithm":
            "Sessions of this issuer or algorithm are not accepted here. Operators: see sessions.verifiers, and explain."
        default: code.message
        }
    }

    /// Whether an operator can do something about it: such refusals are logged by default, a caller's own mistakes are not.
    var isForTheOperator: Bool {
        switch code {
        case .invalidEndUserID, .januaryForbidden, .januaryQuotaExhausted, .januaryRejectedRequest: true
        // A good session that this configuration does not want: more often a mistake in the configuration than an attack.
        case .invalidSession: ["audience", "no_verifier_for_issuer", "algorithm"].contains(reason)
        default: code.status >= 500
        }
    }
}

/// What the app sees of one refusal, for `explain`.
package struct SeenByApp: Sendable, Equatable, CustomStringConvertible {
    package let status: Int
    package let code: String

    package init(_ refusal: SessionRefusal) { self.init(Problem(refusal)) }
    package init(_ unavailable: SessionUnavailable) { self.init(Problem(unavailable)) }
    package init(_ error: EndUserError) { self.init(Problem(error)) }
    package static let notAPerson = SeenByApp(Problem(.noEndUser))
    package static let noFeatures = SeenByApp(Problem(.noFeatures))

    private init(_ problem: Problem) {
        status = problem.code.status
        code = problem.code.rawValue
    }

    package var description: String { "\(status) \(code)" }
}
