import EventLoop
import Primitives
import Telemetry

/// The work behind ``RevocationService``, on its loop.
final class RevocationWorker {
    /// Due work taken from the store at once.
    private static let claimCount = 16
    /// Between two looks at mints that are awaited.
    private static let look = Duration.milliseconds(20)
    /// Between two tries to make durable what is done, and two looks at what another replica does.
    private static let patience = Duration.seconds(1)
    private static let poll = Duration.milliseconds(250)
    private static let heartbeat = Duration.seconds(5)
    /// So long it is certain that this process may work on something.
    private static let freshFor = Duration.seconds(2)
    /// Waiters looked after in one turn of the poll.
    private static let pollCount = 64

    private struct Active {
        var machine: SweepMachine
        var isBusy = false
        /// When the store was last asked whether it may be worked on.
        var lookedAt = MonotonicInstant(nanoseconds: .min)
    }

    private struct Waiter {
        let id: RevocationID
        let endUserID: String
        let record: RevocationRecord
        let timer: LoopTimer
        let completion: @Sendable (Result<RevocationStatus, RevocationError>) -> Void
    }

    private let loop: EventLoop
    private let store: any RevocationStore
    private let clock: StateClock
    private let log: Log
    private let latest: Lock<StateCounts>
    private let events: @Sendable (RevocationEvent) -> Void
    private var revoker: (any TokenRevoker)?
    private var keepDays = 0

    private var active: [EndUserKey: Active] = [:]
    /// Waiting for one of the calls.
    private var ready: [EndUserKey] = []
    private var awaitingMints: Set<EndUserKey> = []
    private var lifting: Set<EndUserKey> = []
    private var waiters: [Int: Waiter] = [:]
    private var nextWaiter = 0
    private var lastPolled = 0
    private var calls = 0
    private var isClaiming = false
    /// Something was let go while the store was asked: its answer does not know of it.
    private var claimsAgain = false
    private var isCounting = false
    private var isStopped = false
    private var pausedUntil = MonotonicInstant(nanoseconds: .min)
    private var lastForgotten: MonotonicInstant?
    private lazy var wake = LoopTimer { [weak self] in self?.pump() }
    private lazy var lookAgain = LoopTimer { [weak self] in self?.lookAtMints() }
    private lazy var pollTimer = LoopTimer { [weak self] in self?.pollWaiters() }
    private lazy var heartbeatTimer = LoopTimer { [weak self] in self?.beat() }

    init(
        loop: EventLoop, store: any RevocationStore, clock: StateClock, log: Log, latest: Lock<StateCounts>,
        events: @escaping @Sendable (RevocationEvent) -> Void
    ) {
        self.loop = loop
        self.store = store
        self.clock = clock
        self.log = log
        self.latest = latest
        self.events = events
    }

    func start(_ revoker: any TokenRevoker, keepDays: Int) {
        self.revoker = revoker
        self.keepDays = keepDays
        beat()
        pump()
    }

    func stop() {
        isStopped = true
        for timer in [wake, lookAgain, pollTimer, heartbeatTimer] { loop.cancel(timer) }
        for (number, waiter) in waiters { answer(number, waiter.record) }
    }

    /// Completions of the store come on its thread.
    private func onLoop<Value: Sendable>(
        _ body: @escaping (RevocationWorker, Value) -> Void
    ) -> @Sendable (Value) -> Void {
        let target = LoopBound((self, body), on: loop)
        let loop = loop
        return { value in loop.execute { target.value.1(target.value.0, value) } }
    }

    // MARK: Requests

    func requested(
        _ record: RevocationRecord, _ completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void
    ) {
        count()
        guard !isStopped, waiters.count < RevocationService.maxWaiters, let endUserID = record.endUserID else {
            return completion(.success(record.status(scope: store.scope)))
        }
        let number = nextWaiter
        nextWaiter += 1
        let timer = LoopTimer { [weak self] in self?.waitedLongEnough(number) }
        loop.schedule(timer, after: RevocationService.answerWithin)
        waiters[number] = Waiter(id: record.id, endUserID: endUserID, record: record, timer: timer, completion: completion)
        if store.scope == .shared && !pollTimer.isScheduled { loop.schedule(pollTimer, after: Self.poll) }
        if active[record.key] != nil { return joined(record) }
        let isDue = record.nextAt <= clock.now().steady
        guard isDue, active.count < RevocationService.maxActive, !lifting.contains(record.key) else { return pump() }
        store.claim(
            record.key,
            completion: onLoop { worker, result in if (try? result.get()) == true { worker.activate(record) } })
    }

    private func joined(_ record: RevocationRecord) {
        active[record.key]?.machine.changed(record)
        if active[record.key]?.isBusy == false { advance(record.key) }
    }

    private func waitedLongEnough(_ number: Int) {
        guard let waiter = waiters[number] else { return }
        store.find(
            waiter.id, completion: onLoop { worker, result in worker.answer(number, (try? result.get()) ?? waiter.record) })
    }

    private func answer(_ number: Int, _ record: RevocationRecord) {
        guard let waiter = waiters.removeValue(forKey: number) else { return }
        loop.cancel(waiter.timer)
        waiter.completion(.success(record.status(scope: store.scope, showing: waiter.endUserID)))
    }

    /// Another replica may be doing what somebody waits for here.
    private func pollWaiters() {
        guard !isStopped, !waiters.isEmpty else { return }
        let all = waiters.filter { active[$0.value.record.key] == nil }.sorted { $0.key < $1.key }
        // In turns.
        var turn = all.filter { $0.key > lastPolled }.prefix(Self.pollCount)
        if turn.isEmpty { turn = all.prefix(Self.pollCount) }
        lastPolled = turn.last?.key ?? 0
        for (number, waiter) in turn {
            store.find(
                waiter.id,
                completion: onLoop { worker, result in
                    if case .success(let record?) = result, record.phase != .pending { worker.answer(number, record) }
                })
        }
        loop.schedule(pollTimer, after: Self.poll)
    }

    func beginLift(_ key: EndUserKey) -> Bool {
        lifting.insert(key)
        return active[key] != nil
    }

    func endLift(_ key: EndUserKey, _ work: RevocationRecord?) {
        lifting.remove(key)
        if let work, active[key]?.machine.record.id == work.id { joined(work) }
        count()
        pump()
    }

    // MARK: Work

    private func pump() {
        guard !isStopped, revoker != nil else { return }
        guard loop.now >= pausedUntil else { return scheduleWake(pausedUntil) }
        while calls < RevocationService.maxCalls, !ready.isEmpty { advance(ready.removeFirst()) }
        guard ready.isEmpty, calls < RevocationService.maxCalls, active.count < RevocationService.maxActive else { return }
        guard !isClaiming else {
            claimsAgain = true
            return
        }
        claimsAgain = false
        isClaiming = true
        store.claim(
            limit: Self.claimCount, now: clock.now().steady, except: Set(active.keys).union(lifting),
            completion: onLoop { worker, result in worker.claimed(result) })
    }

    private func claimed(_ result: Result<DueWork, StateError>) {
        isClaiming = false
        switch result {
        case .failure: scheduleWake(loop.now + Self.patience)
        case .success(let due):
            for record in due.records {
                // Lifted, or taken up, while the store was asked.
                if lifting.contains(record.key) || active[record.key] != nil { continue }
                activate(record)
            }
            if let next = due.next { scheduleWake(max(clock.monotonic(of: next), loop.now + .milliseconds(5))) }
        }
        if claimsAgain { pump() }
    }

    private func scheduleWake(_ instant: MonotonicInstant) {
        guard !isStopped else { return }
        loop.cancel(wake)
        loop.schedule(wake, at: instant)
    }

    private func activate(_ record: RevocationRecord) {
        guard !isStopped, active[record.key] == nil, !lifting.contains(record.key), record.phase != .over else { return }
        active[record.key] = Active(machine: SweepMachine(record))
        advance(record.key)
    }

    private func advance(_ key: EndUserKey) {
        guard let work = active[key], !work.isBusy, !isStopped else { return }
        active[key]?.isBusy = true
        active[key]?.lookedAt = loop.time.monotonic()
        awaitingMints.remove(key)
        store.olderMints(
            of: work.machine.record, completion: onLoop { worker, result in worker.step(key, result) })
    }

    private func step(_ key: EndUserKey, _ result: Result<OlderMints, StateError>) {
        active[key]?.isBusy = false
        guard let work = active[key], !isStopped else { return }
        let machine = work.machine
        guard case .success(let mints) = result else {
            return result.isTaken ? drop(key) : again(key)
        }
        // This process stood still meanwhile: another may have taken over, and let mints in again.
        if loop.time.monotonic() - work.lookedAt > Self.freshFor { return advance(key) }
        let now = clock.now()
        switch machine.step(mints: mints, now: now.steady) {
        case .call: call(key, mints, now)
        case .awaitMints:
            awaitingMints.insert(key)
            if !lookAgain.isScheduled { loop.schedule(lookAgain, after: Self.look) }
        case .rest(let until): rest(key, until: until, failure: nil)
        case .complete(let isLate): complete(key, isLate: isLate)
        }
    }

    private func lookAtMints() {
        for key in awaitingMints { advance(key) }
    }

    private func again(_ key: EndUserKey) {
        let timer = LoopTimer { [weak self] in self?.advance(key) }
        loop.schedule(timer, after: Self.patience)
    }

    private func call(_ key: EndUserKey, _ mints: OlderMints, _ now: StateTime) {
        guard let record = active[key]?.machine.record, let endUserID = record.endUserID, let revoker else { return }
        guard calls < RevocationService.maxCalls, loop.now >= pausedUntil else {
            if !ready.contains(key) { ready.append(key) }
            if loop.now < pausedUntil { scheduleWake(pausedUntil) }
            return
        }
        CrashPoint.reached(.beforeSweep)
        calls += 1
        active[key]?.isBusy = true
        active[key]?.machine.callBegins(mints: mints, now: now.steady)
        revoker.revoke(endUserID) { [weak self] result in self?.called(key, result, record, endUserID) }
    }

    private func called(_ key: EndUserKey, _ result: SweepResult, _ record: RevocationRecord, _ endUserID: String) {
        CrashPoint.reached(.afterSweep)
        calls -= 1
        active[key]?.isBusy = false
        events(.swept(result, id: record.id.text, endUserID: endUserID))
        defer { pump() }
        switch result {
        case .revoked(let count):
            active[key]?.machine.answered(count: count)
            advance(key)
        case .held(let duration):
            active[key]?.machine.failed()
            pausedUntil = max(pausedUntil, loop.now + duration)
            if !ready.contains(key) { ready.append(key) }
        case .failed(let reason, let retryAfter):
            active[key]?.machine.failed()
            let delay = Backoff.delay(
                attempts: record.attempts + 1, retryAfter: retryAfter, fraction: Double.random(in: 0...1))
            rest(key, until: clock.now().steady + delay, failure: reason)
        }
    }

    private func rest(_ key: EndUserKey, until: WallInstant, failure: String?) {
        guard let machine = active[key]?.machine else { return }
        let id = machine.record.id
        let count = machine.revokedCount
        active[key]?.isBusy = true
        store.update(
            key,
            { state, _ in
                guard state.work?.id == id else { return }
                state.rest(revokedCount: count, failure: failure, until: until)
            },
            completion: onLoop { worker, result in worker.rested(key, id, result, until, failure) })
    }

    private func rested(
        _ key: EndUserKey, _ id: RevocationID, _ result: Result<UserState, StateError>, _ until: WallInstant, _ failure: String?
    ) {
        active[key]?.isBusy = false
        guard case .success = result else {
            // Not even that can be written: it is kept in mind until it can.
            let timer = LoopTimer { [weak self] in self?.rest(key, until: until, failure: failure) }
            return loop.schedule(timer, after: Self.patience)
        }
        drop(key)
    }

    private func complete(_ key: EndUserKey, isLate: Bool) {
        guard let machine = active[key]?.machine else { return }
        let record = machine.record
        let count = machine.revokedCount
        let clock = clock
        active[key]?.isBusy = true
        CrashPoint.reached(.beforeCompletion)
        store.update(
            key,
            { state, _ in
                guard state.work?.id == record.id else { return }
                state.complete(generation: record.generation, revokedCount: count, isLate: isLate, now: clock.now().wall)
            },
            completion: onLoop { worker, result in worker.completed(key, record, result, isLate) })
    }

    private func completed(
        _ key: EndUserKey, _ before: RevocationRecord, _ result: Result<UserState, StateError>, _ isLate: Bool
    ) {
        active[key]?.isBusy = false
        guard case .success(let state) = result else { return again(key) }
        if let work = state.work, work.id == before.id, work.phase == .pending {
            active[key]?.machine.changed(work)
            return advance(key)
        }
        CrashPoint.reached(.afterCompletion)
        let record = state.ended.first { $0.id == before.id } ?? state.work ?? before
        if before.phase == .pending {
            let shown = before.endUserID
            events(.completed(record.status(scope: store.scope, showing: shown), endUserID: shown ?? "", isLate: false))
            for (number, waiter) in waiters where waiter.id == record.id { answer(number, record) }
        } else if let endUserID = before.endUserID {
            events(.completed(record.status(scope: store.scope), endUserID: endUserID, isLate: true))
        }
        drop(key)
    }

    private func drop(_ key: EndUserKey) {
        active[key] = nil
        ready.removeAll { $0 == key }
        awaitingMints.remove(key)
        store.release(key)
        count()
        pump()
    }

    // MARK: Time

    private func count() {
        guard !isCounting else { return }
        isCounting = true
        store.counts(
            completion: onLoop { worker, result in
                worker.isCounting = false
                if case .success(let counts) = result { worker.latest.withLock { $0 = counts } }
            })
    }

    private func beat() {
        guard !isStopped else { return }
        if !active.isEmpty { store.renew(Array(active.keys), now: clock.now().steady) }
        store.probe(completion: { _ in })
        count()
        // Another replica may have left work.
        pump()
        if keepDays > 0, lastForgotten.map({ loop.now - $0 > .seconds(3600) }) ?? true {
            lastForgotten = loop.now
            store.forget(olderThan: clock.now().wall + .seconds(-86_400 * Int64(keepDays)), completion: { _ in })
        }
        loop.schedule(heartbeatTimer, after: Self.heartbeat)
    }
}

extension Result where Failure == StateError {
    fileprivate var isTaken: Bool {
        if case .failure(.taken) = self { true } else { false }
    }
}
