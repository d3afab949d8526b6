/// Why a token is not accepted: the first step that failed. Every case is a 401 for the caller.
package enum JWTRefusal: Error, Equatable, Sendable {
    case format(JWSFormatError)
    case claims(JWTClaimsError)
    /// `crit`, or a parameter that changes what the payload means
    case criticalHeader
    case algorithmNotAllowed
    case typeNotAllowed
    case unknownKeyID
    /// No key of the set fits the algorithm.
    case noFittingKey
    /// More keys fit than are tried, or several have the token's `kid`.
    case ambiguousKey
    case signature
    case issuer
    case audience
    case missingExpiration
    case expired
    case notYetValid
    case lifetimeTooLong
    case missingSubject
    case boundToken

    /// What the caller is told: one of a few coarse words.
    package var description: String {
        switch self {
        case .format, .claims, .criticalHeader, .typeNotAllowed, .missingExpiration, .lifetimeTooLong, .missingSubject,
            .boundToken:
            "malformed"
        case .algorithmNotAllowed, .signature: "signature"
        case .unknownKeyID, .noFittingKey, .ambiguousKey: "unknown key"
        case .issuer: "issuer"
        case .audience: "audience"
        case .expired: "expired"
        case .notYetValid: "not yet valid"
        }
    }

    /// Bounded: usable as a metric label and a log field.
    package var reason: StaticString {
        switch self {
        case .format(let error): error.reason
        case .claims(let error): error.reason
        case .criticalHeader: "critical_header"
        case .algorithmNotAllowed: "algorithm_not_allowed"
        case .typeNotAllowed: "type_not_allowed"
        case .unknownKeyID: "unknown_key_id"
        case .noFittingKey: "no_fitting_key"
        case .ambiguousKey: "ambiguous_key"
        case .signature: "signature"
        case .issuer: "issuer"
        case .audience: "audience"
        case .missingExpiration: "missing_expiration"
        case .expired: "expired"
        case .notYetValid: "not_yet_valid"
        case .lifetimeTooLong: "lifetime_too_long"
        case .missingSubject: "missing_subject"
        case .boundToken: "bound_token"
        }
    }
}

extension JWTRefusal: CustomStringConvertible {}
