import Primitives
import StrictJSON

/// A JWK Set (RFC 7517 section 5): the keys that can be used, and for each other one the reason why not.
package struct JWKSet: Sendable {
    /// The largest set, in bytes.
    package static let maxBytes = 524_288
    /// Entries behind these are skipped: the work is bounded whatever a server sends.
    package static let maxKeys = 256
    /// How many keys are tried for a token without `kid`.
    package static let maxCandidates = 8

    package enum Source: Sendable {
        /// From the network, so public: an `oct` key there is a secret that everybody has, and is skipped.
        case url
        case file
    }

    package let keys: [VerificationKey]
    package let skipped: [SkippedKey]
    /// Several entries that might be meant have this `kid`.
    private let ambiguousKeyIDs: Set<String>

    /// Strict JSON with a list `keys`. Entries are skipped one by one; a set without any usable key is a set, which the caller judges.
    package static func parse(_ bytes: RawSpan, source: Source) throws(JWKSetError) -> JWKSet {
        let value: JSONValue
        do { value = try JSONValue.parse(bytes, limits: JSONLimits(bytes: maxBytes, depth: 16)) } catch {
            throw error.reason == .tooLarge ? .tooLarge : .notJSON(error.reason)
        }
        guard case .object(let object) = value else { throw .notObject }
        guard case .array(let entries) = object["keys"] else { throw .missingKeys }
        return JWKSet(entries, source: source)
    }

    package static func parse(_ bytes: [UInt8], source: Source) throws(JWKSetError) -> JWKSet {
        try parse(bytes.span.bytes, source: source)
    }

    /// Keys from elsewhere (PEM files, a secret), perhaps together with those of a set.
    package init(keys: [VerificationKey], skipped: [SkippedKey] = []) {
        self.init(keys: keys, skipped: skipped, ambiguousKeyIDs: Self.repeatedKeyIDs(keys))
    }

    private init(keys: [VerificationKey], skipped: [SkippedKey], ambiguousKeyIDs: Set<String>) {
        self.keys = keys
        self.skipped = skipped
        self.ambiguousKeyIDs = ambiguousKeyIDs
    }

    private init(_ entries: [JSONValue], source: Source) {
        let hasPublicKeys = entries.contains { $0.object?["kty"]?.string.map { $0 != "oct" } ?? false }
        var keys: [VerificationKey] = []
        var skipped: [SkippedKey] = []
        var broken: Set<String> = []
        for (index, entry) in entries.enumerated() {
            let keyID = entry.object?["kid"]?.string
            do throws(SkipReason) {
                guard index < Self.maxKeys else { throw .tooManyKeys }
                guard case .object(let object) = entry else { throw .notObject }
                let key = try JWK.verificationKey(object, source: source)
                // A secret among published keys was probably published with them.
                if key.kind == .hmac, hasPublicKeys { throw .secretAmongPublicKeys }
                if keys.contains(where: { $0.isSameKey(as: key) }) { throw .duplicate }
                keys.append(key)
            } catch {
                skipped.append(SkippedKey(index: index, keyID: keyID, reason: error))
                if let keyID, error.mightHaveBeenMeant { broken.insert(keyID) }
            }
        }
        let shared = broken.filter { keyID in keys.contains { $0.keyID == keyID } }
        self.init(keys: keys, skipped: skipped, ambiguousKeyIDs: Self.repeatedKeyIDs(keys).union(shared))
    }

    /// RFC 7517 section 4.5 lets keys of different types share a `kid`; of those that fit one algorithm it must name one.
    private static func repeatedKeyIDs(_ keys: [VerificationKey]) -> Set<String> {
        var repeated: Set<String> = []
        var seen: [String: [VerificationKey]] = [:]
        for key in keys {
            guard let keyID = key.keyID else { continue }
            let others = seen[keyID, default: []]
            if others.contains(where: { other in JWSAlgorithm.allCases.contains { key.fits($0) && other.fits($0) } }) {
                repeated.insert(keyID)
            }
            seen[keyID, default: []].append(key)
        }
        return repeated
    }
}

// MARK: Choosing

extension JWKSet {
    package enum Candidates: Sendable {
        /// At least one, at most ``maxCandidates``; all fit the algorithm.
        case keys([VerificationKey])
        case unknownKeyID
        /// More than ``maxCandidates`` keys fit, or several have this `kid`.
        case tooMany
        /// The `kid` is known or absent, but no key fits the algorithm.
        case none
    }

    /// The keys to try for a token. A `kid` names its key, and no other will do: a key without `kid` is for tokens without one. Whoever
    /// has keys that cannot have an ID (PEM files, secrets) asks without the token's.
    package func candidates(keyID: String?, algorithm: JWSAlgorithm) -> Candidates {
        guard let keyID else { return fitting(algorithm) }
        for key in keys where key.keyID?.hasSameBytes(as: keyID) ?? false && key.fits(algorithm) {
            return ambiguousKeyIDs.contains(keyID) ? .tooMany : .keys([key])
        }
        let isKnown =
            keys.contains { $0.keyID?.hasSameBytes(as: keyID) ?? false }
            || skipped.contains { $0.keyID?.hasSameBytes(as: keyID) ?? false }
        return isKnown ? .none : .unknownKeyID
    }

    private func fitting(_ algorithm: JWSAlgorithm) -> Candidates {
        // The usual set of one key, or of keys that are all for the same: as it is, without a list of its own.
        let fitting = keys.allSatisfy { $0.fits(algorithm) } ? keys : keys.filter { $0.fits(algorithm) }
        if fitting.isEmpty { return .none }
        return fitting.count > Self.maxCandidates ? .tooMany : .keys(fitting)
    }
}

extension VerificationKey {
    fileprivate func isSameKey(as other: VerificationKey) -> Bool {
        keyID == other.keyID && algorithm == other.algorithm && kind == other.kind && material.isSameKey(as: other.material)
    }
}

// MARK: Failures

extension JWKSet {
    package struct SkippedKey: Sendable, Equatable {
        /// Position in `keys`
        package let index: Int
        package let keyID: String?
        package let reason: SkipReason
    }

    package enum SkipReason: Error, Sendable, Equatable {
        case notObject
        /// Missing, of the wrong type, or not what its name says.
        case invalidMember(String)
        case unsupportedType
        case unsupportedCurve
        /// `use` or `key_ops` are for something else than verifying.
        case unsupportedUse
        case unsupportedAlgorithm
        /// A secret in a set from a URL.
        case publishedSecret
        case secretAmongPublicKeys
        /// Members of a private key are there: whoever can read the set can sign.
        case privateKey
        /// The same key with the same `kid` once more.
        case duplicate
        case tooManyKeys
        case key(KeyError)

        /// Bounded: usable as a metric label.
        package var reason: StaticString {
            switch self {
            case .notObject: "not_object"
            case .invalidMember: "invalid_member"
            case .unsupportedType: "unsupported_type"
            case .unsupportedCurve: "unsupported_curve"
            case .unsupportedUse: "unsupported_use"
            case .unsupportedAlgorithm: "unsupported_algorithm"
            case .publishedSecret: "published_secret"
            case .secretAmongPublicKeys: "secret_among_public_keys"
            case .privateKey: "private_key"
            case .duplicate: "duplicate"
            case .tooManyKeys: "too_many_keys"
            case .key(let error): error.reason
            }
        }

        /// The entry is a damaged signature key: a second key with its `kid` may not take its place.
        fileprivate var mightHaveBeenMeant: Bool {
            switch self {
            case .invalidMember, .key, .privateKey: true
            case .notObject, .unsupportedType, .unsupportedCurve, .unsupportedUse, .unsupportedAlgorithm, .publishedSecret,
                .secretAmongPublicKeys, .duplicate, .tooManyKeys:
                false
            }
        }
    }
}

extension JWKSet.SkipReason: CustomStringConvertible {
    package var description: String {
        switch self {
        case .notObject: "is not a JSON object"
        case .invalidMember(let name): "has no valid \(name)"
        case .unsupportedType: "has a kty that is not RSA, EC, OKP or oct"
        case .unsupportedCurve: "is on another curve than P-256, P-384, P-521 or Ed25519"
        case .unsupportedUse: "is not for verifying (use, key_ops)"
        case .unsupportedAlgorithm: "is for another algorithm (alg)"
        case .publishedSecret: "is a secret, which a key set at a URL makes public"
        case .secretAmongPublicKeys: "is a secret among public keys"
        case .privateKey: "holds a private key"
        case .duplicate: "is there twice"
        case .tooManyKeys: "is beyond the first \(JWKSet.maxKeys)"
        case .key(let error): error.description
        }
    }
}

/// Why bytes are not a JWK Set at all.
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

extension JWKSetError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .tooLarge: "larger than \(JWKSet.maxBytes) bytes"
        case .notJSON(let reason): "not strict JSON (\(reason.rawValue))"
        case .notObject: "not a JSON object"
        case .missingKeys: "no list named keys"
        }
    }
}
