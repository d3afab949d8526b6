import Primitives

/// Why a call has no replies. Closed; ``reason`` is a metric label and log field.
package enum RedisError: Error, Equatable, Sendable {
    /// Why there is no connection. Nothing was sent.
    package enum Unreachable: Error, Equatable, Sendable {
        case dns
        /// No address answered, or refused.
        case refused
        case connectTimeout
        case tls
        /// A connection was tried less than a second ago.
        case backingOff
    }

    case unreachable(Unreachable)
    /// Redis answered the greeting (AUTH, SELECT), or the first command, with this error: no connection. Nothing of the call was sent.
    case refusedGreeting(RedisServerError)
    /// The deadline has passed. Not sent: it waited for a connection.
    case timedOut(wasSent: Bool)
    /// The connection ended before the reply.
    case broken
    /// Too many calls wait for a connection. Nothing was sent.
    case tooManyWaiting
    /// More than a connection may carry. Nothing was sent.
    case commandTooLarge
    /// What came is no reply, too large, or belongs to no command.
    case protocolViolation
    /// Redis answered a command with an error.
    case server(RedisServerError)
    /// A reply of another shape than the command has.
    case unexpectedReply
    /// The client was stopped.
    case stopped

    /// Whether Redis may have done what it was asked: then asking again could do it twice.
    package var mayHaveRun: Bool {
        switch self {
        case .unreachable, .refusedGreeting, .timedOut(wasSent: false), .tooManyWaiting, .commandTooLarge, .stopped: false
        case .timedOut(wasSent: true), .broken, .protocolViolation, .unexpectedReply: true
        // An error is an answer: the command was refused. A script may have written before its error; ours do not.
        case .server: false
        }
    }

    package var reason: StaticString {
        switch self {
        case .unreachable(.dns): "dns"
        case .unreachable(.refused): "refused"
        case .unreachable(.connectTimeout): "connect_timeout"
        case .unreachable(.tls): "tls"
        case .unreachable(.backingOff): "unreachable"
        case .refusedGreeting(let error), .server(let error): error.reason
        case .timedOut: "timed_out"
        case .broken: "connection_broken"
        case .tooManyWaiting: "too_many_waiting"
        case .commandTooLarge: "command_too_large"
        case .protocolViolation: "protocol_violation"
        case .unexpectedReply: "unexpected_reply"
        case .stopped: "stopped"
        }
    }
}

/// What an error reply says, by its first word. The rest of its text is not kept: it can repeat keys and arguments.
package enum RedisServerError: Error, Equatable, Sendable, CaseIterable {
    /// EVALSHA of a script that the server does not know (any more).
    case noScript
    /// A replica, or a primary that was demoted.
    case readOnly
    /// `maxmemory` is reached and nothing may be evicted.
    case outOfMemory
    /// The data set is being loaded.
    case loading
    /// NOAUTH: a password is wanted and none was sent.
    case notAuthenticated
    case wrongPassword
    /// The user may not run this command or touch this key.
    case noPermission
    /// A script runs for too long.
    case busy
    /// A replica that has lost its primary, or too few replicas for a write.
    case noPrimary
    /// The disk cannot be written, so writes are refused.
    case cannotPersist
    /// A cluster node that does not serve this key.
    case moved
    /// A cluster that is not ready.
    case clusterDown
    case tooManyClients
    /// Protected mode: no password is set and we are not on the same machine.
    case denied
    case wrongType
    case other

    package var reason: StaticString {
        switch self {
        case .noScript: "no_script"
        case .readOnly: "read_only"
        case .outOfMemory: "out_of_memory"
        case .loading: "loading"
        case .notAuthenticated: "not_authenticated"
        case .wrongPassword: "wrong_password"
        case .noPermission: "no_permission"
        case .busy: "busy"
        case .noPrimary: "no_primary"
        case .cannotPersist: "cannot_persist"
        case .moved: "moved"
        case .clusterDown: "cluster_down"
        case .tooManyClients: "too_many_clients"
        case .denied: "denied"
        case .wrongType: "wrong_type"
        case .other: "error_reply"
        }
    }

    /// Whether another connection (after a look-up of the name) may meet another server: a fail-over leaves the old one behind.
    var callsForAnotherConnection: Bool {
        switch self {
        case .readOnly, .noPrimary, .loading, .notAuthenticated, .tooManyClients, .denied: true
        default: false
        }
    }

    private static let words: [(word: StaticString, error: RedisServerError)] = [
        ("NOSCRIPT", .noScript), ("READONLY", .readOnly), ("OOM", .outOfMemory), ("LOADING", .loading),
        ("NOAUTH", .notAuthenticated), ("WRONGPASS", .wrongPassword), ("NOPERM", .noPermission), ("BUSY", .busy),
        ("MASTERDOWN", .noPrimary), ("NOREPLICAS", .noPrimary), ("MISCONF", .cannotPersist), ("MOVED", .moved), ("ASK", .moved),
        ("CROSSSLOT", .moved), ("CLUSTERDOWN", .clusterDown), ("TRYAGAIN", .clusterDown), ("DENIED", .denied),
        ("WRONGTYPE", .wrongType),
    ]
    /// Servers before 6.0 and errors of `redis.call` inside a script before 7.0 have only a sentence.
    private static let sentences: [(part: StaticString, error: RedisServerError)] = [
        ("max number of clients", .tooManyClients), ("invalid password", .wrongPassword),
        ("AUTH <password> called", .wrongPassword),
        ("AUTH, but no password", .wrongPassword), ("-READONLY", .readOnly), ("-OOM", .outOfMemory), ("-LOADING", .loading),
        ("-NOPERM", .noPermission), ("-MISCONF", .cannotPersist), ("-NOREPLICAS", .noPrimary), ("-WRONGTYPE", .wrongType),
        ("against a read only", .readOnly),
        // Redis 6: "The user executing the script can't run this command or subcommand".
        ("The user executing the script", .noPermission),
    ]

    init(text: some Collection<UInt8>) {
        let first = text.prefix { $0 != UInt8(ascii: " ") }
        if let known = Self.words.first(where: { Self.bytes($0.word).elementsEqual(first) }) {
            self = known.error
            return
        }
        let text = Array(text)
        self = Self.sentences.first { Self.contains(text, Self.bytes($0.part)) }?.error ?? .other
    }

    private static func bytes(_ text: StaticString) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    private static func contains(_ text: [UInt8], _ part: UnsafeBufferPointer<UInt8>) -> Bool {
        guard text.count >= part.count else { return false }
        return (0...(text.count - part.count)).contains { text[$0..<($0 + part.count)].elementsEqual(part) }
    }
}
