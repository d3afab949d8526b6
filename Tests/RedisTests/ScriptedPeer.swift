import EventLoop
import Foundation
import Primitives
import TestSupport

/// A server on the loopback that does, on a thread per connection, what a test tells it: answer in raw bytes, stall, cut.
final class ScriptedPeer: Sendable {
    struct Failure: Error { let what: String }

    private let listener: LoopbackListener
    var port: UInt16 { listener.port }

    /// - Parameter script: runs for every connection, which is closed when it returns or throws. The number counts from 0.
    init(_ script: @escaping @Sendable (PeerConnection, Int) throws -> Void) throws {
        listener = try LoopbackListener { connection, number in try? script(PeerConnection(connection), number) }
    }

    var connectionCount: Int { listener.acceptedCount }

    func stop() { listener.stop() }
}

final class PeerConnection {
    private let fd: Int32
    private var buffer: [UInt8] = []

    init(_ fd: Int32) { self.fd = fd }

    func send(_ text: String) throws {
        let bytes = Array(text.utf8)
        guard Glibc.send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw ScriptedPeer.Failure(what: "send")
        }
    }

    /// Reads until so many commands have come; throws at the end of the stream.
    func readCommands(_ count: Int = 1) throws {
        for _ in 0..<count {
            while true {
                if let end = Self.endOfCommand(buffer) {
                    buffer.removeFirst(end)
                    break
                }
                try receive()
            }
        }
    }

    /// One command, its words separated by spaces.
    func readText() throws -> String {
        while true {
            if let end = Self.endOfCommand(buffer) {
                let lines = String(decoding: buffer[..<end], as: UTF8.self).split(separator: "\r\n")
                buffer.removeFirst(end)
                return lines.dropFirst().enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }.joined(
                    separator: " ")
            }
            try receive()
        }
    }

    /// Blocks until the client has closed.
    func readToEnd() { while (try? receive()) != nil {} }

    private func receive() throws {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = recv(fd, &bytes, bytes.count, 0)
        guard count > 0 else { throw ScriptedPeer.Failure(what: "end") }
        buffer += bytes[..<count]
    }

    private static func endOfCommand(_ bytes: [UInt8]) -> Int? {
        var offset = 0
        func line() -> Int? {
            guard let end = bytes[offset...].firstIndex(of: 10) else { return nil }
            defer { offset = end + 1 }
            return Int(String(decoding: bytes[(offset + 1)..<(end - 1)], as: UTF8.self))
        }
        guard let count = line() else { return nil }
        for _ in 0..<count {
            guard let length = line() else { return nil }
            offset += length + 2
        }
        return offset <= bytes.count ? offset : nil
    }
}
