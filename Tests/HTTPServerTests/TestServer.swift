import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import TestSupport
import Testing

/// Answers `POST /echo` with its content, `POST /late` when the test says so, everything else with 404 or 405 by the head alone.
final class TestHandler: RequestHandler {
    let log: Lock<[String]>
    private let held: Held

    /// Exchanges of `POST /late`, kept until ``release()``.
    final class Held: Sendable {
        private let waiting = Lock<[LoopBound<ServerExchange>]>([])
        let arrived = Promise<Bool>("a request to /late")

        func add(_ exchange: ServerExchange, on loop: EventLoop) {
            let bound = LoopBound(exchange, on: loop)
            waiting.withLock { $0.append(bound) }
            arrived.fulfil(true)
        }

        /// Waits until a request is held.
        func next() async throws { try await eventually("a request to /late") { waiting.withLock { !$0.isEmpty } } }

        /// Looks at the first one that is held, on its loop.
        func inspect<Value: Sendable>(
            on loop: EventLoop, _ look: @escaping @Sendable (ServerExchange) -> Value
        ) async -> Value? {
            await loop.run { [self] in waiting.withLock { $0.first }.map { look($0.value) } }
        }

        /// Answers what is held, on its loop; returns for each whether its client was gone by then.
        func release(on loop: EventLoop) async -> [Bool] {
            await loop.run { [self] in
                waiting.withLock { held in
                    defer { held = [] }
                    return held
                }.map { bound in
                    let gone = bound.value.clientIsGone
                    bound.value.respond(ServerResponse(status: 201, content: Array("late".utf8)))
                    return gone
                }
            }
        }
    }

    private let loop: EventLoop

    init(loop: EventLoop, log: Lock<[String]>, held: Held) {
        self.loop = loop
        self.log = log
        self.held = held
    }

    func admit(_ exchange: ServerExchange) -> Admission {
        switch (exchange.head.target.path, exchange.head.method) {
        case ("/echo", .post), ("/late", .post), ("/large", .get): .read(keepContent: true)
        case ("/echo", _), ("/late", _): .answer(ServerResponse(status: 405))
        default: .answer(ServerResponse(status: 404))
        }
    }

    func handle(_ exchange: ServerExchange) {
        log.withLock { $0.append("\(exchange.head.method.text) \(exchange.head.target.path) \(exchange.content.count)") }
        switch exchange.head.target.path {
        case "/late": held.add(exchange, on: loop)
        case "/large": exchange.respond(ServerResponse(status: 200, content: [UInt8](repeating: 120, count: 16 << 20)))
        default: exchange.respond(ServerResponse(status: 201, content: exchange.content))
        }
    }

    func refuse(_ refusal: RequestRefusal, from peer: SocketAddress) -> ServerResponse {
        switch refusal {
        case .malformed(let error): ServerResponse(status: error.status, content: Array(error.reason.rawValue.utf8))
        case .timedOut: ServerResponse(status: 408)
        case .unencrypted: ServerResponse(status: 400, content: Array("unencrypted".utf8))
        }
    }
}

/// The real server in this process on a free port.
final class TestServer: Sendable {
    let loop: EventLoop
    let server: Server
    let port: UInt16
    let log = Lock<[String]>([])
    let held = TestHandler.Held()

    init(_ change: (inout ServerConfig) -> Void = { _ in }, transport: TransportFactory? = nil) async throws {
        var config = ServerConfig()
        change(&config)
        loop = try EventLoop(name: "server")
        loop.start()
        server = Server(config: config)
        let socket = try ListeningSocket.bind(try #require(SocketAddress("127.0.0.1:0")))
        port = try #require(socket.address.port)
        let ready = Promise<SystemError?>("server")
        server.start(
            loops: [loop], sockets: [socket], makeTransport: transport,
            makeHandler: { [log, held] loop in TestHandler(loop: loop, log: log, held: held) }, ready: { ready.fulfil($0) })
        #expect(try await ready.value() == nil)
    }

    deinit { loop.stop() }

    /// Every scenario ends like this: each connection was counted out once, in whatever state it ended.
    func endsBalanced() async throws {
        try await eventually("all connections to be closed") { server.openConnections == 0 }
        #expect(server.counters.waiting.load() == 0)
    }

    /// Sends `text` in one piece and reads to the end of the connection.
    func exchange(_ text: String, finish: Bool = false) async throws -> String {
        try await exchange([Array(text.utf8)], finish: finish)
    }

    func exchange(_ pieces: [[UInt8]], finish: Bool = false) async throws -> String {
        let port = self.port
        return try await onOwnThread {
            let client = try RawClient(port: port)
            for piece in pieces {
                if pieces.count > 1 { try? client.send(piece) } else { try client.send(piece) }
            }
            if finish { client.finishSending() }
            return String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self)
        }
    }
}

/// The status codes of all responses in a text.
func statuses(_ text: String) -> [Int] {
    text.split(separator: "HTTP/1.1 ").compactMap { Int($0.prefix(3)) }
}
