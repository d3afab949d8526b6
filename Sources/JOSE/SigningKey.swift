import COpenSSL
import Digests
import Primitives
import StrictJSON

/// A key that signs tokens, for the simulator and for tests only.
package struct SigningKey: Sendable {
    package let algorithm: JWSAlgorithm
    package let keyID: String?
    private let material: Material

    private enum Material: Sendable {
        case secret(Secret)
        case pair(KeyPair)
    }

    /// A fresh key; `rsaBits` counts for RS* and PS*.
    package static func generate(_ algorithm: JWSAlgorithm, keyID: String? = nil, rsaBits: Int = 2048) -> SigningKey {
        let pair: KeyPair
        switch algorithm {
        case .hs256, .hs384, .hs512:
            var bytes = [UInt8](repeating: 0, count: 64)
            precondition(RAND_bytes(&bytes, Int32(bytes.count)) == 1, "OpenSSL has no random numbers")
            return SigningKey(algorithm: algorithm, keyID: keyID, material: .secret(Secret(bytes)))
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512:
            pair = KeyPair(type: "RSA") { EVP_PKEY_CTX_set_rsa_keygen_bits($0, Int32(rsaBits)) == 1 }
        case .es256: pair = KeyPair(curve: .p256)
        case .es384: pair = KeyPair(curve: .p384)
        case .es512: pair = KeyPair(curve: .p521)
        case .edDSA: pair = KeyPair(type: "ED25519") { _ in true }
        }
        return SigningKey(algorithm: algorithm, keyID: keyID, material: .pair(pair))
    }

    /// HMAC under a given secret of any length, also one that no verifier would take.
    package static func hmac(_ algorithm: JWSAlgorithm, secret: Secret, keyID: String? = nil) -> SigningKey {
        SigningKey(algorithm: algorithm, keyID: keyID, material: .secret(secret))
    }

    // MARK: Tokens

    /// A token with these claims. Without a header: `alg`, `typ` `JWT` and, if there is one, `kid`; a header given is used as it is.
    package func sign(header: JSONObject? = nil, claims: JSONObject) -> String {
        var usual: JSONObject = ["alg": .string(algorithm.rawValue), "typ": "JWT"]
        usual["kid"] = keyID.map(JSONValue.string)
        return sign(rawHeader: (header ?? usual).encoded(), rawPayload: claims.encoded())
    }

    /// A token around any octets, for attacks.
    package func sign(rawHeader: [UInt8], rawPayload: [UInt8], as other: JWSAlgorithm? = nil) -> String {
        let input = Base64URL.encode(rawHeader) + "." + Base64URL.encode(rawPayload)
        return input + "." + Base64URL.encode(signature(over: Array(input.utf8), as: other))
    }

    /// The JWS signature over `signingInput`; `as` replaces the key's own algorithm by another that its type can compute. Empty where
    /// it cannot.
    package func signature(over signingInput: [UInt8], as other: JWSAlgorithm? = nil) -> [UInt8] {
        let algorithm = other ?? algorithm
        switch material {
        case .secret(let secret):
            guard algorithm.isSymmetric, let hash = algorithm.hash else { return [] }
            return HMACKey(hash, key: secret).authenticate(signingInput)
        case .pair(let pair):
            return pair.sign(signingInput, algorithm)
        }
    }

    // MARK: The public side

    /// With `kid`, `use` and `alg`; for HMAC the `oct` key, which is the secret itself.
    package var publicJWK: JSONObject {
        var jwk: JSONObject
        switch material {
        case .secret(let secret): jwk = ["kty": "oct", "k": .string(Base64URL.encode(secret.copyBytes()))]
        case .pair(let pair): jwk = pair.publicMembers
        }
        jwk["kid"] = keyID.map(JSONValue.string)
        jwk["use"] = "sig"
        jwk["alg"] = .string(algorithm.rawValue)
        return jwk
    }

    /// `SubjectPublicKeyInfo` in PEM; `nil` for HMAC.
    package var publicPEM: String? {
        guard case .pair(let pair) = material else { return nil }
        var text = Substring(Base64.encode(pair.subjectPublicKeyInfo))
        var lines = "-----BEGIN PUBLIC KEY-----\n"
        while !text.isEmpty {
            lines += text.prefix(64) + "\n"
            text = text.dropFirst(64)
        }
        return lines + "-----END PUBLIC KEY-----\n"
    }

    /// What a verifier would hold, with the JWK's `alg`.
    package func verificationKey() throws(KeyError) -> VerificationKey {
        if case .secret(let secret) = material { return try .hmac(secret, algorithms: [algorithm], keyID: keyID) }
        do { return try JWK.verificationKey(publicJWK, source: .file) } catch {
            if case .key(let error) = error { throw error }
            throw .malformed
        }
    }
}

/// An `EVP_PKEY` with its private part.
private final class KeyPair: @unchecked Sendable {
    // Sendable: the pointer is written in `init`; signing only reads the key, each in a context of its own.
    private let key: OpaquePointer?

    init(type: String, _ configure: (OpaquePointer?) -> Bool) {
        let context = EVP_PKEY_CTX_new_from_name(nil, type, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        let isMade = EVP_PKEY_keygen_init(context) == 1 && configure(context) && EVP_PKEY_generate(context, &key) == 1
        precondition(isMade, "OpenSSL cannot make a key of type \(type)")
        self.key = key
    }

    convenience init(curve: VerificationKey.Curve) {
        self.init(type: "EC") { EVP_PKEY_CTX_set_group_name($0, curve.openSSLGroup.openSSLName) == 1 }
    }

    deinit { EVP_PKEY_free(key) }

    func sign(_ input: [UInt8], _ algorithm: JWSAlgorithm) -> [UInt8] {
        defer { ERR_clear_error() }
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var parameters: OpaquePointer?
        var signature = [UInt8](repeating: 0, count: 2_048)
        var count = signature.count
        guard EVP_DigestSignInit_ex(context, &parameters, algorithm.digestName, nil, nil, key, nil) == 1,
            algorithm.family != .rsaPSS || KeyMaterial.usePSS(parameters),
            EVP_DigestSign(context, &signature, &count, input, input.count) == 1
        else { return [] }
        signature.removeLast(signature.count - count)
        return algorithm.family == .ecdsa ? joined(signature) : signature
    }

    /// r‖s (RFC 7518 section 3.4) out of DER.
    private func joined(_ der: [UInt8]) -> [UInt8] {
        let signature = der.withUnsafeBufferPointer { buffer in
            var position = buffer.baseAddress
            return d2i_ECDSA_SIG(nil, &position, buffer.count)
        }
        defer { ECDSA_SIG_free(signature) }
        guard let signature, let r = ECDSA_SIG_get0_r(signature), let s = ECDSA_SIG_get0_s(signature) else { return [] }
        let half = Int(EVP_PKEY_get_bits(key) + 7) / 8
        var bytes = [UInt8](repeating: 0, count: 2 * half)
        bytes.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            BN_bn2binpad(r, base, Int32(half))
            BN_bn2binpad(s, base + half, Int32(half))
        }
        return bytes
    }

    var publicMembers: JSONObject {
        guard let key else { return [:] }
        func text(_ bytes: some Sequence<UInt8>) -> JSONValue { .string(Base64URL.encode(bytes)) }
        if EVP_PKEY_is_a(key, "RSA") == 1 {
            return [
                "kty": "RSA", "n": text(PEMKey.number(key, OSSL_PKEY_PARAM_RSA_N) ?? []),
                "e": text(PEMKey.number(key, OSSL_PKEY_PARAM_RSA_E) ?? []),
            ]
        }
        let point = PEMKey.octets(key, OSSL_PKEY_PARAM_PUB_KEY) ?? []
        if EVP_PKEY_is_a(key, "EC") == 1 {
            let half = point.count / 2
            let curve: VerificationKey.Curve = half == 32 ? .p256 : half == 48 ? .p384 : .p521
            return [
                "kty": "EC", "crv": .string(curve.rawValue), "x": text(point.dropFirst().prefix(half)),
                "y": text(point.suffix(half)),
            ]
        }
        return ["kty": "OKP", "crv": "Ed25519", "x": text(point)]
    }

    var subjectPublicKeyInfo: [UInt8] {
        let count = i2d_PUBKEY(key, nil)
        guard count > 0 else { return [] }
        return [UInt8](unsafeUninitializedCapacity: Int(count)) { buffer, written in
            var position = buffer.baseAddress
            written = Int(i2d_PUBKEY(key, &position))
        }
    }
}
