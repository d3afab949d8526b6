import EventLoop
import Primitives
import TLS
import TestSupport
import Testing

@testable import HTTPServer

/// The same server behind TLS: one transport more, the same time-outs.
@Suite(.serialized)
struct TLSServerTests {
    private static func server(_ change: (inout ServerConfig) -> Void = { _ in }) async throws -> TestServer {
        let identity = try TestCertificates.shared.get().issue("DNS:localhost,IP:127.0.0.1")
        let context = try TLSServerContext(certificates: identity.certificate, privateKey: Secret(identity.privateKey))
        return try await TestServer(change, transport: { try? TLSStream(server: context, descriptor: $0) })
    }

    /// A client of the same loop kind: sends when the handshake is over, and collects until the end.
    private final class Client: ByteStreamDelegate {
        private let request: [UInt8]
        private let done: Promise<[UInt8]>
        private var received: [UInt8] = []
        init(_ request: String, _ done: Promise<[UInt8]>) {
            self.request = Array(request.utf8)
            self.done = done
        }
        func streamDidOpen(_ stream: ByteStream) { stream.write(request) }
        func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) { received += Array(bytes) }
        func streamDidEnd(_ stream: ByteStream) {
            stream.close()
            done.fulfil(received)
        }
        func streamDidDrain(_ stream: ByteStream) {}
        func stream(_ stream: ByteStream, didFail error: StreamError) { done.fulfil(received + Array("\(error.reason)".utf8)) }
    }

    private static func exchange(_ request: String, _ server: TestServer) async throws -> String {
        let context = try TLSClientContext(trust: .authorities(pem: TestCertificates.shared.get().authority))
        let done = Promise<[UInt8]>("the end of the connection")
        let address = SocketAddress.ip(.v4(0x7F00_0001), port: server.port)
        return try await withLoop("client") { loop in
            loop.execute {
                let dialer = Dialer(loop: loop, addresses: [address]) { result in
                    guard case .connected(let descriptor, _) = consume result,
                        let tls = try? TLSStream(
                            client: context, descriptor: descriptor.raw, host: "localhost", port: Int(server.port))
                    else { return done.fulfil([]) }
                    let stream = ByteStream(loop: loop, descriptor: descriptor, transport: tls)
                    try? stream.start(delegate: Client(request, done))
                }
                dialer.start()
                // The dialer belongs to whoever started it.
                loop.schedule(LoopTimer { dialer.cancel() }, after: .seconds(10))
            }
            return String(decoding: try await done.value(), as: UTF8.self)
        }
    }

    @Test
    func requestsAreServedOverTLS() async throws {
        let server = try await Self.server()
        let text = String(repeating: "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", count: 40)
        let answer = try await Self.exchange(text + "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", server)
        #expect(statuses(answer) == Array(repeating: 201, count: 40) + [404])
        try await server.endsBalanced()
    }

    @Test
    func aResponseThatIsLargerThanAllBuffersArrivesWholeOverTLS() async throws {
        let server = try await Self.server()
        let answer = try await Self.exchange("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", server)
        #expect(answer.utf8.count { $0 == 120 } >= 16 << 20)
        try await server.endsBalanced()
    }

    @Test
    func anAnswerThatComesLateIsSentOverTLS() async throws {
        let server = try await Self.server()
        async let answer = Self.exchange("POST /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", server)
        try await server.held.next()
        _ = await server.held.release(on: server.loop)
        #expect(try await answer.hasSuffix("late"))
        try await server.endsBalanced()
    }

    /// Silent, stuck in the first record, feeding it byte by byte: cut off like a head that does not come, and without an answer.
    @Test(arguments: [[], [0x16], [0x16, 3, 1, 0x40, 0], Array(repeating: UInt8(0), count: 0)], [true, false])
    func aHandshakeThatStallsIsClosed(start: [UInt8], trickles: Bool) async throws {
        // A time of its own: a head may take as long as it likes.
        let server = try await Self.server {
            $0.handshakeTimeout = .milliseconds(300)
            $0.headTimeout = .seconds(600)
        }
        let port = server.port
        let answer = try await onOwnThread {
            let client = try RawClient(port: port)
            try client.send(start)
            for _ in 0..<4000 where trickles && start.count == 5 {
                guard (try? client.send([0])) != nil else { break }
                usleepMilliseconds(5)
            }
            return try client.receiveAll(allowingReset: true)
        }
        #expect(answer == [])
        try await server.endsBalanced()
    }

    /// However much of a request it is, and however it comes: one answer in the clear, and the end.
    @Test(arguments: [
        "POST /echo HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "G", "PROPFIND",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + String(repeating: "a", count: 300_000),
        String(repeating: "GET / HTTP/1.1\r\nHost: x\r\n\r\n", count: 500),
    ])
    func plainTextOnATLSPortIsToldSoAndNotServed(request: String) async throws {
        let server = try await Self.server()
        let answer = try await server.exchange(request)
        #expect(statuses(answer) == [400], "\(answer)")
        #expect(answer.hasSuffix("\r\n\r\nunencrypted") && answer.contains("Connection: close\r\n"))
        #expect(server.log.withLock { $0 } == [])
        #expect(server.server.counters.failedHandshakes.load() == 0)
        try await server.endsBalanced()
    }

    /// Who is told and stays is cut off, as after every last answer.
    @Test
    func whoStaysAfterPlainTextIsCutOff() async throws {
        let server = try await Self.server { $0.handshakeTimeout = .seconds(600) }
        let port = server.port
        let answer = try await onOwnThread {
            let client = try RawClient(port: port)
            try client.send(Array("GET ".utf8))
            return try client.receiveAll(allowingReset: true)
        }
        #expect(statuses(String(decoding: answer, as: UTF8.self)) == [400])
        try await server.endsBalanced()
    }

    /// Neither a TLS record nor a request.
    @Test(arguments: [
        [UInt8(0x80), 0x2E, 1, 3, 1], [0, 0, 0, 0, 0], [0x61, 0x62, 0x63, 0x64, 0x65], [0x0D, 0x0A, 0x47, 0x45, 0x54],
    ])
    func whatIsNeitherGetsNoAnswerInTheClear(bytes: [UInt8]) async throws {
        let server = try await Self.server()
        let port = server.port
        let answer = try await onOwnThread {
            let client = try RawClient(port: port)
            try client.send(bytes)
            return try client.receiveAll(allowingReset: true)
        }
        // At most an alert.
        #expect(!answer.starts(with: "HTTP".utf8))
        try await server.endsBalanced()
    }

    /// Nobody may talk in the clear to a listener that encrypts.
    @Test
    func withoutATransportTheConnectionIsClosed() async throws {
        let server = try await TestServer(transport: { _ in nil })
        #expect(try await server.exchange("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n") == "")
        #expect(server.log.withLock { $0 } == [])
        #expect(server.server.counters.refusedForDescriptors.load() == 1)
        try await server.endsBalanced()
    }
}
