import EventLoop
import HTTPClient
import January
import Primitives
import RateLimiting
import Redis
import Sessions
import TLS
import Telemetry

/// Why a reload was asked for.
package enum ReloadCause: String, Sendable {
    /// SIGHUP: everything is read again.
    case signal
    /// A file that the configuration names has changed: those files are read again, the configuration is not.
    case files
}

package enum ReloadResult: Sendable, Equatable {
    case reloaded
    /// The old configuration stays as it is. Each text is a whole problem and holds no secret.
    case refused([String])
    /// The process ends soon; what it began with is good enough for that.
    case draining
}

extension TokenEndpoint {
    /// So long the key sets of new verifiers may take to load.
    private static let keySetLimit = Duration.seconds(10)
    private static let keySetStep = Duration.milliseconds(20)
    /// Beyond the budget of the last request that may use what was replaced.
    private static let afterlife = Duration.seconds(2)

    /// Puts another configuration in force, whole or not at all. Requests that are under way end with the one they began with;
    /// listeners, connections, limits, breakers, fences, and key sets whose settings are the same go on.
    ///
    /// Blocks its thread until every loop has changed over: at most some ten seconds, for key sets that are new. One reload runs at a
    /// time, others wait for it.
    package func reload(to config: RootConfig, cause: ReloadCause) -> ReloadResult {
        reloadTurn.wait()
        defer { reloadTurn.signal() }
        let result = replaceConfiguration(config, cause)
        record(result, cause)
        return result
    }

    /// The new configuration could not even be read.
    package func reloadRefused(_ problems: [String], cause: ReloadCause) { record(.refused(problems), cause) }

    private func replaceConfiguration(_ config: RootConfig, _ cause: ReloadCause) -> ReloadResult {
        if shared.lifecycle.isDraining { return .draining }
        var config = config
        let old = inForce.value
        if cause == .files {
            for key in ReloadRules.keepIdentity(of: old.config, in: &config) {
                log.write(
                    .warning, "a secret that says who is who has changed; the old one stays until the next start",
                    [LogField("key", key)])
            }
        }
        let fixed = ReloadRules.keysThatNeedARestart(old.config, config)
        guard fixed.isEmpty else { return .refused(fixed.map { "\($0): cannot change on reload; restart the server" }) }

        // Everything that can go wrong, beside the old.
        let upstream: UpstreamParts
        let limits: SharedLimits?
        let redis: RedisReplacements
        let limitsDiffer = SharedLimits.differ(old.config, config)
        do throws(StartError) {
            upstream = try UpstreamParts(config: config, time: time, previous: old.upstream)
            redis = try RedisReplacements(old.config, config)
            limits =
                limitsDiffer
                ? try SharedLimits(config, resolver: upstream.resolver, log: log, metrics: metrics, time: time) : old.limits
        } catch {
            return .refused([error.description])
        }
        let verifiers = SessionVerifiers(config.sessions, previous: old.generation.verifiers)
        let missing = loadKeySets(of: verifiers, besides: old.generation.verifiers, upstream)
        guard missing.isEmpty else {
            verifiers.stop(inFavourOf: old.generation.verifiers)
            return .refused(missing)
        }
        // The drain may have begun meanwhile.
        if shared.lifecycle.isDraining {
            verifiers.stop(inFavourOf: old.generation.verifiers)
            return .draining
        }

        // Nothing fails from here on.
        let before = old.generation.january
        let january = JanuaryService(
            origin: config.january.origin, pathPrefix: config.january.pathPrefix, keys: shared.keys,
            mintBreaker: before.mintBreaker, revocationBreaker: before.revocationBreaker)
        let generation = Generation(config: config, january: january, verifiers: verifiers)
        inForce.replace(generation, upstream, limits)
        shared.audit.apply(config.audit, endUserID: config.log.endUserID)
        shared.mintsInFlight.setMaxCount(config.january.maxInFlight)
        shared.load.setBounds(connections: config.january.maxConnections, budget: config.january.budget)
        replaceRedis(redis, limits: limitsDiffer ? nil : limits)
        upstream.takeOver(config)
        certificate.replace(config.tls)
        server.replace(config.http.server)
        let isSameJanuary = before.origin == january.origin && before.pathPrefix == january.pathPrefix
        if isSameJanuary { replaceKeys(january, config) }
        readiness.replace(verifiers)
        let keys = limitsDiffer ? SharedLimits.keys(config) : nil
        onEachLoop { [self] loop, endpoint in
            changeOver(endpoint, on: loop, to: generation, upstream, shares: upstream.sharesJanuary(with: old.upstream))
            if let keys { endpoint.replace(limits?.makeStore(on: loop, shared) ?? shared.localLimits, keys: keys) }
        }
        if !isSameJanuary {
            // Only now does nobody begin a mint at the old January any more: its requests are not to carry the other one's key.
            replaceKeys(january, config)
            // What was heard of another January says nothing about this one.
            january.mintBreaker.keyChanged()
            january.revocationBreaker.keyChanged()
        }
        // The old stores have ended.
        if limitsDiffer { shared.limitMetrics.sharedLimitsChanged(isDegraded: limits?.health.isDegraded ?? false) }
        replaceManagement(config)
        // Who waits for a key of a set that goes has at most two seconds to wait.
        after(Self.afterlife) { old.generation.verifiers.stop(inFavourOf: verifiers) }
        for key in ReloadRules.keysForTheNextStart(old.config, config) {
            log.write(.warning, "a key has changed that counts at the start only", [LogField("key", key)])
        }
        return .reloaded
    }

    // MARK: Redis

    /// Other users, passwords and authorities for places that stay the same.
    private struct RedisReplacements {
        var state: RedisReplacement?
        var limits: RedisReplacement?

        init(_ old: RootConfig, _ new: RootConfig) throws(StartError) {
            if case (.redis(let before), .redis(let after)) = (old.state, new.state) {
                state = try RedisReplacement("state", before, after)
            }
            if let before = old.rateLimits.store.redis, let after = new.rateLimits.store.redis {
                limits = try RedisReplacement("rate_limits.store", before, after)
            }
        }
    }

    private struct RedisReplacement {
        let key: String
        let config: RedisConfig
        let access: RedisAccess

        init?(_ key: String, _ old: RedisConfig, _ new: RedisConfig) throws(StartError) {
            guard old != new else { return nil }
            self.key = key
            config = new
            do throws(TLSError) {
                access = try RedisAccess(new)
            } catch {
                throw .tls(error)
            }
        }
    }

    private func replaceRedis(_ replacements: RedisReplacements, limits: SharedLimits?) {
        if let replacement = replacements.state, let parts = state.shared {
            parts.replace(replacement.access)
            tryOut(replacement)
        }
        if let replacement = replacements.limits, let limits {
            limits.replace(replacement.access)
            tryOut(replacement)
        }
    }

    /// Says what Redis thinks of it. What it refuses is tried again with every new connection, in turns with what worked before: perhaps Redis
    /// is told of the new password a moment after us.
    private func tryOut(_ replacement: RedisReplacement) {
        let fields = [LogField("key", replacement.key), LogField("redis", replacement.config.url.address)]
        RedisProbe.ask(replacement.config, on: loops[0], resolver: inForce.value.upstream.resolver) { [log] reason in
            if let reason {
                log.write(
                    .warning, "Redis does not take the new credentials yet; the old ones stay in use beside them",
                    fields + [LogField("reason", reason)])
            } else {
                log.write(.info, "Redis takes the new credentials", fields)
            }
        }
    }

    // MARK: Loops

    private func changeOver(
        _ endpoint: LoopEndpoint, on loop: EventLoop, to generation: Generation, _ upstream: UpstreamParts, shares: Bool
    ) {
        let old = endpoint.generation
        let sessions = LoopSessionVerifier(generation.verifiers, loop: loop, metrics: metrics)
        if shares {
            endpoint.replace(
                LoopGeneration(
                    generation, sessions: sessions, january: old.january, connections: old.connections, previous: old))
            return
        }
        let connections = upstream.januaryClient(on: loop)
        endpoint.replace(
            LoopGeneration(
                generation, sessions: sessions, january: JanuaryClient(exchange: connections, time: time),
                connections: connections))
        // Requests of the generations that share them may still send; none of them lives longer than its budget.
        let last = old.longestBudget + Self.afterlife
        loop.schedule(LoopTimer { old.connections?.drain() }, after: last)
    }

    /// Returns when every loop has done it.
    private func onEachLoop(_ work: @escaping @Sendable (EventLoop, LoopEndpoint) -> Void) {
        WorkToken.wait { token in
            for part in endpoints.withLock({ $0 }) {
                part.loop.execute { withExtendedLifetime(token) { work(part.loop, part.endpoint.value) } }
            }
        }
    }

    private func replaceManagement(_ config: RootConfig) {
        guard let endpoint = managementEndpoint.withLock({ $0 }) else { return }
        WorkToken.wait { token in
            loops[0].execute { withExtendedLifetime(token) { endpoint.value.replace(config) } }
        }
    }

    // MARK: Key sets

    /// Loads what is new, before anybody depends on it.
    /// - Returns: a problem for each that could not be loaded.
    private func loadKeySets(
        of verifiers: SessionVerifiers, besides old: SessionVerifiers, _ upstream: UpstreamParts
    ) -> [String] {
        let new = verifiers.keySets.filter { keySet in !old.keySets.contains { $0 === keySet } }
        guard !new.isEmpty else { return [] }
        verifiers.load(
            on: loops[0], makeExchange: Self.keySetExchanges(upstream, tracing), log: log, metrics: metrics)
        WorkToken.wait { awaitKeySets(new, until: time.monotonic() + Self.keySetLimit, $0) }
        return new.compactMap { keySet in
            guard keySet.state.snapshot == nil else { return nil }
            let reason = keySet.state.lastFailure?.reason ?? "no answer in time"
            return "sessions.verifiers: the key set of \(keySet.name) cannot be loaded: \(reason)"
        }
    }

    fileprivate func awaitKeySets(_ keySets: [KeySetCache], until end: MonotonicInstant, _ token: WorkToken) {
        after(Self.keySetStep) { [self] in
            let isWaiting = keySets.contains { $0.state.snapshot == nil && $0.state.lastFailure == nil }
            if isWaiting && time.monotonic() < end { awaitKeySets(keySets, until: end, token) }
        }
    }

    // MARK: What operators see

    private func record(_ result: ReloadResult, _ cause: ReloadCause) {
        let causeField = LogField("cause", cause.rawValue)
        switch result {
        case .reloaded:
            reloadMetrics.succeeded(time.wall())
            shared.audit.write(.reloaded, [LogField("outcome", "ok"), causeField])
            log.write(.info, "the configuration was reloaded", [causeField])
        case .refused(let problems):
            reloadMetrics.failed()
            shared.audit.write(.reloaded, [LogField("outcome", "refused"), causeField])
            for problem in problems {
                log.write(
                    .error, "a reload was refused; the old configuration stays", [causeField, LogField("problem", problem)])
            }
        case .draining: log.write(.warning, "not reloaded: the server is draining", [causeField])
        }
    }

    private func replaceKeys(_ january: JanuaryService, _ config: RootConfig) {
        if january.replaceKeys(first: config.january.apiKey, next: config.january.nextAPIKey) { recordNewKeys() }
    }

    private func recordNewKeys() {
        let keys = shared.keys.keys
        var fields = [
            LogField("slot", keys.current.slot.rawValue), LogField("key_fingerprint", keys.current.key.fingerprint),
        ]
        if let other = keys.other { fields.append(LogField("other_key_fingerprint", other.key.fingerprint)) }
        shared.audit.write(.keyChanged, fields)
        log.write(.info, "the API keys were read again and have changed", fields)
    }
}

/// `reloads_total{result}` and `last_reload_success_timestamp_seconds`. The start counts as a success, not as a reload.
final class ReloadMetrics: Sendable {
    private let ok: Counter
    private let failures: Counter
    private let lastSuccess: Gauge

    init(_ metrics: Metrics, now: WallInstant) {
        func results(_ result: String) -> Counter {
            metrics.counter("reloads_total", help: "Reloads of the configuration.", labels: [("result", result)])
        }
        ok = results("ok")
        failures = results("failed")
        lastSuccess = metrics.gauge(
            "last_reload_success_timestamp_seconds", help: "When the configuration in force was read, Unix time.")
        lastSuccess.set(Int(now.nanosecondsSinceEpoch / 1_000_000_000))
    }

    func succeeded(_ now: WallInstant) {
        ok.add()
        lastSuccess.set(Int(now.nanosecondsSinceEpoch / 1_000_000_000))
    }

    func failed() { failures.add() }
}

/// Signals when its last reference goes: whether the work that held one ran, or was dropped with the loop it was for.
private final class WorkToken: Sendable {
    private let semaphore: Semaphore

    private init(_ semaphore: Semaphore) { self.semaphore = semaphore }

    deinit { semaphore.signal() }

    /// Returns when nothing holds the token any more that `start` has handed out. For a thread that may block.
    static func wait(_ start: (WorkToken) -> Void) {
        let semaphore = Semaphore()
        start(WorkToken(semaphore))
        semaphore.wait()
    }
}
