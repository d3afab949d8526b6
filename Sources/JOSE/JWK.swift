import Primitives
import StrictJSON

/// One entry of a JWK Set (RFC 7517 section 4).
enum JWK {
    /// The key, or why the entry is passed over.
    static func verificationKey(
        _ jwk: JSONObject, source: JWKSet.Source
    ) throws(JWKSet.SkipReason) -> VerificationKey {
        let type = try requiredText(jwk, "kty")
        guard ["RSA", "EC", "OKP", "oct"].contains(type) else { throw .unsupportedType }
        try checkUse(jwk)
        let keyID = try text(jwk, "kid")
        let algorithm = try algorithm(jwk)
        if type == "oct" {
            if source == .url { throw .publishedSecret }
            return try secretKey(jwk, keyID: keyID, algorithm: algorithm)
        }
        // The set is readable by whoever verifies, so whoever can read it could sign (RFC 7517 section 9.2).
        if ["d", "p", "q", "dp", "dq", "qi", "oth"].contains(where: { jwk[$0] != nil }) { throw .privateKey }
        let key: PublicKey
        switch type {
        case "RSA": key = .rsa(modulus: try octets(jwk, "n"), exponent: try octets(jwk, "e"))
        case "EC":
            guard let curve = VerificationKey.Curve(rawValue: try requiredText(jwk, "crv")) else { throw .unsupportedCurve }
            let x = try octets(jwk, "x")
            let y = try octets(jwk, "y")
            // RFC 7518 section 6.2.1.2: always the full length of a coordinate.
            guard x.count == curve.coordinateByteCount else { throw .invalidMember("x") }
            guard y.count == curve.coordinateByteCount else { throw .invalidMember("y") }
            key = .ec(curve, point: [0x04] + x + y)
        default:
            guard try requiredText(jwk, "crv") == "Ed25519" else { throw .unsupportedCurve }
            let x = try octets(jwk, "x")
            guard x.count == 32 else { throw .invalidMember("x") }
            key = .ed25519(x)
        }
        do { return try key.verificationKey(keyID: keyID, algorithm: algorithm) } catch { throw .key(error) }
    }

    private static func secretKey(
        _ jwk: JSONObject, keyID: String?, algorithm: JWSAlgorithm?
    ) throws(JWKSet.SkipReason) -> VerificationKey {
        let secret = Secret(try octets(jwk, "k"))
        var algorithms: Set<JWSAlgorithm> = [.hs256]
        if let algorithm {
            algorithms = [algorithm]
        } else {
            // Without `alg`: every algorithm the secret is long enough for.
            for longer in [JWSAlgorithm.hs384, .hs512] where secret.byteCount >= longer.hash?.byteCount ?? .max {
                algorithms.insert(longer)
            }
        }
        do {
            return try VerificationKey.hmac(secret, algorithms: algorithms, keyID: keyID)
        } catch { throw .key(error) }
    }

    /// `use` and `key_ops` (RFC 7517 sections 4.2 and 4.3): each, where present, must allow verifying.
    private static func checkUse(_ jwk: JSONObject) throws(JWKSet.SkipReason) {
        if let use = try text(jwk, "use"), use != "sig" { throw .unsupportedUse }
        guard let value = jwk["key_ops"] else { return }
        guard let operations = value.array, operations.allSatisfy({ $0.string != nil }) else { throw .invalidMember("key_ops") }
        guard operations.contains("verify") else { throw .unsupportedUse }
    }

    private static func algorithm(_ jwk: JSONObject) throws(JWKSet.SkipReason) -> JWSAlgorithm? {
        guard let name = try text(jwk, "alg") else { return nil }
        guard let algorithm = JWSAlgorithm(rawValue: name) else { throw .unsupportedAlgorithm }
        return algorithm
    }

    private static func text(_ jwk: JSONObject, _ name: String) throws(JWKSet.SkipReason) -> String? {
        guard let value = jwk[name] else { return nil }
        guard let text = value.string else { throw .invalidMember(name) }
        return text
    }

    private static func requiredText(_ jwk: JSONObject, _ name: String) throws(JWKSet.SkipReason) -> String {
        guard let text = try text(jwk, name) else { throw .invalidMember(name) }
        return text
    }

    private static func octets(_ jwk: JSONObject, _ name: String) throws(JWKSet.SkipReason) -> [UInt8] {
        guard let octets = Base64URL.decode(try requiredText(jwk, name)) else { throw .invalidMember(name) }
        return octets
    }
}
