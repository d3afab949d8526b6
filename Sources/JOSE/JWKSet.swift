import Primitives
import StrictJSON

/// A JWK Set (RFC 7517 section 5): the keys that can be used, and for each other one the reason why not.
package struct JWKSet: Sendable {
    package static let maxBytes = 524_288
    /// Entries behind these are skipped: parsing is bounded whatever a server sends.
    package static let maxKeys = 1_000
    /// How many keys are tried for a token without `kid`.
    package static let maxCandidates = 8

    package enum Source: Sendable {
        /// From the network, so public: an `oct` key there is a secret that everybody has, and is skipped.
        case url
        case file
    }

    package struct SkippedKey: Sendable, Equatable {
        /// Position in `keys`.
        package let index: Int
        package let keyID: String?
        package let reason: SkipReason
    }

    package enum SkipReason: Error, Sendable, Equatable {
        case notObject
        case invalidMember(String)
        case unsupportedType
        case unsupportedCurve
        case unsupportedUse
        case unsupportedAlgorithm
        /// A secret in a set from a URL.
        case publishedSecret
        /// A secret among public keys.
        case secretAmongPublicKeys
        /// Members of a private key are there: whoever can read the set can sign.
        case privateKey
        case duplicate
        case tooManyKeys
        case key(KeyError)
    }

    package enum Candidates: Sendable {
        /// At least one, at most ``maxCandidates``; all fit the algorithm.
        case keys([VerificationKey])
        case unknownKeyID
        /// More than ``maxCandidates`` keys fit, or several keys have this `kid`.
        case tooMany
        /// The `kid` is known or absent, but no key fits the algorithm.
        case none
    }

    package let keys: [VerificationKey]
    package let skipped: [SkippedKey]

    package static func parse(_ bytes: RawSpan, source: Source) throws(JWKSetError) -> JWKSet {
        _ = bytes
        return JWKSet(keys: [], skipped: [])
    }

    package init(keys: [VerificationKey], skipped: [SkippedKey] = []) {
        self.keys = keys
        self.skipped = skipped
    }

    package func candidates(keyID: String?, algorithm: JWSAlgorithm) -> Candidates { .none }
}

package enum JWKSetError: Error, Equatable, Sendable {
    case tooLarge
    case notJSON(JSONParseError.Reason)
    case notObject
    case missingKeys

    /// Bounded: usable as a metric label.
    package var reason: StaticString {
        switch self {
        case .tooLarge: "too_large"
        case .notJSON: "not_json"
        case .notObject: "not_object"
        case .missingKeys: "missing_keys"
        }
    }
}
