import COpenSSL
import Primitives

/// The last session of each host and port, for resumption. Bounded: the host whose session is oldest goes first. A session is offered
/// again as long as OpenSSL takes it for resumable; the server decides, and a refused one only costs a full handshake.
final class TLSSessionCache: Sendable {
    /// One reference to an SSL_SESSION.
    private final class Session: @unchecked Sendable {
        // Sendable: SSL_SESSION is reference-counted with atomics, and it is not changed after it was handed out.
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

    /// Takes over the reference to `session`.
    func store(_ session: OpaquePointer, for key: String) {
        let session = Session(adopting: session)
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
        guard let session, SSL_SESSION_is_resumable(session.raw) == 1 else { return }
        // Takes a reference of its own.
        SSL_set_session(ssl, session.raw)
    }
}
