import EventLoop
import HTTPMessage
import Primitives
import StrictJSON

/// One `GET /readyz` over TCP or a Unix socket. Confined to its loop; keeps itself alive until it is over.
final class HealthProbe: ByteStreamDelegate {
    enum Answer: Sendable, Equatable, CustomStringConvertible {
        case ready
        /// Any other answer: its status code, and what the body says about it.
        case notReady(status: Int, String)
        case unreachable
        case timedOut
        /// Something that is not HTTP, or an answer that ends too early.
        case unreadable
        case noLoop

        var description: String {
            switch self {
            case .ready: "ready"
            case .notReady(let status, let text): "not ready: HTTP \(status)\(text.isEmpty ? "" : ": \(text)")"
            case .unreachable: "not ready: nobody listens there"
            case .timedOut: "not ready: no answer in \(HealthcheckCommand.limit.components.seconds) s"
            case .unreadable: "not ready: the answer is not one of this server's"
            case .noLoop: "not ready: cannot ask"
            }
        }
    }

    /// Blocks for at most `limit`.
    static func ask(_ addresses: [SocketAddress], within limit: Duration) -> Answer {
        do throws(SystemError) {
            let loop = try EventLoop(name: "healthcheck")
            let outcome = Outcome<Answer>()
            loop.start()
            loop.execute {
                HealthProbe(loop: loop, addresses: addresses, limit: limit) { outcome.set($0) }.start()
            }
            return outcome.wait()
        } catch {
            return .noLoop
        }
    }

    private static let maxBodyBytes = 64 * 1024

    private let loop: EventLoop
    private let addresses: [SocketAddress]
    private let limit: Duration
    private let report: (Answer) -> Void
    private var dialer: Dialer?
    private var stream: ByteStream?
    private var timer: LoopTimer?
    private var myself: HealthProbe?
    private var received: [UInt8] = []
    private var parser: ResponseHeadParser
    private var head: ResponseHead?
    private var decoder: BodyDecoder?
    private var body: [UInt8] = []

    private init(loop: EventLoop, addresses: [SocketAddress], limit: Duration, report: @escaping (Answer) -> Void) {
        self.loop = loop
        self.addresses = addresses
        self.limit = limit
        self.report = report
        parser = ResponseHeadParser(limits: .standard)
    }

    private func start() {
        myself = self
        let timer = LoopTimer { [weak self] in self?.finish(.timedOut) }
        self.timer = timer
        loop.schedule(timer, after: limit)
        let dialer = Dialer(loop: loop, addresses: addresses, timeout: limit) { [weak self] result in self?.dialled(result) }
        self.dialer = dialer
        dialer.start()
    }

    private func dialled(_ result: consuming DialResult) {
        switch consume result {
        case .failed(let error): finish(error == .timedOut ? .timedOut : .unreachable)
        case .connected(let descriptor, _):
            let stream = ByteStream(loop: loop, descriptor: descriptor)
            self.stream = stream
            do throws(SystemError) {
                try stream.start(delegate: self)
                stream.write(Array("GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
            } catch {
                finish(.unreachable)
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
    func stream(_ stream: ByteStream, didFail error: StreamError) { finish(.unreadable) }

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
            finish(.unreadable)
        }
    }

    func streamDidEnd(_ stream: ByteStream) {
        var isComplete = false
        // One that ends inside its framing is as unreadable as one without a head.
        do throws(HTTPParseError) { isComplete = try decoder?.finishAtEOF() == true } catch { isComplete = false }
        if isComplete { answered() } else { finish(.unreadable) }
    }

    private func answered() {
        guard let head else { return finish(.unreadable) }
        finish(head.status == 200 ? .ready : .notReady(status: head.status, text()))
    }

    /// `starting, waiting for jwks:auth0`; empty when the body is not ours.
    private func text() -> String {
        let body = body
        let document: JSONValue
        do throws(JSONParseError) {
            document = try JSONValue.parse(body.span.bytes)
        } catch {
            return ""
        }
        guard let object = document.object, let status = object["status"]?.string else { return "" }
        let names = object["waiting_for"]?.array?.compactMap(\.string) ?? []
        let text = ([status] + (names.isEmpty ? [] : ["waiting for \(names.joined(separator: ", "))"])).joined(separator: ", ")
        return String(text.unicodeScalars.filter { (0x20..<0x7F).contains($0.value) }.prefix(500).map(Character.init))
    }
}
