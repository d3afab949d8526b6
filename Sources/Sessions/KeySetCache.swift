import EventLoop
import HTTPMessage
import JOSE
import Primitives
import Synchronization
import Telemetry

/// One remote key set as every loop sees it: immutable, replaced as a whole.
package final class KeySetSnapshot: Sendable {
    package let set: JWKSet
    package let loadedAt: MonotonicInstant
    /// Not used after this moment, unless a load succeeds before.
    package let expiresAt: MonotonicInstant
    private let keyIDs: KeyIDs
    private let lastUse = Atomic<Int64>(.min)

    init(set: JWKSet, loadedAt: MonotonicInstant, expiresAt: MonotonicInstant) {
        self.set = set
        self.loadedAt = loadedAt
        self.expiresAt = expiresAt
        keyIDs = KeyIDs(set)
    }

    func knows(_ keyID: String?) -> Bool { keyIDs.contains(keyID) }

    /// The IDs in a set, those of keys that cannot be used included: another load would not make them usable, so their tokens are
    /// refused at once.
    struct KeyIDs: Sendable {
        private let all: Set<[UInt8]>

        init(_ set: JWKSet) {
            all = Set((set.keys.map(\.keyID) + set.skipped.map(\.keyID)).compactMap { $0.map { Array($0.utf8) } })
        }

        /// A token without key ID is looked for in whatever is there.
        func contains(_ keyID: String?) -> Bool { keyID.map { all.contains(Array($0.utf8)) } ?? true }
    }

    func markUsed(_ now: MonotonicInstant) { lastUse.store(now.nanoseconds, ordering: .relaxed) }

    package var lastUsed: MonotonicInstant? {
        let nanoseconds = lastUse.load(ordering: .relaxed)
        return nanoseconds == .min ? nil : MonotonicInstant(nanoseconds: nanoseconds)
    }
}

/// A remote key set: loaded before the server is ready, refreshed in the background, asked again for unknown keys.
///
/// The key is the set's place; the lifetime is the refresh interval or the answer's `max-age`; one set is kept. A set that cannot be
/// refreshed stays in use for `max_stale_seconds`, then there is none. Any loop reads the snapshot through one short lock; loads,
/// timer and waiters live on one home loop.
package final class KeySetCache: Sendable {
    /// The state `/readyz`, `/status.json` and the metrics are made from.
    package struct State: Sendable {
        package var snapshot: KeySetSnapshot?
        /// `nil`: nothing has failed since the last good load, or ever.
        package var failingSince: MonotonicInstant?
        package var lastFailure: KeySetLoadFailure?
    }

    /// Makes the exchange for one certificate store. Called on the loop, once per key set.
    package typealias MakeExchange =
        @Sendable (EventLoop, RemoteKeySetConfig.CertificateAuthority?) -> any HTTPExchange

    /// Label `source`: the first verifier that uses the set.
    package let name: String
    package let config: RemoteKeySetConfig
    private let published = Lock(State())
    private let home = Lock<Home?>(nil)
    private let nextCaller = Atomic<UInt64>(0)

    private struct Home: Sendable {
        var loop: EventLoop
        var refresher: LoopBound<KeySetRefresher>
    }

    init(name: String, config: RemoteKeySetConfig) {
        self.name = name
        self.config = config
    }

    package var state: State { published.withLock { $0 } }

    /// The set that is good now; `nil` before the first load, and when the last one is too old.
    @inline(__always)
    func snapshot(now: MonotonicInstant) -> KeySetSnapshot? {
        guard let snapshot = published.withLock({ $0.snapshot }), now <= snapshot.expiresAt else { return nil }
        return snapshot
    }

    func start(on loop: EventLoop, makeExchange: @escaping MakeExchange, log: Log, metrics: Metrics) {
        loop.execute { [self] in
            guard home.withLock({ $0 == nil }) else { return }
            let refresher = KeySetRefresher(
                cache: self, loop: loop, exchange: makeExchange(loop, config.certificateAuthority), log: log, metrics: metrics)
            let bound = Home(loop: loop, refresher: LoopBound(refresher, on: loop))
            home.withLock { $0 = bound }
            refresher.start()
        }
    }

    /// No more loads. The last set stays readable for requests that are under way.
    func stop() {
        guard let home = home.withLock({ $0 }) else { return }
        home.loop.execute { home.refresher.value.stop() }
    }

    /// Waits for a key that the snapshot does not have, at most the caller's wait.
    ///
    /// - Parameter resume: called once, on `loop`, never before this call returns.
    func awaitKey(
        _ keyID: String?, issuedAt: Double?, arrived: MonotonicInstant, on loop: EventLoop,
        resume: @escaping @Sendable (KeySetStateMachine.Answer) -> Void
    ) {
        guard let home = home.withLock({ $0 }) else {
            return loop.execute { resume(.unavailable(retryAfter: .seconds(1))) }
        }
        let id = nextCaller.wrappingAdd(1, ordering: .relaxed).newValue
        let caller = KeySetStateMachine.Caller(id: id, keyID: keyID, arrived: arrived, issuedAt: issuedAt)
        home.loop.execute {
            home.refresher.value.await(caller) { answer in loop.execute { resume(answer) } }
        }
    }

    fileprivate func publish(_ change: @Sendable (inout State) -> Void) { published.withLock { change(&$0) } }
}

/// The part of a ``KeySetCache`` that belongs to its home loop: runs the actions of the state machine, and nothing else.
private final class KeySetRefresher {
    private unowned let cache: KeySetCache
    private let loop: EventLoop
    private let loader: KeySetLoader
    private let log: Log
    private let metrics: Metrics
    private var machine: KeySetStateMachine
    private var timer: LoopTimer?
    private var lastWarning: MonotonicInstant?
    private var waiting: [UInt64: (KeySetStateMachine.Answer) -> Void] = [:]

    init(cache: KeySetCache, loop: EventLoop, exchange: any HTTPExchange, log: Log, metrics: Metrics) {
        self.cache = cache
        self.loop = loop
        self.log = log
        self.metrics = metrics
        loader = KeySetLoader(config: cache.config, exchange: exchange)
        var settings = KeySetStateMachine.Settings()
        settings.refreshInterval = cache.config.refreshInterval
        settings.maxStale = cache.config.maxStale
        machine = KeySetStateMachine(settings: settings)
    }

    func start() {
        timer = LoopTimer { [weak self] in self?.timerFired() }
        run(machine.start(now: loop.now, wall: loop.time.wall()))
    }

    func stop() {
        run(machine.stop(now: loop.now))
        timer = nil
    }

    func await(_ caller: KeySetStateMachine.Caller, resume: @escaping (KeySetStateMachine.Answer) -> Void) {
        waiting[caller.id] = resume
        let isKnown = cache.snapshot(now: loop.now)?.knows(caller.keyID) ?? false
        run(machine.unknownKey(caller, isKnown: isKnown, now: loop.now, wall: loop.time.wall()))
    }

    private func timerFired() { run(machine.timerFired(now: loop.now, wall: loop.time.wall())) }

    private func run(_ actions: [KeySetStateMachine.Action]) {
        for action in actions {
            switch action {
            case .startLoad:
                // The cache is kept alive by the load; without one the timer's closure does not keep it.
                loader.load(now: loop.now) { [self, cache] result in withExtendedLifetime(cache) { ended(result) } }
            case .answer(let id, let answer):
                waiting.removeValue(forKey: id)?(answer)
            }
        }
        guard let timer else { return }
        if let deadline = machine.deadline {
            loop.schedule(timer, at: deadline)
        } else {
            loop.cancel(timer)
        }
    }

    private func ended(_ result: Result<KeySetLoader.Loaded, KeySetLoadFailure>) {
        let now = loop.now
        var result = result
        // A set may be empty from the start (a secret stands beside it); one that had keys does not lose them all by an empty answer.
        if case .success(let loaded) = result, loaded.set.keys.isEmpty, cache.state.snapshot?.set.keys.isEmpty == false {
            result = .failure(.empty)
        }
        switch result {
        case .success(let loaded):
            count("ok")
            let keyIDs = KeySetSnapshot.KeyIDs(loaded.set)
            let actions = machine.loadSucceeded(
                maxAge: loaded.maxAge, now: now, wall: loop.time.wall(), isKnown: { keyIDs.contains($0) })
            let snapshot = KeySetSnapshot(set: loaded.set, loadedAt: now, expiresAt: machine.keysExpireAt ?? now)
            let before = cache.state
            // Published before anybody is woken.
            cache.publish { $0 = KeySetCache.State(snapshot: snapshot) }
            logSuccess(snapshot, before: before)
            run(actions)
        case .failure(let failure):
            count(failure.reason)
            let before = cache.state
            let actions = machine.loadFailed(now: now, wall: loop.time.wall())
            let since = if case .failing(let since, _) = machine.health(now: now) { since } else { now }
            cache.publish { state in
                state.failingSince = since
                state.lastFailure = failure
            }
            logFailure(failure, before: before)
            run(actions)
        }
    }

    private func count(_ result: String) {
        metrics.counter(
            "jwks_refreshes_total", help: "Loads of key sets.", labels: [("source", cache.name), ("result", result)]
        ).add()
    }

    // MARK: Log: changes, never requests

    private func logSuccess(_ snapshot: KeySetSnapshot, before: KeySetCache.State) {
        if before.failingSince != nil {
            log.write(.info, "key set can be loaded again", [LogField("source", cache.name)])
        }
        let keyIDs = Self.keyIDs(snapshot)
        let oldKeyIDs = before.snapshot.map(Self.keyIDs) ?? []
        guard before.snapshot == nil || keyIDs != oldKeyIDs else { return }
        log.write(
            .info, "key set changed",
            [
                LogField("source", cache.name), LogField("keys", snapshot.set.keys.count),
                LogField("skipped", snapshot.set.skipped.count),
                LogField("new_key_ids", .strings(Self.listed(keyIDs.subtracting(oldKeyIDs)))),
                LogField("gone_key_ids", .strings(Self.listed(oldKeyIDs.subtracting(keyIDs)))),
            ])
    }

    private func logFailure(_ failure: KeySetLoadFailure, before: KeySetCache.State) {
        var fields = [
            LogField("source", cache.name), LogField("reason", failure.reason), LogField("url", cache.config.url.redacted),
        ]
        if case .status(let status) = failure { fields.append(LogField("status", status)) }
        if case .tls(let reason) = failure { fields.append(LogField("tls", reason)) }
        let hasKeys = cache.snapshot(now: loop.now) != nil
        fields.append(LogField("has_keys", .boolean(hasKeys)))
        // What goes on failing in the same way is said again, but not with every attempt.
        let interval = hasKeys ? Self.warningIntervalWithKeys : Self.warningIntervalWithoutKeys
        let isNew = before.lastFailure != failure || lastWarning.map { loop.now - $0 >= interval } ?? true
        if isNew { lastWarning = loop.now }
        log.write(isNew ? .warning : .debug, "key set could not be loaded", fields)
    }

    /// Nobody can sign in.
    private static let warningIntervalWithoutKeys = Duration.seconds(60)
    /// The last good set is in use.
    private static let warningIntervalWithKeys = Duration.seconds(600)

    private static func keyIDs(_ snapshot: KeySetSnapshot) -> Set<String> { Set(snapshot.set.keys.compactMap(\.keyID)) }

    private static func listed(_ keyIDs: Set<String>) -> [String] { keyIDs.sorted().prefix(16).map(\.printable) }
}
