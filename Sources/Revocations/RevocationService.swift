import EventLoop
import Primitives
import Telemetry

/// What one call to January's revocation came to.
package enum SweepResult: Sendable, Equatable {
    case revoked(Int)
    /// Not sent: January is to be left alone for so long. Says nothing about this end user.
    case held(Duration)
    /// Bounded: a code of January's or a reason of ours.
    case failed(reason: String, retryAfter: Duration?)
}

/// January's revocation, as the service needs it. Confined to the service's loop.
package protocol TokenRevoker: AnyObject {
    func revoke(_ endUserID: String, completion: @escaping (SweepResult) -> Void)
}

/// What happened, for metrics and the audit log. The ID is plain: whoever writes it down hashes it.
package enum RevocationEvent: Sendable {
    case requested(RevocationStatus, RevocationRequest, joined: Bool)
    case swept(SweepResult, id: String, endUserID: String)
    case completed(RevocationStatus, endUserID: String, isLate: Bool)
    case lifted(endUserID: String, requestedBy: String, requestID: String?, takesEffect: Bool)
}

/// Carries revocations out: one loop, at most four calls to January at once, everything else in the store. ``RevocationControl`` is its face.
///
/// For each end user it works on it has one ``SweepMachine`` and asks it for the next step; the store makes every result durable before
/// anybody hears of it. A failure puts one end user's work aside and nobody else's.
package final class RevocationService: RevocationControl {
    package static let maxCalls = 4
    /// Revocations worked on at once, those that only wait for mints included.
    package static let maxActive = 256
    /// Who asked is told after this, done or not.
    package static let answerWithin = Duration.seconds(10)
    /// Requests whose answer is waited for; one more is answered as pending at once.
    package static let maxWaiters = 10_000

    private let loop: EventLoop
    private let worker: LoopBound<RevocationWorker>
    private let store: any RevocationStore
    private let keyOf: @Sendable (String) -> EndUserKey?
    private let clock: StateClock
    private let events: @Sendable (RevocationEvent) -> Void
    private let latest = Lock(StateCounts())

    /// - Parameters:
    ///   - loop: everything here runs on it.
    ///   - keyOf: `nil` where it cannot be said now.
    ///   - clock: where replicas share a state, one they share, too.
    ///   - events: called on any thread; must not block.
    package init(
        loop: EventLoop, store: any RevocationStore, keyOf: @escaping @Sendable (String) -> EndUserKey?, clock: StateClock,
        log: Log,
        events: @escaping @Sendable (RevocationEvent) -> Void
    ) {
        self.loop = loop
        self.store = store
        self.keyOf = keyOf
        self.events = events
        self.clock = clock
        worker = LoopBound(
            RevocationWorker(loop: loop, store: store, clock: clock, log: log, latest: latest, events: events), on: loop)
    }

    /// - Parameters:
    ///   - keepDays: `fences.keep_days`.
    ///   - makeRevoker: called on the loop.
    package func start(keepDays: Int, makeRevoker: @escaping @Sendable () -> any TokenRevoker) {
        let worker = worker
        loop.execute { worker.value.start(makeRevoker(), keepDays: keepDays) }
    }

    /// No further call to January is made.
    package func stop() {
        let worker = worker
        loop.execute { worker.value.stop() }
    }

    /// As of a moment ago; read anew after every change and every ten seconds.
    package var counts: StateCounts { latest.withLock { $0 } }

    // MARK: RevocationControl

    package func revoke(
        _ request: RevocationRequest, completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void
    ) {
        guard let key = keyOf(request.endUserID), let id = RevocationID(bytes: SystemRandom.bytes(16)) else {
            return completion(.failure(.stateUnavailable(retryAfter: 1)))
        }
        let clock = clock
        let scope = store.scope
        let events = events
        let worker = worker
        let loop = loop
        store.update(
            key,
            { state, _ in
                state.revoke(key, endUserID: request.endUserID, block: request.block, newID: id, now: clock.now())
            }
        ) { result in
            guard case .success(let state) = result, let record = state.work else {
                return completion(.failure(.stateUnavailable(retryAfter: 2)))
            }
            events(.requested(record.status(scope: scope), request, joined: record.id != id))
            loop.execute { worker.value.requested(record, completion) }
        }
    }

    package func list(
        pendingOnly: Bool, limit: Int, after: String?,
        completion: @escaping @Sendable (Result<RevocationPage, RevocationError>) -> Void
    ) {
        var start: RevocationID?
        if let after {
            guard let id = RevocationID(after) else { return completion(.failure(.notFound)) }
            start = id
        }
        let scope = store.scope
        store.page(pendingOnly: pendingOnly, limit: limit, after: start) { result in
            switch result {
            case .failure: completion(.failure(.stateUnavailable(retryAfter: 2)))
            case .success(nil): completion(.failure(.notFound))
            case .success(let records?):
                let items = records.prefix(limit).map { $0.status(scope: scope) }
                completion(.success(RevocationPage(items: items, next: records.count > limit ? items.last?.id : nil)))
            }
        }
    }

    package func show(id: String, completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void) {
        guard let id = RevocationID(id) else { return completion(.failure(.notFound)) }
        let scope = store.scope
        store.find(id) { result in
            switch result {
            case .failure: completion(.failure(.stateUnavailable(retryAfter: 2)))
            case .success(nil): completion(.failure(.notFound))
            case .success(let record?): completion(.success(record.status(scope: scope)))
            }
        }
    }

    package func endUser(
        _ endUserID: String, completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void
    ) {
        guard let key = keyOf(endUserID) else {
            return completion(.failure(.stateUnavailable(retryAfter: 1)))
        }
        store.read(key) { [store] result in
            guard case .success(let state) = result else { return completion(.failure(.stateUnavailable(retryAfter: 2))) }
            Self.status(endUserID, key, state, store, completion)
        }
    }

    package func lift(
        _ endUserID: String, requestedBy: String, requestID: String?,
        completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void
    ) {
        guard let key = keyOf(endUserID) else {
            return completion(.failure(.stateUnavailable(retryAfter: 1)))
        }
        let (loop, worker, store, events) = (loop, worker, store, events)
        loop.execute {
            // From here on no sweep begins for this end user until the lift is durable.
            let isSweeping = worker.value.beginLift(key)
            CrashPoint.reached(.beforeLift)
            store.update(key, { state, isTaken in state.lift(isSweeping: isSweeping || isTaken) }) { result in
                CrashPoint.reached(.afterLift)
                loop.execute { worker.value.endLift(key, try? result.get().work) }
                guard case .success(let state) = result else {
                    return completion(.failure(.stateUnavailable(retryAfter: 2)))
                }
                events(
                    .lifted(
                        endUserID: endUserID, requestedBy: requestedBy, requestID: requestID, takesEffect: state.work == nil))
                Self.status(endUserID, key, state, store, completion)
            }
        }
    }

    private static func status(
        _ endUserID: String, _ key: EndUserKey, _ state: UserState, _ store: any RevocationStore,
        _ completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void
    ) {
        store.mintCount(of: endUserID, key: key) { result in
            guard case .success(let count) = result else { return completion(.failure(.stateUnavailable(retryAfter: 2))) }
            completion(
                .success(
                    EndUserStatus(
                        endUserID: endUserID, blocked: state.fence?.block ?? .none, blockedSince: state.fence?.since,
                        isPending: state.isPending || state.work?.lifts == true, inFlightCount: count)))
        }
    }
}

/// Both clocks of ``StateTime``. Where replicas share a state both are the store's clock, carried on by this process's monotonic one: replicas
/// whose own clocks differ agree on what is due.
package struct StateClock: Sendable {
    /// An instant on both: what the store's clock said, and this process's when it did.
    package typealias Point = (wall: WallInstant, monotonic: MonotonicInstant)

    private let time: any TimeSource
    private let start: Point
    private let shared: (@Sendable () -> Point?)?

    /// - Parameter shared: the store's clock, `nil` while it is not known.
    package init(_ time: any TimeSource, shared: (@Sendable () -> Point?)? = nil) {
        self.time = time
        self.shared = shared
        start = (time.wall(), time.monotonic())
    }

    package func now() -> StateTime {
        let point = shared?()
        let origin = point ?? start
        let steady = origin.wall + (time.monotonic() - origin.monotonic)
        return StateTime(wall: point == nil ? time.wall() : steady, steady: steady)
    }

    package func monotonic(of steady: WallInstant) -> MonotonicInstant {
        let origin = shared?() ?? start
        let ahead = steady.nanosecondsSinceEpoch.subtractingReportingOverflow(origin.wall.nanosecondsSinceEpoch).partialValue
        return origin.monotonic + .nanoseconds(ahead)
    }
}
