import Dispatch
import EventLoop
import HTTPMessage
import Primitives
import StrictJSON
import TLS

/// One control request to a simulator in another process. Blocks its caller for at most ten seconds; for command lines and tests.
package enum ControlClient {
    package struct Answer: Sendable {
        package let status: Int
        package let object: JSONObject
    }

    private static let patience: Duration = .seconds(10)

    package static func post(
        _ path: String, _ body: JSONObject, to address: SocketAddress, tls: TLSClientContext? = nil
    ) -> Answer? {
        send("POST", path, body, to: address, tls: tls)
    }

    /// `nil` when nobody answers there, or not in JSON. With `tls` the certificate has to name the address.
    package static func send(
        _ method: String, _ path: String, _ body: JSONObject?, to address: SocketAddress, tls: TLSClientContext? = nil
    ) -> Answer? {
        guard let loop = try? EventLoop(name: "control") else { return nil }
        loop.start()
        let content = body?.encoded() ?? []
        let head =
            "\(method) \(path) HTTP/1.1\r\nHost: \(address)\r\nContent-Length: \(content.count)\r\nConnection: close\r\n\r\n"
        let result = Lock<[UInt8]>([])
        let done = DispatchSemaphore(value: 0)
        loop.execute {
            let exchange = Exchange(loop: loop, tls: tls, request: Array(head.utf8) + content) { bytes in
                result.withLock { $0 = bytes }
                done.signal()
            }
            exchange.start(address, patience: patience)
        }
        done.wait()
        loop.stop()
        return read(result.withLock { $0 })
    }

    private static func read(_ bytes: [UInt8]) -> Answer? {
        var parser = ResponseHeadParser(limits: .standard)
        guard let parsed = try? parser.parse(bytes.span.bytes) else { return nil }
        guard let value = try? JSONValue.parse(Array(bytes[parsed.byteCount...]), limits: JSONLimits(bytes: 16_777_216)),
            let object = value.object
        else { return nil }
        return Answer(status: parsed.head.status, object: object)
    }

    /// Sends, reads to the end, and calls back once. Keeps itself alive until then.
    private final class Exchange: ByteStreamDelegate {
        private let loop: EventLoop
        private let tls: TLSClientContext?
        private let request: [UInt8]
        private var completion: (([UInt8]) -> Void)?
        private var dialer: Dialer?
        private var stream: ByteStream?
        private var received: [UInt8] = []
        private var timer: LoopTimer?

        init(
            loop: EventLoop, tls: TLSClientContext?, request: [UInt8], completion: @escaping ([UInt8]) -> Void
        ) {
            self.loop = loop
            self.tls = tls
            self.request = request
            self.completion = completion
        }

        func start(_ address: SocketAddress, patience: Duration) {
            let timer = LoopTimer { self.finish() }
            self.timer = timer
            loop.schedule(timer, after: patience)
            let dialer = Dialer(loop: loop, addresses: [address]) { result in self.dialled(result) }
            self.dialer = dialer
            dialer.start()
        }

        private func dialled(_ result: consuming DialResult) {
            switch consume result {
            case .connected(let descriptor, let address):
                let raw = descriptor.raw
                do {
                    let transport: TLSStream? = try tls.map {
                        try TLSStream(
                            client: $0, descriptor: raw, host: address.ip?.description ?? "localhost",
                            port: Int(address.port ?? 0))
                    }
                    let stream = ByteStream(loop: loop, descriptor: descriptor, transport: transport)
                    self.stream = stream
                    try stream.start(delegate: self)
                    stream.write(request)
                } catch {
                    finish()
                }
            case .failed: finish()
            }
        }

        private func finish() {
            guard let completion else { return }
            self.completion = nil
            stream?.close()
            dialer = nil
            if let timer { loop.cancel(timer) }
            timer = nil
            completion(received)
        }

        func streamDidOpen(_ stream: ByteStream) {}
        func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) { received.append(contentsOf: bytes) }
        func streamDidEnd(_ stream: ByteStream) { finish() }
        func streamDidDrain(_ stream: ByteStream) {}
        func stream(_ stream: ByteStream, didFail error: StreamError) { finish() }
    }
}
