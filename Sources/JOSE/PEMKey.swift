import COpenSSL
import Primitives

/// Public keys in PEM files (RFC 7468).
enum PEMKey {
    private struct Block {
        let label: String
        let isEncrypted: Bool
        let content: [UInt8]
    }

    /// The one public key of the file; of several certificates (a chain) the first.
    static func parse(_ bytes: [UInt8], keyID: String?) throws(KeyError) -> VerificationKey {
        defer { ERR_clear_error() }
        let blocks = try blocks(of: bytes)
        // A private key anywhere is a mistake that must not go unseen.
        if blocks.contains(where: { $0.label.hasSuffix("PRIVATE KEY") }) { throw .privateKey }
        if blocks.contains(where: \.isEncrypted) { throw .encryptedKey }
        guard let block = blocks.first else { throw .notPEM }
        guard blocks.count == 1 || blocks.allSatisfy({ $0.label == "CERTIFICATE" }) else { throw .severalKeys }
        let key: OpaquePointer
        switch block.label {
        case "PUBLIC KEY": key = try subjectPublicKey(block.content)
        // PKCS #1 holds what the BIT STRING of a SubjectPublicKeyInfo holds: wrap it (RFC 8017 appendix A.1.1, RFC 3279 section 2.3.1).
        case "RSA PUBLIC KEY": key = try subjectPublicKey(DER.rsaPublicKeyInfo(block.content))
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE": key = try certificateKey(block.content)
        default: throw .notPEM
        }
        defer { EVP_PKEY_free(key) }
        return try publicKey(key).verificationKey(keyID: keyID, algorithm: nil)
    }

    private static func blocks(of bytes: [UInt8]) throws(KeyError) -> [Block] {
        let bio = BIO_new_mem_buf(bytes, Int32(clamping: bytes.count))
        defer { BIO_free(bio) }
        var blocks: [Block] = []
        while true {
            var label: UnsafeMutablePointer<CChar>?
            var header: UnsafeMutablePointer<CChar>?
            var content: UnsafeMutablePointer<UInt8>?
            var count = 0
            let found = PEM_read_bio(bio, &label, &header, &content, &count) == 1
            defer {
                COpenSSL_free(label)
                COpenSSL_free(header)
                COpenSSL_free(content)
            }
            guard found, let label, let header else {
                // The end of the file is told by the same call as damage.
                guard ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE else { throw .malformed }
                return blocks
            }
            blocks.append(
                Block(
                    label: String(cString: label), isEncrypted: header[0] != 0,
                    content: Array(UnsafeBufferPointer(start: content, count: count))))
        }
    }

    private static func subjectPublicKey(_ der: [UInt8]) throws(KeyError) -> OpaquePointer {
        let key = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var position = buffer.baseAddress
            let key = d2i_PUBKEY_ex(nil, &position, buffer.count, nil, nil)
            if position == buffer.baseAddress.map({ $0 + buffer.count }) { return key }
            EVP_PKEY_free(key)
            return nil
        }
        guard let key else { throw .malformed }
        return key
    }

    private static func certificateKey(_ der: [UInt8]) throws(KeyError) -> OpaquePointer {
        let certificate = der.withUnsafeBufferPointer { buffer in
            var position = buffer.baseAddress
            return d2i_X509(nil, &position, buffer.count)
        }
        defer { X509_free(certificate) }
        guard let certificate, let key = X509_get_pubkey(certificate) else { throw .malformed }
        return key
    }

    /// The numbers only, so that a key from a file passes the same checks as one from a set: named curves, sizes, exponent.
    private static func publicKey(_ key: OpaquePointer) throws(KeyError) -> PublicKey {
        if EVP_PKEY_is_a(key, "RSA") == 1 {
            guard let modulus = number(key, OSSL_PKEY_PARAM_RSA_N), let exponent = number(key, OSSL_PKEY_PARAM_RSA_E) else {
                throw .malformed
            }
            return .rsa(modulus: modulus, exponent: exponent)
        }
        if EVP_PKEY_is_a(key, "EC") == 1 {
            // Parameters written out can describe a curve that only looks like a named one (CVE-2020-0601).
            var isExplicit: Int32 = 0
            EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &isExplicit)
            guard isExplicit == 0, let curve = curve(key) else { throw .unsupportedCurve }
            guard let point = octets(key, OSSL_PKEY_PARAM_PUB_KEY) else { throw .malformed }
            return .ec(curve, point: point)
        }
        if EVP_PKEY_is_a(key, "ED25519") == 1 {
            guard let point = octets(key, OSSL_PKEY_PARAM_PUB_KEY) else { throw .malformed }
            return .ed25519(point)
        }
        throw .unsupportedType
    }

    private static func curve(_ key: OpaquePointer) -> VerificationKey.Curve? {
        var name = [CChar](repeating: 0, count: 64)
        var count = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return nil }
        return VerificationKey.Curve(
            openSSLName: String(decoding: name.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self))
    }

    static func number(_ key: OpaquePointer, _ parameter: String) -> [UInt8]? {
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, parameter, &number) == 1 else { return nil }
        defer { BN_free(number) }
        return [UInt8](unsafeUninitializedCapacity: Int(BN_num_bits(number) + 7) / 8) { bytes, count in
            count = Int(BN_bn2bin(number, bytes.baseAddress))
        }
    }

    static func octets(_ key: OpaquePointer, _ parameter: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 256)
        var count = 0
        guard EVP_PKEY_get_octet_string_param(key, parameter, &bytes, bytes.count, &count) == 1 else { return nil }
        return Array(bytes.prefix(count))
    }
}
