import COpenSSL
import Digests
import Primitives

/// The numbers of a public key, from a JWK or a PEM file: one place decides which of them are accepted.
enum PublicKey {
    /// Big-endian; leading zero octets are ignored.
    case rsa(modulus: [UInt8], exponent: [UInt8])
    /// `point` as in SEC 1 section 2.3.3
    case ec(VerificationKey.Curve, point: [UInt8])
    case ed25519([UInt8])

    static let rsaBits = 2048...8192

    /// The key, for `algorithm` alone or, where that is `nil`, for every algorithm of its type.
    func verificationKey(keyID: String?, algorithm: JWSAlgorithm?) throws(KeyError) -> VerificationKey {
        let fitting = self.algorithms
        if let algorithm, !fitting.contains(algorithm) { throw .algorithmMismatch }
        let algorithms = algorithm.map { [$0] } ?? fitting
        defer { ERR_clear_error() }
        let kind: VerificationKey.Kind
        let pointer: OpaquePointer
        let signatureByteCount: Int
        switch self {
        case .rsa(let modulus, let exponent):
            let bits = try Self.checkRSA(modulus, exponent)
            pointer = try Self.rsaKey(modulus, exponent)
            kind = .rsa(bits: bits)
            signatureByteCount = (bits + 7) / 8
        case .ec(let curve, let point):
            pointer = try Self.ecKey(curve, point)
            kind = .ec(curve)
            signatureByteCount = 2 * curve.coordinateByteCount
        case .ed25519(let point):
            guard point.count == 32 else { throw .malformed }
            guard !Self.isSmallOrder(point) else { throw .notOnCurve }
            guard let key = EVP_PKEY_new_raw_public_key_ex(nil, "ED25519", nil, point, point.count) else { throw .malformed }
            pointer = key
            kind = .ed25519
            signatureByteCount = 64
        }
        return VerificationKey(
            keyID: keyID, kind: kind, algorithm: algorithm,
            material: try KeyMaterial(key: pointer, algorithms: algorithms, signatureByteCount: signatureByteCount))
    }

    private var algorithms: [JWSAlgorithm] {
        switch self {
        case .rsa: [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]
        case .ec(.p256, _): [.es256]
        case .ec(.p384, _): [.es384]
        case .ec(.p521, _): [.es512]
        case .ed25519: [.edDSA]
        }
    }

    // MARK: RSA

    /// Returns the size of the modulus in bits. Sizes are judged before any arithmetic.
    private static func checkRSA(_ modulus: [UInt8], _ exponent: [UInt8]) throws(KeyError) -> Int {
        let bits = bitCount(modulus)
        guard bits >= rsaBits.lowerBound else { throw .rsaTooSmall(bits: bits) }
        guard bits <= rsaBits.upperBound else { throw .rsaTooLarge(bits: bits) }
        // e = 1 makes every padded hash its own signature; an even e has no inverse; a long e only costs time.
        let exponentBits = bitCount(exponent)
        guard (2...64).contains(exponentBits), exponent.last.map({ $0 & 1 == 1 }) ?? false else { throw .weakExponent }
        guard modulus.last.map({ $0 & 1 == 1 }) ?? false, !isROCA(modulus) else { throw .weakModulus }
        return bits
    }

    private static func bitCount(_ number: [UInt8]) -> Int {
        guard let first = number.firstIndex(where: { $0 != 0 }) else { return 0 }
        return (number.count - first) * 8 - number[first].leadingZeroBitCount
    }

    /// CVE-2017-15361: primes of the form k·M + (65537^a mod M), so that the modulus, too, is a power of 65537 modulo every small
    /// prime in M. Such moduli can be factored; a sound one looks like this with a probability below 2^-27.
    private static func isROCA(_ modulus: [UInt8]) -> Bool {
        let primes = [
            3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113,
            127,
            131, 137, 139, 149, 151, 157, 163, 167,
        ]
        return primes.allSatisfy { prime in
            let remainder = modulus.reduce(0) { ($0 << 8 | Int($1)) % prime }
            var power = 1
            repeat {
                if power == remainder { return true }
                power = power * 65_537 % prime
            } while power != 1
            return false
        }
    }

    private static func rsaKey(_ modulus: [UInt8], _ exponent: [UInt8]) throws(KeyError) -> OpaquePointer {
        let n = BN_bin2bn(modulus, Int32(modulus.count), nil)
        let e = BN_bin2bn(exponent, Int32(exponent.count), nil)
        defer {
            BN_free(n)
            BN_free(e)
        }
        let key = build(type: "RSA") { builder in
            OSSL_PARAM_BLD_push_BN(builder, Parameter.modulus.openSSLName, n) == 1
                && OSSL_PARAM_BLD_push_BN(builder, Parameter.exponent.openSSLName, e) == 1
        }
        guard let key else { throw .malformed }
        return key
    }

    // MARK: Elliptic curves

    private static func ecKey(_ curve: VerificationKey.Curve, _ point: [UInt8]) throws(KeyError) -> OpaquePointer {
        let key = point.withUnsafeBytes { point in
            build(type: "EC") { builder in
                OSSL_PARAM_BLD_push_utf8_string(builder, Parameter.group.openSSLName, curve.openSSLGroup.openSSLName, 0) == 1
                    && OSSL_PARAM_BLD_push_octet_string(builder, Parameter.point.openSSLName, point.baseAddress, point.count) == 1
            }
        }
        guard let key else { throw .notOnCurve }
        let check = EVP_PKEY_CTX_new_from_pkey(nil, key, nil)
        defer { EVP_PKEY_CTX_free(check) }
        guard EVP_PKEY_public_check_quick(check) == 1 else {
            EVP_PKEY_free(key)
            throw .notOnCurve
        }
        return key
    }

    /// The y coordinates of the points whose order divides 8, with non-canonical spellings (RFC 8032 section 5.1, cofactor 8). Under
    /// such a key one signature fits many messages.
    private static let smallOrder: Set<[UInt8]> = Set(
        [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ].compactMap { Hex.decode(Array($0.utf8)) })

    private static func isSmallOrder(_ point: [UInt8]) -> Bool {
        var unsigned = point
        unsigned[31] &= 0x7F
        return smallOrder.contains(unsigned)
    }

    // MARK: OpenSSL

    /// `OSSL_PKEY_PARAM_RSA_N`, `_RSA_E`, `_GROUP_NAME` and `_PUB_KEY`
    private enum Parameter {
        static let modulus: StaticString = "n"
        static let exponent: StaticString = "e"
        static let group: StaticString = "group"
        static let point: StaticString = "pub"
    }

    /// An `EVP_PKEY` out of parameters, `nil` where OpenSSL refuses them. What `push` names must outlive the call.
    private static func build(type: String, _ push: (OpaquePointer?) -> Bool) -> OpaquePointer? {
        let builder = OSSL_PARAM_BLD_new()
        defer { OSSL_PARAM_BLD_free(builder) }
        guard push(builder), let parameters = OSSL_PARAM_BLD_to_param(builder) else { return nil }
        defer { OSSL_PARAM_free(parameters) }
        let context = EVP_PKEY_CTX_new_from_name(nil, type, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_fromdata_init(context) == 1,
            EVP_PKEY_fromdata(context, &key, COpenSSL_EVP_PKEY_PUBLIC_KEY, parameters) == 1
        else {
            EVP_PKEY_free(key)
            return nil
        }
        return key
    }
}

extension VerificationKey.Curve {
    /// RFC 7518 section 6.2.1.2
    var coordinateByteCount: Int {
        switch self {
        case .p256: 32
        case .p384: 48
        case .p521: 66
        }
    }

    var openSSLGroup: StaticString {
        switch self {
        case .p256: "prime256v1"
        case .p384: "secp384r1"
        case .p521: "secp521r1"
        }
    }

    init?(openSSLName name: String) {
        switch name {
        case "prime256v1": self = .p256
        case "secp384r1": self = .p384
        case "secp521r1": self = .p521
        default: return nil
        }
    }
}
