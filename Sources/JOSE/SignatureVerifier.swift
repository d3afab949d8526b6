import COpenSSL
import Primitives

/// Verifies signatures. One per thread: it owns OpenSSL's scratch memory and must not be shared. No locks, and no state that changes
/// a verdict.
package final class SignatureVerifier {
    /// An `EVP_MD_CTX` that prepared contexts are copied into.
    private let scratch: OpaquePointer?
    /// HMAC contexts of the secrets used last, at most ``maxMACs``: starting one again costs a third of copying one. Each holds its
    /// key, so that the identity of a key cannot be reused while its entry lives.
    private var macs: [MAC] = []
    private static let maxMACs = 8
    private var der: [UInt8] = []
    private var code: [UInt8]

    private struct MAC {
        let material: KeyMaterial
        let algorithm: JWSAlgorithm
        /// `EVP_MAC_CTX`
        let context: OpaquePointer
    }

    package init() {
        scratch = EVP_MD_CTX_new()
        code = Array(repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        der.reserveCapacity(160)
    }

    deinit {
        EVP_MD_CTX_free(scratch)
        forgetMACs()
    }

    /// Whether the signature over the token's signing input is the key's. `false` also where the key does not fit the algorithm.
    package func verify(_ jws: CompactJWS, algorithm: JWSAlgorithm, key: VerificationKey) -> Bool {
        verify(jws.signature, over: jws.signingInput, algorithm: algorithm, key: key)
    }

    /// The first of the keys whose signature it is.
    package func verify(_ jws: CompactJWS, algorithm: JWSAlgorithm, keys: [VerificationKey]) -> VerificationKey? {
        keys.first { verify(jws, algorithm: algorithm, key: $0) }
    }

    /// The same for parts that are not a token.
    package func verify(_ signature: [UInt8], over input: [UInt8], algorithm: JWSAlgorithm, key: VerificationKey) -> Bool {
        guard key.fits(algorithm) else { return false }
        switch algorithm.family {
        case .hmac: return verifyMAC(signature, input, algorithm, key.material)
        case .rsaPKCS1, .rsaPSS, .eddsa:
            guard signature.count == key.material.signatureByteCount else { return false }
            return verifyPublic(signature, input, algorithm, key.material)
        case .ecdsa:
            // Exactly the two coordinates: no other length, no DER (RFC 7518 section 3.4).
            guard signature.count == key.material.signatureByteCount else { return false }
            DER.writeECDSASignature(signature, to: &der)
            return verifyPublic(der, input, algorithm, key.material)
        }
    }

    private func verifyPublic(_ signature: [UInt8], _ input: [UInt8], _ algorithm: JWSAlgorithm, _ material: KeyMaterial) -> Bool
    {
        let isGood =
            EVP_MD_CTX_copy_ex(scratch, material.verifyContext(for: algorithm)) == 1
            && EVP_DigestVerify(scratch, signature, signature.count, input, input.count) == 1
        // The queue is the thread's: what stays there is taken for a failure of the next TLS call.
        if !isGood { ERR_clear_error() }
        return isGood
    }

    private func verifyMAC(_ signature: [UInt8], _ input: [UInt8], _ algorithm: JWSAlgorithm, _ material: KeyMaterial) -> Bool {
        guard let byteCount = algorithm.hash?.byteCount, signature.count == byteCount,
            let context = macContext(algorithm, material)
        else { return false }
        var written = 0
        // No key: the same one again.
        let isComputed =
            EVP_MAC_init(context, nil, 0, nil) == 1 && EVP_MAC_update(context, input, input.count) == 1
            && EVP_MAC_final(context, &code, &written, code.count) == 1
        guard isComputed, written == byteCount else {
            ERR_clear_error()
            return false
        }
        let computed = code
        return ConstantTime.equal(computed.span.bytes.extracting(0..<byteCount), signature.span.bytes)
    }

    private func macContext(_ algorithm: JWSAlgorithm, _ material: KeyMaterial) -> OpaquePointer? {
        for mac in macs where mac.material === material && mac.algorithm == algorithm { return mac.context }
        guard let prepared = material.macContext(for: algorithm), let context = EVP_MAC_CTX_dup(prepared) else { return nil }
        if macs.count == Self.maxMACs { forgetMACs() }
        macs.append(MAC(material: material, algorithm: algorithm, context: context))
        return context
    }

    private func forgetMACs() {
        for mac in macs { EVP_MAC_CTX_free(mac.context) }
        macs.removeAll()
    }
}
