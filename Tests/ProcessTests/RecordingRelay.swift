import Foundation
import Primitives
import TestSupport

/// Stands between a proxy and the endpoint, passes every byte on, and knows afterwards what the endpoint said and who closed first.
/// One thread accepts, one serves each connection; all end with it.
final class RecordingRelay: Sendable {
    enum Side: Equatable { case proxy, endpoint }

    struct Connection {
        var fromProxy: [UInt8] = []
        var fromEndpoint: [UInt8] = []
        var closedFirst: Side?
    }

    private struct State {
        var connections: [Connection] = []
        var descriptors: Set<Int32> = []
        var isStopped = false
    }

    let port: UInt16
    private let listener: Int32
    private let state = Lock(State())

    init(to endpoint: UInt16) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard listener >= 0 else { throw Child.Failure(what: "socket") }
        var address = loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isListening else {
            close(listener)
            throw Child.Failure(what: "no relay: \(String(cString: strerror(errno)))")
        }
        port = UInt16(bigEndian: address.sin_port)
        self.listener = listener
        let state = state
        Thread.detachNewThread {
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 {
                    if state.withLock({ $0.isStopped }) { break }
                    continue
                }
                let upstream = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
                var address = loopback(endpoint)
                let isConnected = withUnsafePointer(to: &address) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        connect(upstream, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                    }
                }
                let index: Int? = state.withLock { state in
                    guard isConnected, !state.isStopped else { return nil }
                    state.descriptors.formUnion([client, upstream])
                    state.connections.append(Connection())
                    return state.connections.count - 1
                }
                if let index {
                    Thread.detachNewThread { Self.serve(client, upstream, index, state) }
                } else {
                    close(client)
                    close(upstream)
                }
            }
            close(listener)
        }
    }

    deinit {
        state.withLock { state in
            state.isStopped = true
            for descriptor in state.descriptors { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        // Ends the accept.
        shutdown(listener, Int32(SHUT_RDWR))
    }

    var connections: [Connection] { state.withLock { $0.connections } }

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

    private static func serve(_ client: Int32, _ upstream: Int32, _ index: Int, _ state: Lock<State>) {
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
                    state.withLock {
                        if number == 0 {
                            $0.connections[index].fromProxy += bytes
                        } else {
                            $0.connections[index].fromEndpoint += bytes
                        }
                    }
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
                    state.withLock {
                        if $0.connections[index].closedFirst == nil {
                            $0.connections[index].closedFirst = number == 0 ? .proxy : .endpoint
                        }
                    }
                    shutdown(to, Int32(SHUT_WR))
                }
            }
        }
        state.withLock { $0.descriptors.subtract([client, upstream]) }
        close(client)
        close(upstream)
    }
}

func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
    return address
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
