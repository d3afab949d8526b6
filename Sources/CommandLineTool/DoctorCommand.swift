import Configuration
import EventLoop
import January
import Policy
import Primitives
import TokenEndpoint

/// `doctor`: asks everything the server depends on whether it would do its part, one line and one fix each.
enum DoctorCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        let console = invocation.console
        let loaded = LoadedConfiguration(invocation)
        guard let config = loaded.config else { return loaded.refuse(console) }
        let findings: [Finding]
        do {
            let time = SystemTime()
            let loop = try EventLoop(name: "doctor", time: time)
            loop.start()
            defer { loop.stop() }
            if let text = invocation.options.value(.through) {
                guard let way = try WayChecks.make(text, config, loop, time, console) else { return .usage }
                return report(way.run(), console)
            }
            let upstream = try UpstreamParts(config: config, time: time)
            findings =
                JanuaryChecks(config, upstream, loop, time).run() + KeySetChecks.run(config, upstream, loop, time)
                + StateCheck.run(config, loop, time)
                + [
                    RedisCheck.run(config, loop, time), AuditCheck.run(config.audit),
                    CollectorCheck.run(config.tracing, upstream, loop, time), CertificateCheck.run(config.tls, time),
                    ProxyCheck.run(config),
                ]
        } catch {
            console.complain("\(CommandLineTool.name): cannot ask anybody: \(error)")
            return .failed
        }
        return report(findings, console)
    }

    private static func report(_ findings: [Finding], _ console: any Console) -> ExitCode {
        for finding in findings { console.print(finding.description) }
        return findings.contains { $0.outcome == .failed } ? .failed : .ok
    }
}

/// One line of `doctor`.
struct Finding: Sendable, CustomStringConvertible {
    enum Outcome: String, Sendable { case ok, failed, skipped }

    let name: String
    let outcome: Outcome
    let text: String
    var fix: String?

    static func ok(_ name: String, _ text: String) -> Finding { Finding(name: name, outcome: .ok, text: text) }
    static func skipped(_ name: String, _ text: String) -> Finding { Finding(name: name, outcome: .skipped, text: text) }
    static func failed(_ name: String, _ text: String, fix: String) -> Finding {
        Finding(name: name, outcome: .failed, text: text, fix: fix)
    }

    var description: String { "\(name): \(outcome.rawValue): \(text)" + (fix.map { "; fix: \($0)" } ?? "") }
}

/// January: is each key accepted, do the clocks agree, may client tokens be minted and revoked?
private struct JanuaryChecks {
    /// For each call. The server's own budget is what apps wait for; nobody waits for this.
    private static let limit = Duration.seconds(10)
    /// `exp` and `nbf` of sessions are read with this clock.
    private static let goodSkew = Duration.seconds(5)
    private static let unreachable =
        "check january.base_url, january.ca_file, DNS and the firewall between this machine and January"

    private let config: RootConfig
    private let loop: EventLoop
    private let time: SystemTime
    private let service: JanuaryService
    private let upstream: UpstreamParts

    init(_ config: RootConfig, _ upstream: UpstreamParts, _ loop: EventLoop, _ time: SystemTime) {
        self.config = config
        self.loop = loop
        self.time = time
        self.upstream = upstream
        service = JanuaryService(
            origin: config.january.origin, pathPrefix: config.january.pathPrefix,
            keys: KeyRing(first: config.january.apiKey, userAgent: TokenEndpoint.userAgent), mintBreaker: Breaker())
    }

    func run() -> [Finding] {
        let (first, date) = check(config.january.apiKey)
        var findings = [Self.finding("API key", "january.api_key_file", config.january.apiKey, first)]
        if let next = config.january.nextAPIKey {
            findings.append(Self.finding("next API key", "january.next_api_key_file", next, check(next).0))
        }
        findings.append(clock(date))
        guard case .accepted = first else {
            return findings + [.skipped("client tokens", "without an accepted key nothing can be minted")]
        }
        return findings + [clientTokens()]
    }

    private func check(_ key: APIKey) -> (KeyCheck, WallInstant?) {
        let outcome = Outcome<(KeyCheck, WallInstant?)>()
        ask { client in
            client.check(key, of: service, userAgent: TokenEndpoint.userAgent, deadline: time.monotonic() + Self.limit) {
                outcome.set(($0, $1))
            }
        }
        return outcome.wait()
    }

    /// On the loop, with a client that lives as long as the call.
    private func ask(_ call: @escaping @Sendable (JanuaryClient) -> Void) {
        loop.execute { [upstream, loop, time] in
            call(upstream.makeJanuaryClient(on: loop, time: time))
        }
    }

    private static func finding(_ name: String, _ key: String, _ value: APIKey, _ check: KeyCheck) -> Finding {
        switch check {
        case .accepted(let remaining):
            let credits = remaining.map { ", \($0) credits left" } ?? ""
            return .ok(name, "January accepts it (fingerprint \(value.fingerprint))\(credits)")
        case .rejected:
            return .failed(
                name, "January rejects it (fingerprint \(value.fingerprint))",
                fix: "put a key that is valid at January into \(key)")
        case .otherVersion:
            return .failed(
                name, "January answers 403: it is a key of another API version",
                fix: "make a key for API version 1.2 and put it into \(key)")
        case .unexpected(let status):
            return .failed(name, "January answers HTTP \(status)", fix: "try again later; if it stays, check january.base_url")
        case .failed(let reason): return .failed(name, "January cannot be asked (\(reason))", fix: unreachable)
        }
    }

    private func clock(_ january: WallInstant?) -> Finding {
        guard let january else { return .skipped("clock", "January gave no Date") }
        // `Date` has whole seconds: on average it is half a second behind.
        let skew = Double(time.wall().nanosecondsSinceEpoch - january.nanosecondsSinceEpoch) / 1e9 - 0.5
        let text = "this machine is \(Int(skew.magnitude.rounded())) s \(skew < 0 ? "behind" : "ahead of") January"
        if skew.magnitude <= Self.goodSkew.fractionalSeconds { return .ok("clock", text) }
        return .failed("clock", text, fix: "synchronise the clock (NTP); sessions are judged by it")
    }

    /// A token for nobody, taken back at once.
    private func clientTokens() -> Finding {
        let name = "client tokens"
        let user = "doctor-" + Hex.encode(SystemRandom.bytes(8))
        let granted = Set(config.policy.table.compactMap { $0 }.flatMap(\.scopes)).sorted()
        let scopes = granted.isEmpty ? ["foods:read"] : granted
        let minted = Outcome<MintOutcome>()
        ask { client in
            client.mint(
                service, endUserID: user, terms: MintTerms(scopes: scopes, ttlSeconds: 300),
                deadline: time.monotonic() + Self.limit
            ) { minted.set($0) }
        }
        if case .failure(let failure) = minted.wait().result { return Self.finding(name, failure, scopes) }
        let revoked = Outcome<Result<Int, JanuaryFailure>>()
        ask { client in
            client.revoke(service, endUserID: user, deadline: time.monotonic() + Self.limit) { revoked.set($0.result) }
        }
        switch revoked.wait() {
        case .success: return .ok(name, "minted and revoked one for \(user), with \(scopes.joined(separator: " "))")
        case .failure(let failure):
            return .failed(
                name, "minted one for \(user), and January does not revoke it (\(failure.reason))",
                fix: "try again later; it runs out in 5 minutes by itself")
        }
    }

    private static func finding(_ name: String, _ failure: JanuaryFailure, _ scopes: [String]) -> Finding {
        let text = "January does not mint (\(failure.reason))"
        switch failure {
        case .keyRejected: return .failed(name, text, fix: "put a key that is valid at January into january.api_key_file")
        case .forbidden:
            return .failed(
                name, text, fix: "switch client tokens on for the account at January, or use its key for API version 1.2")
        case .quotaExhausted: return .failed(name, text, fix: "raise the account's plan, or wait for its next month")
        case .rejectedRequest:
            return .failed(name, text, fix: "ask January which of these the account has: \(scopes.joined(separator: " "))")
        case .unreachable: return .failed(name, text, fix: unreachable)
        default: return .failed(name, text, fix: "try again later; January's own fault as far as can be seen from here")
        }
    }
}
