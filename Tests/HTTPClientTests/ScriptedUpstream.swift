import EventLoop
import Foundation
import Primitives
import TLS
import TestSupport

/// A real server on loopback that does in blocking code, on a thread per connection, whatever a test tells it to: answer in raw bytes,
/// stall, cut, reset. With or without TLS.
final class ScriptedUpstream: Sendable {
    struct Failure: Error { let what: String }

    private let listener: LoopbackListener
    private let accepted = Lock<[UpstreamConnection]>([])
    private let openNow = Lock((current: 0, peak: 0))
    var port: UInt16 { listener.port }

    /// - Parameter script: runs for every connection, which is closed when it returns or throws. The number counts from 0.
    init(
        tls: TLSServerContext? = nil, backlog: Int32 = 512, accepts: Bool = true,
        script: @escaping @Sendable (UpstreamConnection, Int) throws -> Void
    ) throws {
        let (accepted, openNow) = (accepted, openNow)
        listener = try LoopbackListener(backlog: backlog, accepts: accepts, givesAway: true) { descriptor, number in
            let connection = UpstreamConnection(descriptor, tls: tls)
            accepted.withLock { $0.append(connection) }
            openNow.withLock { $0 = ($0.current + 1, max($0.peak, $0.current + 1)) }
            try? connection.accept()
            try? script(connection, number)
            openNow.withLock { $0.current -= 1 }
            connection.close()
        }
    }

    var connectionCount: Int { accepted.withLock { $0.count } }
    /// The most connections open at once.
    var peakCount: Int { openNow.withLock { $0.peak } }
    /// Requests that were read in full, over all connections.
    var requests: [String] { accepted.withLock { $0 }.flatMap(\.requests) }

    func stop() {
        listener.stop()
        for connection in accepted.withLock({ $0 }) { connection.interrupt() }
    }
}

final class UpstreamConnection: @unchecked Sendable {
    // Sendable: used by its script's thread; `requests` and `fd` are locked, `interrupt` only shuts the socket down.
    private let fd: Lock<Int32>
    private let raw: Int32
    private let context: TLSServerContext?
    private var tls: TLSStream?
    private var buffer: [UInt8] = []
    private let seen = Lock<[String]>([])

    init(_ raw: Int32, tls context: TLSServerContext?) {
        fd = Lock(raw)
        self.raw = raw
        self.context = context
        var timeout = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(raw, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(raw, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var one: Int32 = 1
        setsockopt(raw, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    var requests: [String] { seen.withLock { $0 } }
    var wasResumed: Bool { tls?.isResumed ?? false }

    fileprivate func accept() throws {
        guard let context else { return }
        _ = fcntl(raw, F_SETFL, fcntl(raw, F_GETFL) | O_NONBLOCK)
        let tls = try TLSStream(server: context, descriptor: raw)
        self.tls = tls
        while true {
            switch tls.handshake() {
            case .done: return
            case .wait: guard waitReadable(20_000) else { throw ScriptedUpstream.Failure(what: "handshake") }
            case .failed(let error): throw error
            }
        }
    }

    /// Whether there is something to read, or an end, within the time.
    func waitReadable(_ milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: raw, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, milliseconds) > 0
    }

    /// Some bytes; empty at the end.
    func receive() throws -> [UInt8] {
        var piece = [UInt8](repeating: 0, count: 65536)
        guard let tls else {
            let count = recv(raw, &piece, piece.count, 0)
            guard count >= 0 else { throw ScriptedUpstream.Failure(what: "recv \(errno)") }
            return Array(piece[..<count])
        }
        while true {
            switch piece.withUnsafeMutableBytes({ tls.read(into: $0) }) {
            case .bytes(let count): return Array(piece[..<count])
            case .wouldBlock: guard waitReadable(20_000) else { throw ScriptedUpstream.Failure(what: "read") }
            case .end: return []
            case .failed(let error): throw error
            }
        }
    }

    /// Head and content of the next request; `nil` when the client has closed.
    func request() throws -> String? {
        while true {
            let text = String(decoding: buffer, as: UTF8.self)
            if let end = text.firstRange(of: "\r\n\r\n") {
                let head = text[..<end.upperBound]
                let length =
                    String(head).components("\r\n").first { $0.hasPrefix("Content-Length: ") }.flatMap { Int($0.dropFirst(16)) }
                    ?? 0
                let total = head.utf8.count + length
                if buffer.count >= total {
                    let request = String(decoding: buffer[..<total], as: UTF8.self)
                    buffer.removeFirst(total)
                    seen.withLock { $0.append(request) }
                    return request
                }
            }
            let piece = try receive()
            if piece.isEmpty { return nil }
            buffer += piece
        }
    }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { rest -> Int in
                guard let tls else { return Foundation.send(raw, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL)) }
                if case .bytes(let count) = tls.write(rest) { return count }
                return -1
            }
            guard count > 0 else { throw ScriptedUpstream.Failure(what: "send \(errno)") }
            sent += count
        }
    }

    func answer(_ body: String = "ok", status: String = "200 OK", fields: String = "") throws {
        try send("HTTP/1.1 \(status)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    /// Answers every request the same way until the client closes.
    func answerAll(_ body: String = "ok") throws {
        while try request() != nil { try answer(body) }
    }

    /// Waits until the client has closed.
    func waitForEnd() { while let piece = try? receive(), !piece.isEmpty {} }

    /// The client sees the end of our side; reading goes on.
    func finish() {
        tls?.shutdown()
        shutdown(raw, Int32(SHUT_WR))
    }

    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(raw, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    func close() {
        fd.withLock { fd in
            if fd >= 0 { Foundation.close(fd) }
            fd = -1
        }
    }

    fileprivate func interrupt() { fd.withLock { if $0 >= 0 { shutdown($0, Int32(SHUT_RDWR)) } } }
}

/// A connection that fills a listener's queue.
final class RawSocket: Sendable {
    private let fd: Int32

    init(port: UInt16) throws {
        fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let fd = fd
        _ = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
    }

    deinit { close(fd) }
}
