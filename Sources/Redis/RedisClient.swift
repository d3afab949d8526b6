import EventLoop
import Primitives

package struct RedisClientSettings: Sendable, Equatable {
    /// Kept connections of one loop. Calls are pipelined: one carries them all; more are for calls that keep Redis waiting.
    package var connectionCount = 1
    /// Calls that wait for a connection.
    package var waitingCount = 1024
    /// Calls on one connection that have no reply yet.
    package var inFlightCount = 1024
    /// Written to one connection and not taken by the kernel: above this it counts as busy.
    package var pendingWriteBytes = 1 << 20
    package var callBytes = 1 << 20
    /// For name, connection, TLS and greeting together.
    package var connectTimeout: Duration = .seconds(1)
    /// From the start of one attempt to connect to the start of the next.
    package var reconnectInterval: Duration = .seconds(1)
    /// From the deadline of a call that got no reply to the end of its connection.
    package var stallTimeout: Duration = .seconds(1)
    package var replies = RedisReplyReader.Limits()

    package init() {}
}

/// Redis as one loop sees it. Calls go out at the end of the turn in which they were made, all in one write.
///
/// While no connection can be made calls fail at once, and a new connection is tried by the first call that comes a second or more after
/// the last attempt: an outage costs the callers nothing but the first waits. Nothing that was sent is sent again.
package final class RedisClient {
    let loop: EventLoop
    let service: RedisService
    let settings: RedisClientSettings
    private var connections: [RedisConnection] = []
    private var waiting: [RedisCall] = []
    private var nextAttempt: MonotonicInstant
    private var lastFailure = RedisError.unreachable(.backingOff)
    private var isStopped = false
    /// The connection that is being opened follows at once on one that was refused.
    private var isSecondTry = false
    /// An open connection has ended, with or without calls under way. Called on the loop, after them.
    package var onConnectionLost: (() -> Void)?
    /// Scripts that the server has run since the connection was made.
    private var knownScripts: Set<UInt64> = []

    package init(loop: EventLoop, service: RedisService, settings: RedisClientSettings = RedisClientSettings()) {
        self.loop = loop
        self.service = service
        self.settings = settings
        nextAttempt = MonotonicInstant(nanoseconds: .min)
    }

    // MARK: Calls

    /// Sends the commands one behind the other on one connection.
    ///
    /// - Parameters:
    ///   - deadline: for the replies of all of them. The timer fires up to 5 ms late.
    ///   - completion: exactly once, on the loop; before this returns where nothing can be sent. An error reply of one command is among
    ///     the replies (``RedisReply/error``).
    package func send(
        _ commands: [RedisCommand], deadline: MonotonicInstant,
        completion: @escaping (Result<[RedisReply], RedisError>) -> Void
    ) {
        loop.assertCurrent()
        guard !isStopped else { return completion(.failure(.stopped)) }
        guard !commands.isEmpty else { return completion(.success([])) }
        guard commands.reduce(0, { $0 + $1.byteCount }) <= settings.callBytes else {
            return completion(.failure(.commandTooLarge))
        }
        guard loop.now < deadline else { return completion(.failure(.timedOut(wasSent: false))) }
        let call = RedisCall(client: self, commands, completion)
        if let connection = usableConnection() {
            loop.schedule(call, at: deadline)
            return connection.submit(call)
        }
        guard waiting.count < settings.waitingCount else { return completion(.failure(.tooManyWaiting)) }
        let mayOpen = connections.count < settings.connectionCount && nextAttempt <= loop.now
        guard mayOpen || !connections.isEmpty else { return completion(.failure(lastFailure)) }
        loop.schedule(call, at: deadline)
        waiting.append(call)
        if mayOpen { open() }
    }

    /// The same for one command whose error reply is a failure.
    package func send(
        _ command: RedisCommand, deadline: MonotonicInstant, completion: @escaping (Result<RedisReply, RedisError>) -> Void
    ) {
        send([command], deadline: deadline) { completion(Self.only($0)) }
    }

    /// Runs a script once: by its digest, and with its text where the server answers that it does not know it (then nothing has run).
    package func run(
        _ script: RedisScript, keys: [[UInt8]], arguments: [[UInt8]], deadline: MonotonicInstant,
        completion: @escaping (Result<RedisReply, RedisError>) -> Void
    ) {
        let knows = knownScripts.contains(script.id)
        send(script.command(knows: knows, keys: keys, arguments: arguments), deadline: deadline) { [self] result in
            if knows, case .failure(.server(.noScript)) = result {
                knownScripts.remove(script.id)
                return send(script.command(knows: false, keys: keys, arguments: arguments), deadline: deadline) { [self] in
                    ran(script, knew: false, $0, completion)
                }
            }
            ran(script, knew: knows, result, completion)
        }
    }

    /// Runs it for several calls, and behind them, on the same connection, another command: WAITAOF waits for what its own connection has written.
    ///
    /// - Parameter completion: with one pair for each call: its reply, and the one to the command behind it.
    package func run(
        _ script: RedisScript, calls: [RedisScriptCall], followedBy next: RedisCommand, deadline: MonotonicInstant,
        completion: @escaping (Result<[(reply: RedisReply, next: RedisReply)], RedisError>) -> Void
    ) {
        let knows = knownScripts.contains(script.id)
        // The text that comes with the first makes it known to the others.
        let commands = calls.enumerated().map { index, call in
            script.command(knows: knows || index > 0, keys: call.keys, arguments: call.arguments)
        }
        send(commands + [next], deadline: deadline) { [self] result in
            switch result {
            case .failure(let error): return completion(.failure(error))
            case .success(let replies):
                guard replies.count == calls.count + 1, let last = replies.last else {
                    return completion(.failure(.unexpectedReply))
                }
                var answers = replies.dropLast().map { (reply: $0, next: last) }
                let unknown = answers.indices.filter { answers[$0].reply.error == .noScript }
                guard knows && !unknown.isEmpty else {
                    if !knows { knownScripts.insert(script.id) }
                    return completion(.success(answers))
                }
                knownScripts.remove(script.id)
                run(script, calls: unknown.map { calls[$0] }, followedBy: next, deadline: deadline) { again in
                    switch again {
                    case .failure(let error): completion(.failure(error))
                    case .success(let late):
                        for (index, answer) in zip(unknown, late) { answers[index] = answer }
                        completion(.success(answers))
                    }
                }
            }
        }
    }

    private func ran(
        _ script: RedisScript, knew: Bool, _ result: Result<RedisReply, RedisError>,
        _ completion: (Result<RedisReply, RedisError>) -> Void
    ) {
        if !knew, case .success = result { knownScripts.insert(script.id) }
        completion(result)
    }

    private static func only(_ result: Result<[RedisReply], RedisError>) -> Result<RedisReply, RedisError> {
        switch result {
        case .failure(let error): .failure(error)
        case .success(let replies):
            switch replies.first {
            case .error(let error)?: .failure(.server(error))
            case let reply?: .success(reply)
            case nil: .failure(.unexpectedReply)
            }
        }
    }

    /// Makes the first connection, so that the first call need not wait for it.
    package func start() {
        loop.assertCurrent()
        if !isStopped, connections.isEmpty, nextAttempt <= loop.now { open() }
    }

    /// Ends everything; what is under way fails with `stopped`.
    package func stop() {
        isStopped = true
        let calls = waiting
        waiting = []
        for connection in connections { connection.end(.stopped) }
        for call in calls { call.finish(.failure(.stopped)) }
    }

    /// Open connections at this moment.
    package var openConnectionCount: Int { connections.count { $0.isOpen } }
    /// Calls that were sent and have no reply.
    package var inFlightCount: Int { connections.reduce(0) { $0 + $1.inFlightCount } }

    // MARK: Connections

    private func usableConnection() -> RedisConnection? {
        // One is the usual number.
        var best: RedisConnection?
        for connection in connections where connection.canTakeCall {
            if connection.inFlightCount < best?.inFlightCount ?? .max { best = connection }
        }
        if let best, best.inFlightCount > 0, connections.count < settings.connectionCount, nextAttempt <= loop.now { open() }
        return best
    }

    private func open() {
        nextAttempt = loop.now + settings.reconnectInterval
        let connection = RedisConnection(client: self)
        connections.append(connection)
        connection.open()
    }

    func opened(_ connection: RedisConnection) {
        // Another server perhaps, or the same after a restart.
        knownScripts = []
        isSecondTry = false
        serveWaiting(connection)
    }

    func serveWaiting(_ connection: RedisConnection) {
        while connection.canTakeCall, !waiting.isEmpty { connection.submit(waiting.removeFirst()) }
    }

    /// It could not be opened, or has ended. Its own calls are finished by itself.
    ///
    /// - Parameter mayTryAnother: Redis did not let it in, and there are other credentials.
    func ended(_ connection: RedisConnection, _ error: RedisError, mayTryAnother: Bool) {
        connections.removeAll { $0 === connection }
        lastFailure = error.isFailureToOpen ? error : .unreachable(.backingOff)
        guard !isStopped, !waiting.isEmpty, connections.isEmpty else { return }
        // At once, so that nobody has to wait a second for it; but not on and on.
        if mayTryAnother, !isSecondTry {
            isSecondTry = true
            return open()
        }
        isSecondTry = false
        if error.isFailureToOpen || loop.now < nextAttempt {
            let calls = waiting
            waiting = []
            for call in calls { call.finish(.failure(lastFailure)) }
        } else {
            open()
        }
    }

    fileprivate func timedOut(_ call: RedisCall) {
        switch call.state {
        case .finished: return
        case .waiting:
            waiting.removeAll { $0 === call }
            call.finish(.failure(.timedOut(wasSent: false)))
        case .sent(let connection):
            connection.isWaitingInVain()
            call.finish(.failure(.timedOut(wasSent: true)))
        }
    }
}

extension RedisError {
    var isFailureToOpen: Bool {
        switch self {
        case .unreachable, .refusedGreeting: true
        default: false
        }
    }

    /// Another user, password or authority might be let in.
    var isRefusalOfAccess: Bool {
        switch self {
        case .unreachable(.tls), .refusedGreeting(.wrongPassword), .refusedGreeting(.notAuthenticated),
            .refusedGreeting(.noPermission), .refusedGreeting(.other):
            true
        default: false
        }
    }
}

/// One call: its own timer while it waits.
final class RedisCall: TimerNode {
    enum State {
        case waiting
        case sent(RedisConnection)
        /// Sent or not: nobody waits for it any more. Replies to it are still read, and dropped.
        case finished
    }

    private let client: RedisClient
    private(set) var commands: [RedisCommand]
    private var completion: ((Result<[RedisReply], RedisError>) -> Void)?
    private var replies: [RedisReply] = []
    private(set) var missingReplies: Int
    fileprivate(set) var state = State.waiting
    /// When its deadline passed without a reply.
    private(set) var finishedAt: MonotonicInstant?

    init(
        client: RedisClient, _ commands: [RedisCommand], _ completion: @escaping (Result<[RedisReply], RedisError>) -> Void
    ) {
        self.client = client
        self.commands = commands
        self.completion = completion
        missingReplies = commands.count
        super.init()
    }

    override func fire() { client.timedOut(self) }

    func sent(on connection: RedisConnection) {
        commands = []
        state = .sent(connection)
    }

    /// - Returns: whether that was the last one.
    func received(_ reply: RedisReply) -> Bool {
        missingReplies -= 1
        if case .sent = state { replies.append(reply) }
        return missingReplies == 0
    }

    func complete() { finish(.success(replies)) }

    func finish(_ result: Result<[RedisReply], RedisError>) {
        guard let completion else { return }
        self.completion = nil
        client.loop.cancel(self)
        state = .finished
        finishedAt = client.loop.now
        replies = []
        completion(result)
    }
}
