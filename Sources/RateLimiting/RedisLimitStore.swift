import EventLoop
import GCRA
import Primitives
import Redis

/// Cells that several replicas share, in Redis; one per loop. When Redis fails, is slow or refuses, `fallback` decides at once, with what
/// this process has seen since.
///
/// * Key: `january-endpoint:{limits}:<limit>:<32 hexadecimal digits>`, the digits being the ``LimitKey``. The braces keep all cells in one
///   slot of a cluster, so that one script may use several.
/// * TTL: until the cell is idle. Bound: what one key each takes until then, Redis's `maxmemory`; when that is reached, `fallback` decides.
/// * A charge is sent once and never again: what Redis may have done it has done once. A request that was decided here because the answer
///   came too late is counted in both places, once in each.
package final class RedisLimitStore: LimitStore {
    /// For both questions of a request together. Timers fire up to 5 ms late, and 50 ms are the promise.
    package static let maxWait = Duration.milliseconds(40)
    /// With less than this left nobody is asked.
    static let minWait = Duration.milliseconds(2)
    private static let probeWait = Duration.seconds(1)
    /// January's hold is passed on when it ends so much later than what was passed on last.
    private static let holdStep = Duration.milliseconds(250)

    private let loop: EventLoop
    private let client: RedisClient
    private let fallback: any LimitStore
    private let shared: LimiterHealth
    private let holdKey: [UInt8]
    private let maxWait: Duration
    private var health: RedisHealth
    private var probeTimer: LoopTimer?
    private var probeIsUnderWay = false
    private var isStopped = false
    private var heldUntil = MonotonicInstant(nanoseconds: .min)
    private var arguments: [(charge: Charge, text: [UInt8])] = []

    /// January wants nothing for so long, as another replica has heard; called on the loop.
    package var onHold: ((Duration) -> Void)?

    /// - Parameters:
    ///   - account: tells January's accounts apart: a hold is of one account.
    ///   - fallback: tells the cells of two limits of one person apart, as ``MemoryLimitStore`` does.
    ///   - maxWait: only tests have another.
    package init(
        loop: EventLoop, client: RedisClient, fallback: any LimitStore, health: LimiterHealth, account: [UInt8],
        maxWait: Duration = RedisLimitStore.maxWait
    ) {
        self.maxWait = maxWait
        // A request may ask twice.
        self.health = RedisHealth(goodAnswer: maxWait / 2)
        self.loop = loop
        self.client = client
        self.fallback = fallback
        shared = health
        holdKey = Self.prefix + Array("hold:".utf8) + Array(Hex.encode(account).utf8)
        client.onConnectionLost = { [weak self] in self?.connectionLost() }
    }

    /// Connects, and finds out whether decisions can be had.
    package func start() { probe() }

    package func stop() {
        isStopped = true
        if let probeTimer { loop.cancel(probeTimer) }
        client.stop()
    }

    // MARK: LimitStore

    /// Asked with nothing to charge, too: the answer says whether January wants nothing.
    package func charge(
        _ charges: Charges, now: MonotonicInstant, deadline: MonotonicInstant, completion: @escaping (LimitDecision) -> Void
    ) -> LimitDecision? {
        let until = min(deadline, now + maxWait)
        guard health.isAnswering, now + Self.minWait <= until else {
            return local(charges, deadline: deadline, completion)
        }
        var keys = [holdKey]
        var texts: [[UInt8]] = []
        for index in 0..<charges.count {
            guard let charge = charges[index] else { break }
            keys.append(Self.key(charge))
            texts.append(argument(charge))
        }
        var decidedAtOnce: LimitDecision?
        var hasReturned = false
        client.run(LimitScript.charge, keys: keys, arguments: texts, deadline: until) { [self] result in
            // `nil`: the fallback asks somebody itself, and will complete.
            guard let decision = decision(result, charges, deadline, completion) else { return }
            if hasReturned { completion(decision) } else { decidedAtOnce = decision }
        }
        hasReturned = true
        return decidedAtOnce
    }

    package func penalize(_ charge: Charge, now: MonotonicInstant) {
        guard health.isAnswering else { return fallback.penalize(charge, now: now) }
        client.run(
            LimitScript.charge, keys: [holdKey, Self.key(charge)], arguments: [LimitScript.penalty(charge)],
            deadline: now + maxWait
        ) { [self] result in
            if case .failure(let error) = result {
                failed(error)
                fallback.penalize(charge, now: loop.now)
            }
        }
    }

    private func decision(
        _ result: Result<RedisReply, RedisError>, _ charges: Charges, _ deadline: MonotonicInstant,
        _ completion: @escaping (LimitDecision) -> Void
    ) -> LimitDecision? {
        switch result {
        case .success(let reply):
            guard let answer = LimitScriptReply(reply, chargeCount: charges.count) else {
                failed(.unexpectedReply)
                return local(charges, deadline: deadline, completion)
            }
            if let hold = answer.hold { isHeld(for: hold) }
            guard let refused = answer.refused, let charge = charges[refused.index] else { return .allowed }
            return .limited(charge.limit, retryAfter: refused.retryAfter)
        case .failure(let error):
            failed(error)
            return local(charges, deadline: deadline, completion)
        }
    }

    private func local(
        _ charges: Charges, deadline: MonotonicInstant, _ completion: @escaping (LimitDecision) -> Void
    ) -> LimitDecision? {
        shared.decidedAlone()
        return fallback.charge(charges, now: loop.now, deadline: deadline, completion: completion)
    }

    // MARK: January's own limit

    /// January has answered 429 to this process: the other replicas send nothing either until then.
    package func hold(for duration: Duration) {
        let milliseconds = duration.wholeNanoseconds / 1_000_000
        guard milliseconds > 0 else { return }
        heldUntil = max(heldUntil, loop.now + duration)
        guard health.isAnswering else { return }
        client.run(
            LimitScript.hold, keys: [holdKey], arguments: [Array(String(milliseconds).utf8)], deadline: loop.now + Self.probeWait
        ) { [self] result in
            if case .failure(let error) = result { failed(error) }
        }
    }

    private func isHeld(for duration: Duration) {
        let until = loop.now + duration
        guard until > heldUntil + Self.holdStep else { return }
        heldUntil = until
        onHold?(duration)
    }

    // MARK: Health

    private func failed(_ error: RedisError) {
        guard !isStopped, health.isAnswering else { return }
        let action = health.failed(error, now: loop.now)
        shared.began(error)
        act(action)
    }

    private func connectionLost() {
        // Perhaps it was closed for being idle: then the next request finds a new one.
        guard !isStopped, health.isAnswering else { return }
        loop.deferWork { [weak self] in self?.probe() }
    }

    private func act(_ action: RedisHealth.Action) {
        switch action {
        case .none: break
        case .recovered:
            shared.ended()
            // What the others could not be told meanwhile.
            if heldUntil > loop.now { hold(for: heldUntil - loop.now) }
        case .probe(let instant):
            let timer = probeTimer ?? LoopTimer { [weak self] in self?.probe() }
            probeTimer = timer
            loop.schedule(timer, at: instant)
        }
    }

    private func probe() {
        guard !isStopped, !probeIsUnderWay else { return }
        probeIsUnderWay = true
        let began = loop.now
        let charge = Charge(.all, key: LimitKey(high: 0, low: 0), rule: Self.probeRule)
        client.run(
            LimitScript.charge, keys: [holdKey, Self.prefix + Array("probe".utf8)], arguments: [LimitScript.argument(charge)],
            deadline: began + Self.probeWait
        ) { [self] result in
            probeIsUnderWay = false
            guard !isStopped else { return }
            var error: RedisError?
            switch result {
            case .failure(let failure): error = failure
            case .success(let reply): if LimitScriptReply(reply, chargeCount: 1) == nil { error = .unexpectedReply }
            }
            let wasAnswering = health.isAnswering
            let action = health.probed(error, began: began, now: loop.now)
            if let error { if wasAnswering { shared.began(error) } else { shared.goesOn(error) } }
            act(action)
        }
    }

    /// One that never refuses and leaves nothing behind for longer than a millisecond.
    private static let probeRule = GCRARule(requests: 1_000_000, periodNanoseconds: 1_000_000_000, burst: 1_000_000)

    // MARK: Keys

    static let prefix = Array("january-endpoint:{limits}:".utf8)
    private static let addressPrefix = prefix(of: .address)
    private static let sessionPrefix = prefix(of: .session)
    private static let endUserPrefix = prefix(of: .endUser)

    private static func prefix(of limit: LimitName) -> [UInt8] { prefix + Array(limit.rawValue.utf8) + [UInt8(ascii: ":")] }

    static func key(_ charge: Charge) -> [UInt8] {
        var key =
            switch charge.limit {
            case .address: addressPrefix
            case .session: sessionPrefix
            case .endUser: endUserPrefix
            case .all, .selfService: prefix(of: charge.limit)
            }
        key.reserveCapacity(key.count + 32)
        append(charge.key.high, to: &key)
        append(charge.key.low, to: &key)
        return key
    }

    private static func append(_ word: UInt64, to key: inout [UInt8]) {
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: word >> shift & 15)
            key.append(digit < 10 ? digit + UInt8(ascii: "0") : digit - 10 + UInt8(ascii: "a"))
        }
    }

    /// There are few rules, and each is asked for again and again.
    private func argument(_ charge: Charge) -> [UInt8] {
        for known in arguments where known.charge.rule == charge.rule && known.charge.cost == charge.cost { return known.text }
        let text = LimitScript.argument(charge)
        if arguments.count == 16 { arguments.removeFirst() }
        arguments.append((charge, text))
        return text
    }
}
