import Glibc
import Primitives

/// Bytes over a real, blocking socket, with a receive time-out. For use on a thread of its own (``onOwnThread(_:)``).
package final class RawClient: Sendable {
    package struct Failure: Error { package let what: String }
    private let fd: Int32

    /// - Parameter source: the client's own address, another one of the loopback network.
    package init(
        port: UInt16, host: String = "127.0.0.1", source: String? = nil, receiveTimeoutSeconds: Int = 10
    ) throws {
        fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard fd >= 0 else { throw Failure(what: "socket") }
        var timeout = timeval(tv_sec: receiveTimeoutSeconds, tv_usec: 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var one: Int32 = 1
        setsockopt(fd, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        if let source {
            // Any address of 127/8 is this machine's: peers that differ, without a network.
            var own = sockaddr_in()
            own.sin_family = sa_family_t(AF_INET)
            inet_pton(AF_INET, source, &own.sin_addr)
            let bound = withUnsafePointer(to: &own) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
            }
            guard bound == 0 else { throw Failure(what: "bind: \(String(cString: strerror(errno)))") }
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, host, &address.sin_addr)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        // `deinit` runs for what is thrown from here, too: closed a second time, the number could be somebody else's.
        guard result == 0 else { throw Failure(what: "connect: \(String(cString: strerror(errno)))") }
    }

    private let isClosed = Lock(false)

    deinit { if fd >= 0, !isClosed.withLock({ $0 }) { Glibc.close(fd) } }

    package func send(_ text: String) throws { try send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(fd, $0.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(what: "send: \(String(cString: strerror(errno)))") }
            sent += count
        }
    }

    /// One byte out of band: the peer's reads stop in front of it (RFC 9293 section 3.8.5).
    package func sendUrgent(_ byte: UInt8) throws {
        var byte = byte
        guard Glibc.send(fd, &byte, 1, Int32(MSG_OOB)) == 1 else { throw Failure(what: "send") }
    }

    /// Some bytes; empty at the end of the stream.
    package func receive(_ maximum: Int = 65536) throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: maximum)
        let count = recv(fd, &buffer, maximum, 0)
        guard count >= 0 else { throw Failure(what: "recv: \(String(cString: strerror(errno)))") }
        return Array(buffer[..<count])
    }

    /// Everything up to the end of the stream. A reset counts as an end when `allowingReset`.
    package func receiveAll(allowingReset: Bool = false) throws -> [UInt8] {
        var all: [UInt8] = []
        while true {
            do {
                let some = try receive()
                if some.isEmpty { return all }
                all += some
            } catch {
                if allowingReset && errno == ECONNRESET { return all }
                throw error
            }
        }
    }

    /// Reads until `count` complete responses with `Content-Length` framing are there.
    package func receiveResponses(_ count: Int = 1) throws -> [String] {
        var buffer: [UInt8] = []
        var responses: [String] = []
        while responses.count < count {
            if let end = Self.endOfFirstResponse(buffer) {
                responses.append(String(decoding: buffer[..<end], as: UTF8.self))
                buffer.removeFirst(end)
                continue
            }
            let some = try receive()
            if some.isEmpty { throw Failure(what: "end after \(responses.count) responses and \(buffer.count) bytes") }
            buffer += some
        }
        return responses
    }

    private static func endOfFirstResponse(_ bytes: [UInt8]) -> Int? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let head = text.firstRange(of: "\r\n\r\n") else { return nil }
        let headText = text[..<head.lowerBound]
        var length = 0
        for line in headText.split(separator: "\r\n") where line.lowercased().hasPrefix("content-length:") {
            length = Int(line.dropFirst(15).filter { $0 != " " }) ?? 0
        }
        let total = headText.utf8.count + 4 + length
        return bytes.count >= total ? total : nil
    }

    package func finishSending() { shutdown(fd, Int32(SHUT_WR)) }

    /// Both directions are over: ends a call on another thread. The descriptor stays open until nobody uses it.
    package func interrupt() { shutdown(fd, Int32(SHUT_RDWR)) }

    /// Ends the connection with a reset. Not while another thread uses it.
    package func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        isClosed.withLock { $0 = true }
        Glibc.close(fd)
    }
}
