import Glibc
import Primitives

/// A collector of spans over HTTP on a real socket of the loopback: keeps what it gets, and answers, stalls or cuts as a test tells it.
/// A thread accepts and one serves each connection; all end with ``stop()``.
package final class CollectorDouble: Sendable {
    package struct Failure: Error { package let what: String }

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

    private struct State {
        var requests: [Request] = []
        var descriptors: Set<Int32> = []
        var connectionCount = 0
        var isStopped = false
    }

    package let port: UInt16
    private let listener: Int32
    private let state = Lock(State())

    /// - Parameter behave: called for every request, on the thread of its connection; they count from 1 over all connections.
    package init(behave: @escaping @Sendable (Request, Int) -> Behaviour = { _, _ in .answer("200 OK") }) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard listener >= 0, isListening else { throw Failure(what: "listen: \(String(cString: strerror(errno)))") }
        self.listener = listener
        port = UInt16(bigEndian: address.sin_port)
        let state = state
        detach {
            while true {
                let client = accept(listener, nil, nil)
                let isWanted = state.withLock { state in
                    guard client >= 0, !state.isStopped else { return false }
                    state.descriptors.insert(client)
                    state.connectionCount += 1
                    return true
                }
                if isWanted {
                    detach { Self.serve(client, state, behave) }
                } else if client >= 0 {
                    close(client)
                }
                if state.withLock({ $0.isStopped }) { break }
            }
            close(listener)
        }
    }

    package var requests: [Request] { state.withLock { $0.requests } }
    package var connectionCount: Int { state.withLock { $0.connectionCount } }

    package func stop() {
        state.withLock { state in
            state.isStopped = true
            for descriptor in state.descriptors { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        // Ends the accept.
        shutdown(listener, Int32(SHUT_RDWR))
    }

    private static func serve(
        _ descriptor: Int32, _ state: Lock<State>, _ behave: @escaping @Sendable (Request, Int) -> Behaviour
    ) {
        defer {
            state.withLock { _ = $0.descriptors.remove(descriptor) }
            close(descriptor)
        }
        var buffer: [UInt8] = []
        while let request = receive(descriptor, &buffer) {
            let number = state.withLock { state in
                state.requests.append(request)
                return state.requests.count
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

/// A thread of its own that ends when `work` does.
private func detach(_ work: @escaping @Sendable () -> Void) {
    final class Work: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    var thread = pthread_t()
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    let argument = Unmanaged.passRetained(Work(work)).toOpaque()
    pthread_create(
        &thread, &attributes,
        { argument in
            guard let argument else { return nil }
            Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().run()
            return nil
        }, argument)
    pthread_attr_destroy(&attributes)
}
