/// Scheme, host and port (RFC 9110 section 4.3.1): what a connection, a pool and the browsers' origin rule go by.
package struct Origin: Sendable, Hashable, CustomStringConvertible {
    package enum Scheme: String, Sendable, Hashable {
        case http, https

        package var defaultPort: Int { self == .http ? 80 : 443 }
    }

    package let scheme: Scheme
    /// In lower case, IPv6 without brackets.
    package let host: String
    package let port: Int

    /// `host` is a name or address that ``HTTPURL`` or ``parse(_:)`` would take, IPv6 without brackets; `port` 1 to 65535. `nil` when not.
    package init?(scheme: Scheme, host: String, port: Int? = nil) {
        let bytes = Array(host.utf8)
        let port = port ?? scheme.defaultPort
        guard (1...65535).contains(port), Origin.isHost(bytes) else { return nil }
        self.scheme = scheme
        self.host = String(decoding: bytes.map(\.lowercasedASCII), as: UTF8.self)
        self.port = port
    }

    /// `https://app.example.com` with an optional port and nothing behind it (RFC 6454 section 6.2). `null` is none.
    package static func parse(_ text: String) -> Origin? {
        // The target of a URL is its end, `/` also where nothing stood; so the text must not hold one slash more than `://`.
        guard let url = try? HTTPURL.parse(text), url.userInfo == nil, url.target == "/",
            text.utf8.count(where: { $0 == UInt8(ascii: "/") }) == 2
        else { return nil }
        return url.origin
    }

    /// The value of `Host`: the default port is left out, IPv6 has brackets.
    package var authority: String { port == scheme.defaultPort ? bracketed : "\(bracketed):\(port)" }

    package var description: String { "\(scheme.rawValue)://\(authority)" }

    /// `localhost`, 127.0.0.0/8 or ::1, by its text alone: nothing is resolved.
    package var isLoopback: Bool {
        if host == "localhost" { return true }
        let bytes = Array(host.utf8)
        let span = bytes.span.bytes
        if let address = IPv6Text.ipv4(span, 0..<bytes.count) { return address >> 24 == 127 }
        guard let address = IPv6Text.parse(span, 0..<bytes.count) else { return false }
        return address.high == 0 && (address.low == 1 || address.low >> 24 == 0xFFFF_7F)
    }

    private var bracketed: String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host }

    private static func isHost(_ bytes: [UInt8]) -> Bool {
        let span = bytes.span.bytes
        if bytes.contains(UInt8(ascii: ":")) { return IPv6Text.parse(span, 0..<bytes.count) != nil }
        // Less than a URL allows: an encoded name means something else to every resolver, `*` something else to every reader.
        return !bytes.isEmpty && span.firstOutside(.hostName, from: 0, to: bytes.count) == bytes.count
    }
}
