import EventLoop
import Glibc
import HTTPMessage
import Primitives
import Revocations
import Sessions
import Telemetry
import TokenEndpoint

/// Every key set that sessions are verified with.
enum KeySetChecks {
    /// A key set's own time-out is a little shorter.
    private static let limit = Duration.seconds(6)

    static func run(_ config: RootConfig, _ upstream: UpstreamParts, _ loop: EventLoop, _ time: SystemTime) -> [Finding] {
        let verifiers = SessionVerifiers(config.sessions)
        guard !verifiers.keySets.isEmpty else { return [.skipped("key sets", "no verifier loads its keys from the network")] }
        verifiers.start(
            on: loop, makeExchange: { loop, authority in upstream.client(for: authority, on: loop) },
            log: Log(time: time, output: LogNowhere()), metrics: Metrics())
        let end = time.monotonic() + limit
        while time.monotonic() < end,
            verifiers.keySets.contains(where: { $0.state.snapshot == nil && $0.state.lastFailure == nil })
        {
            usleep(2_000)
        }
        defer { verifiers.stop() }
        return verifiers.keySets.map(finding)
    }

    private static func finding(_ keySet: KeySetCache) -> Finding {
        let name = "key set \(keySet.name)"
        let url =
            switch keySet.config.location {
            case .keySet(let url), .discovery(let url, _): url
            }
        if let snapshot = keySet.state.snapshot { return .ok(name, "\(snapshot.set.keys.count) keys from \(url.redacted)") }
        let reason = keySet.state.lastFailure.map { $0.reason + ($0.detail.map { " (\($0))" } ?? "") } ?? "no answer"
        return .failed(
            name, "\(url.redacted) cannot be loaded: \(reason)",
            fix: "check issuer and jwks_url, and that this machine reaches the identity provider")
    }
}

/// What keeps the fences: a file and its folder, without opening them, for they may be in use; or a Redis.
enum StateCheck {
    static func run(_ config: RootConfig, _ loop: EventLoop, _ time: SystemTime) -> [Finding] {
        switch config.state {
        case .none: return [.skipped("state", "none: no blocks are kept")]
        case .sqlite(let path): return [file(path)]
        case .redis(let redis):
            let outcome = Outcome<Result<RedisInfo, RedisProbe.Refusal>>()
            RedisProbe.inspect(redis, on: loop, resolver: Resolver(time: time)) { outcome.set($0) }
            return server(outcome.wait(), redis.url.address, config.stateRules)
        }
    }

    private static func server(
        _ result: Result<RedisInfo, RedisProbe.Refusal>, _ address: String, _ rules: StateRules
    ) -> [Finding] {
        switch result {
        case .failure(let refusal):
            return [
                .failed(
                    "state", "Redis at \(address) cannot be used: \(refusal.reason)",
                    fix:
                        "check state, state_username, state_password_file and state_ca_file, what that user may do, and that this machine reaches Redis"
                )
            ]
        case .success(let info): return [version(info, address), eviction(info), durability(info, rules)]
        }
    }

    private static func version(_ info: RedisInfo, _ address: String) -> Finding {
        if info.version < RedisInfo.firstForState {
            return .failed(
                "state", "Redis \(info.version) at \(address) is too old",
                fix: "use Redis \(RedisInfo.firstForState) or later, better \(RedisInfo.firstWithWaitAOF)")
        }
        guard info.isPrimary else {
            return .failed("state", "Redis at \(address) is a replica: it takes no writes", fix: "name the primary in state")
        }
        return .ok("state", "Redis \(info.version) at \(address) answers, runs scripts and takes writes")
    }

    private static func eviction(_ info: RedisInfo) -> Finding {
        let name = "state eviction"
        let fix = "set maxmemory-policy noeviction in Redis"
        if info.evictsFences {
            return .failed(name, "maxmemory-policy is \(info.evictionPolicy): Redis may throw blocks away", fix: fix)
        }
        if info.evictsMints {
            return .failed(
                name, "maxmemory-policy is \(info.evictionPolicy): Redis may throw away which mints are under way", fix: fix)
        }
        return .ok(name, "Redis throws nothing away (maxmemory-policy \(info.evictionPolicy))")
    }

    private static func durability(_ info: RedisInfo, _ rules: StateRules) -> Finding {
        let name = "state durability"
        guard info.appendsOnly else {
            let strict = rules.durability == .strict ? ", and state_durability: strict refuses it" : ""
            return .failed(
                name, "Redis keeps no append-only file: its restart loses blocks and unfinished revocations\(strict)",
                fix: "set appendonly yes in Redis")
        }
        guard info.version >= RedisInfo.firstWithWaitAOF else {
            return .ok(
                name,
                "Redis keeps an append-only file; from \(RedisInfo.firstWithWaitAOF) on an answer waits until a block is in it")
        }
        return .ok(name, "Redis keeps an append-only file, and an answer waits until a block is in it")
    }

    private static func file(_ path: String) -> Finding {
        var folder = StateFile.folder(of: path)
        // What is missing is made at the start, if that is allowed where something is.
        while folder != "/", folder != ".", access(folder, F_OK) != 0 { folder = StateFile.folder(of: folder) }
        if let info = try? StateFile.info(folder), !info.isFolder {
            return .failed("state", "\(folder) is no folder", fix: "name another place in state")
        }
        for name in [folder, path] where access(name, F_OK) == 0 && access(name, R_OK | W_OK) != 0 {
            return .failed(
                "state", "user \(geteuid()) may not write \(name): \(String(cString: strerror(errno)))",
                fix: "make it the server's own (chown), or name another place in state")
        }
        return whole(path)
    }

    private static func whole(_ path: String) -> Finding {
        do throws(StateOpenError) {
            switch try SQLiteState.inspect(path) {
            case .missing: return .ok("state", "\(path) does not exist yet and can be made")
            case .whole: return .ok("state", "\(path) is whole and can be written")
            case .unread: return .ok("state", "\(path) can be written; the start takes its WAL in and looks at both")
            }
        } catch {
            switch error {
            case .damaged:
                return .failed(
                    "state", "\(path) is damaged",
                    fix:
                        "stop the server and restore it from a backup together with \(path)-wal; if there is none, move both away and revoke every deleted account again"
                )
            case .foreign: return .failed("state", "\(path) is no state file of this program", fix: "name another file in state")
            case .newer:
                return .failed(
                    "state", "\(path) was written by a later version", fix: "run that version, or restore a backup from before")
            case .orphanedLog:
                return .failed(
                    "state", "\(path) is missing and \(path)-wal is there",
                    fix: "restore both from a backup, or move \(path)-wal away")
            default:
                return .failed(
                    "state", "\(path) cannot be read (\(error))", fix: "make it readable for this user, or ask as root")
            }
        }
    }
}

/// The file of `audit.file`, which `serve` opens.
enum AuditCheck {
    static func run(_ config: AuditConfig) -> Finding {
        let name = "audit"
        guard let path = config.file else { return .skipped(name, "audit.file is not set: records are lines of the log") }
        do throws(AuditFile.OpenError) {
            try AuditFile.check(path)
            return .ok(name, "\(path) can be written")
        } catch {
            return .failed(
                name, "user \(geteuid()) cannot write \(path): \(error.text)",
                fix: "make its folder and let the server's user write there, or name another place in audit.file")
        }
    }
}

/// Where spans go.
enum CollectorCheck {
    static func run(_ config: TracingConfig, _ upstream: UpstreamParts, _ loop: EventLoop, _ time: SystemTime) -> Finding {
        let name = "trace collector"
        guard let collector = config.collector else { return .skipped(name, "tracing.otlp_url is not set: nothing is traced") }
        let outcome = Outcome<CollectorProbe.Answer>()
        loop.execute { CollectorProbe.ask(collector, upstream, on: loop, time: time) { outcome.set($0) } }
        let place = collector.redacted
        switch outcome.wait() {
        case .taken: return .ok(name, "\(place) takes spans")
        case .status(let status) where status == 401 || status == 403:
            return .failed(
                name, "\(place) refuses us (HTTP \(status))", fix: "check tracing.username and tracing.password_file")
        case .status(let status) where [404, 405, 415].contains(status):
            return .failed(
                name, "\(place) takes no OTLP over HTTP in JSON (HTTP \(status))",
                fix: "name the collector's OTLP/HTTP address in tracing.otlp_url, most often port 4318")
        case .status(let status):
            return .failed(name, "\(place) answers HTTP \(status)", fix: "look at the collector's own log")
        case .failed(let reason):
            return .failed(
                name, "\(place) cannot be asked (\(reason))",
                fix:
                    "check tracing.otlp_url and tracing.ca_file, and that this machine reaches the collector; mints go on without it"
            )
        }
    }
}

/// Redis of the rate limits.
enum RedisCheck {
    static func run(_ config: RootConfig, _ loop: EventLoop, _ time: SystemTime) -> Finding {
        let outcome = Outcome<String?>()
        guard let redis = config.rateLimits.store.redis else {
            return .skipped("redis", "rate_limits.store is memory: every process counts for itself")
        }
        let address = redis.url.address
        RedisProbe.ask(redis, on: loop, resolver: Resolver(time: time)) { outcome.set($0) }
        guard let reason = outcome.wait() else { return .ok("redis", "\(address) answers") }
        return .failed(
            "redis", "\(address) does not answer as it should: \(reason)",
            fix: "check rate_limits.store, username, password_file and ca_file, and that this machine reaches Redis")
    }
}

/// The certificate of the public listener.
enum CertificateCheck {
    static func run(_ tls: ListenerTLS?, _ time: SystemTime) -> Finding {
        let name = "certificate"
        guard let tls else { return .skipped(name, "tls is not set: a proxy speaks HTTPS") }
        if let text = tls.expiryWarning(now: time.wall()) {
            return .failed(name, text, fix: "renew tls.certificate_file; the running server takes it by itself")
        }
        return .ok(name, "good for \(tls.secondsLeft(now: time.wall()) / 86_400) days more")
    }
}

/// What the running server has seen of proxies that nobody named.
enum ProxyCheck {
    private static let limit = Duration.seconds(5)
    private static let metric = "january_endpoint_unconfigured_proxy_total "

    static func run(_ config: RootConfig) -> Finding {
        let name = "proxies"
        guard let listen = config.management.address, !listen.isInherited, listen.socketAddress.port != 0 else {
            return .skipped(name, "the running server cannot be asked (management.listen)")
        }
        var request = Array("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".utf8)
        if let token = config.management.tokens.first {
            var fields = FieldBlock()
            if (try? fields.append(.authorization, secret: token.secret, prefix: "Bearer ")) != nil { request += fields.bytes }
        }
        request += Array("\r\n".utf8)
        guard
            case .response(status: 200, let content) = ServerQuestion.ask(
                RunningServer.addresses(for: listen.socketAddress), request, within: limit)
        else { return .skipped(name, "no server runs with this configuration") }
        let lines = String(decoding: content, as: UTF8.self).split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix(metric) }), let count = Double(line.dropFirst(metric.count)) else {
            return .skipped(name, "the running server does not say")
        }
        if count == 0 { return .ok(name, "every proxy that was seen is in trusted_proxies") }
        return .failed(
            name,
            "\(Int(count)) requests came through a proxy that is not in trusted_proxies: no limit per address holds for them",
            fix: "add it to trusted_proxies; the server's log names its address")
    }
}
