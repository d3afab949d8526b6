import Glibc
import Primitives
import TestSupport

/// Something that listens where a management listener would, takes one request at a time, and gives the answer it was told. Ends with its
/// owner.
final class FakeManagement: @unchecked Sendable {
    // Sendable: `descriptor` and `port` are constant, the rest is behind its lock.
    private let descriptor: Int32
    let port: UInt16
    private let state = Lock((answer: "", requests: [String]()))

    /// - Parameter path: of a Unix socket; `nil`: a free port of 127.0.0.1.
    init(path: String? = nil) throws {
        func fail(_ what: String) -> Child.Failure { Child.Failure(what: "\(what): \(String(cString: strerror(errno)))") }
        let family = path == nil ? AF_INET : AF_UNIX
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw fail("socket") }
        self.descriptor = descriptor
        var result: Int32
        if let path {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            result = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            port = 0
        } else {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            result = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    let bound = bind(descriptor, $0, length)
                    return bound == 0 ? getsockname(descriptor, $0, &length) : bound
                }
            }
            port = UInt16(bigEndian: address.sin_port)
        }
        guard result == 0, listen(descriptor, 8) == 0 else { throw fail("bind") }
    }

    deinit { close(descriptor) }

    var requests: [String] { state.withLock { $0.requests } }

    /// Serves one connection. Blocks: on a thread of its own.
    func serve(_ status: String, _ body: String) {
        let connection = accept(descriptor, nil, nil)
        guard connection >= 0 else { return }
        defer { close(connection) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while !Self.isWhole(bytes) {
            let count = recv(connection, &chunk, chunk.count, 0)
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        let request = String(decoding: bytes, as: UTF8.self)
        state.withLock { $0.requests.append(request) }
        let answer = Array("HTTP/1.1 \(status)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)".utf8)
        _ = Glibc.send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
    }

    private static func isWhole(_ bytes: [UInt8]) -> Bool {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let end = text.firstRange(of: "\r\n\r\n") else { return false }
        let length = text.firstMatch(of: /Content-Length: ([0-9]+)/).flatMap { Int($0.output.1) } ?? 0
        return text[end.upperBound...].utf8.count >= length
    }
}
