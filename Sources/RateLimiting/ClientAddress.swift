import EventLoop
import HTTPMessage
import Primitives

/// The one field in which trusted proxies say whom they speak for. The other is never read: proxies pass it on as the client sent it.
package enum ProxyField: String, Sendable, CaseIterable {
    case xForwardedFor = "x-forwarded-for"
    /// RFC 7239
    case forwarded

    package var fieldName: FieldName {
        switch self {
        case .xForwardedFor: .xForwardedFor
        case .forwarded: .forwarded
        }
    }
}

/// `trusted_proxies` and `trusted_proxy_field`.
package struct TrustedProxies: Sendable, Equatable {
    package var ranges: [AddressRange]
    /// `unix:` in the list: whoever connects through a Unix socket is a proxy.
    package var trustsUnixSockets: Bool
    package var field: ProxyField

    package init(ranges: [AddressRange] = [], trustsUnixSockets: Bool = false, field: ProxyField = .xForwardedFor) {
        self.ranges = ranges
        self.trustsUnixSockets = trustsUnixSockets
        self.field = field
    }

    package var isEmpty: Bool { ranges.isEmpty && !trustsUnixSockets }

    package func contains(_ address: IPAddress) -> Bool {
        for range in ranges where range.contains(address) { return true }
        return false
    }

    package func contains(_ peer: SocketAddress) -> Bool {
        switch peer {
        case .ip(let address, _): contains(address)
        case .unix: trustsUnixSockets
        }
    }
}

/// Whom a request counts for.
package struct ClientAddress: Sendable, Equatable {
    /// `nil`: a Unix socket, whose other end has none.
    package var address: IPAddress?
    /// The peer cannot stand for one caller, so nobody is limited by this address.
    package var isExempt: Bool
    /// The peer sends the field of a proxy and is not trusted: whoever is behind it cannot be told apart.
    package var isUnconfiguredProxy: Bool

    package init(_ address: IPAddress?, isExempt: Bool = false, isUnconfiguredProxy: Bool = false) {
        self.address = address
        self.isExempt = isExempt
        self.isUnconfiguredProxy = isUnconfiguredProxy
    }

    /// Starts at the peer; while the address reached is trusted, takes the next entry of the field from the right. The first one that is
    /// not trusted is the client; if all are, the leftmost. An entry that is no address ends the walk at the last good one.
    ///
    /// - Complexity: O(entries). No allocation without the field.
    package static func find(peer: SocketAddress, fields: Fields, proxies: TrustedProxies) -> ClientAddress {
        let peerAddress = peer.ip?.unmapped
        let isAnonymous = peerAddress.map(\.isOwnLoopback) ?? true
        guard proxies.contains(peer) else {
            let sendsField = (isAnonymous || peerAddress?.isPrivate ?? false) && fields.contains(proxies.field.fieldName)
            return ClientAddress(peerAddress, isExempt: isAnonymous || sendsField, isUnconfiguredProxy: sendsField)
        }
        guard fields.contains(proxies.field.fieldName) else { return ClientAddress(peerAddress, isExempt: isAnonymous) }
        var walk = ProxyWalk(proxies)
        walk.run(fields.values(proxies.field.fieldName))
        if let reached = walk.reached { return ClientAddress(reached) }
        // No proxy writes what has no reading at all: it came from the client, who may not get rid of its limit in this way.
        return ClientAddress(peerAddress, isExempt: isAnonymous && !walk.isMalformed)
    }
}

/// The way through the entries of the trusted field, from the last to the first.
struct ProxyWalk {
    private let proxies: TrustedProxies
    /// The last address the walk has come to; `nil`: still at the peer.
    private(set) var reached: IPAddress?
    /// Entries that were addresses, the client's own included.
    private(set) var hops = 0
    /// A line of `Forwarded` that cannot be divided into elements.
    private(set) var isMalformed = false
    /// The element at which the walk ended (`Forwarded`).
    private(set) var element: ForwardedElement?

    init(_ proxies: TrustedProxies) { self.proxies = proxies }

    /// Field lines are one list in their order (RFC 9110 section 5.3), so the last line is the nearest proxy's.
    mutating func run(_ lines: [ArraySlice<UInt8>]) {
        for line in lines.reversed() {
            switch proxies.field {
            case .xForwardedFor: guard walk(list: line) else { return }
            case .forwarded:
                guard let elements = ForwardedElement.parse(line) else { return isMalformed = true }
                for element in elements.reversed() where !element.isEmpty {
                    guard let address = element.forNode.flatMap(ProxyNode.address), !element.isAmbiguous else { return }
                    self.element = element
                    guard step(to: address) else { return }
                }
            }
        }
    }

    private mutating func walk(list line: ArraySlice<UInt8>) -> Bool {
        var end = line.endIndex
        while true {
            var start = end
            while start > line.startIndex, line[start - 1] != UInt8(ascii: ",") { start -= 1 }
            let entry = line[start..<end].trimmingSpaces()
            // Empty list elements are ignored (RFC 9110 section 5.6.1).
            if !entry.isEmpty {
                guard let address = ProxyNode.address(entry), step(to: address) else { return false }
            }
            if start == line.startIndex { return true }
            end = start - 1
        }
    }

    /// - Returns: whether the walk goes on.
    private mutating func step(to address: IPAddress) -> Bool {
        reached = address
        hops += 1
        return proxies.contains(address)
    }
}

/// One hop as proxies write it: an address, perhaps in brackets, perhaps with a port, perhaps with a zone.
enum ProxyNode {
    /// `nil`: no address (`unknown`, an obfuscated identifier of RFC 7239 section 6.3, garbage). IPv4-mapped addresses are IPv4.
    static func address(_ text: ArraySlice<UInt8>) -> IPAddress? {
        guard let first = text.first else { return nil }
        if first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            let rest = text[(end + 1)...]
            guard rest.isEmpty || (rest.first == colon && isPort(rest.dropFirst())) else { return nil }
            return v6(text[(text.startIndex + 1)..<end])
        }
        guard let firstColon = text.firstIndex(of: colon) else { return v4(text) }
        let rest = text[(firstColon + 1)...]
        if !rest.contains(colon) { return isPort(rest) ? v4(text[..<firstColon]) : nil }
        return v6(text)
    }

    private static let colon = UInt8(ascii: ":")

    /// Digits, or an obfuscated port (RFC 7239 section 6).
    private static func isPort(_ text: ArraySlice<UInt8>) -> Bool {
        if text.first == UInt8(ascii: "_") {
            return text.count > 1 && text.allSatisfy { ASCII.isLetter($0) || ASCII.isDigit($0) || "._-".utf8.contains($0) }
        }
        guard (1...5).contains(text.count), let port = ASCII.decimal(text) else { return false }
        return port <= 65_535
    }

    /// Four decimal numbers without leading zeros: others read `010` as eight.
    private static func v4(_ text: ArraySlice<UInt8>) -> IPAddress? {
        guard (7...15).contains(text.count) else { return nil }
        var bits: UInt32 = 0
        var parts = 0
        var part: UInt32 = 0
        var digits = 0
        for byte in text {
            if byte == UInt8(ascii: ".") {
                guard digits > 0, parts < 3 else { return nil }
                bits = bits << 8 | part
                (parts, part, digits) = (parts + 1, 0, 0)
                continue
            }
            guard ASCII.isDigit(byte), digits == 0 || part > 0 else { return nil }
            part = part * 10 + UInt32(byte - UInt8(ascii: "0"))
            digits += 1
            guard part <= 255 else { return nil }
        }
        guard digits > 0, parts == 3 else { return nil }
        return .v4(bits << 8 | part)
    }

    /// RFC 4291 section 2.2; a zone (RFC 4007 section 11) means something on the host that wrote it and nothing here.
    private static func v6(_ text: ArraySlice<UInt8>) -> IPAddress? {
        var address = text
        if let percent = text.firstIndex(of: UInt8(ascii: "%")) {
            guard percent + 1 < text.endIndex, text.endIndex - percent <= 64 else { return nil }
            address = text[..<percent]
        }
        // Nothing but what an address is made of reaches the system's parser, which would stop at a zero byte.
        guard (2...45).contains(address.count), address.contains(colon),
            address.allSatisfy({ ASCII.hexDigit($0) != nil || $0 == colon || $0 == UInt8(ascii: ".") })
        else { return nil }
        return IPAddress(String(decoding: address, as: UTF8.self))?.unmapped
    }
}

extension ArraySlice<UInt8> {
    func trimmingSpaces() -> ArraySlice<UInt8> {
        var slice = self
        while let first = slice.first, first == ASCII.space || first == UInt8(ascii: "\t") { slice.removeFirst() }
        while let last = slice.last, last == ASCII.space || last == UInt8(ascii: "\t") { slice.removeLast() }
        return slice
    }
}

extension IPAddress {
    /// `127.0.0.1` and `::1` and no other: they cannot stand for one caller, other addresses in 127/8 are ordinary.
    var isOwnLoopback: Bool {
        switch self {
        case .v4(let bits): bits == 0x7f00_0001
        case .v6(let high, let low, _): high == 0 && low == 1
        }
    }

    /// RFC 1918, RFC 6598, RFC 4193, and link-local addresses (RFC 3927, RFC 4291 section 2.5.6).
    var isPrivate: Bool {
        switch self {
        case .v4(let bits):
            bits >> 24 == 10 || bits >> 20 == 0xac1 || bits >> 16 == 0xc0a8 || bits >> 22 == 0x191 || bits >> 16 == 0xa9fe
        case .v6(let high, _, _): high >> 57 == 0x7e || high >> 54 == 0x3fa
        }
    }
}

extension IPAddress {
    /// The address alone as a range, as it would stand in `trusted_proxies`.
    package var range: String {
        switch self {
        case .v4: "\(self)/32"
        case .v6: "\(self)/128"
        }
    }
}
