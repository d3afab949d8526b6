import COpenSSL
import Digests
import Primitives

/// The OpenSSL side of one key: for every algorithm the key may be used with, a context in which everything up to the first byte of
/// the message is done. Verifying copies a prepared context: an eighth of the cost of setting one up for RSA.
final class KeyMaterial: @unchecked Sendable {
    // Sendable: all pointers are written in `init` and freed in `deinit`; in between they are only read: copied from (reference counts
    // inside are atomic) and compared. OpenSSL allows that from several threads at once (openssl-threads(7)).
    private let key: OpaquePointer?
    private let secret: Secret?
    /// By `JWSAlgorithm.index`: an `EVP_MD_CTX` (public keys) or an `EVP_MAC_CTX` (secrets); `nil` where the key does not fit.
    private var prepared: [OpaquePointer?]
    /// Octets of every good signature (RFC 8017 section 8.1.2, RFC 7518 section 3.4, RFC 8032 section 5.1.7); not used for secrets.
    let signatureByteCount: Int

    /// A public key.
    ///
    /// `key` is an `EVP_PKEY` and goes over to this object, in case of an error too.
    init(key: OpaquePointer, algorithms: [JWSAlgorithm], signatureByteCount: Int) throws(KeyError) {
        self.key = key
        self.signatureByteCount = signatureByteCount
        secret = nil
        prepared = Array(repeating: nil, count: JWSAlgorithm.allCases.count)
        for algorithm in algorithms {
            guard let context = Self.verifyContext(key, algorithm) else { throw .malformed }
            prepared[algorithm.index] = context
        }
    }

    /// A secret, at least as long as the hash of each algorithm.
    init(secret: Secret, algorithms: Set<JWSAlgorithm>) throws(KeyError) {
        self.secret = secret
        key = nil
        signatureByteCount = 0
        prepared = Array(repeating: nil, count: JWSAlgorithm.allCases.count)
        for algorithm in algorithms {
            guard let context = Self.macContext(secret, algorithm) else { throw .malformed }
            prepared[algorithm.index] = context
        }
    }

    deinit {
        for context in prepared {
            if secret == nil { EVP_MD_CTX_free(context) } else { EVP_MAC_CTX_free(context) }
        }
        EVP_PKEY_free(key)
    }

    func isPrepared(for algorithm: JWSAlgorithm) -> Bool { prepared[algorithm.index] != nil }

    /// The prepared `EVP_MD_CTX` of a public key.
    func verifyContext(for algorithm: JWSAlgorithm) -> OpaquePointer? { secret == nil ? prepared[algorithm.index] : nil }

    /// The prepared `EVP_MAC_CTX` of a secret.
    func macContext(for algorithm: JWSAlgorithm) -> OpaquePointer? { secret == nil ? nil : prepared[algorithm.index] }

    /// Same public key or same secret.
    func isSameKey(as other: KeyMaterial) -> Bool {
        if let key, let otherKey = other.key { return EVP_PKEY_eq(key, otherKey) == 1 }
        if let secret, let otherSecret = other.secret { return secret.equals(otherSecret) }
        return false
    }

    private static func verifyContext(_ key: OpaquePointer, _ algorithm: JWSAlgorithm) -> OpaquePointer? {
        guard let context = EVP_MD_CTX_new() else { return nil }
        var parameters: OpaquePointer?
        var isReady = EVP_DigestVerifyInit_ex(context, &parameters, algorithm.digestName, nil, nil, key, nil) == 1
        if isReady, algorithm.family == .rsaPSS { isReady = usePSS(parameters) }
        // The copy is used once, so the final step may work in it instead of in one more copy.
        EVP_MD_CTX_set_flags(context, Int32(EVP_MD_CTX_FLAG_FINALISE))
        if isReady { return context }
        EVP_MD_CTX_free(context)
        ERR_clear_error()
        return nil
    }

    /// RFC 7518 section 3.5: the salt is as long as the hash, and the mask generation function uses the same hash (the default).
    static func usePSS(_ parameters: OpaquePointer?) -> Bool {
        EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) == 1
            && EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, RSA_PSS_SALTLEN_DIGEST) == 1
    }

    private static func macContext(_ secret: Secret, _ algorithm: JWSAlgorithm) -> OpaquePointer? {
        // Fetched once per process, immutable, never freed.
        guard let name = algorithm.digestName, let context = EVP_MAC_CTX_new(hmac.pointer) else { return nil }
        var digest = Array(name.utf8CString)
        let isReady = digest.withUnsafeMutableBufferPointer { digest in
            let parameters = [
                OSSL_PARAM_construct_utf8_string(digestParameter.openSSLName, digest.baseAddress, 0), OSSL_PARAM_construct_end(),
            ]
            return secret.withUnsafeBytes {
                EVP_MAC_init(context, $0.baseAddress?.assumingMemoryBound(to: UInt8.self), $0.count, parameters) == 1
            }
        }
        if isReady { return context }
        EVP_MAC_CTX_free(context)
        ERR_clear_error()
        return nil
    }

    private struct Fetched: @unchecked Sendable {
        // Sendable: a fetched EVP_MAC is immutable and reference counted with atomics.
        let pointer = EVP_MAC_fetch(nil, "HMAC", nil)
    }
    private static let hmac = Fetched()
    /// `OSSL_MAC_PARAM_DIGEST`
    private static let digestParameter: StaticString = "digest"
}

extension JWSAlgorithm {
    /// OpenSSL's name of the hash; `nil` for EdDSA.
    var digestName: String? {
        switch hash {
        case .sha256: "SHA256"
        case .sha384: "SHA384"
        case .sha512: "SHA512"
        case nil: nil
        }
    }
}
