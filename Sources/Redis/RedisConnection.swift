import EventLoop
import Primitives
import TLS

/// One connection: opened, greeted (AUTH, SELECT), then calls and their replies in one order. Its own timer while it is being opened, and
/// afterwards for calls that got no reply in time.
///
/// A call that timed out keeps its place, so that its late reply is not taken for another's; when the reply has not come
/// ``RedisClientSettings/stallTimeout`` later either, the connection ends.
final class RedisConnection: TimerNode, ByteStreamDelegate {
    private enum Phase {
        case created
        case resolving
        case dialling(Dialer)
        case handshaking(ByteStream)
        case greeting(ByteStream, missingReplies: Int)
        case open(ByteStream)
        case ended
    }

    /// The send buffer is kept for the next turn up to this.
    private static let maxScratchBytes = 64 * 1024

    private let client: RedisClient
    private let access: RedisAccess
    /// Redis has answered something other than that it does not know us.
    private var isAccepted = false
    private var phase = Phase.created
    private let reader: RedisReplyReader?
    /// In the order in which they were sent; those before `nextReply` are done.
    private var calls: [RedisCall] = []
    private var nextReply = 0
    private var sendBuffer: [UInt8] = []
    private var flushIsDeferred = false
    /// Takes no further call, and ends with the last reply.
    private var isRetiring = false

    init(client: RedisClient) {
        self.client = client
        access = client.service.access
        reader = RedisReplyReader(limits: client.settings.replies)
        super.init()
    }

    var inFlightCount: Int { calls.count - nextReply }
    var isOpen: Bool { if case .open = phase { true } else { false } }

    var canTakeCall: Bool {
        guard case .open(let stream) = phase, !isRetiring, inFlightCount < client.settings.inFlightCount else { return false }
        return stream.pendingWriteBytes + sendBuffer.count < client.settings.pendingWriteBytes
    }

    // MARK: Opening

    func open() {
        guard reader != nil else { return end(.unreachable(.refused)) }
        phase = .resolving
        client.loop.schedule(self, after: client.settings.connectTimeout)
        client.service.resolver.resolve(access.url.host, on: client.loop) { [weak self] in self?.resolved($0) }
    }

    private func resolved(_ answer: Resolver.Answer) {
        guard case .resolving = phase else { return }
        guard case .success(let addresses) = answer else { return end(.unreachable(.dns)) }
        let port = access.url.port
        let dialer = Dialer(
            loop: client.loop, addresses: addresses.map { .ip($0, port: port) }, timeout: client.settings.connectTimeout
        ) { [weak self] in self?.dialled($0) }
        phase = .dialling(dialer)
        dialer.start()
    }

    private func dialled(_ result: consuming DialResult) {
        guard case .dialling = phase else { return }
        switch consume result {
        case .connected(let descriptor, _): connected(descriptor)
        case .failed(let error):
            end(.unreachable(error == .timedOut || error == .failed(.timedOut) ? .connectTimeout : .refused))
        }
    }

    private func connected(_ descriptor: consuming FileDescriptor) {
        let url = access.url
        do {
            guard url.usesTLS else {
                let stream = ByteStream(loop: client.loop, descriptor: descriptor)
                phase = .handshaking(stream)
                try stream.start(delegate: self, isUrgent: true)
                return greet(stream)
            }
            guard let context = access.tls else { return end(.unreachable(.tls)) }
            let transport = try TLSStream(client: context, descriptor: descriptor.raw, host: url.host, port: Int(url.port))
            let stream = ByteStream(loop: client.loop, descriptor: descriptor, transport: transport)
            phase = .handshaking(stream)
            try stream.start(delegate: self, isUrgent: true)
        } catch {
            end(.unreachable(error is TLSError ? .tls : .refused))
        }
    }

    private func greet(_ stream: ByteStream) {
        let url = access.url
        var greeting: [RedisCommand] = []
        if let password = url.password {
            var command = RedisCommand("AUTH")
            if let username = url.username { command.append(username) }
            command.append(password)
            greeting.append(command)
        }
        // Not sent for 0: an ACL may forbid it, and a cluster knows nothing else.
        if url.database != 0 {
            var command = RedisCommand("SELECT")
            command.append(Int64(url.database))
            greeting.append(command)
        }
        guard !greeting.isEmpty else { return opened(stream) }
        phase = .greeting(stream, missingReplies: greeting.count)
        var bytes: [UInt8] = []
        for command in greeting where !command.encode(into: &bytes) { return end(.unreachable(.refused)) }
        stream.write(bytes)
    }

    private func opened(_ stream: ByteStream) {
        client.loop.cancel(self)
        phase = .open(stream)
        client.opened(self)
    }

    override func fire() {
        switch phase {
        case .resolving: end(.unreachable(.dns))
        case .dialling, .handshaking, .greeting: end(.unreachable(.connectTimeout))
        case .open: endIfStalled()
        case .created, .ended: break
        }
    }

    // MARK: Calls

    func submit(_ call: RedisCall) {
        for command in call.commands where !command.encode(into: &sendBuffer) {
            // Half of a call cannot be taken back.
            call.finish(.failure(.commandTooLarge))
            return end(.broken)
        }
        call.sent(on: self)
        calls.append(call)
        guard !flushIsDeferred else { return }
        flushIsDeferred = true
        client.loop.deferWork { self.flush() }
    }

    private func flush() {
        flushIsDeferred = false
        guard case .open(let stream) = phase, !sendBuffer.isEmpty else { return }
        stream.write(sendBuffer)
        if sendBuffer.capacity <= Self.maxScratchBytes { sendBuffer.removeAll(keepingCapacity: true) } else { sendBuffer = [] }
    }

    /// A call on it has timed out.
    func isWaitingInVain() {
        if !isScheduled { client.loop.schedule(self, after: client.settings.stallTimeout) }
    }

    private func endIfStalled() {
        guard nextReply < calls.count, let since = calls[nextReply].finishedAt else { return }
        let end = since + client.settings.stallTimeout
        if end <= client.loop.now { self.end(.broken) } else { client.loop.schedule(self, at: end) }
    }

    private func received(_ reply: RedisReply) {
        switch phase {
        case .greeting(let stream, let missing):
            guard reply.isOK else { return end(reply.error.map { .refusedGreeting($0) } ?? .protocolViolation) }
            if missing == 1 { opened(stream) } else { phase = .greeting(stream, missingReplies: missing - 1) }
        case .open:
            guard nextReply < calls.count else {
                // "max number of clients reached" and the like come without a question.
                return end(reply.error.map { .refusedGreeting($0) } ?? .protocolViolation)
            }
            if reply.error?.callsForAnotherConnection == true { isRetiring = true }
            if reply.error == .notAuthenticated {
                client.service.refused(access)
            } else if !isAccepted {
                isAccepted = true
                client.service.accepted(access)
            }
            let call = calls[nextReply]
            guard call.received(reply) else { return }
            nextReply += 1
            if nextReply == calls.count || nextReply >= 256 {
                calls.removeFirst(nextReply)
                nextReply = 0
            }
            call.complete()
        case .created, .resolving, .dialling, .handshaking, .ended: break
        }
    }

    // MARK: End

    /// Closes it; its calls fail with `error`, or with `broken` where the error is about the connection alone.
    func end(_ error: RedisError) {
        client.loop.cancel(self)
        let wasOpen = isOpen
        // Whatever happens before it is open, nothing of a call was sent.
        let error = wasOpen || error.isFailureToOpen ? error : .refusedGreeting(.other)
        let mayTryAnother = error.isRefusalOfAccess && client.service.refused(access)
        switch phase {
        case .ended: return
        case .created, .resolving: break
        case .dialling(let dialer): dialer.cancel()
        case .handshaking(let stream), .greeting(let stream, _), .open(let stream): stream.close(reset: inFlightCount > 0)
        }
        phase = .ended
        let left = calls[nextReply...]
        calls = []
        nextReply = 0
        sendBuffer = []
        client.ended(self, error, mayTryAnother: mayTryAnother)
        for call in left { call.finish(.failure(error.mayHaveRun ? error : .broken)) }
        if wasOpen { client.onConnectionLost?() }
    }

    // MARK: ByteStreamDelegate

    func streamDidOpen(_ stream: ByteStream) {
        guard case .handshaking = phase else { return }
        greet(stream)
    }

    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
        guard let reader else { return }
        do throws(RedisReplyReader.Failure) {
            try reader.feed(bytes) { reply in
                received(reply)
                if case .ended = phase { return false }
                return true
            }
        } catch {
            end(.protocolViolation)
        }
        guard case .open = phase else { return }
        if isRetiring {
            if inFlightCount == 0 { end(.broken) }
        } else {
            client.serveWaiting(self)
        }
    }

    func streamDidEnd(_ stream: ByteStream) { hasBroken() }

    func streamDidDrain(_ stream: ByteStream) { client.serveWaiting(self) }

    func stream(_ stream: ByteStream, didFail error: StreamError) { hasBroken() }

    private func hasBroken() {
        if case .handshaking = phase { return end(.unreachable(.tls)) }
        if case .greeting = phase { return end(.unreachable(.refused)) }
        end(.broken)
    }
}
