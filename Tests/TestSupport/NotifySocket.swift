import Foundation
import Glibc

/// The socket of a service manager: `NOTIFY_SOCKET`, at a path or under an abstract name. For one thread.
package final class NotifySocket: Sendable {
    package struct Failure: Error { package let what: String }

    /// As it stands in the environment.
    package let name: String
    private let fd: Int32

    package init(isAbstract: Bool) throws {
        name = (isAbstract ? "@" : "/tmp/") + "january-notify-\(UUID().uuidString.prefix(8))"
        fd = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(name.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { field in
            for (index, byte) in bytes.enumerated() { field[index] = byte }
            if isAbstract { field[0] = 0 }
        }
        let length = MemoryLayout<sa_family_t>.size + bytes.count + (isAbstract ? 0 : 1)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(fd, $0, socklen_t(length)) }
        }
        guard result == 0 else { throw Failure(what: "bind: \(String(cString: strerror(errno)))") }
    }

    deinit {
        close(fd)
        if name.hasPrefix("/") { unlink(name) }
    }

    /// The next message.
    package func receive(within milliseconds: Int = 20_000) throws -> String {
        var timeout = timeval(tv_sec: milliseconds / 1000, tv_usec: (milliseconds % 1000) * 1000)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(fd, &buffer, buffer.count, 0)
        guard count >= 0 else { throw Failure(what: "no message in \(milliseconds) ms") }
        return String(decoding: buffer[..<count], as: UTF8.self)
    }

    /// The first message that begins with this.
    package func receive(_ prefix: String) throws -> String {
        while true {
            let message = try receive()
            if message.hasPrefix(prefix) { return message }
        }
    }
}
