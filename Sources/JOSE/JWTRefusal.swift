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
}

extension JWTRefusal: CustomStringConvertible {}
