import Glibc
import Primitives

/// A collector of spans over HTTP on a real socket of the loopback: keeps what it gets, and answers, stalls or cuts as a test tells it.
/// A thread accepts and one serves each connection; all end with ``stop()``.
package final class CollectorDouble: Sendable {
    package struct Request: Sendable {
        /// Request-line and fields, without the empty line.
        package let head: String
        package let body: [UInt8]
    }

    package enum Behaviour: Sendable {
        /// A whole response; more field lines end in CRLF.
        case answer(String, fields: String = "", body: String = "{}")
        /// Whatever is given, and then the end.
        case cut(String)
        /// Nothing, for as long as the client likes.
        case silence
    }

    private let seen = Lock<[Request]>([])
    private let listener: LoopbackListener
    package var port: UInt16 { listener.port }

    /// - Parameter behave: called for every request, on the thread of its connection; they count from 1 over all connections.
    package init(behave: @escaping @Sendable (Request, Int) -> Behaviour = { _, _ in .answer("200 OK") }) throws {
        let seen = seen
        listener = try LoopbackListener { connection, _ in Self.serve(connection, seen, behave) }
    }

    package var requests: [Request] { seen.withLock { $0 } }
    package var connectionCount: Int { listener.acceptedCount }

    package func stop() { listener.stop() }

    private static func serve(
        _ descriptor: Int32, _ seen: Lock<[Request]>, _ behave: @escaping @Sendable (Request, Int) -> Behaviour
    ) {
        var buffer: [UInt8] = []
        while let request = receive(descriptor, &buffer) {
            let number = seen.withLock { seen in
                seen.append(request)
                return seen.count
            }
            switch behave(request, number) {
            case .answer(let status, let fields, let body):
                let response =
                    "HTTP/1.1 \(status)\r\n\(fields)Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
                guard send(descriptor, response) else { return }
            case .cut(let text):
                _ = send(descriptor, text)
                return
            case .silence:
                var byte: UInt8 = 0
                while recv(descriptor, &byte, 1, 0) > 0 {}
                return
            }
        }
    }

    private static func receive(_ descriptor: Int32, _ buffer: inout [UInt8]) -> Request? {
        var piece = [UInt8](repeating: 0, count: 65536)
        while true {
            if let request = take(&buffer) { return request }
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            buffer += piece[..<count]
        }
    }

    private static func take(_ buffer: inout [UInt8]) -> Request? {
        guard let end = buffer.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let head = String(decoding: buffer[..<end.lowerBound], as: UTF8.self)
        let length = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length: ") }
            .flatMap { Int($0.dropFirst(16)) }
        let total = end.upperBound + (length ?? 0)
        guard buffer.count >= total else { return nil }
        let body = Array(buffer[end.upperBound..<total])
        buffer.removeFirst(total)
        return Request(head: head, body: body)
    }

    private static func send(_ descriptor: Int32, _ text: String) -> Bool {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}
