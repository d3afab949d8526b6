import EventLoop
import Primitives

/// `redis://[user[:password]@]host[:port][/database]`, or `rediss://` for TLS. Prints and reflects without user and password.
package struct RedisURL: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// What is wrong with a URL; the text goes after the key path and never repeats the URL.
    package enum Problem: String, Error, Equatable, Sendable, CaseIterable {
        case scheme
        case host
        case port
        case database
        case userInfo = "user_info"
        /// A query or fragment: nothing there has a meaning.
        case query

        package var message: String {
            switch self {
            case .scheme: "must be a redis:// or rediss:// URL"
            case .host: "must name a host or an address, such as redis://127.0.0.1:6379"
            case .port: "must have a port from 1 to 65535"
            case .database: "must end in a database number, such as redis://127.0.0.1:6379/1"
            case .userInfo:
                "must have a user and password that are percent-encoded where they hold anything but letters and digits"
            case .query: "must not have a query or a fragment"
            }
        }
    }

    package static let standardPort: UInt16 = 6379
    /// More than any server has; Redis itself says whether it has this one.
    private static let maxDatabase = 1_000_000

    package var usesTLS: Bool
    /// A name, or an address without brackets.
    package var host: String
    package var port: UInt16
    package var database: Int
    package var username: String?
    package var password: Secret?

    package init(
        usesTLS: Bool = false, host: String, port: UInt16 = standardPort, database: Int = 0, username: String? = nil,
        password: Secret? = nil
    ) {
        self.usesTLS = usesTLS
        self.host = host
        self.port = port
        self.database = database
        self.username = username
        self.password = password
    }

    package static func parse(_ text: String) throws(Problem) -> RedisURL {
        guard let separator = text.firstRange(of: "://") else { throw .scheme }
        let usesTLS: Bool
        switch text[..<separator.lowerBound].lowercased() {
        case "redis": usesTLS = false
        case "rediss": usesTLS = true
        default: throw .scheme
        }
        let rest = text[separator.upperBound...].utf8
        if rest.contains(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }) { throw .query }
        let authority = rest.prefix { $0 != UInt8(ascii: "/") }
        let path = rest[authority.endIndex...]
        var url = RedisURL(usesTLS: usesTLS, host: "")
        var hostAndPort = authority
        if let at = authority.lastIndex(of: UInt8(ascii: "@")) {
            try url.read(userInfo: authority[..<at])
            hostAndPort = authority[authority.index(after: at)...]
        } else if path.contains(UInt8(ascii: "@")) {
            // An unescaped `/` in the password.
            throw .userInfo
        }
        try url.read(hostAndPort: hostAndPort)
        let number = path.dropFirst()
        if !number.isEmpty {
            guard let database = ASCII.decimal(number), database <= maxDatabase else { throw .database }
            url.database = database
        }
        return url
    }

    private mutating func read(hostAndPort text: Substring.UTF8View) throws(Problem) {
        var host = text
        if text.first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: UInt8(ascii: "]")) else { throw .host }
            let address = String(Substring(text[text.index(after: text.startIndex)..<end]))
            guard case .v6? = IPAddress(address) else { throw .host }
            let after = text[text.index(after: end)...]
            try readPort(after)
            self.host = address
            return
        }
        if let colon = text.firstIndex(of: UInt8(ascii: ":")) {
            host = text[..<colon]
            try readPort(text[colon...])
        }
        let isName = host.allSatisfy {
            ASCII.isLetter($0) || ASCII.isDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".")
                || $0 == UInt8(ascii: "_")
        }
        guard isName, !host.isEmpty, host.count <= 253 else { throw .host }
        self.host = String(Substring(host))
    }

    /// `:6379`, or nothing.
    private mutating func readPort(_ text: Substring.UTF8View) throws(Problem) {
        guard let colon = text.first else { return }
        let digits = text.dropFirst()
        guard colon == UInt8(ascii: ":"), digits.count <= 5, let number = ASCII.decimal(digits),
            let port = UInt16(exactly: number),
            port > 0
        else { throw .port }
        self.port = port
    }

    private mutating func read(userInfo text: Substring.UTF8View) throws(Problem) {
        let parts = text.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let user = parts.first.flatMap({ Self.decoded($0) }), let name = String(validating: user, as: UTF8.self) else {
            throw .userInfo
        }
        // `redis://:password@host`: the default user.
        username = name.isEmpty ? nil : name
        guard parts.count == 2 else { return }
        guard let password = Self.decoded(parts[1]) else { throw .userInfo }
        self.password = password.isEmpty ? nil : Secret(password)
    }

    private static func decoded(_ text: Substring.UTF8View) -> [UInt8]? {
        var output: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                guard byte > 0x20, byte < 0x7F else { return nil }
                output.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(ASCII.hexDigit), let low = rest.popFirst().flatMap(ASCII.hexDigit) else {
                return nil
            }
            output.append(high << 4 | low)
        }
        return output
    }

    /// Host and port as they stand in a URL.
    package var address: String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// For every output.
    package var description: String {
        let user = username == nil && password == nil ? "" : "<redacted>@"
        return "\(usesTLS ? "rediss" : "redis")://\(user)\(address)/\(database)"
    }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }

    package static func == (left: Self, right: Self) -> Bool {
        guard
            left.usesTLS == right.usesTLS, left.host == right.host, left.port == right.port, left.database == right.database,
            left.username == right.username
        else { return false }
        switch (left.password, right.password) {
        case (nil, nil): return true
        case (let left?, let right?): return left.equals(right)
        case (nil, _?), (_?, nil): return false
        }
    }
}
