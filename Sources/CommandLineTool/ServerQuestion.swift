import EventLoop
import HTTPMessage
import Primitives

/// One request to the running server's management listener, over TCP or a Unix socket. Confined to its loop; keeps itself alive until it is
/// over.
final class ServerQuestion: ByteStreamDelegate {
    enum Answer: Sendable, Equatable {
        case response(status: Int, content: [UInt8])
        case failed(Failure)
    }

    enum Failure: Sendable, Equatable {
        case unreachable
        case timedOut
        /// Something that is not HTTP, or an answer that ends too early.
        case unreadable
        case noLoop
    }

    /// Blocks for at most `limit`.
    ///
    /// - Parameter request: the whole message; the server closes the connection behind its answer.
    static func ask(_ addresses: [SocketAddress], _ request: [UInt8], within limit: Duration) -> Answer {
        do throws(SystemError) {
            let loop = try EventLoop(name: "question")
            let outcome = Outcome<Answer>()
            loop.start()
            loop.execute {
                ServerQuestion(loop: loop, addresses: addresses, request: request, limit: limit) { outcome.set($0) }.start()
            }
            return outcome.wait()
        } catch {
            return .failed(.noLoop)
        }
    }

    private static let maxBodyBytes = 64 * 1024

    private let loop: EventLoop
    private let addresses: [SocketAddress]
    private let request: [UInt8]
    private let limit: Duration
    private let report: (Answer) -> Void
    private var dialer: Dialer?
    private var stream: ByteStream?
    private var timer: LoopTimer?
    private var myself: ServerQuestion?
    private var received: [UInt8] = []
    private var parser: ResponseHeadParser
    private var head: ResponseHead?
    private var decoder: BodyDecoder?
    private var body: [UInt8] = []

    private init(
        loop: EventLoop, addresses: [SocketAddress], request: [UInt8], limit: Duration, report: @escaping (Answer) -> Void
    ) {
        self.loop = loop
        self.addresses = addresses
        self.request = request
        self.limit = limit
        self.report = report
        parser = ResponseHeadParser(limits: .standard)
    }

    private func start() {
        myself = self
        let timer = LoopTimer { [weak self] in self?.finish(.failed(.timedOut)) }
        self.timer = timer
        loop.schedule(timer, after: limit)
        let dialer = Dialer(loop: loop, addresses: addresses, timeout: limit) { [weak self] result in self?.dialled(result) }
        self.dialer = dialer
        dialer.start()
    }

    private func dialled(_ result: consuming DialResult) {
        switch consume result {
        case .failed(let error): finish(.failed(error == .timedOut ? .timedOut : .unreachable))
        case .connected(let descriptor, _):
            let stream = ByteStream(loop: loop, descriptor: descriptor)
            self.stream = stream
            do throws(SystemError) {
                try stream.start(delegate: self)
                stream.write(request)
            } catch {
                finish(.failed(.unreachable))
            }
        }
    }

    private func finish(_ answer: Answer) {
        guard myself != nil else { return }
        if let timer { loop.cancel(timer) }
        dialer?.cancel()
        stream?.close()
        myself = nil
        report(answer)
    }

    // MARK: The answer

    func streamDidOpen(_ stream: ByteStream) {}
    func streamDidDrain(_ stream: ByteStream) {}
    func stream(_ stream: ByteStream, didFail error: StreamError) { finish(.failed(.unreadable)) }

    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
        received += bytes
        do throws(HTTPParseError) {
            let head = received
            if self.head == nil, let parsed = try parser.parse(head.span.bytes) {
                received.removeFirst(parsed.byteCount)
                self.head = parsed.head
                decoder = BodyDecoder(
                    framing: try BodyFraming.ofResponse(parsed.head, to: .get), limits: HTTPLimits(bodyBytes: Self.maxBodyBytes))
            }
            let rest = received
            guard let progress = try decoder?.decode(rest.span.bytes, into: &body) else { return }
            received.removeFirst(progress.consumed)
            if progress.isComplete { answered() }
        } catch {
            finish(.failed(.unreadable))
        }
    }

    func streamDidEnd(_ stream: ByteStream) {
        var isComplete = false
        // One that ends inside its framing is as unreadable as one without a head.
        do throws(HTTPParseError) { isComplete = try decoder?.finishAtEOF() == true } catch { isComplete = false }
        if isComplete { answered() } else { finish(.failed(.unreadable)) }
    }

    private func answered() {
        guard let head else { return finish(.failed(.unreadable)) }
        finish(.response(status: head.status, content: body))
    }
}
