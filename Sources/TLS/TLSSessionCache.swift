import COpenSSL
import Primitives

/// The last session of each host and port, for resumption. Bounded: the host whose session is oldest goes first. A session is offered
/// again as long as OpenSSL takes it for resumable; the server decides, and a refused one only costs a full handshake.
final class TLSSessionCache: Sendable {
    /// One reference to an SSL_SESSION.
    private final class Session: @unchecked Sendable {
        // Sendable: nobody else has this copy, and it is only copied again.
        let raw: OpaquePointer
        init(adopting raw: OpaquePointer) { self.raw = raw }
        deinit { SSL_SESSION_free(raw) }
    }

    private struct Table {
        var sessions: [String: Session] = [:]
        var order: [String] = []
    }

    private let capacity: Int
    private let table = Lock(Table())

    init(capacity: Int) { self.capacity = max(1, capacity) }

    var count: Int { table.withLock { $0.sessions.count } }

    /// Keeps a copy: OpenSSL marks a connection's own session as not resumable when that connection breaks, and servers that close idle
    /// connections without close_notify would cost a full handshake each time.
    func store(_ session: OpaquePointer, for key: String) {
        guard let copy = SSL_SESSION_dup(session) else { return }
        let session = Session(adopting: copy)
        table.withLock { table in
            table.order.removeAll { $0 == key }
            table.order.append(key)
            table.sessions[key] = session
            if table.order.count > capacity { table.sessions[table.order.removeFirst()] = nil }
        }
    }

    func remove(_ key: String) {
        table.withLock { table in
            table.order.removeAll { $0 == key }
            table.sessions[key] = nil
        }
    }

    /// Has `ssl` offer the session kept for `key`.
    func offer(_ key: String, on ssl: OpaquePointer) {
        let session = table.withLock { $0.sessions[key] }
        guard let session, SSL_SESSION_is_resumable(session.raw) == 1, let copy = SSL_SESSION_dup(session.raw) else { return }
        // Takes a reference of its own.
        SSL_set_session(ssl, copy)
        SSL_SESSION_free(copy)
    }
}
