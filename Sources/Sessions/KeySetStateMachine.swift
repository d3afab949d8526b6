import Primitives

/// When one remote key set is loaded, and what a caller with an unknown key ID is told. Pure: time comes in, actions come out.
///
/// One load at a time. A load is started by the schedule (refresh interval, or backoff after a failure) or by an unknown key ID; the
/// latter at most once per ``Settings/unknownKeyInterval`` whatever callers send and however it ends, so that nobody can make this
/// server hammer an identity provider. Callers wait only while a load runs, each at most ``Settings/callerWait``.
struct KeySetStateMachine: Sendable {
    struct Settings: Sendable, Equatable {
        /// Between two loads when the answer has no `max-age`.
        var refreshInterval: Duration = .seconds(600)
        /// The bounds within which `max-age` is honoured (RFC 9111 section 5.2.2.1).
        var shortestMaxAge: Duration = .seconds(60)
        var longestMaxAge: Duration = .seconds(86_400)
        /// How long a set that cannot be refreshed stays in use, from the moment it should have been refreshed.
        var maxStale: Duration = .seconds(86_400)
        /// Least time between two loads that unknown key IDs start.
        var unknownKeyInterval: Duration = .seconds(30)
        /// The longest a caller waits for a load.
        var callerWait: Duration = .seconds(2)
        /// First and longest pause after failed loads; it doubles in between.
        var firstRetry: Duration = .seconds(1)
        var longestRetry: Duration = .seconds(60)
        /// Callers that may wait at once; one more is told to come back.
        var maxWaiters = 4096
    }

    /// A request whose token names a key the set does not have; or any key, when there is no set yet.
    struct Caller: Sendable, Equatable {
        var id: UInt64
        /// `nil` for a token without `kid`: it waits for a set, not for a key.
        var keyID: String?
        var arrived: MonotonicInstant
        /// The token's `iat`, seconds since the epoch.
        var issuedAt: Double?
    }

    enum Answer: Sendable, Equatable {
        /// The current set has it (or there is a set at last): look again.
        case lookAgain
        /// A set that would have held the key does not: the token is refused.
        case unknownKey
        /// Cannot be known now.
        case unavailable(retryAfter: Duration)
    }

    enum Action: Sendable, Equatable {
        case startLoad
        case answer(id: UInt64, Answer)
    }

    /// What `/readyz` wants to know.
    enum Health: Sendable, Equatable {
        case starting
        case loaded
        /// Loads have failed since then; `hasKeys` while the last good set is still in use.
        case failing(since: MonotonicInstant, hasKeys: Bool)
    }

    private struct Load: Sendable {
        var startedAt: MonotonicInstant
        var startedWall: WallInstant
    }

    private struct Waiter: Sendable {
        var caller: Caller
        var givesUpAt: MonotonicInstant
    }

    private enum Phase: Sendable {
        case stopped
        case idle(nextLoad: MonotonicInstant)
        case loading(Load, waiters: [Waiter])
    }

    private struct Success: Sendable {
        var endedAt: MonotonicInstant
        var refreshAt: MonotonicInstant
        var expiresAt: MonotonicInstant
        /// When the request of the load went out: every key published before then is in the answer.
        var startedWall: WallInstant
    }

    private struct Failures: Sendable {
        var count: Int
        var since: MonotonicInstant
    }

    private let settings: Settings
    private var phase = Phase.stopped
    private var lastSuccess: Success?
    private var failures: Failures?
    private var lastUnknownKeyLoad: MonotonicInstant?

    init(settings: Settings) { self.settings = settings }

    /// When ``timerFired(now:wall:)`` has to be called next; `nil`: not before another event.
    var deadline: MonotonicInstant? {
        switch phase {
        case .stopped: nil
        case .idle(let nextLoad): nextLoad
        case .loading(_, let waiters): waiters.first?.givesUpAt
        }
    }

    func health(now: MonotonicInstant) -> Health {
        if let failures { return .failing(since: failures.since, hasKeys: hasKeys(at: now)) }
        return lastSuccess == nil ? .starting : .loaded
    }

    /// When the current set stops being used unless a load succeeds.
    var keysExpireAt: MonotonicInstant? { lastSuccess?.expiresAt }

    // MARK: Events

    mutating func start(now: MonotonicInstant, wall: WallInstant) -> [Action] {
        guard case .stopped = phase else { return [] }
        phase = .loading(Load(startedAt: now, startedWall: wall), waiters: [])
        return [.startLoad]
    }

    /// Everybody who waits is told to come back; nothing is loaded any more.
    mutating func stop(now: MonotonicInstant) -> [Action] {
        defer { phase = .stopped }
        guard case .loading(_, let waiters) = phase else { return [] }
        return waiters.map { .answer(id: $0.caller.id, .unavailable(retryAfter: retryAfter(now: now))) }
    }

    mutating func timerFired(now: MonotonicInstant, wall: WallInstant) -> [Action] {
        switch phase {
        case .stopped:
            return []
        case .idle(let nextLoad):
            guard nextLoad <= now else { return [] }
            phase = .loading(Load(startedAt: now, startedWall: wall), waiters: [])
            return [.startLoad]
        case .loading(let load, let waiters):
            // Everyone waits equally long, so the order of arrival is the order of giving up.
            let late = waiters.prefix { $0.givesUpAt <= now }
            phase = .loading(load, waiters: Array(waiters.dropFirst(late.count)))
            return late.map { .answer(id: $0.caller.id, verdict(on: $0.caller, now: now)) }
        }
    }

    /// - Parameter isKnown: whether the set that is current now has the caller's key: it may have been loaded since the caller looked.
    mutating func unknownKey(_ caller: Caller, isKnown: Bool, now: MonotonicInstant, wall: WallInstant) -> [Action] {
        if isKnown { return [.answer(id: caller.id, .lookAgain)] }
        // Loops read their clocks at different moments; a load that this caller starts never starts before it arrived.
        let now = max(now, caller.arrived)
        switch phase {
        case .stopped:
            return [.answer(id: caller.id, .unavailable(retryAfter: retryAfter(now: now)))]
        case .idle:
            guard unknownKeyLoadIsAllowed(now: now) else { return [.answer(id: caller.id, verdict(on: caller, now: now))] }
            lastUnknownKeyLoad = now
            phase = .loading(Load(startedAt: now, startedWall: wall), waiters: [waiter(caller, now: now)])
            return [.startLoad]
        case .loading(let load, var waiters):
            guard waiters.count < settings.maxWaiters else {
                return [.answer(id: caller.id, .unavailable(retryAfter: retryAfter(now: now)))]
            }
            waiters.append(waiter(caller, now: now))
            phase = .loading(load, waiters: waiters)
            return []
        }
    }

    /// - Parameters:
    ///   - maxAge: of the answer, less its `Age`; `nil` where it has none.
    ///   - isKnown: asks the set just loaded.
    mutating func loadSucceeded(
        maxAge: Duration?, now: MonotonicInstant, wall: WallInstant, isKnown: (String?) -> Bool
    ) -> [Action] {
        guard case .loading(let load, let waiters) = phase else { return [] }
        let interval =
            maxAge.map { min(max($0, settings.shortestMaxAge), settings.longestMaxAge) } ?? settings.refreshInterval
        let nextLoad = now + interval
        lastSuccess = Success(
            endedAt: now, refreshAt: nextLoad, expiresAt: nextLoad + settings.maxStale, startedWall: load.startedWall)
        failures = nil
        phase = .idle(nextLoad: nextLoad)
        return settle(waiters, of: load, now: now, wall: wall, isKnown: isKnown)
    }

    mutating func loadFailed(now: MonotonicInstant, wall: WallInstant) -> [Action] {
        guard case .loading(let load, let waiters) = phase else { return [] }
        // Only an unknown key asked for it; the set is not due. Its callers may ask once per interval, not start a rhythm of retries.
        if let refreshAt = lastSuccess?.refreshAt, now < refreshAt {
            phase = .idle(nextLoad: refreshAt)
            return settle(waiters, of: load, now: now, wall: wall) { _ in false }
        }
        let count = (failures?.count ?? 0) + 1
        failures = Failures(count: count, since: failures?.since ?? load.startedAt)
        let pause = min(settings.firstRetry * (1 << min(count - 1, 16)), settings.longestRetry)
        phase = .idle(nextLoad: now + pause)
        return settle(waiters, of: load, now: now, wall: wall) { _ in false }
    }

    // MARK: Decisions

    private mutating func settle(
        _ waiters: [Waiter], of load: Load, now: MonotonicInstant, wall: WallInstant, isKnown: (String?) -> Bool
    ) -> [Action] {
        var actions: [Action] = []
        var waitOn: [Waiter] = []
        let mayLoadAgain = unknownKeyLoadIsAllowed(now: now)
        for waiter in waiters {
            let caller = waiter.caller
            if isKnown(caller.keyID) {
                actions.append(.answer(id: caller.id, .lookAgain))
            } else if mayLoadAgain && load.startedAt < caller.arrived && waiter.givesUpAt > now {
                // This load began before the caller came, for another reason: the answer may be older than the key.
                waitOn.append(waiter)
            } else {
                actions.append(.answer(id: caller.id, verdict(on: caller, now: now)))
            }
        }
        guard !waitOn.isEmpty else { return actions }
        lastUnknownKeyLoad = now
        phase = .loading(Load(startedAt: now, startedWall: wall), waiters: waitOn)
        actions.append(.startLoad)
        return actions
    }

    /// For a key that is still unknown: refused only where a load must have seen the key. Not knowing is never "no".
    private func verdict(on caller: Caller, now: MonotonicInstant) -> Answer {
        if let lastSuccess, hasKeys(at: now) {
            if lastSuccess.endedAt >= caller.arrived { return .unknownKey }
            // `iat` is most often in whole seconds: a key made later within that second was not there yet when the load began.
            if let issuedAt = caller.issuedAt, lastSuccess.startedWall.fractionalSeconds >= issuedAt.rounded(.down) + 1 {
                return .unknownKey
            }
        }
        return .unavailable(retryAfter: retryAfter(now: now))
    }

    /// Until the next load that may bring the key: the next one an unknown key may start, or a scheduled one that comes sooner.
    private func retryAfter(now: MonotonicInstant) -> Duration {
        var next = lastUnknownKeyLoad.map { $0 + settings.unknownKeyInterval } ?? now
        if case .idle(let nextLoad) = phase { next = min(next, nextLoad) }
        return max(next - now, .seconds(1))
    }

    private func waiter(_ caller: Caller, now: MonotonicInstant) -> Waiter {
        Waiter(caller: caller, givesUpAt: now + settings.callerWait)
    }

    private func unknownKeyLoadIsAllowed(now: MonotonicInstant) -> Bool {
        lastUnknownKeyLoad.map { now - $0 >= settings.unknownKeyInterval } ?? true
    }

    private func hasKeys(at now: MonotonicInstant) -> Bool { keysExpireAt.map { now <= $0 } ?? false }
}
