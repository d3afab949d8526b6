import EventLoop
import HTTPMessage
import Primitives

/// One connection of a client: the shell around ``ConnectionStateMachine``. It is its own timer.
///
/// While a request is served and while a response waits for the peer to take it, nothing is read: what is kept of requests behind it is
/// at most the rest of the one read that brought it.
final class ServerConnection: TimerNode, ByteStreamDelegate {
    /// After the last response the rest of what the peer sends is thrown away for so long, so that a reset does not destroy the
    /// response on its way (RFC 9112 section 9.6).
    private static let lingerTimeout: Duration = .seconds(2)
    /// For a request that arrives in the instant in which the connection is closed for being idle.
    private static let grace: Duration = .milliseconds(100)
    /// Pipelined requests served before other connections get their turn.
    private static let maxRequestsPerTurn = 16

    let stream: ByteStream
    private let server: LoopServer
    private let peer: SocketAddress
    private let isCounted: Bool
    private var machine = ConnectionStateMachine()
    /// What was received and not consumed: an incomplete head, or requests behind the one being served; from `inputStart` on.
    private var input: [UInt8] = []
    private var inputStart = 0
    private var exchange: ServerExchange?
    private var slot: Int32 = -1
    /// Behind the last response nothing more is expected: no need to linger.
    private var closesAtOnce = false
    private var isProcessing = false
    private var isFirstRequest = true
    private var isHandshaking = false
    private var isFlushing = false
    /// There is input to go on with later in this turn.
    private var hasYielded = false
    private var isInGrace = false
    /// Content: when all of it must be there, and when some of it came last.
    private var contentDeadline = MonotonicInstant.distantFuture
    private var lastProgress = MonotonicInstant.distantFuture
    /// Flushing: how much was still to be written when the timer was set.
    private var unwrittenBytes = 0

    init(stream: ByteStream, peer: SocketAddress, isCounted: Bool, server: LoopServer) {
        self.stream = stream
        self.isCounted = isCounted
        self.peer = peer
        self.server = server
        super.init()
    }

    func start() throws(SystemError) {
        slot = server.table.insert(self)
        server.startWaiting(slot)
        isHandshaking = stream.isHandshaking
        let timeout = isHandshaking ? server.config.handshakeTimeout : server.config.headTimeout
        server.loop.schedule(self, at: server.loop.now + timeout)
        do throws(SystemError) {
            try stream.start(delegate: self)
        } catch {
            close()
            throw error
        }
    }

    /// Between requests, the empty lines aside that may precede one.
    var isIdle: Bool { machine.isIdle && !isFlushing && !hasYielded }

    /// Something was asked on it before.
    var hasHadRequest: Bool { !isFirstRequest }

    /// What is kept of requests that are not complete or not begun.
    var bufferedBytes: Int { input.count - inputStart }

    /// Something of a request is in the kernel that was not looked at; an end alone is nothing to be served.
    var hasUnreadRequest: Bool { !machine.isLingering && !stream.peerEnded && stream.hasUnreadInput() }

    /// - Parameter endedBefore: the end of what the peer sends was there when the request was handed on.
    func clientIsGone(endedBefore: Bool) -> Bool { stream.isClosed || stream.peerEnded && !endedBefore }

    func close(reset: Bool = false) {
        if case .closed = machine.state { return }
        machine.close()
        exchange?.connection = nil
        exchange = nil
        input = []
        inputStart = 0
        server.loop.cancel(self)
        stream.close(reset: reset)
        if slot >= 0 { server.connectionClosed(slot, peer: peer, isCounted: isCounted) }
    }

    /// Closes it if nothing has been asked yet and nothing is on its way to us.
    func closeIfIdle() {
        if isIdle && !stream.hasUnreadInput() { close() }
    }

    // MARK: ByteStreamDelegate

    func streamDidOpen(_ stream: ByteStream) {
        guard isHandshaking else { return }
        isHandshaking = false
        server.loop.schedule(self, at: server.loop.now + server.config.headTimeout)
    }

    /// Told in the clear that this is no place for it, and never served.
    func streamDidMeetPlainText(_ stream: ByteStream) {
        isHandshaking = false
        server.stopWaiting(slot)
        machine.refusedUnasked()
        _ = send(server.handler.refuse(.unencrypted, from: peer), to: nil, closes: true)
    }

    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
        if machine.isLingering { return settle() }
        if !input.isEmpty || isBusy {
            if inputStart > 0 {
                input.removeFirst(inputStart)
                inputStart = 0
            }
            input.append(contentsOf: bytes)
            return processInput()
        }
        let consumed = process(bytes.bytes)
        if keepsRest && consumed < bytes.count { input = Array(bytes[consumed...]) }
        settle()
    }

    func streamDidEnd(_ stream: ByteStream) { settle() }

    func streamDidDrain(_ stream: ByteStream) {
        guard isFlushing else { return }
        isFlushing = false
        responseIsOut()
        goOn()
    }

    func stream(_ stream: ByteStream, didFail error: StreamError) {
        if isHandshaking { server.counters.failedHandshakes.add(1) }
        close()
    }

    // MARK: Requests

    /// The next request has to wait.
    private var isBusy: Bool { machine.isServing || isFlushing || hasYielded }
    /// What the peer sent behind a request that ends the connection is no request.
    private var keepsRest: Bool { !stream.isClosed && !machine.isLingering }

    /// Goes on with the input that is there already. Not from inside a response: the handler that gives it is not to be called back.
    private func goOn() {
        guard !isProcessing else { return }
        if input.isEmpty || machine.isLingering { settle() } else { yield() }
    }

    private func yield() {
        guard !hasYielded, !stream.isClosed else { return }
        hasYielded = true
        stream.pause()
        server.loop.deferWork {
            self.hasYielded = false
            self.processInput()
        }
    }

    private func processInput() {
        guard !isProcessing, !stream.isClosed else { return }
        if !input.isEmpty && !isBusy {
            // Taken out while it is looked at: what the handler does meanwhile must not see half of it.
            let bytes = input
            let start = inputStart
            input = []
            inputStart = 0
            let end = start + process(bytes.span.bytes.extracting(start...))
            if keepsRest && end < bytes.count {
                // Copied only when it may stay for long.
                if end == 0 || isBusy {
                    input = bytes
                    inputStart = end
                } else {
                    input = Array(bytes[end...])
                }
            }
        }
        settle()
    }

    /// After whatever happened: reads on where a request is awaited, and not while one is being answered; ends with the peer.
    private func settle() {
        guard !isProcessing, !stream.isClosed else { return }
        if isBusy { return stream.pause() }
        // Nothing more can come: what is there is no message, or the response in front of it was the last one.
        if stream.isAtEnd { return close() }
        if machine.isWaiting { server.startWaiting(slot) }
        if server.isClosingIdle && isIdle { closeIfIdle() }
        stream.resume()
    }

    /// - Returns: how many of the bytes were consumed.
    private func process(_ bytes: RawSpan) -> Int {
        isProcessing = true
        defer { isProcessing = false }
        var offset = 0
        var content: [UInt8] = []
        var requests = 0
        while offset < bytes.byteCount, !isBusy {
            if requests == Self.maxRequestsPerTurn {
                yield()
                break
            }
            let wasIdle = machine.isIdle
            if let exchange { swap(&content, &exchange.content) }
            let (step, consumed) = machine.receive(
                bytes.extracting(offset...), limits: server.config.limits, content: &content)
            if let exchange { swap(&content, &exchange.content) }
            offset += consumed
            switch step {
            case .needMore:
                if wasIdle && !machine.isIdle { headStarted() }
                return offset
            case .head(let head):
                requests += 1
                begin(head)
            case .contentProgress:
                lastProgress = server.loop.now
                return offset
            case .complete: dispatch()
            case .refuse(let error): refuse(error)
            case .discarded: return offset
            }
        }
        return offset
    }

    /// The first byte of a request is there; the first request's time runs from the accept.
    private func headStarted() {
        if !isFirstRequest { server.loop.schedule(self, at: server.loop.now + server.config.headTimeout) }
    }

    private func begin(_ head: RequestHead) {
        isFirstRequest = false
        isInGrace = false
        server.stopWaiting(slot)
        let exchange = ServerExchange(head: head, peer: peer, headCompletedAt: server.loop.now, connection: self)
        self.exchange = exchange
        let limits = server.config.limits
        let exceeds = head.framing.exceeds(limits)
        switch server.handler.admit(exchange) {
        case .answer(let response):
            // Nothing is gained by reading what is not wanted, or waiting for what the client holds back.
            if exceeds || head.expectsContinue { return _ = send(response, to: exchange, closes: true) }
            exchange.pendingAnswer = response
        case .read(let keepContent):
            if exceeds { return refuse(HTTPParseError(.contentTooLarge, at: 0)) }
            exchange.keepsContent = keepContent
        }
        guard machine.admit(head, limits: limits, keepsContent: exchange.keepsContent) else { return dispatch() }
        let now = server.loop.now
        contentDeadline = now + server.config.bodyTimeout
        lastProgress = now
        server.loop.schedule(self, at: min(contentDeadline, now + server.config.bodyIdleTimeout))
        if head.expectsContinue { stream.write(Self.continueResponse) }
    }

    private static let continueResponse = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)

    private func dispatch() {
        guard let exchange else { return }
        exchange.endedBeforeDispatch = stream.peerEnded
        if let answer = exchange.pendingAnswer {
            exchange.respond(answer)
        } else {
            server.handler.handle(exchange)
        }
    }

    private func refuse(_ error: HTTPParseError) {
        server.stopWaiting(slot)
        // What the head alone would have been refused for comes before the size of its content.
        if error.reason == .contentTooLarge, let answer = exchange?.pendingAnswer {
            return _ = send(answer, to: exchange, closes: true)
        }
        _ = send(server.handler.refuse(.malformed(error), from: peer), to: exchange, closes: true)
    }

    // MARK: Responses

    /// - Returns: false where the exchange is not the one being served any more, or the connection broke.
    func respond(_ response: ServerResponse, to exchange: ServerExchange) -> Bool {
        guard self.exchange === exchange, machine.isServing, !stream.isClosed else { return false }
        let closes = response.closes || !exchange.head.isPersistent || server.isDraining
        let isSent = send(response, to: exchange, closes: closes)
        goOn()
        return isSent
    }

    /// - Returns: false where the connection broke instead.
    private func send(_ response: ServerResponse, to exchange: ServerExchange?, closes: Bool) -> Bool {
        exchange?.connection = nil
        self.exchange = nil
        server.encoder.encode(response, to: exchange, closes: closes, wall: server.loop.time.wall())
        stream.write(server.encoder.bytes)
        guard !stream.isClosed else {
            close()
            return false
        }
        machine.responded(closes: closes)
        if closes {
            // Bytes that the peer sent behind a request that ends the connection are not requests.
            input = []
            inputStart = 0
            let clientCloses = exchange.map { !$0.head.isPersistent } ?? false
            closesAtOnce = clientCloses && !stream.hasUnreadBytes()
        }
        if stream.pendingWriteBytes > 0 {
            isFlushing = true
            unwrittenBytes = stream.pendingWriteBytes
            server.loop.schedule(self, at: server.loop.now + server.config.writeIdleTimeout)
        } else {
            responseIsOut()
        }
        return true
    }

    private func responseIsOut() {
        guard machine.isLingering else {
            return server.loop.schedule(self, at: server.loop.now.advanced(byNanoseconds: server.idleNanoseconds))
        }
        if closesAtOnce || stream.isAtEnd { return close() }
        stream.shutdownWriting()
        server.loop.schedule(self, at: server.loop.now + Self.lingerTimeout)
        server.startLingering(slot)
        stream.resume()
    }

    // MARK: Time

    override func fire() {
        let now = server.loop.now
        if isHandshaking {
            server.counters.lateHandshakes.add(1)
            return close(reset: true)
        }
        if isFlushing {
            if stream.pendingWriteBytes == unwrittenBytes { return close(reset: true) }
            unwrittenBytes = stream.pendingWriteBytes
            return server.loop.schedule(self, at: now + server.config.writeIdleTimeout)
        }
        switch machine.state {
        case .idle: closeIfNothingArrived()
        case .head: timeOut()
        case .content:
            let due = min(contentDeadline, lastProgress + server.config.bodyIdleTimeout)
            if due <= now { timeOut() } else { server.loop.schedule(self, at: due) }
        case .serving, .closed: break
        case .lingering: close()
        }
    }

    private func countIdleProxy() {
        guard hasHadRequest, !stream.peerEnded, let address = peer.ip?.unmapped,
            server.config.proxies.contains(where: { $0.contains(address) })
        else { return }
        server.counters.idleProxies.add(1)
    }

    private func closeIfNothingArrived() {
        // A request that arrives in this instant is served rather than met with a reset. Once: a peer cannot ask for more time.
        guard !isInGrace, !stream.peerEnded, stream.hasUnreadInput() else {
            countIdleProxy()
            return close()
        }
        isInGrace = true
        stream.readUnasked()
        server.loop.schedule(self, at: server.loop.now + Self.grace)
    }

    private func timeOut() {
        server.stopWaiting(slot)
        machine.timedOut()
        _ = send(server.handler.refuse(.timedOut, from: peer), to: exchange, closes: true)
    }
}
