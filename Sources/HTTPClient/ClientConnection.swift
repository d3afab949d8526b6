import EventLoop
import HTTPMessage
import Primitives
import TLS

/// One upstream connection: the shell around ``ExchangeStateMachine``. Its own timer while it is being opened; while it serves a request,
/// the request's deadline counts, and while it is idle, the pool's.
final class ClientConnection: TimerNode, ByteStreamDelegate {
    private enum Phase {
        case created
        case resolving
        case dialling(Dialer)
        case handshaking(ByteStream)
        case open(ByteStream)
        case closed
    }

    typealias ID = PoolStateMachine<Exchange>.ConnectionID

    let pool: OriginPool
    let id: ID
    private let client: HTTPClient
    private var phase = Phase.created
    private var tls: TLSStream?
    private var exchange: Exchange?
    private var machine: ExchangeStateMachine?
    private var hasServed = false
    /// It has been left alone since the last byte: the peer may have closed it.
    private var mayBeStale = false
    /// The kernel had nothing more when the last bytes were read.
    private var isInputDrained = true
    /// Inside the call that delivers bytes of this connection.
    private var isReceiving = false
    /// What TLS had given to the kernel before the request.
    private var tlsBytesBefore: UInt64?

    init(client: HTTPClient, pool: OriginPool, id: ID) {
        self.client = client
        self.pool = pool
        self.id = id
        super.init()
    }

    // MARK: Opening

    func open() {
        phase = .resolving
        client.loop.schedule(self, after: client.config.resolveTimeout)
        client.resolver.resolve(pool.origin.host, on: client.loop) { [weak self] answer in self?.resolved(answer) }
    }

    private func resolved(_ answer: Resolver.Answer) {
        guard case .resolving = phase else { return }
        guard case .success(let addresses) = answer, let port = UInt16(exactly: pool.origin.port) else {
            return openingFailed(.dns)
        }
        let config = client.config
        let dialer = Dialer(
            loop: client.loop, addresses: addresses.map { .ip($0, port: port) }, timeout: config.connectTimeout,
            stagger: config.connectStagger
        ) { [weak self] result in self?.dialled(result) }
        phase = .dialling(dialer)
        // The dialer has its own time limit.
        client.loop.cancel(self)
        dialer.start()
    }

    private func dialled(_ result: consuming DialResult) {
        guard case .dialling = phase else { return }
        switch consume result {
        case .connected(let descriptor, _): connected(descriptor)
        case .failed(let error):
            openingFailed(error == .timedOut || error == .failed(.timedOut) ? .connectTimeout : .refused)
        }
    }

    private func connected(_ descriptor: consuming FileDescriptor) {
        do {
            switch pool.origin.scheme {
            case .http:
                let stream = ByteStream(loop: client.loop, descriptor: descriptor)
                phase = .open(stream)
                try stream.start(delegate: self, isUrgent: true)
                opened()
            case .https:
                guard let context = client.tls else { return openingFailed(.tls) }
                let transport = try TLSStream(
                    client: context, descriptor: descriptor.raw, host: pool.origin.host, port: pool.origin.port)
                tls = transport
                let stream = ByteStream(loop: client.loop, descriptor: descriptor, transport: transport)
                phase = .handshaking(stream)
                client.loop.schedule(self, after: client.config.handshakeTimeout)
                try stream.start(delegate: self, isUrgent: true)
            }
        } catch {
            openingFailed(error is TLSError ? .tls : .refused)
        }
    }

    private func opened() {
        client.counters.countOpened(resumed: tls?.isResumed ?? false)
        client.act(pool.machine.connected(id, now: client.loop.now), on: self)
        mayBeStale = true
    }

    private func openingFailed(_ reason: UpstreamError.NotSentReason) {
        if reason == .tls { client.lastTLSError = tls?.error }
        shut()
        client.openingFailed(self, reason)
    }

    /// The time to open the connection is over.
    override func fire() {
        switch phase {
        case .resolving: openingFailed(.dns)
        case .handshaking: openingFailed(.connectTimeout)
        case .created, .dialling, .open, .closed: break
        }
    }

    // MARK: Exchange

    /// Sends the request of `exchange` now.
    func run(_ exchange: Exchange) {
        exchange.state = .active(self)
        self.exchange = exchange
        guard case .open(let stream) = phase, exchange.request != nil else { return giveUp(.notSent(.closedBeforeSend)) }
        // Inside its own read a TLS stream cannot tell yet that it is empty, but the read before this call has just found it so.
        let isKnownDrained = isReceiving && isInputDrained && tls != nil
        if mayBeStale, !isKnownDrained, stream.hasUnreadInput() {
            // Closed, or about to be: whatever came while nothing was asked is no answer to this request (RFC 9112 section 9.3.1).
            return giveUp(.notSent(.closedBeforeSend))
        }
        let now = client.loop.now
        if let sendBy = exchange.request?.sendBy, sendBy <= now { return handBack(.tooLate) }
        if exchange.deadline <= now { return handBack(nil) }
        if let beforeSend = exchange.beforeSend {
            let mayBegin = beforeSend()
            guard self.exchange === exchange else { return }
            guard mayBegin else { return handBack(.cancelled) }
        }
        // Looked at where it lies: a copy of it costs a dozen references.
        guard let method = exchange.request?.method, let maxBytes = exchange.request?.maxResponseBytes,
            client.encode(exchange, for: pool)
        else { return handBack(.cancelled) }
        client.loop.schedule(exchange, at: exchange.deadline)
        if hasServed { client.counters.countReused() }
        hasServed = true
        machine = ExchangeStateMachine(method: method, limits: client.config.headLimits, maxResponseBytes: maxBytes)
        machine?.requestBegins()
        tlsBytesBefore = tls?.sentBytes
        stream.write(client.scratch)
        // The write may have failed and ended the exchange.
        if self.exchange === exchange, stream.pendingWriteBytes == 0 { machine?.requestSent() }
    }

    /// The request is not sent after all; nothing is wrong with the connection. `nil`: its deadline has passed.
    private func handBack(_ reason: UpstreamError.NotSentReason?) {
        guard let exchange else { return }
        self.exchange = nil
        client.finish(exchange, .failure(reason.map { .notSent($0) } ?? .timedOut(sent: false)))
        // From the loop, not from here: when all who wait are held back, each would be served one call deeper than the last.
        client.loop.deferWork { [self] in
            guard case .open = phase, self.exchange == nil else { return }
            client.act(pool.machine.released(id, isReusable: true, now: client.loop.now), on: self)
        }
    }

    /// The request cannot be finished on this connection, which is closed.
    func giveUp(_ error: UpstreamError) {
        let exchange = exchange
        let fields = machine?.incompleteHead?.fields
        self.exchange = nil
        machine = nil
        close()
        if let exchange { client.failed(exchange, error, fields) }
    }

    private func act(_ step: ExchangeStateMachine.Step, _ stream: ByteStream) {
        switch step {
        case .needMore: return
        case .failed(let error): giveUp(error)
        case .complete(let isReusable):
            guard let exchange, let maxBytes = exchange.request?.maxResponseBytes, let response = machine?.takeResponse() else {
                return
            }
            self.exchange = nil
            machine = nil
            let result = Self.decoded(response, maxBytes: maxBytes)
            var brokenFields: Fields?
            if case .failure = result { brokenFields = response.fields }
            let isReusable = isReusable && isInputDrained && !stream.peerEnded
            // What was answered is known before the next in line is sent: it may say that nothing more is to be sent. With nobody in line the
            // connection is free first, so that who asks again out of the completion finds it.
            let somebodyWaits = pool.machine.isWaitedFor
            if somebodyWaits { client.finish(exchange, result, brokenResponseFields: brokenFields) }
            // Whoever is served now, inside this call, finds the connection as the kernel has just shown it.
            mayBeStale = false
            client.act(pool.machine.released(id, isReusable: isReusable, now: client.loop.now), on: self)
            mayBeStale = true
            if !somebodyWaits { client.finish(exchange, result, brokenResponseFields: brokenFields) }
        }
    }

    private static func decoded(
        _ response: UpstreamResponse, maxBytes: Int
    ) -> Result<UpstreamResponse, UpstreamError> {
        guard response.fields.contains(.contentEncoding) else { return .success(response) }
        var response = response
        do {
            response.body = try ContentDecoder.decode(response.body, fields: response.fields, maxBytes: maxBytes)
            return .success(response)
        } catch {
            switch error {
            case .tooLarge where response.status >= 300:
                response.body = []
                return .success(response)
            case .tooLarge: return .failure(.broken(.tooLarge))
            case .undecodable: return .failure(.broken(.undecodable))
            }
        }
    }

    // MARK: Closing

    /// Closes it and gives its place back. What it was serving is the caller's to finish.
    func close() {
        shut()
        client.closed(self)
    }

    private func shut() {
        client.loop.cancel(self)
        switch phase {
        case .created, .resolving, .closed: break
        case .dialling(let dialer): dialer.cancel()
        case .handshaking(let stream), .open(let stream): stream.close()
        }
        phase = .closed
    }

    // MARK: ByteStreamDelegate

    func streamDidOpen(_ stream: ByteStream) {
        guard case .handshaking = phase else { return }
        client.loop.cancel(self)
        phase = .open(stream)
        opened()
    }

    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
        guard case .open = phase else { return }
        // Bytes on an idle connection: a late 408, or the answer to a question nobody asked.
        guard exchange != nil, machine != nil else { return close() }
        isInputDrained = bytes.count < EventLoop.readBufferBytes
        isReceiving = true
        defer { isReceiving = false }
        let step = machine?.received(bytes.bytes) ?? .needMore
        act(step, stream)
    }

    func streamDidEnd(_ stream: ByteStream) {
        guard case .open = phase else { return handshakeBroke() }
        guard exchange != nil, machine != nil else { return close() }
        let step = machine?.ended() ?? .needMore
        act(step, stream)
    }

    func streamDidDrain(_ stream: ByteStream) { machine?.requestSent() }

    func stream(_ stream: ByteStream, didFail error: StreamError) {
        guard case .open = phase else { return handshakeBroke() }
        guard exchange != nil, machine != nil else { return close() }
        // The write of the first record failed: TLS knows that nothing of it went out. Without TLS a write that failed may have sent a part.
        if let tls, tls.sentBytes == tlsBytesBefore { return giveUp(.notSent(.closedBeforeSend)) }
        let step = machine?.reset() ?? .needMore
        act(step, stream)
    }

    private func handshakeBroke() {
        guard case .handshaking = phase else { return }
        openingFailed(.tls)
    }
}
