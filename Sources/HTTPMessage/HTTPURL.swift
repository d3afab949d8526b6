import Primitives

package enum HTTPURLError: String, Error, Equatable, Sendable, CaseIterable {
    /// Not `http://` or `https://`.
    case scheme
    case host
    /// Not 1 to 65535.
    case port
    case userInfo = "user_info"
    /// White space, control characters, anything beyond ASCII, or a `%` without two hexadecimal digits.
    case target
    /// A fragment is never sent and has no meaning here.
    case fragment

    /// What to say behind "must be …".
    package var requirement: String {
        switch self {
        case .scheme: "must be an http or https URL"
        case .host: "must have a host name or address"
        case .port: "must have a port between 1 and 65535"
        case .userInfo: "must have well-formed user information"
        case .target: "must have a path and query of printable ASCII without spaces"
        case .fragment: "must not have a fragment"
        }
    }

    /// A password with a `/`, a space or a lone `%` in it makes the host or the port wrong, which is not what has to be said.
    package func isAboutCredentials(in text: String) -> Bool {
        switch self {
        case .userInfo, .host, .port: text.utf8.contains(UInt8(ascii: "@"))
        case .scheme, .target, .fragment: false
        }
    }
}

/// An absolute `http` or `https` URL (RFC 9110 section 4.2). Prints and reflects without user information and query.
package struct HTTPURL: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// `user[:password]`, percent-decoded.
    package struct UserInfo: Sendable, Hashable, CustomStringConvertible {
        package let user: String
        package let password: Secret?

        package static func == (left: Self, right: Self) -> Bool {
            guard left.user == right.user else { return false }
            switch (left.password, right.password) {
            case (nil, nil): return true
            case (let left?, let right?): return left.equals(right)
            case (nil, _?), (_?, nil): return false
            }
        }

        package func hash(into hasher: inout Hasher) { hasher.combine(user) }

        package var description: String { "<redacted>" }
    }

    package let origin: Origin
    /// Path and query in origin-form, as written; `/` where there is no path.
    package let target: String
    package let userInfo: UserInfo?

    package static func parse(_ text: String) throws(HTTPURLError) -> HTTPURL {
        let bytes = Array(text.utf8)
        let span = bytes.span.bytes
        let end = bytes.count
        let scheme: Origin.Scheme
        var start: Int
        if end >= 7, span.equals(0..<7, ignoringCase: "http://") {
            (scheme, start) = (.http, 7)
        } else if end >= 8, span.equals(0..<8, ignoringCase: "https://") {
            (scheme, start) = (.https, 8)
        } else {
            throw .scheme
        }
        let authorityEnd =
            bytes[start...].firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? end
        var userInfo: UserInfo?
        // The last `@`: what stands before it, another `@` included, is not a host.
        if let at = bytes[start..<authorityEnd].lastIndex(of: UInt8(ascii: "@")) {
            userInfo = try Self.userInfo(bytes[start..<at])
            start = at + 1
        }
        let origin = try Self.origin(scheme, span, start..<authorityEnd)
        if bytes[authorityEnd...].contains(UInt8(ascii: "#")) { throw .fragment }
        let pathEnd = span.firstOutsideEncoded(.path, from: authorityEnd, to: end)
        if pathEnd < end {
            guard bytes[pathEnd] == UInt8(ascii: "?"), span.firstOutsideEncoded(.query, from: pathEnd + 1, to: end) == end else {
                throw .target
            }
        }
        let rest = String(decoding: bytes[authorityEnd...], as: UTF8.self)
        return HTTPURL(
            origin: origin, target: pathEnd == authorityEnd ? "/" + rest : rest, userInfo: userInfo)
    }

    /// For every output: user information and query are hidden.
    package var redacted: String {
        let path = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let user = userInfo == nil ? "" : "<redacted>@"
        return "\(origin.scheme.rawValue)://\(user)\(origin.authority)\(path[0])\(path.count > 1 ? "?<redacted>" : "")"
    }

    package var description: String { redacted }
    package var debugDescription: String { redacted }
    package var customMirror: Mirror { Mirror(self, children: []) }

    private static func origin(
        _ scheme: Origin.Scheme, _ bytes: RawSpan, _ range: Range<Int>
    ) throws(HTTPURLError) -> Origin {
        guard let authority = Authority(bytes, range) else {
            // The same again without the port tells which of the two is wrong.
            var colon = range.upperBound
            while colon > range.lowerBound, bytes[at: colon - 1].isDigit || bytes[at: colon - 1] == UInt8(ascii: "-") {
                colon -= 1
            }
            guard colon > range.lowerBound, bytes[at: colon - 1] == UInt8(ascii: ":"),
                Authority(bytes, range.lowerBound..<colon - 1) != nil
            else { throw .host }
            throw .port
        }
        var host = authority.host
        if bytes[at: host.lowerBound] == UInt8(ascii: "[") { host = host.lowerBound + 1..<host.upperBound - 1 }
        if authority.port == 0 { throw .port }
        let text = String(decoding: bytes.copy(host), as: UTF8.self)
        guard let origin = Origin(scheme: scheme, host: text, port: authority.port) else { throw .host }
        return origin
    }

    private static func userInfo(_ bytes: ArraySlice<UInt8>) throws(HTTPURLError) -> UserInfo {
        let parts = bytes.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let user = decoded(parts[0]), let text = String(validating: user, as: UTF8.self) else { throw .userInfo }
        guard parts.count > 1 else { return UserInfo(user: text, password: nil) }
        guard let password = decoded(parts[1]) else { throw .userInfo }
        return UserInfo(user: text, password: Secret(password))
    }

    private static func decoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        var output: [UInt8] = []
        var rest = bytes
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                guard byte > 0x20, byte < 0x7F else { return nil }
                output.append(byte)
                continue
            }
            guard let high = rest.popFirst()?.hexValue, let low = rest.popFirst()?.hexValue, high < 16, low < 16 else {
                return nil
            }
            output.append(high << 4 | low)
        }
        return output
    }
}
