import Digests

/// The signature algorithms of RFC 7518 section 3.1 and RFC 8037 section 3.1 that can be allowed. `none` is not one of them.
package enum JWSAlgorithm: String, Sendable, Hashable, CaseIterable {
    case hs256 = "HS256"
    case hs384 = "HS384"
    case hs512 = "HS512"
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case ps384 = "PS384"
    case ps512 = "PS512"
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    /// With Ed25519 only.
    case edDSA = "EdDSA"

    package enum Family: Sendable, Hashable {
        case hmac, rsaPKCS1, rsaPSS, ecdsa, eddsa
    }

    package var family: Family {
        switch self {
        case .hs256, .hs384, .hs512: .hmac
        case .rs256, .rs384, .rs512: .rsaPKCS1
        case .ps256, .ps384, .ps512: .rsaPSS
        case .es256, .es384, .es512: .ecdsa
        case .edDSA: .eddsa
        }
    }

    /// Signed and verified with the same key.
    package var isSymmetric: Bool { family == .hmac }

    /// `nil` for EdDSA, which hashes by itself.
    package var hash: SHA2? {
        switch self {
        case .hs256, .rs256, .ps256, .es256: .sha256
        case .hs384, .rs384, .ps384, .es384: .sha384
        case .hs512, .rs512, .ps512, .es512: .sha512
        case .edDSA: nil
        }
    }

    /// Position in ``allCases``, for tables by algorithm.
    var index: Int {
        switch self {
        case .hs256: 0
        case .hs384: 1
        case .hs512: 2
        case .rs256: 3
        case .rs384: 4
        case .rs512: 5
        case .ps256: 6
        case .ps384: 7
        case .ps512: 8
        case .es256: 9
        case .es384: 10
        case .es512: 11
        case .edDSA: 12
        }
    }
}

extension JWSAlgorithm: CustomStringConvertible {
    package var description: String { rawValue }
}
