import Primitives

/// One key that can verify signatures. Parsed once, immutable: every thread may use it without a lock.
package struct VerificationKey: Sendable {
    package enum Curve: String, Sendable, Hashable {
        case p256 = "P-256"
        case p384 = "P-384"
        case p521 = "P-521"
    }

    package enum Kind: Sendable, Hashable {
        case hmac
        case rsa(bits: Int)
        case ec(Curve)
        case ed25519
    }

    /// `kid`
    package let keyID: String?
    package let kind: Kind
    /// JWK `alg`: the one algorithm the owner of the key allows.
    package let algorithm: JWSAlgorithm?
    let material: KeyMaterial

    init(keyID: String?, kind: Kind, algorithm: JWSAlgorithm?, material: KeyMaterial) {
        self.keyID = keyID
        self.kind = kind
        self.algorithm = algorithm
        self.material = material
    }

    /// A public key in PEM: `PUBLIC KEY` (RFC 7468 section 13), `RSA PUBLIC KEY` (PKCS #1) or `CERTIFICATE`, of which only the key
    /// counts, not its dates. Private keys are refused.
    package static func pem(_ bytes: [UInt8], keyID: String? = nil) throws(KeyError) -> VerificationKey {
        try PEMKey.parse(bytes, keyID: keyID)
    }

    /// A shared secret, refused when shorter than the hash of any of the algorithms (RFC 7518 section 3.2).
    package static func hmac(
        _ secret: Secret, algorithms: Set<JWSAlgorithm>, keyID: String? = nil
    ) throws(KeyError) -> VerificationKey {
        guard !algorithms.isEmpty, algorithms.allSatisfy(\.isSymmetric) else { throw .algorithmMismatch }
        let needed = algorithms.map { $0.hash?.byteCount ?? 0 }.max() ?? 0
        guard secret.byteCount >= needed else { throw .secretTooShort(bytes: secret.byteCount, needed: needed) }
        return VerificationKey(
            keyID: keyID, kind: .hmac, algorithm: algorithms.count == 1 ? algorithms.first : nil,
            material: try KeyMaterial(secret: secret, algorithms: algorithms))
    }

    /// Whether type, curve and JWK `alg` of the key allow the algorithm. Keys that are for something else (`use`, `key_ops`) never
    /// become a `VerificationKey`.
    package func fits(_ algorithm: JWSAlgorithm) -> Bool { material.isPrepared(for: algorithm) }

    /// Every algorithm that ``fits(_:)``.
    package var algorithms: Set<JWSAlgorithm> { Set(JWSAlgorithm.allCases.filter(fits)) }
}

extension VerificationKey.Kind: CustomStringConvertible {
    /// "HMAC", "RSA 2048", "EC P-256" or "Ed25519"
    package var description: String {
        switch self {
        case .hmac: "HMAC"
        case .rsa(let bits): "RSA \(bits)"
        case .ec(let curve): "EC \(curve.rawValue)"
        case .ed25519: "Ed25519"
        }
    }
}

/// Why a key cannot be used.
package enum KeyError: Error, Equatable, Sendable {
    case notPEM
    case severalKeys
    case privateKey
    case encryptedKey
    case malformed
    case unsupportedType
    case unsupportedCurve
    case rsaTooSmall(bits: Int)
    case rsaTooLarge(bits: Int)
    case weakExponent
    case weakModulus
    case notOnCurve
    case secretTooShort(bytes: Int, needed: Int)
    case algorithmMismatch

    /// Bounded: usable as a metric label.
    package var reason: StaticString {
        switch self {
        case .notPEM: "not_pem"
        case .severalKeys: "several_keys"
        case .privateKey: "private_key"
        case .encryptedKey: "encrypted_key"
        case .malformed: "malformed"
        case .unsupportedType: "unsupported_type"
        case .unsupportedCurve: "unsupported_curve"
        case .rsaTooSmall: "rsa_too_small"
        case .rsaTooLarge: "rsa_too_large"
        case .weakExponent: "weak_exponent"
        case .weakModulus: "weak_modulus"
        case .notOnCurve: "not_on_curve"
        case .secretTooShort: "secret_too_short"
        case .algorithmMismatch: "algorithm_mismatch"
        }
    }
}

extension KeyError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .notPEM: "is not PEM (-----BEGIN PUBLIC KEY-----, RSA PUBLIC KEY or CERTIFICATE)"
        case .severalKeys: "holds more than one key; put each into a file of its own"
        case .privateKey: "is a private key; give the public key only, and treat this private key as exposed"
        case .encryptedKey: "is encrypted; a public key is not a secret"
        case .malformed: "cannot be decoded"
        case .unsupportedType: "is neither RSA, EC nor Ed25519"
        case .unsupportedCurve: "is on another curve than P-256, P-384, P-521 or Ed25519"
        case .rsaTooSmall(let bits): "is an RSA key of \(bits) bits; at least 2048 are needed"
        case .rsaTooLarge(let bits): "is an RSA key of \(bits) bits; at most 8192 are accepted"
        case .weakExponent: "has a public exponent that is even, 1 or longer than 64 bits"
        case .weakModulus: "has a modulus that can be factored (even, or made by a generator with CVE-2017-15361)"
        case .notOnCurve: "is not a point on its curve"
        case .secretTooShort(let bytes, let needed): "has \(bytes) bytes; this algorithm needs at least \(needed)"
        case .algorithmMismatch: "does not fit the algorithm"
        }
    }
}
