import EventLoop
import GCRA
import Primitives
import Redis
import TestSupport
import Testing

@testable import RateLimiting
@testable import Telemetry

/// Against a real server. The fallback is recognised by its decision.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled)) struct RedisLimitStoreTests {
    private static let rule = GCRARule(requests: 6, periodNanoseconds: 60_000_000_000, burst: 2)
    private static let session = Charge(.session, key: LimitKey(high: 1, low: 0xABC), rule: rule)
    private static let endUser = Charge(
        .endUser, key: LimitKey(high: 2, low: 0xDEF), rule: GCRARule(requests: 6, periodNanoseconds: 60_000_000_000, burst: 3))

    @Test func whatIsChargedToOneReplicaIsChargedToAll() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let replicas = [try StoreFixture(server.url), try StoreFixture(server.url)]
        for index in 0..<2 { #expect(try await replicas[index].charge([Self.session]) == .allowed) }
        for replica in replicas {
            guard case .limited(.session, let wait) = try await replica.charge([Self.session, Self.endUser]) else {
                return #expect(Bool(false))
            }
            #expect((5_000_000_000...10_000_000_000).contains(wait))
        }
        #expect(replicas.allSatisfy { $0.fallback.charged.isEmpty })
        // Nothing behind a refusal is charged.
        #expect(try await onOwnThread { try server.ask("KEYS *") }.contains("per_end_user") == false)
    }

    @Test func keysAreDigestsInOneSlotAndAlwaysEnd() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url)
        let charges = LimitName.allCases.prefix(4).map {
            Charge($0, key: LimitKey(high: 0x0123_4567_89AB_CDEF, low: 7), rule: Self.rule)
        }
        #expect(try await fixture.charge(Array(charges)) == .allowed)
        await fixture.onLoop { store, _ in store.hold(for: .seconds(20)) }
        try await eventually("held") { (try? server.ask("EXISTS january-endpoint:{limits}:hold:acc0")) == ":1\r\n" }
        let keys = try await onOwnThread { try server.ask("KEYS *") }.split(separator: "\r\n").filter {
            // The probe's cell is there for a millisecond.
            $0.hasPrefix("january-endpoint:") && !$0.hasSuffix(":probe")
        }
        #expect(
            Set(keys) == [
                "january-endpoint:{limits}:per_address:0123456789abcdef0000000000000007",
                "january-endpoint:{limits}:per_session:0123456789abcdef0000000000000007",
                "january-endpoint:{limits}:per_end_user:0123456789abcdef0000000000000007",
                "january-endpoint:{limits}:all:0123456789abcdef0000000000000007", "january-endpoint:{limits}:hold:acc0",
            ])
        for key in keys {
            let left = try await onOwnThread { try server.ask("PTTL \(key)") }
            #expect(Int(left.dropFirst().prefix { $0.isNumber }) ?? 0 > 0, "\(key): \(left)")
        }
        let slots = try await onOwnThread { try Set(keys.map { try server.ask("CLUSTER KEYSLOT \($0)") }) }
        #expect(slots.count == 1)
    }

    /// As the README says.
    @Test func aUserWithTheDocumentedRightsIsEnough() async throws {
        let server = try await onOwnThread { try RedisServer() }
        _ = try await onOwnThread {
            try server.ask(
                "ACL SETUSER limits on >hush ~january-endpoint:* +eval +evalsha +time +get +set +pttl +select")
        }
        let fixture = try StoreFixture("redis://limits:hush@127.0.0.1:\(server.port)/1")
        #expect(try await fixture.charge([Self.session, Self.endUser]) == .allowed)
        await fixture.onLoop { store, loop in
            store.penalize(Self.endUser, now: loop.now)
            store.hold(for: .seconds(20))
        }
        for _ in 0..<2 { _ = try await fixture.charge([Self.session]) }
        #expect(!fixture.health.isDegraded && fixture.fallback.charged.isEmpty)
        #expect(try await onOwnThread { try server.ask("ACL LOG") } == "*0\r\n")
    }

    @Test func aPenaltyAsksNobody() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url)
        await fixture.onLoop { store, loop in
            store.penalize(Charge(.session, key: Self.session.key, rule: Self.rule, cost: 2), now: loop.now)
        }
        guard case .limited(.session, _) = try await fixture.charge([Self.session]) else { return #expect(Bool(false)) }
        #expect(fixture.fallback.charged.isEmpty)
    }

    // MARK: When Redis fails

    @Test func whileRedisIsAwayTheFallbackDecidesAtOnceAndNothingIsChargedTwice() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url)
        #expect(try await fixture.charge([Self.endUser]) == .allowed)
        await onOwnThreadOrNot { server.kill() }
        try await eventually("noticed") { fixture.health.isDegraded }
        for _ in 0..<100 {
            // Inside the call.
            let decision = await fixture.onLoop { store, loop in
                store.charge(Charges(Self.endUser), now: loop.now, deadline: loop.now + .seconds(8)) { _ in }
            }
            #expect(decision == FallbackStore.decision)
        }
        #expect(fixture.fallback.charged.count == 100)
        _ = try await onOwnThread { try server.start() }
        try await eventually("back") { !fixture.health.isDegraded }
        // The cell went with the server; three at once are the burst, and none was charged by what happened meanwhile.
        for _ in 0..<3 { #expect(try await fixture.charge([Self.endUser]) == .allowed) }
        guard case .limited(.endUser, _) = try await fixture.charge([Self.endUser]) else { return #expect(Bool(false)) }
        #expect(fixture.fallback.charged.count == 100)
        #expect(fixture.log.lines.count == 2)
    }

    @Test func aServerThatIsNotThereAtTheStartIsFoundLater() async throws {
        let server = try await onOwnThread { try RedisServer() }
        await onOwnThreadOrNot { server.kill() }
        let fixture = try StoreFixture(server.url)
        try await eventually("noticed") { fixture.health.isDegraded }
        #expect(try await fixture.charge([Self.session]) == FallbackStore.decision)
        _ = try await onOwnThread { try server.start() }
        try await eventually("found") { !fixture.health.isDegraded }
        #expect(try await fixture.charge([Self.session]) == .allowed)
    }

    /// The connection stands and nothing answers: the first requests wait for less than 50 ms, the others not at all.
    @Test func aFrozenServerCostsTheFirstRequestsTheirWaitAndNobodyElse() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url, maxWait: .milliseconds(500))
        #expect(try await fixture.charge([Self.endUser]) == .allowed)
        server.freeze()
        #expect(try await fixture.charge([Self.endUser]) == FallbackStore.decision)
        #expect(fixture.health.isDegraded)
        let decision = await fixture.onLoop { store, loop in
            store.charge(Charges(Self.endUser), now: loop.now, deadline: loop.now + .seconds(8)) { _ in }
        }
        #expect(decision == FallbackStore.decision)
        server.thaw()
        try await eventually("back") { !fixture.health.isDegraded }
        // Charged before the freeze, and once by the request whose answer came too late.
        #expect(try await fixture.charge([Self.endUser]) == .allowed)
        guard case .limited(.endUser, _) = try await fixture.charge([Self.endUser]) else { return #expect(Bool(false)) }
    }

    @Test(arguments: [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "out_of_memory"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "read_only"),
        ("ACL SETUSER default -eval -evalsha", "ACL SETUSER default +eval +evalsha", "no_permission"),
        ("CONFIG SET requirepass hush", "CONFIG SET requirepass ", ""),
    ])
    func aServerThatRefusesIsAsGoodAsNone(breaking: String, mending: String, reason: String) async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url)
        #expect(try await fixture.charge([Self.session]) == .allowed)
        _ = try await onOwnThread { try server.ask(breaking) }
        // What holds for new connections only is met at the next one.
        if reason.isEmpty {
            server.login = "AUTH hush"
            _ = try await onOwnThread { try server.ask("CLIENT KILL TYPE normal") }
        }
        try await eventually("refused") { (try? await fixture.charge([Self.session])) == FallbackStore.decision }
        if !reason.isEmpty { #expect(fixture.log.text.contains("\"reason\":\"\(reason)\"")) }
        _ = try await onOwnThread { try server.ask(mending) }
        try await eventually("back") { !fixture.health.isDegraded }
        #expect(try await fixture.charge([Self.endUser]) == .allowed)
    }

    /// 50 ms are promised, and timers fire up to 5 ms late.
    @Test func aRequestWaitsNoLongerThanIsPromised() {
        #expect(RedisLimitStore.maxWait <= .milliseconds(45))
    }

    /// With the store that decides in the product: two limits of one person stay two while Redis is away.
    @Test func whileRedisIsAwayASignOutCostsNoMint() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url, fallback: MemoryLimitStore())
        #expect(try await fixture.charge([Self.endUser]) == .allowed)
        await onOwnThreadOrNot { server.kill() }
        try await eventually("noticed") { fixture.health.isDegraded }
        let signOut = Charge(
            .selfService, key: Self.endUser.key, rule: GCRARule(requests: 6, periodNanoseconds: 3_600_000_000_000, burst: 6))
        for _ in 0..<6 { #expect(try await fixture.charge([signOut]) == .allowed) }
        for _ in 0..<3 { #expect(try await fixture.charge([Self.endUser]) == .allowed) }
        guard case .limited(.endUser, let wait) = try await fixture.charge([Self.endUser]) else { return #expect(Bool(false)) }
        #expect(wait <= 10_000_000_000)
    }

    /// A request that no limit is for learns of it, too.
    @Test func aHoldReachesWhoHasNothingToCharge() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let (first, second) = (try StoreFixture(server.url), try StoreFixture(server.url))
        await first.onLoop { store, _ in store.hold(for: .seconds(20)) }
        try await eventually("held") { (try? server.ask("EXISTS january-endpoint:{limits}:hold:acc0")) == ":1\r\n" }
        try await eventually("told") {
            _ = try? await second.charge([])
            return second.holds.withLock { !$0.isEmpty }
        }
    }

    @Test func withoutTimeLeftNobodyIsAsked() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let fixture = try StoreFixture(server.url)
        #expect(try await fixture.charge([Self.session]) == .allowed)
        let decision = await fixture.onLoop { store, loop in
            store.charge(Charges(Self.session), now: loop.now, deadline: loop.now + .milliseconds(1)) { _ in }
        }
        #expect(decision == FallbackStore.decision)
        #expect(!fixture.health.isDegraded)
    }

    // MARK: January's hold

    @Test func aHoldReachesTheOtherReplicasWithTheirNextQuestion() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let first = try StoreFixture(server.url)
        let second = try StoreFixture(server.url)
        let otherAccount = try StoreFixture(server.url, account: [0xFF])
        await first.onLoop { store, _ in store.hold(for: .seconds(20)) }
        try await eventually("held") {
            (try? await second.charge([Self.endUser])) != nil && second.holds.withLock { !$0.isEmpty }
        }
        let hold = try #require(second.holds.withLock { $0.first })
        #expect((.seconds(10)...(.seconds(20))).contains(hold))
        // It is passed on once, and not to whoever said it.
        _ = try await second.charge([Self.session])
        _ = try await first.charge([Self.session])
        _ = try await otherAccount.charge([Self.session])
        #expect(second.holds.withLock { $0.count } == 1)
        #expect(first.holds.withLock { $0.isEmpty } && otherAccount.holds.withLock { $0.isEmpty })
    }
}

private func onOwnThreadOrNot(_ work: @escaping @Sendable () -> Void) async { try? await onOwnThread(work) }

/// Refuses everything in a way that Redis never does, and remembers it.
final class FallbackStore: LimitStore, Sendable {
    static let decision = LimitDecision.limited(.all, retryAfter: 4_711)
    private let seen = Lock<[Charge]>([])
    var charged: [Charge] { seen.withLock { $0 } }

    func charge(
        _ charges: Charges, now: MonotonicInstant, deadline: MonotonicInstant, completion: @escaping (LimitDecision) -> Void
    ) -> LimitDecision? {
        seen.withLock { seen in
            for index in 0..<charges.count { if let charge = charges[index] { seen.append(charge) } }
        }
        return Self.decision
    }

    func penalize(_ charge: Charge, now: MonotonicInstant) { seen.withLock { $0.append(charge) } }
}

/// One replica: a store on a loop of its own.
final class StoreFixture: Sendable {
    let loop: EventLoop
    /// What is asked where the test gives no other.
    let fallback = FallbackStore()
    let log = LogMemory()
    let health: LimiterHealth
    let holds = Lock<[Duration]>([])
    private let store: LoopBound<RedisLimitStore>

    /// - Parameter maxWait: longer than in the product, so that a busy machine is no failure of Redis.
    init(
        _ url: String, account: [UInt8] = [0xAC, 0xC0], maxWait: Duration = .seconds(10),
        fallback other: (any LimitStore & Sendable)? = nil
    ) throws {
        let loop = try EventLoop(name: "store-test")
        loop.start()
        self.loop = loop
        let service = try RedisService(RedisConfig(url: try RedisURL.parse(url)), resolver: Resolver())
        var settings = RedisClientSettings()
        settings.stallTimeout = .seconds(60)
        health = LimiterHealth(
            address: "redis", log: Log(time: SystemTime(), output: log), metrics: Metrics(), time: SystemTime())
        let store = RedisLimitStore(
            loop: loop, client: RedisClient(loop: loop, service: service, settings: settings), fallback: other ?? fallback,
            health: health,
            account: account,
            maxWait: maxWait)
        let holds = holds
        store.onHold = { hold in holds.withLock { $0.append(hold) } }
        let bound = LoopBound(store, on: loop)
        self.store = bound
        loop.execute { bound.value.start() }
    }

    deinit { loop.stop() }

    func onLoop<Value: Sendable>(_ work: @escaping @Sendable (RedisLimitStore, EventLoop) -> Value) async -> Value {
        let (store, loop) = (store, loop)
        return await loop.run { work(store.value, loop) }
    }

    func charge(_ list: [Charge]) async throws -> LimitDecision {
        let promise = Promise<LimitDecision>("decision")
        await onLoop { store, loop in
            var charges = Charges()
            for charge in list { charges.append(charge) }
            let decision = store.charge(charges, now: loop.now, deadline: loop.now + .seconds(8)) { promise.fulfil($0) }
            if let decision { promise.fulfil(decision) }
        }
        return try await promise.value()
    }
}
