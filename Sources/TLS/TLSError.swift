import COpenSSL

/// Why a context could not be made, a handshake failed or a connection broke. Holds no text of the peer.
package enum TLSError: Error, Equatable, Sendable {
    // Contexts.
    /// The PEM bytes hold no certificate, or one that cannot be read.
    case badCertificate
    /// The PEM bytes hold no private key that can be read without a password.
    case badPrivateKey
    /// The private key is not the certificate's.
    case keyMismatch
    /// Neither a DNS name nor an IP address.
    case badHostName
    /// OpenSSL has no memory or is misconfigured.
    case unavailable

    // The peer's certificate.
    case certificateExpired
    case certificateNotYetValid
    case hostNameMismatch
    /// The chain does not end at a trusted authority, a self-signed authority in it included.
    case unknownIssuer
    case selfSigned
    case certificateRevoked
    /// Every other failure of verification: a weak key or signature, a wrong purpose, a chain that is too long …
    case certificateRejected

    // The connection.
    /// No common protocol version: the peer offers less than TLS 1.2.
    case protocolVersion
    /// The peer does not speak TLS on this port.
    case notTLS
    /// The peer sent an alert that is none of the above, or nothing in common could be agreed on.
    case handshakeFailed
    /// The connection was closed or reset without close_notify.
    case truncated
    /// Bytes that are no TLS records, a bad record MAC, anything else after the handshake.
    case protocolViolation

    /// Bounded: metric label and log field.
    package var reason: StaticString {
        switch self {
        case .badCertificate: "bad_certificate"
        case .badPrivateKey: "bad_private_key"
        case .keyMismatch: "key_mismatch"
        case .badHostName: "bad_host_name"
        case .unavailable: "unavailable"
        case .certificateExpired: "certificate_expired"
        case .certificateNotYetValid: "certificate_not_yet_valid"
        case .hostNameMismatch: "host_name_mismatch"
        case .unknownIssuer: "unknown_issuer"
        case .selfSigned: "self_signed"
        case .certificateRevoked: "certificate_revoked"
        case .certificateRejected: "certificate_rejected"
        case .protocolVersion: "protocol_version"
        case .notTLS: "not_tls"
        case .handshakeFailed: "handshake_failed"
        case .truncated: "truncated"
        case .protocolViolation: "protocol_violation"
        }
    }

    /// A result of certificate verification that is not `X509_V_OK`.
    init(verifyResult: Int) {
        switch Int32(truncatingIfNeeded: verifyResult) {
        case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CRL_HAS_EXPIRED: self = .certificateExpired
        case X509_V_ERR_CERT_NOT_YET_VALID: self = .certificateNotYetValid
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: self = .hostNameMismatch
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED:
            self = .unknownIssuer
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: self = .selfSigned
        case X509_V_ERR_CERT_REVOKED: self = .certificateRevoked
        default: self = .certificateRejected
        }
    }

    /// From the calling thread's error queue, which is emptied.
    /// - Parameter duringHandshake: what cannot be told apart is `.handshakeFailed` then, else `.protocolViolation`.
    init(queueDuringHandshake duringHandshake: Bool) {
        // The oldest entry is the cause, later ones are callers passing it on.
        let code = ERR_get_error()
        ERR_clear_error()
        let reason = ERR_GET_REASON(code)
        switch reason {
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, SSL_R_NO_PROTOCOLS_AVAILABLE,
            SSL_R_VERSION_TOO_LOW, SSL_R_WRONG_SSL_VERSION:
            self = .protocolVersion
        case SSL_R_WRONG_VERSION_NUMBER where duringHandshake, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: self = .notTLS
        case SSL_R_UNEXPECTED_EOF_WHILE_READING: self = .truncated
        default: self = duringHandshake ? .handshakeFailed : .protocolViolation
        }
    }
}
