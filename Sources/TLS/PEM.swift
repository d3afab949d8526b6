import COpenSSL

/// PEM bytes (RFC 7468) to OpenSSL's objects.
enum PEM {
    /// Calls `body` with each certificate, which is freed afterwards.
    /// - Throws: `.badCertificate` when there is none or one cannot be read; what `body` throws.
    static func forEachCertificate(_ bytes: [UInt8], _ body: (OpaquePointer) throws(TLSError) -> Void) throws(TLSError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let source = memory(bytes) else { throw .unavailable }
        defer { BIO_free(source) }
        var count = 0
        while let certificate = PEM_read_bio_X509(source, nil, noPassword, nil) {
            defer { X509_free(certificate) }
            count += 1
            try body(certificate)
        }
        // The regular end is "no further start line"; anything else is a block that could not be read.
        guard count > 0, ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE else { throw .badCertificate }
    }

    /// - Returns: an `EVP_PKEY` the caller frees.
    static func privateKey(_ bytes: [UInt8]) throws(TLSError) -> OpaquePointer {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let source = memory(bytes) else { throw .unavailable }
        defer { BIO_free(source) }
        guard let key = PEM_read_bio_PrivateKey(source, nil, noPassword, nil) else { throw .badPrivateKey }
        return key
    }

    /// Without it OpenSSL would ask for a password on the terminal.
    private static let noPassword:
        @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 = {
            _, _, _, _ in -1
        }

    private static func memory(_ bytes: [UInt8]) -> OpaquePointer? {
        // BIO_new_mem_buf would borrow the bytes: this copies them.
        guard let bio = BIO_new(BIO_s_mem()) else { return nil }
        guard BIO_write(bio, bytes, Int32(clamping: bytes.count)) == Int32(clamping: bytes.count) || bytes.isEmpty else {
            BIO_free(bio)
            return nil
        }
        return bio
    }
}
