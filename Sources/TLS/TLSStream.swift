import COpenSSL
import EventLoop

/// One TLS connection over a connected, non-blocking descriptor, as the transport of a ``ByteStream``. Belongs to that stream's loop.
package final class TLSStream: StreamTransport {
    private enum State {
        case handshaking
        case open
        /// close_notify has arrived, or the connection has failed: what is left to be told to the reader.
        case over(IOResult)
    }

    private let ssl: OpaquePointer
    private let sessions: TLSSessionCache?
    private let sessionKey: String
    private var state = State.handshaking
    /// Why the handshake or the connection failed.
    package private(set) var error: TLSError?

    /// The client's side.
    /// - Parameters:
    ///   - descriptor: stays the caller's, and outlives this object's last call.
    ///   - host: a DNS name or an IP address without brackets, which the certificate has to name. Sent as SNI when it is a name.
    ///   - port: only tells sessions apart.
    package init(client context: TLSClientContext, descriptor: Int32, host: String, port: Int) throws(TLSError) {
        guard let ssl = SSL_new(context.raw) else { throw .unavailable }
        self.ssl = ssl
        sessions = context.sessions
        sessionKey = "\(host):\(port)"
        SSL_set_connect_state(ssl)
        try attach(descriptor)
        // RFC 9525 section 6.3: no names like `w*.example.com`, and the common name counts for nothing.
        SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT))
        if let address = a2i_IPADDRESS(host) {
            ASN1_OCTET_STRING_free(address)
            guard X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 else { throw .badHostName }
        } else {
            ERR_clear_error()
            // A NUL would end the name early for C.
            guard !host.isEmpty, !host.utf8.contains(0), SSL_set1_host(ssl, host) == 1 else { throw .badHostName }
            let accepted = host.withCString {
                SSL_ctrl(
                    ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, Int(TLSEXT_NAMETYPE_host_name), UnsafeMutableRawPointer(mutating: $0))
            }
            guard accepted == 1 else { throw .badHostName }
        }
        context.sessions.offer(sessionKey, on: ssl)
    }

    /// The server's side.
    package init(server context: TLSServerContext, descriptor: Int32) throws(TLSError) {
        guard let ssl = SSL_new(context.raw) else { throw .unavailable }
        self.ssl = ssl
        sessions = nil
        sessionKey = ""
        SSL_set_accept_state(ssl)
        try attach(descriptor)
    }

    private func attach(_ descriptor: Int32) throws(TLSError) {
        // Without a BIO_CLOSE flag: the descriptor is the stream's to close.
        guard SSL_set_fd(ssl, descriptor) == 1 else { throw .unavailable }
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit {
        // Freed as if both sides had said goodbye: otherwise OpenSSL takes the session for broken and it is never resumed.
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
        ERR_clear_error()
    }

    // MARK: What was agreed on

    package var isResumed: Bool { SSL_session_reused(ssl) == 1 }
    package var version: TLSVersion? { TLSVersion(number: SSL_version(ssl)) }
    /// Bytes handed to the kernel so far, handshake included: tells whether anything of a request has gone out.
    package var sentBytes: UInt64 { SSL_get_wbio(ssl).map { BIO_number_written($0) } ?? 0 }

    // MARK: StreamTransport

    package var mayMeetPlainText: Bool {
        guard case .handshaking = state, SSL_is_server(ssl) == 1, let input = SSL_get_rbio(ssl) else { return false }
        return BIO_number_read(input) == 0
    }

    package func handshake() -> HandshakeStep {
        switch state {
        case .open: return .done
        case .over: return .failed(.transport((error ?? .handshakeFailed).reason))
        case .handshaking: break
        }
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            state = .open
            return .done
        }
        let outcome = SSL_get_error(ssl, result)
        switch outcome {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .wait
        default:
            let verified = SSL_get_verify_result(ssl)
            var error = failure(outcome, duringHandshake: true)
            // The reason of our own refusal; the queue says only that verification failed.
            if verified != Int(X509_V_OK) && sessions != nil { error = TLSError(verifyResult: verified) }
            // Whatever was wrong, the next attempt starts without the old session.
            sessions?.remove(sessionKey)
            fail(error)
            return .failed(.transport(error.reason))
        }
    }

    package func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if case .over(let result) = state { return result }
        guard let base = buffer.baseAddress, !buffer.isEmpty else { return .wouldBlock }
        ERR_clear_error()
        var filled = 0
        // Each call gives at most one record: until the buffer is full or OpenSSL has nothing left.
        while filled < buffer.count {
            var count = 0
            let result = SSL_read_ex(ssl, base + filled, buffer.count - filled, &count)
            if result == 1 {
                filled += count
                continue
            }
            let outcome = SSL_get_error(ssl, result)
            switch outcome {
            case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
                return filled > 0 ? .bytes(filled) : .wouldBlock
            case SSL_ERROR_ZERO_RETURN:
                state = .over(.end)
            default:
                fail(failure(outcome, duringHandshake: false))
            }
            break
        }
        // What ends the connection is told at the next call, behind the bytes.
        if filled > 0 { return .bytes(filled) }
        if case .over(let result) = state { return result }
        return .wouldBlock
    }

    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if case .over(.failed(let error)) = state { return .failed(error) }
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return .bytes(0) }
        ERR_clear_error()
        var count = 0
        let result = SSL_write_ex(ssl, base, bytes.count, &count)
        if result == 1 { return .bytes(count) }
        let outcome = SSL_get_error(ssl, result)
        switch outcome {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .wouldBlock
        default:
            let error = failure(outcome, duringHandshake: false)
            fail(error)
            return .failed(Self.streamError(error))
        }
    }

    package func shutdown() {
        guard case .open = state else {
            // RFC 8446 section 6.1 wants a close_notify in answer to one, too; after a failure OpenSSL forbids it.
            if case .over(.end) = state { sendCloseNotify() }
            return
        }
        sendCloseNotify()
    }

    private func sendCloseNotify() {
        // Once and without waiting for the peer's: the connection is closed right after.
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
        ERR_clear_error()
    }

    /// - Parameter outcome: of `SSL_get_error`. A failed system call (a reset) leaves nothing in the error queue.
    private func failure(_ outcome: Int32, duringHandshake: Bool) -> TLSError {
        let queued = TLSError(queueDuringHandshake: duringHandshake)
        return outcome == SSL_ERROR_SYSCALL ? .truncated : queued
    }

    private func fail(_ error: TLSError) {
        self.error = error
        state = .over(.failed(Self.streamError(error)))
    }

    /// An abrupt end is a reset, as without TLS, whether the kernel or OpenSSL noticed it.
    private static func streamError(_ error: TLSError) -> StreamError {
        error == .truncated ? .reset : .transport(error.reason)
    }

    /// Called by OpenSSL inside a handshake or read.
    func keep(session: OpaquePointer) { sessions?.store(session, for: sessionKey) }
}
