import JOSE
import Primitives
import StrictJSON

/// The three answers to "is this session good?". Not knowing is never yes, and never no.
package enum SessionVerdict: Sendable {
    case accepted(VerifiedSession)
    /// 401: sign in again.
    case refused(SessionRefusal)
    /// 503: could not find out.
    case unavailable(SessionUnavailable)
}

/// A session whose token passed every check. Whether it is a person's is a second question: ``personRule``.
package final class VerifiedSession: Sendable {
    package let verifierName: String
    /// Keeps subjects of different issuers apart in the end-user mapping.
    package let namespace: String?
    package let claims: JSONObject
    package let subject: String?
    /// The session's own ID as the token names it: stays the same when the token is renewed.
    package let sessionID: String?
    /// When the person signed in, seconds since the epoch; `nil` where the token does not say.
    package let startedAt: Double?
    package let expiresAt: WallInstant?
    /// Anything but `.person` is 403 `no_end_user`: what the configuration allows is already counted as a person.
    package let personRule: PersonVerdict
    /// The claim that names the person where the configuration does not say (Okta: `uid`); `nil`: the subject.
    package let endUserClaim: String?
    /// The verifier's own prefix for end-user IDs; `nil`: the mapping's.
    package let endUserPrefix: String?

    package init(
        verifierName: String, namespace: String?, claims: JSONObject, subject: String?, sessionID: String?,
        startedAt: Double?, expiresAt: WallInstant?, personRule: PersonVerdict, endUserClaim: String? = nil,
        endUserPrefix: String? = nil
    ) {
        self.verifierName = verifierName
        self.namespace = namespace
        self.claims = claims
        self.subject = subject
        self.sessionID = sessionID
        self.startedAt = startedAt
        self.expiresAt = expiresAt
        self.personRule = personRule
        self.endUserClaim = endUserClaim
        self.endUserPrefix = endUserPrefix
    }
}

/// Why a session is refused.
package struct SessionRefusal: Error, Sendable, Hashable {
    /// Bounded: the `reason` label of `sessions_total`, and a log field.
    package enum Reason: String, Sendable, Hashable, CaseIterable {
        // Finding the credential.
        case noSession = "no_session"
        case ambiguousCredential = "ambiguous_credential"
        case malformedCredential = "malformed_credential"
        case credentialTooLarge = "credential_too_large"
        // Choosing the verifier.
        case notAJWT = "not_a_jwt"
        case noVerifierForIssuer = "no_verifier_for_issuer"
        // The token: as `JWTRefusal`.
        case format, claims
        case criticalHeader = "critical_header"
        case algorithm
        case type
        case unknownKey = "unknown_key"
        case noFittingKey = "no_fitting_key"
        case ambiguousKey = "ambiguous_key"
        case signature, issuer, audience
        case missingExpiration = "missing_expiration"
        case expired
        case notYetValid = "not_yet_valid"
        case lifetimeTooLong = "lifetime_too_long"
        case missingSubject = "missing_subject"
        case boundToken = "bound_token"
        // The verifier's own rules.
        case requiredClaim = "required_claim"
    }

    package let reason: Reason
    /// The coarse word of `error_description` in `WWW-Authenticate` (RFC 6750 section 3); `nil` when no session was sent, for
    /// then the challenge carries no `error` (section 3.1).
    package let description: String?

    private init(_ reason: Reason, _ description: String?) {
        self.reason = reason
        self.description = description
    }

    package static let noSession = SessionRefusal(.noSession, nil)
    static let ambiguousCredential = SessionRefusal(.ambiguousCredential, "malformed")
    package static let malformedCredential = SessionRefusal(.malformedCredential, "malformed")
    static let credentialTooLarge = SessionRefusal(.credentialTooLarge, "malformed")
    static let notAJWT = SessionRefusal(.notAJWT, "malformed")
    static let noVerifierForIssuer = SessionRefusal(.noVerifierForIssuer, "issuer")
    /// A token for somebody else: to the caller that is its audience, whichever claim says so.
    static let requiredClaim = SessionRefusal(.requiredClaim, "audience")

    init(_ refusal: JWTRefusal) {
        description = refusal.description
        reason =
            switch refusal {
            case .format: .format
            case .claims: .claims
            case .criticalHeader: .criticalHeader
            case .algorithmNotAllowed: .algorithm
            case .typeNotAllowed: .type
            case .unknownKeyID: .unknownKey
            case .noFittingKey: .noFittingKey
            case .ambiguousKey: .ambiguousKey
            case .signature: .signature
            case .issuer: .issuer
            case .audience: .audience
            case .missingExpiration: .missingExpiration
            case .expired: .expired
            case .notYetValid: .notYetValid
            case .lifetimeTooLong: .lifetimeTooLong
            case .missingSubject: .missingSubject
            case .boundToken: .boundToken
            }
    }
}

/// Why nobody can say now whether a session is good.
package struct SessionUnavailable: Error, Sendable, Hashable {
    package enum Reason: String, Sendable, Hashable, CaseIterable {
        /// No key set has ever been loaded, or the last one is too old.
        case keysUnavailable = "keys_unavailable"
        /// The set may be older than the key the token names.
        case keyNotYetKnown = "key_not_yet_known"
    }
    package var reason: Reason
    /// Whole seconds, 1 or more.
    package var retryAfter: Int

    package init(_ reason: Reason, retryAfter: Duration) {
        self.reason = reason
        let (seconds, attoseconds) = retryAfter.components
        self.retryAfter = max(1, Int(clamping: seconds) + (attoseconds > 0 ? 1 : 0))
    }
}
