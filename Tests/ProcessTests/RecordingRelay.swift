import Foundation
import Primitives
import TestSupport

/// Stands between a proxy and the endpoint, passes every byte on, and knows afterwards what the endpoint said and who closed first.
/// Ends with its owner.
final class RecordingRelay: Sendable {
    enum Side: Equatable { case proxy, endpoint }

    struct Connection {
        var fromProxy: [UInt8] = []
        var fromEndpoint: [UInt8] = []
        var closedFirst: Side?
    }

    private let listener: LoopbackListener
    private let seen = Lock<[Int: Connection]>([:])
    var port: UInt16 { listener.port }

    init(to endpoint: UInt16) throws {
        let seen = seen
        listener = try LoopbackListener { client, number in
            let upstream = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            defer { close(upstream) }
            var address = loopback(endpoint)
            let isConnected = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(upstream, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            guard isConnected else { return }
            seen.withLock { $0[number] = Connection() }
            Self.serve(client, upstream) { change in seen.withLock { change(&$0[number, default: Connection()]) } }
        }
    }

    deinit { listener.stop() }

    var connections: [Connection] { seen.withLock { seen in seen.sorted { $0.key < $1.key }.map(\.value) } }

    /// What the endpoint answered under this ID of its own, with all its bytes.
    func answer(_ requestID: String) -> HTTPAnswer? {
        for connection in connections {
            var rest = connection.fromEndpoint[...]
            while let answer = HTTPAnswer(next: &rest) {
                if answer.field("x-request-id") == requestID { return answer }
            }
        }
        return nil
    }

    private static func serve(_ client: Int32, _ upstream: Int32, _ record: ((inout Connection) -> Void) -> Void) {
        var isOpen = [true, true]
        var buffer = [UInt8](repeating: 0, count: 65536)
        while isOpen.contains(true) {
            var polled = [client, upstream].enumerated().map { number, descriptor in
                pollfd(fd: isOpen[number] ? descriptor : -1, events: Int16(POLLIN), revents: 0)
            }
            guard poll(&polled, 2, -1) >= 0 || errno == EINTR else { break }
            for number in 0..<2 where polled[number].revents != 0 {
                let (from, to) = number == 0 ? (client, upstream) : (upstream, client)
                let count = recv(from, &buffer, buffer.count, 0)
                if count > 0 {
                    let bytes = buffer[..<count]
                    record { if number == 0 { $0.fromProxy += bytes } else { $0.fromEndpoint += bytes } }
                    var sent = 0
                    while sent < count {
                        let some = buffer.withUnsafeBytes {
                            send(to, $0.baseAddress.map { $0 + sent }, count - sent, Int32(MSG_NOSIGNAL))
                        }
                        if some <= 0 { break }
                        sent += some
                    }
                } else {
                    isOpen[number] = false
                    record { if $0.closedFirst == nil { $0.closedFirst = number == 0 ? .proxy : .endpoint } }
                    shutdown(to, Int32(SHUT_WR))
                }
            }
        }
    }
}

/// One response, as its bytes say: over HTTP/1.1, or as curl writes one of HTTP/2.
struct HTTPAnswer {
    let status: Int
    let fields: [(name: String, value: String)]
    let body: [UInt8]

    /// Takes the next response from the front, its body framed by Content-Length; interim ones are left out.
    init?(next bytes: inout ArraySlice<UInt8>) {
        while true {
            guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
            let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
            guard let first = lines.first?.split(separator: " "), first.count > 1, let status = Int(first[1]) else { return nil }
            if (100..<200).contains(status) {
                bytes = bytes[end.upperBound...]
                continue
            }
            let fields = lines.dropFirst().map { line in
                let pair = line.split(separator: ":", maxSplits: 1)
                return (
                    pair[0].lowercased(),
                    pair.count > 1 ? String(pair[1]).trimmingPrefix(while: { $0 == " " }).description : ""
                )
            }
            let length = fields.first { $0.0 == "content-length" }.flatMap { Int($0.1) } ?? 0
            guard bytes.endIndex - end.upperBound >= length else { return nil }
            self.status = status
            self.fields = fields.map { (name: $0.0, value: $0.1) }
            body = Array(bytes[end.upperBound..<(end.upperBound + length)])
            bytes = bytes[(end.upperBound + length)...]
            return
        }
    }

    /// The only one of its name.
    func field(_ name: String) -> String? {
        let values = fields.filter { $0.name == name }
        return values.count == 1 ? values[0].value : nil
    }

    var text: String { String(decoding: body, as: UTF8.self) }

    /// `code` of an error.
    var code: String? { text.firstMatch(of: /"code": *"([a-z_]+)"/).map { String($0.output.1) } }
}
