import CSystem
import Glibc
import Primitives

/// An IP address without a port.
package enum IPAddress: Sendable, Hashable, CustomStringConvertible {
    case v4(UInt32)
    /// The 128 bits in two halves; the zone of a link-local address (0: none).
    case v6(UInt64, UInt64, zone: UInt32)

    /// Numeric only: four decimal parts, or RFC 4291 text without brackets and zone.
    package init?(_ text: String) {
        // For C the text would end there.
        if text.utf8.contains(0) { return nil }
        var v4 = in_addr()
        if inet_pton(AF_INET, text, &v4) == 1 {
            self = .v4(UInt32(bigEndian: v4.s_addr))
            return
        }
        var v6 = in6_addr()
        guard inet_pton(AF_INET6, text, &v6) == 1 else { return nil }
        self.init(v6, zone: 0)
    }

    fileprivate init(_ address: in6_addr, zone: UInt32) {
        self = withUnsafeBytes(of: address) { bytes in
            .v6(
                UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)), zone: zone)
        }
    }

    /// `::ffff:a.b.c.d` is the IPv4 address it stands for.
    package var unmapped: IPAddress {
        if case .v6(0, let low, _) = self, low >> 32 == 0xFFFF { return .v4(UInt32(truncatingIfNeeded: low)) }
        return self
    }

    /// 127.0.0.0/8 and ::1, mapped or not.
    /// Whether a listener on this address, a wildcard, gets what is sent to `other`; that of IPv6 listens for IPv4, too.
    package func includes(_ other: IPAddress) -> Bool {
        switch (self, other) {
        case (.v4(0), .v4), (.v6(0, 0, _), _): true
        default: false
        }
    }

    package var isLoopback: Bool {
        switch unmapped {
        case .v4(let bits): bits >> 24 == 127
        case .v6(let high, let low, _): high == 0 && low == 1
        }
    }

    package var isWildcard: Bool {
        switch self {
        case .v4(let bits): bits == 0
        case .v6(let high, let low, _): high == 0 && low == 0
        }
    }

    package var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        switch self {
        case .v4(let bits):
            var address = in_addr(s_addr: bits.bigEndian)
            inet_ntop(AF_INET, &address, &text, socklen_t(text.count))
        case .v6(let high, let low, _):
            var address = Self.bytes(high, low)
            inet_ntop(AF_INET6, &address, &text, socklen_t(text.count))
        }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    fileprivate static func bytes(_ high: UInt64, _ low: UInt64) -> in6_addr {
        var address = in6_addr()
        withUnsafeMutableBytes(of: &address) { bytes in
            bytes.storeBytes(of: high.bigEndian, as: UInt64.self)
            bytes.storeBytes(of: low.bigEndian, toByteOffset: 8, as: UInt64.self)
        }
        return address
    }
}

/// Where a socket listens or is connected to.
package enum SocketAddress: Sendable, Hashable, CustomStringConvertible {
    case ip(IPAddress, port: UInt16)
    /// At most 107 bytes.
    case unix(path: String)

    /// `127.0.0.1:8787`, `[::1]:8787`, `unix:/run/x.sock`; addresses are numeric.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty, path.utf8.count < 108, !path.utf8.contains(0) else { return nil }
            self = .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":") else { return nil }
        var host = text[..<colon]
        let digits = text[text.index(after: colon)...]
        guard digits.utf8.count <= 5, let port = ASCII.decimal(digits.utf8), let port = UInt16(exactly: port) else { return nil }
        let bracketed = host.first == "[" && host.last == "]" && host.count > 2
        if bracketed { host = host.dropFirst().dropLast() }
        guard let address = IPAddress(String(host)) else { return nil }
        if case .v6 = address, !bracketed { return nil }
        if case .v4 = address, bracketed { return nil }
        self = .ip(address, port: port)
    }

    package var description: String {
        switch self {
        case .ip(.v4(let bits), let port): "\(IPAddress.v4(bits)):\(port)"
        case .ip(let address, let port): "[\(address)]:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// Whether listeners on both would be one, or one would get what is meant for the other. Port 0 is another one each time.
    package func overlaps(_ other: SocketAddress) -> Bool {
        switch (self, other) {
        case (.unix(let path), .unix(let otherPath)): path == otherPath
        case (.ip(let address, let port), .ip(let otherAddress, let otherPort)):
            port != 0 && port == otherPort
                && (address == otherAddress || address.includes(otherAddress) || otherAddress.includes(address))
        default: false
        }
    }

    package var ip: IPAddress? {
        if case .ip(let address, _) = self { address } else { nil }
    }

    package var port: UInt16? {
        if case .ip(_, let port) = self { port } else { nil }
    }

    package var isLoopbackOrLocal: Bool { ip?.isLoopback ?? true }

    // MARK: The kernel's form

    var family: Int32 {
        switch self {
        case .ip(.v4, _): AF_INET
        case .ip(.v6, _): AF_INET6
        case .unix: AF_UNIX
        }
    }

    func withKernelForm<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        var storage = sockaddr_storage()
        let length: Int
        switch self {
        case .ip(.v4(let bits), let port):
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = bits.bigEndian
            length = MemoryLayout<sockaddr_in>.size
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_in.self) }
        case .ip(.v6(let high, let low, let zone), let port):
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_addr = IPAddress.bytes(high, low)
            address.sin6_scope_id = zone
            length = MemoryLayout<sockaddr_in6>.size
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_in6.self) }
        case .unix(let path):
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { field in
                for (index, byte) in path.utf8.prefix(field.count - 1).enumerated() { field[index] = byte }
            }
            length = MemoryLayout<sa_family_t>.size + min(path.utf8.count, 107) + 1
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_un.self) }
        }
        return withUnsafePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(length)) }
        }
    }

    /// What the kernel said; an unnamed Unix peer is `unix:`.
    init?(_ storage: sockaddr_storage) {
        switch Int32(storage.ss_family) {
        case AF_INET:
            let address = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in.self) }
            self = .ip(.v4(UInt32(bigEndian: address.sin_addr.s_addr)), port: UInt16(bigEndian: address.sin_port))
        case AF_INET6:
            let address = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in6.self) }
            self = .ip(IPAddress(address.sin6_addr, zone: address.sin6_scope_id), port: UInt16(bigEndian: address.sin6_port))
        case AF_UNIX:
            let address = withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_un.self) }
            let path = withUnsafeBytes(of: address.sun_path) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            self = .unix(path: path)
        default: return nil
        }
    }
}
