import EventLoop
import Glibc
import HTTPServer
import Primitives
import TestSupport
import Testing

/// Listeners are given to the server: it serves whatever listens, and makes no socket of its own.
@Suite(.serialized) struct InheritedListenerTests {
    private static let get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    @Test func aServerServesEverySocketItIsGiven() async throws {
        let path = "/tmp/january-\(getpid())-inherited.sock"
        defer { unlink(path) }
        // Two that this process has bound, one that it got as a number only.
        let bound = try ListeningSocket.bind(.ip(.v4(0x7F00_0001), port: 0))
        let unix = try ListeningSocket.bind(try #require(SocketAddress("unix:\(path)")))
        let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        try #require(isBound == 0 && listen(raw, 16) == 0)
        let inherited = try ListeningSocket(adopting: FileDescriptor(adopting: raw))

        let loops = try [EventLoop(name: "a"), EventLoop(name: "b")]
        for loop in loops { loop.start() }
        defer { for loop in loops { loop.stop() } }
        let server = Server(config: ServerConfig())
        let ready = Promise<SystemError?>("server")
        server.start(
            loops: loops, sockets: [bound, unix, inherited],
            makeHandler: { TestHandler(loop: $0, log: Lock([]), held: TestHandler.Held()) }, ready: { ready.fulfil($0) })
        #expect(try await ready.value() == nil)
        for socket in [bound, inherited] {
            let port = try #require(socket.address.port)
            for _ in 0..<8 {
                let answer = try await onOwnThread {
                    let client = try RawClient(port: port)
                    try client.send(Self.get)
                    return String(decoding: try client.receiveAll(), as: UTF8.self)
                }
                #expect(answer.hasPrefix("HTTP/1.1 404 "))
            }
        }
        // Draining closes them all; the file that this process made goes, and no port answers.
        let stopped = Promise<Bool>("stop")
        server.stopAccepting { stopped.fulfil(true) }
        _ = try await stopped.value()
        #expect(access(path, F_OK) != 0)
        #expect(server.openConnections == 0)
    }
}
