import EventLoop
import HTTPMessage
import Primitives

/// One connection of a client: the shell around ``ConnectionStateMachine``. It is its own timer.
final class ServerConnection: TimerNode, ByteStreamDelegate {
    /// After the last response the rest of what the peer sends is thrown away for so long, so that a reset does not destroy the
    /// response on its way (RFC 9112 section 9.6).
    private static let lingerTimeout: Duration = .seconds(2)

    let stream: ByteStream
    private let server: LoopServer
    private let peer: SocketAddress
    private var machine: ConnectionStateMachine
    private var slot: Int32 = -1
    /// What was received and not consumed: an incomplete head, or requests behind the one being served.
    private var input: [UInt8] = []
    private var exchange: ServerExchange?
    /// Behind the last response nothing more is expected: no need to linger.
    private var closesAtOnce = false
    private var isProcessing = false
    private var isFirstRequest = true
    private var isFlushing = false
    /// Content: when all of it must be there. Flushing: how much was still to be written when the timer was set.
    private var contentDeadline = MonotonicInstant.distantFuture
    private var lastProgress = MonotonicInstant.distantFuture
    private var unwrittenBytes = 0

    init(stream: ByteStream, peer: SocketAddress, server: LoopServer) {
        self.stream = stream
        self.peer = peer
        self.server = server
        machine = ConnectionStateMachine(limits: server.config.limits)
        super.init()
    }

    func start() throws(SystemError) {
        slot = server.table.insert(self)
        server.startWaiting(slot)
        server.loop.schedule(self, at: server.loop.now + server.config.headTimeout)
        do throws(SystemError) {
            try stream.start(delegate: self)
        } catch {
            close()
            throw error
        }
    }

    var isIdle: Bool { machine.isIdle && input.isEmpty && !isFlushing }

    func close(reset: Bool = false) {
        if case .closed = machine.state { return }
        machine.close()
        exchange = nil
        input = []
        server.loop.cancel(self)
        stream.close(reset: reset)
        if slot >= 0 {
            server.connectionClosed(slot)
        }
    }

    /// Closes it if nothing has been asked yet and nothing is on its way to us.
    func closeIfIdle() {
        if isIdle && !stream.hasUnreadInput() { close() }
    }

    // MARK: ByteStreamDelegate

    func streamDidOpen(_ stream: ByteStream) {}

    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
        if isFlushing || machine.isServing {
            // Pipelined behind the request that is being served: kept, and nothing more is read until that one is answered.
            input.append(contentsOf: bytes)
            stream.pause()
        } else if input.isEmpty {
            let consumed = process(bytes.bytes)
            if consumed < bytes.count, !stream.isClosed { input = Array(bytes[consumed...]) }
        } else {
            input.append(contentsOf: bytes)
            processInput()
        }
    }

    func streamDidEnd(_ stream: ByteStream) {
        // A complete request in front of the end is still answered; anything else is not a message.
        if !machine.isServing && !isFlushing { close() }
    }

    func streamDidDrain(_ stream: ByteStream) {
        guard isFlushing else { return }
        isFlushing = false
        responseIsOut()
        if !isProcessing { processInput() }
    }

    func stream(_ stream: ByteStream, didFail error: StreamError) { close() }

    // MARK: Requests

    private func processInput() {
        guard !input.isEmpty, !machine.isServing, !isFlushing, !stream.isClosed else { return }
        // Taken out while it is looked at: what the handler does meanwhile must not see half of it.
        let bytes = input
        input = []
        let consumed = process(bytes.span.bytes)
        if consumed < bytes.count, !stream.isClosed { input = Array(bytes[consumed...]) }
        if input.isEmpty && !machine.isServing { stream.resume() }
    }

    /// - Returns: how many of the bytes were consumed.
    private func process(_ bytes: RawSpan) -> Int {
        isProcessing = true
        defer { isProcessing = false }
        var offset = 0
        var content: [UInt8] = []
        while offset < bytes.byteCount, !machine.isServing, !isFlushing {
            let wasIdle = machine.isIdle
            if let exchange { swap(&content, &exchange.content) }
            let (step, consumed) = machine.receive(bytes.extracting(offset...), content: &content)
            if let exchange { swap(&content, &exchange.content) }
            offset += consumed
            switch step {
            case .needMore:
                if wasIdle && !machine.isIdle { headStarted() }
                return offset
            case .head(let head): begin(head)
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
        server.stopWaiting(slot)
        let exchange = ServerExchange(head: head, peer: peer, headCompletedAt: server.loop.now, connection: self)
        self.exchange = exchange
        let limits = server.config.limits
        var tooLong = false
        if case .length(let count) = head.framing { tooLong = count > limits.bodyBytes }
        switch server.handler.admit(exchange) {
        case .answer(let response):
            if tooLong || (head.expectsContinue && head.framing.hasContent) {
                machine.skipContent()
                var response = response
                response.closes = true
                exchange.respond(response)
                return
            }
            exchange.pendingAnswer = response
        case .read(let keepContent):
            if tooLong { return refuse(HTTPParseError(.contentTooLarge, at: 0)) }
            exchange.keepsContent = keepContent
        }
        if machine.admit(head, limits: limits, keepsContent: exchange.keepsContent) { return dispatch() }
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
            return send(answer, to: exchange, closes: true)
        }
        machine.skipContent()
        send(server.handler.refuse(.malformed(error), from: peer), to: exchange, closes: true)
    }

    // MARK: Responses

    /// - Returns: false where the exchange is not the one being served any more.
    func respond(_ response: ServerResponse, to exchange: ServerExchange) -> Bool {
        guard self.exchange === exchange, machine.isServing, !stream.isClosed else { return false }
        let head = exchange.head
        send(response, to: exchange, closes: response.closes || !head.isPersistent || server.isDraining || stream.peerEnded)
        if !isProcessing { processInput() }
        return !stream.isClosed || response.closes || !head.isPersistent
    }

    private func send(_ response: ServerResponse, to exchange: ServerExchange?, closes: Bool) {
        let head = exchange?.head
        self.exchange = nil
        stream.write(server.encoder.encode(response, to: head, closes: closes, wall: server.loop.time))
        guard !stream.isClosed else { return close() }
        // Bytes that the peer sent behind a request that ends the connection are not requests.
        if closes { input = [] }
        _ = machine.responded(closes: closes)
        let clientCloses = head.map { !$0.isPersistent } ?? false
        closesAtOnce = closes && (stream.peerEnded || (clientCloses && !stream.hasUnreadInput()))
        if stream.pendingWriteBytes > 0 {
            isFlushing = true
            unwrittenBytes = stream.pendingWriteBytes
            server.loop.schedule(self, at: server.loop.now + server.config.writeIdleTimeout)
        } else {
            responseIsOut()
        }
    }

    private func responseIsOut() {
        if case .lingering = machine.state {
            if closesAtOnce { return close() }
            stream.shutdownWriting()
            server.loop.schedule(self, at: server.loop.now + Self.lingerTimeout)
            stream.resume()
            return
        }
        server.startWaiting(slot)
        server.loop.schedule(self, at: server.loop.now + server.config.idleTimeout)
        if server.isClosingIdle && input.isEmpty { closeIfIdle() }
    }

    // MARK: Time

    override func fire() {
        let now = server.loop.now
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

    private func closeIfNothingArrived() {
        // A request that arrives in this instant is served rather than met with a reset.
        if stream.hasUnreadInput() && !stream.peerEnded {
            server.loop.schedule(self, at: server.loop.now + .milliseconds(100))
        } else {
            close()
        }
    }

    private func timeOut() {
        server.stopWaiting(slot)
        machine.timedOut()
        send(server.handler.refuse(.timedOut, from: peer), to: exchange, closes: true)
    }
}
