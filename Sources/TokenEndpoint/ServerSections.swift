import Configuration
import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import Redis
import Revocations

/// `listen` and `management.listen`: `host:port` with a numeric host, `unix:PATH` with an optional `?mode=0660`, or `systemd`: whatever
/// sockets the process was started with.
package struct ListenAddress: Sendable, Equatable, CustomStringConvertible {
    package var socketAddress: SocketAddress
    /// Of a Unix socket's file.
    package var unixMode: UInt32
    /// `systemd`: the address is that of sockets which are open already, and not known here.
    package var isInherited = false

    /// Nothing but the sockets themselves says where they listen, so they are taken to be reachable from outside.
    package var isLoopbackOrLocal: Bool { !isInherited && socketAddress.isLoopbackOrLocal }

    package static let standardUnixMode: UInt32 = 0o660

    package init(_ socketAddress: SocketAddress, unixMode: UInt32 = ListenAddress.standardUnixMode) {
        self.socketAddress = socketAddress
        self.unixMode = unixMode
    }

    package init?(_ text: String) {
        if text == Self.inherited {
            self.init(.unix(path: ""))
            isInherited = true
            return
        }
        var text = text
        var mode = Self.standardUnixMode
        if text.hasPrefix("unix:"), let mark = text.lastIndex(of: "?") {
            let option = text[text.index(after: mark)...]
            guard option.hasPrefix("mode="), let value = UInt32(option.dropFirst(5), radix: 8), value <= 0o777 else { return nil }
            mode = value
            text = String(text[..<mark])
        }
        guard let address = SocketAddress(text) else { return nil }
        self.init(address, unixMode: mode)
    }

    private static let inherited = "systemd"

    package var description: String { isInherited ? Self.inherited : socketAddress.description }

    static func read(_ key: String, _ section: ConfigSection, default text: String) -> ListenAddress {
        let fallback = ListenAddress(.ip(.v4(0x7F00_0001), port: 0))
        let text = section.string(key, default: text) ?? text
        if let address = ListenAddress(text) {
            guard !address.isInherited, case .unix(let path) = address.socketAddress else { return address }
            let prefix = "unix:" + section.resolve(path, for: key)
            let resolved = prefix + text.dropFirst(5 + path.utf8.count)
            if let address = ListenAddress(resolved) {
                section.record(key, .text(resolved))
                return address
            }
            section.invalid(key, "is longer than the 107 bytes a Unix socket's path may have, with its folder")
            return fallback
        }
        section.invalid(
            key, "must be a numeric address with a port such as 127.0.0.1:8787 or [::]:8787, unix:PATH, or systemd")
        return fallback
    }
}

/// The section `management`.
package struct ManagementConfig: Sendable, Equatable {
    /// `nil`: `off`.
    package var address: ListenAddress?
    /// Several are valid at once, so that they can be rotated.
    package var tokens: [ManagementToken]

    private static let minTokenBytes = 32

    static func read(_ section: ConfigSection, state: StateConfig) -> ManagementConfig {
        var address: ListenAddress?
        let text = section.string("listen", default: "127.0.0.1:8788") ?? "127.0.0.1:8788"
        if text != "off" { address = ListenAddress.read("listen", section, default: text) }
        let files = section.secretFiles("token_files")
        for (index, file) in files.enumerated() where file.secret.byteCount < minTokenBytes {
            section.problem("token_files", at: index, "must hold at least \(minTokenBytes) characters")
        }
        if !files.isEmpty, case .none = state {
            section.problem("token_files", "needs a state to keep revocations in: set state to sqlite:PATH")
        }
        return ManagementConfig(address: address, tokens: ManagementToken.named(files))
    }
}

/// A token of the management API and what it is called where it was used: in audit records, never the token itself.
package struct ManagementToken: Sendable, Equatable {
    package let name: String
    package let secret: Secret

    /// Of a token that a variable holds.
    static let environmentName = "environment"

    /// Called after their files: stable whatever their order, and something an operator knows.
    static func named(_ files: [SecretFile]) -> [ManagementToken] {
        var seen: [String: Int] = [:]
        return files.map { file in
            let base = file.path.flatMap { $0.split(separator: "/").last.map(String.init) } ?? environmentName
            let count = seen[base, default: 0] + 1
            seen[base] = count
            return ManagementToken(name: count == 1 ? base : "\(base)-\(count)", secret: file.secret)
        }
    }

    package static func == (left: Self, right: Self) -> Bool { left.name == right.name && left.secret.equals(right.secret) }
}

/// `state`: where fences and pending revocations live.
package enum StateConfig: Sendable, Equatable {
    case none
    case sqlite(path: String)
    case redis(RedisConfig)

    /// For whom a fence in it holds.
    package var fenceScope: FenceScope {
        if case .redis = self { .shared } else { .process }
    }

    static func read(_ root: ConfigSection) -> StateConfig {
        let text = root.string("state", default: "none") ?? "none"
        let keys = RedisConfig.Keys(
            url: "state", username: "state_username", passwordFile: "state_password_file", caFile: "state_ca_file")
        let isRedis = RedisConfig.isURL(text)
        if let redis = RedisConfig.read(root, keys, text: isRedis ? text : nil) {
            redis.checkCertificates(root, keys)
            return .redis(redis)
        }
        if text == "none" || isRedis { return .none }
        if text.hasPrefix("sqlite:"), text.utf8.count > 7 {
            let path = root.resolve(String(text.dropFirst(7)), for: "state")
            root.record("state", .text("sqlite:\(path)"))
            return .sqlite(path: path)
        }
        root.invalid("state", "must be none, sqlite:PATH or redis://…")
        return .none
    }
}

/// The section `drain`.
package struct DrainConfig: Sendable, Equatable {
    /// From the signal until the listener closes: proxies and load balancers learn meanwhile that we are going.
    package var delay: Duration
    /// From the signal until whatever is still open is cut.
    package var timeout: Duration
    /// Connections between requests are closed over this long.
    package static let idleSpread: Duration = .seconds(2)

    static func read(_ section: ConfigSection) -> DrainConfig {
        let config = DrainConfig(
            delay: section.seconds("delay_seconds", default: .seconds(5), in: .zero ... .seconds(3600)),
            timeout: section.seconds("timeout_seconds", default: .seconds(20), in: .zero ... .seconds(3600)))
        if config.timeout < config.delay { section.problem("timeout_seconds", "must not be less than drain.delay_seconds") }
        return config
    }
}

/// The section `http`, `max_connections` and `max_connections_per_address`.
package struct HTTPConfig: Sendable, Equatable {
    /// 0: one per processor.
    package var loops: Int
    package var server: ServerConfig

    static func read(_ root: ConfigSection, proxies: [AddressRange]) -> HTTPConfig {
        let section = root.section("http")
        func seconds(_ key: String, _ standard: Duration) -> Duration {
            section.seconds(key, default: standard, in: .milliseconds(100) ... .seconds(86_400))
        }
        var server = ServerConfig()
        let limits = server.limits
        server.maxConnections = root.integer("max_connections", default: server.maxConnections, in: 1...1_000_000)
        server.maxConnectionsPerAddress = root.integerUnlessFalse("max_connections_per_address", in: 1...1_000_000)
        server.proxies = proxies
        server.limits = HTTPLimits(
            requestLineBytes: section.integer("request_line_bytes", default: limits.requestLineBytes, in: 256...65_536),
            fieldsBytes: section.integer("fields_bytes", default: limits.fieldsBytes, in: 1024...262_144),
            fieldLines: section.integer("field_lines", default: limits.fieldLines, in: 8...1000),
            bodyBytes: section.integer("body_bytes", default: limits.bodyBytes, in: 0...1_048_576))
        server.headTimeout = seconds("head_seconds", server.headTimeout)
        server.bodyIdleTimeout = seconds("body_idle_seconds", server.bodyIdleTimeout)
        server.bodyTimeout = seconds("body_seconds", server.bodyTimeout)
        server.idleTimeout = seconds("idle_seconds", server.idleTimeout)
        server.writeIdleTimeout = seconds("write_idle_seconds", server.writeIdleTimeout)
        return HTTPConfig(loops: section.integer("loops", default: 0, in: 0...256), server: server)
    }

    package var loopCount: Int { loops == 0 ? ProcessSettings.processorCount : loops }
}
