import COpenSSL
import EventLoop
import Primitives

/// Which authorities a client trusts.
package enum TLSTrust: Sendable, Equatable {
    /// The store of the system (on Debian `/etc/ssl/certs`; `SSL_CERT_FILE` and `SSL_CERT_DIR` override it).
    case system
    /// Only the certificates in these PEM bytes.
    case authorities(pem: [UInt8])
}

/// What every client connection has in common. Made once; used from every loop.
package final class TLSClientContext: @unchecked Sendable {
    // Sendable: an SSL_CTX is reference-counted with atomics, and nothing changes its settings after `init`; `sessions` locks.
    let raw: OpaquePointer
    let sessions: TLSSessionCache

    /// - Parameters:
    ///   - maxSessions: hosts whose last session is kept for resumption.
    ///   - offersHTTP: by ALPN (RFC 7301); false for other protocols, which name none.
    /// - Throws: `.badCertificate` when the PEM bytes are not certificates; `.unavailable`.
    package init(trust: TLSTrust, maxSessions: Int = 64, offersHTTP: Bool = true) throws(TLSError) {
        raw = try SharedSettings.makeContext(TLS_client_method())
        sessions = TLSSessionCache(capacity: maxSessions)
        switch trust {
        case .system:
            guard SSL_CTX_set_default_verify_paths(raw) == 1 else { throw .unavailable }
        case .authorities(let pem):
            guard let store = SSL_CTX_get_cert_store(raw) else { throw .unavailable }
            try PEM.forEachCertificate(pem) { certificate throws(TLSError) in
                guard X509_STORE_add_cert(store, certificate) == 1 else { throw .badCertificate }
            }
        }
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nil)
        if offersHTTP { SharedSettings.offerHTTP1(raw) }
        // Kept by us and not in OpenSSL's own cache: that one is searched by session ID, which a client does not have.
        _ = SSL_CTX_ctrl(
            raw, SSL_CTRL_SET_SESS_CACHE_MODE, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL), nil)
        SSL_CTX_sess_set_new_cb(raw) { ssl, session in
            // Called inside a read or handshake of the stream that owns `ssl`, so the stream is alive.
            guard let ssl, let session, let owner = SSL_get_ex_data(ssl, 0) else { return 0 }
            Unmanaged<TLSStream>.fromOpaque(owner).takeUnretainedValue().keep(session: session)
            // The reference stays OpenSSL's: a copy is kept.
            return 0
        }
    }

    deinit { SSL_CTX_free(raw) }

    /// Sessions kept for resumption at this moment.
    package var sessionCount: Int { sessions.count }
}

/// A server's certificate chain and key. Made once per load of the files; used from every loop.
package final class TLSServerContext: @unchecked Sendable {
    // Sendable: as TLSClientContext.
    let raw: OpaquePointer
    /// When the server's own certificate ends, in seconds since 1970.
    package private(set) var expiresAt: Int64 = 0

    /// - Parameters:
    ///   - certificates: PEM, the server's own certificate first, then the chain.
    ///   - privateKey: PEM, not encrypted.
    ///   - minimumVersion: only tests lower it.
    package init(
        certificates: [UInt8], privateKey: Secret, minimumVersion: TLSVersion = .tls12, maximumVersion: TLSVersion = .tls13
    ) throws(TLSError) {
        raw = try SharedSettings.makeContext(TLS_server_method())
        var isFirst = true
        try PEM.forEachCertificate(certificates) { certificate throws(TLSError) in
            if isFirst {
                guard SSL_CTX_use_certificate(raw, certificate) == 1 else { throw .badCertificate }
                isFirst = false
            } else {
                // `add0` takes over the reference on success.
                X509_up_ref(certificate)
                guard SSL_CTX_ctrl(raw, SSL_CTRL_CHAIN_CERT, 0, UnsafeMutableRawPointer(certificate)) == 1 else {
                    X509_free(certificate)
                    throw .badCertificate
                }
            }
        }
        let key = try PEM.privateKey(privateKey.copyBytes())
        defer { EVP_PKEY_free(key) }
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard SSL_CTX_use_PrivateKey(raw, key) == 1, SSL_CTX_check_private_key(raw) == 1 else { throw .keyMismatch }
        expiresAt = Self.expiry(of: raw)
        SharedSettings.setVersions(raw, minimumVersion, maximumVersion)
        SSL_CTX_set_alpn_select_cb(
            raw,
            { _, out, outLength, offered, offeredLength, _ in
                // RFC 7301: http/1.1 when offered; else none is named and the client decides.
                guard let out, let outLength, let offered else { return SSL_TLSEXT_ERR_NOACK }
                var position = 0
                while position < Int(offeredLength) {
                    let length = Int(offered[position])
                    guard position + 1 + length <= Int(offeredLength) else { break }
                    let name = UnsafeBufferPointer(start: offered + position + 1, count: length)
                    if name.elementsEqual("http/1.1".utf8) {
                        out.pointee = offered + position + 1
                        outLength.pointee = UInt8(length)
                        return SSL_TLSEXT_ERR_OK
                    }
                    position += 1 + length
                }
                return SSL_TLSEXT_ERR_NOACK
            }, nil)
    }

    deinit { SSL_CTX_free(raw) }

    private static func expiry(of context: OpaquePointer) -> Int64 {
        guard let certificate = SSL_CTX_get0_certificate(context), let end = X509_get0_notAfter(certificate),
            let epoch = ASN1_TIME_set(nil, 0)
        else { return 0 }
        defer { ASN1_STRING_free(epoch) }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard ASN1_TIME_diff(&days, &seconds, epoch, end) == 1 else { return 0 }
        return Int64(days) * 86_400 + Int64(seconds)
    }
}

package enum TLSVersion: Sendable, Equatable {
    case tls10, tls11, tls12, tls13

    var number: Int32 {
        switch self {
        case .tls10: TLS1_VERSION
        case .tls11: TLS1_1_VERSION
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }

    init?(number: Int32) {
        switch number {
        case TLS1_VERSION: self = .tls10
        case TLS1_1_VERSION: self = .tls11
        case TLS1_2_VERSION: self = .tls12
        case TLS1_3_VERSION: self = .tls13
        default: return nil
        }
    }
}

private enum SharedSettings {
    /// `SSL_OP_NO_RENEGOTIATION` and `SSL_OP_NO_COMPRESSION`: function-like macros, which do not import.
    private static let options: UInt64 = 1 << 30 | 1 << 17

    static func makeContext(_ method: OpaquePointer?) throws(TLSError) -> OpaquePointer {
        // OpenSSL writes with write(2), which cannot be told not to raise SIGPIPE: nobody can use TLS here and forget it.
        ProcessSettings.ignoreBrokenPipes()
        ERR_clear_error()
        guard let context = SSL_CTX_new(method) else { throw .unavailable }
        setVersions(context, .tls12, .tls13)
        SSL_CTX_set_options(context, options)
        // Buffers only while a record is under way (27 instead of 41 KB a connection); a write may be retried from another address.
        let modes = SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
        _ = SSL_CTX_ctrl(context, SSL_CTRL_MODE, Int(modes), nil)
        // One read takes header and content of a record together.
        _ = SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, nil)
        return context
    }

    static func setVersions(_ context: OpaquePointer, _ minimum: TLSVersion, _ maximum: TLSVersion) {
        _ = SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(minimum.number), nil)
        _ = SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(maximum.number), nil)
        // OpenSSL 3 signs below TLS 1.2 with SHA-1, which only security level 0 allows: tests of refused versions need it.
        if minimum == .tls10 || minimum == .tls11 { SSL_CTX_set_security_level(context, 0) }
    }

    static func offerHTTP1(_ context: OpaquePointer) {
        let protocols: [UInt8] = [8] + Array("http/1.1".utf8)
        _ = SSL_CTX_set_alpn_protos(context, protocols, UInt32(protocols.count))
    }
}
