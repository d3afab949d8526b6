import HTTPMessage
import Primitives

/// The rules for every URL a verifier uses: `https`, or `http` to loopback, or with `allow_http` to a private address.
enum VerifierURL {
    /// What is wrong with a URL; the text goes after the key path.
    enum Problem: Error, Equatable {
        case notAURL
        case plainHTTP(privateHost: Bool)
        case userInformation

        var message: String {
            switch self {
            case .notAURL: "must be an https URL"
            case .plainHTTP(privateHost: true):
                "must be https; allow_http: true on this verifier permits http to a private address"
            case .plainHTTP(privateHost: false): "must be https; http is for loopback and private addresses only"
            case .userInformation: "must not hold a user name or password; use username and password_file beside it"
            }
        }
    }

    /// - Parameter allowUserInfo: for URLs from the environment, where a password has no file to be in.
    static func parse(_ text: String, allowHTTP: Bool, allowUserInfo: Bool = false) throws(Problem) -> HTTPURL {
        let url: HTTPURL
        do throws(HTTPURLError) {
            url = try HTTPURL.parse(text)
        } catch {
            throw !allowUserInfo && error.isAboutCredentials(in: text) ? .userInformation : .notAURL
        }
        // First, so that no message repeats a URL that holds a password.
        guard allowUserInfo || url.userInfo == nil else { throw .userInformation }
        try check(url.origin, allowHTTP: allowHTTP)
        return url
    }

    static func check(_ origin: Origin, allowHTTP: Bool) throws(Problem) {
        switch origin.scheme {
        case .https: return
        case .http:
            if origin.isLoopback { return }
            let isPrivate = PrivateAddress.contains(host: origin.host)
            guard allowHTTP && isPrivate else { throw .plainHTTP(privateHost: isPrivate) }
        }
    }
}

/// Hosts that cannot be on the public Internet.
package enum PrivateAddress {
    /// Addresses of RFC 1918, RFC 6598, RFC 3927, RFC 4193 and RFC 4291 section 2.5.6; loopback; names without a dot (a container, a
    /// host of the own domain) and names under domains that the public DNS never delegates (RFC 6762, RFC 8375, `internal`).
    package static func contains(host: String) -> Bool {
        if let address = ipv4(host) { return isPrivate(ipv4: address) }
        if host.utf8.contains(UInt8(ascii: ":")) { return isPrivate(ipv6: host) }
        guard host.utf8.contains(UInt8(ascii: ".")) else { return !host.isEmpty }
        return [".local", ".internal", ".home.arpa", ".localhost"].contains { host.hasSuffix($0) }
    }

    private static func isPrivate(ipv4 address: UInt32) -> Bool {
        let blocks: [(base: UInt32, bits: UInt32)] = [
            (0x0A00_0000, 8), (0xAC10_0000, 12), (0xC0A8_0000, 16), (0x6440_0000, 10), (0xA9FE_0000, 16),
            (0x7F00_0000, 8),
        ]
        return blocks.contains { address >> (32 - $0.bits) == $0.base >> (32 - $0.bits) }
    }

    /// fc00::/7 and fe80::/10 are told by their first group; an address that starts with `::` is private only as `::1`.
    private static func isPrivate(ipv6 host: String) -> Bool {
        let first = host.utf8.prefix { $0 != UInt8(ascii: ":") }
        guard !first.isEmpty else { return host == "::1" }
        guard first.count == 4, let group = UInt16(String(first) ?? "", radix: 16) else { return false }
        return group & 0xFE00 == 0xFC00 || group & 0xFFC0 == 0xFE80
    }

    private static func ipv4(_ host: String) -> UInt32? {
        let parts = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var address: UInt32 = 0
        for part in parts {
            guard part.count <= 3, let octet = ASCII.decimal(part), octet <= 255 else { return nil }
            address = address << 8 | UInt32(octet)
        }
        return address
    }
}
