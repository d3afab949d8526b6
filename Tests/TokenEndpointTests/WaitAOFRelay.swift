import Foundation
import Primitives
import TestSupport

/// Stands before a Redis that may be too old for WAITAOF and lends it that command: `INFO` says 7.2 with an append-only file, and each
/// WAITAOF holds its connection, as Redis's own does, until the test says what became of it. Everything else is passed on. Ends with its owner.
final class WaitAOFRelay: Sendable {
    enum Verdict { case onDisk, notOnDisk }

    private struct State {
        var isStopped = false
        /// `nil`: they wait.
        var verdict: Verdict?
        var waitingCount = 0
        /// Names, by connection.
        var commands: [Int: [String]] = [:]
    }

    private let listener: LoopbackListener
    private let state = Lock(State())
    var port: UInt16 { listener.port }

    init(to redis: UInt16) throws {
        let state = state
        listener = try LoopbackListener { client, number in
            state.withLock { $0.commands[number] = [] }
            if let upstream = try? RawClient(port: redis) { try? Self.serve(client, upstream, number, state) }
        }
    }

    deinit {
        state.withLock { $0.isStopped = true }
        listener.stop()
    }

    /// What every WAITAOF is answered from now on, those that wait included; `nil`: they wait.
    func answer(_ verdict: Verdict?) { state.withLock { $0.verdict = verdict } }
    var waitingCount: Int { state.withLock { $0.waitingCount } }
    var commands: [[String]] { state.withLock { state in state.commands.sorted { $0.key < $1.key }.map(\.value) } }

    // MARK: One connection

    /// Bytes of one side, a line or a number of them at a time.
    private struct Input {
        let receive: () throws -> [UInt8]
        var buffer: [UInt8] = []

        mutating func take(_ count: Int) throws -> [UInt8] {
            while buffer.count < count {
                let some = try receive()
                if some.isEmpty { throw TimedOut(what: "end of stream") }
                buffer += some
            }
            defer { buffer.removeFirst(count) }
            return Array(buffer[..<count])
        }

        /// With its CRLF.
        mutating func line() throws -> [UInt8] {
            var end = 0
            while true {
                if let found = buffer[end...].firstIndex(of: 0x0A) { return try take(found + 1) }
                end = buffer.count
                let some = try receive()
                if some.isEmpty { throw TimedOut(what: "end of stream") }
                buffer += some
            }
        }

        /// The bytes of one RESP value (a command is an array of strings).
        mutating func value() throws -> [UInt8] {
            var bytes = try line()
            let number = Int(String(decoding: bytes.dropFirst().dropLast(2), as: UTF8.self)) ?? 0
            switch bytes[0] {
            case UInt8(ascii: "$") where number >= 0: bytes += try take(number + 2)
            case UInt8(ascii: "*") where number > 0: for _ in 0..<number { bytes += try value() }
            default: break
            }
            return bytes
        }
    }

    private static func serve(_ client: Int32, _ upstream: RawClient, _ number: Int, _ state: Lock<State>) throws {
        var commands = Input(receive: {
            var buffer = [UInt8](repeating: 0, count: 65536)
            let count = recv(client, &buffer, buffer.count, 0)
            return Array(buffer[..<max(0, count)])
        })
        var replies = Input(receive: { try upstream.receive() })
        while true {
            let command = try commands.value()
            let words = String(decoding: command, as: UTF8.self).split(separator: "\r\n")
            let name = words.count > 2 ? words[2].uppercased() : ""
            state.withLock { $0.commands[number, default: []].append(name) }
            var reply: [UInt8]
            if name == "WAITAOF" {
                reply = try verdict(state)
            } else {
                try upstream.send(command)
                reply = try replies.value()
                if name == "INFO" { reply = lent(reply) }
            }
            guard send(client, &reply, reply.count, Int32(MSG_NOSIGNAL)) == reply.count else { return }
        }
    }

    private static func verdict(_ state: Lock<State>) throws -> [UInt8] {
        state.withLock { $0.waitingCount += 1 }
        defer { state.withLock { $0.waitingCount -= 1 } }
        while true {
            let (verdict, isStopped) = state.withLock { ($0.verdict, $0.isStopped) }
            if isStopped { throw TimedOut(what: "stopped") }
            if let verdict { return Array("*2\r\n:\(verdict == .onDisk ? 1 : 0)\r\n:0\r\n".utf8) }
            usleepMilliseconds(1)
        }
    }

    private static func lent(_ info: [UInt8]) -> [UInt8] {
        let lines = String(decoding: info, as: UTF8.self).split(separator: "\r\n").dropFirst().map { line in
            line.hasPrefix("redis_version:") ? "redis_version:7.2.0" : line.hasPrefix("aof_enabled:") ? "aof_enabled:1" : line
        }
        let text = lines.joined(separator: "\r\n")
        return Array("$\(text.utf8.count)\r\n\(text)\r\n".utf8)
    }
}
