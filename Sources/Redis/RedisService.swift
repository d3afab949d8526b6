import EventLoop
import Primitives
import TLS

/// How a server is reached and greeted: its configuration, ready for use. Immutable.
package final class RedisAccess: Sendable {
    let url: RedisURL
    let tls: TLSClientContext?

    package init(_ config: RedisConfig) throws(TLSError) {
        url = config.url
        guard config.url.usesTLS else {
            tls = nil
            return
        }
        let trust: TLSTrust = config.caFile.map { .authorities(pem: $0.bytes) } ?? .system
        tls = try TLSClientContext(trust: trust, offersHTTP: false)
    }
}

/// What the clients of all loops share about one server. Any thread.
///
/// User, password and authorities can be replaced while it runs. Connections that are open stay, for Redis has let them in; new ones use what was
/// given last. Whether Redis or our file learns of a new password first nobody can arrange, so what worked before is kept until Redis has taken
/// what is new: of the two the one that was not refused last is tried next.
package final class RedisService: Sendable {
    private struct State {
        var newest: RedisAccess
        /// Redis has let in `newest`.
        var isAccepted = false
        /// What worked before, until then.
        var previous: RedisAccess?
        var usesPrevious = false
    }

    let resolver: Resolver
    private let state: Lock<State>

    package init(_ config: RedisConfig, resolver: Resolver) throws(TLSError) {
        self.resolver = resolver
        state = Lock(State(newest: try RedisAccess(config)))
    }

    /// For a reload. The server must be the same.
    package func replace(_ access: RedisAccess) {
        state.withLock { state in
            let worked = state.isAccepted ? state.newest : state.previous ?? state.newest
            state = State(newest: access, previous: worked)
        }
    }

    /// For a connection that begins now.
    var access: RedisAccess { state.withLock { $0.usesPrevious ? $0.previous ?? $0.newest : $0.newest } }

    func accepted(_ access: RedisAccess) {
        state.withLock { state in
            guard access === state.newest, !state.isAccepted else { return }
            state.isAccepted = true
            state.previous = nil
            state.usesPrevious = false
        }
    }

    /// - Returns: whether there is another that a connection may try.
    @discardableResult
    func refused(_ access: RedisAccess) -> Bool {
        state.withLock { state in
            guard let previous = state.previous else { return false }
            if access === state.newest { state.usesPrevious = true } else if access === previous { state.usesPrevious = false }
            return true
        }
    }
}
