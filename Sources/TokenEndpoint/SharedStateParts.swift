import EventLoop
import Primitives
import Redis
import Revocations
import TLS
import Telemetry

/// A state in Redis that replicas share: what all loops have in common.
struct SharedStateParts: Sendable {
    /// So long the start waits for the first word of Redis. Without one it goes on, not ready, and keeps trying.
    private static let patience = Duration.seconds(3)
    /// So many writes wait for Redis's disk at once, or so many batches of them.
    private static let writerConnections = 4

    let state: SharedState
    private let service: RedisService
    let store: RedisRevocationStore
    private let keeper: Lock<LoopBound<SharedStateKeeper>?>

    /// - Parameter loop: looks after the state, and carries what the store asks.
    static func open(
        _ redis: RedisConfig, _ config: RootConfig, recordHash: EndUserHash, on loop: EventLoop, resolver: Resolver, log: Log,
        time: any TimeSource
    ) throws(TokenEndpoint.StartError) -> SharedStateParts {
        var options = SharedState.Options()
        options.mustExist = config.stateRules.mustExist
        options.isStrict = config.stateRules.durability == .strict
        options.allowsWhenUnreadable = config.stateRules.whenUnreadable == .allow
        options.acceptsNewIdentity = config.stateRules.acceptsNewMapping
        options.hashSecret = config.log.hashSecret?.secret
        options.recordHash = recordHash
        options.identity = StateParts.identity(config)
        let state = SharedState(options)
        let service: RedisService
        do throws(TLSError) {
            service = try RedisService(redis, resolver: resolver)
        } catch {
            throw .tls(error)
        }
        let store = RedisRevocationStore(
            loop: loop, client: RedisClient(loop: loop, service: service),
            writers: (0..<writerConnections).map { _ in RedisClient(loop: loop, service: service) }, state: state, time: time)
        let first = Lock<Result<Void, StateOpenError>?>(nil)
        let address = redis.url.address
        // Connections of its own: behind writes that wait for the disk, a look at a sound Redis would come too late.
        let keeper = SharedStateKeeper(
            loop: loop, client: RedisClient(loop: loop, service: service), state: state, address: address, log: log
        ) { error in
            first.withLock { $0 = $0 ?? error.map { .failure($0) } ?? .success(()) }
        }
        let bound = LoopBound(keeper, on: loop)
        loop.execute { bound.value.start() }
        _ = Waiting.until(Self.patience, time: SystemTime()) { first.withLock { $0 != nil } }
        if case .failure(let error)? = first.withLock({ $0 }) { throw .state(error) }
        return SharedStateParts(state: state, service: service, store: store, keeper: Lock(bound))
    }

    /// For a reload: another user, password or authority at the same place.
    func replace(_ access: RedisAccess) { service.replace(access) }

    /// Redis's, as this process knows it.
    var clock: @Sendable () -> StateClock.Point? { { [state] in state.clock } }

    func makeGate(on loop: EventLoop) -> RedisMintGate {
        RedisMintGate(loop: loop, client: RedisClient(loop: loop, service: service), state: state)
    }

    func registerMetrics(_ metrics: Metrics, service: RevocationService) {
        metrics.gauges("revocations_pending", help: "Revocations that are not complete.") {
            [([], Double(service.counts.pending))]
        }
        metrics.gauges("fences", help: "End users with a fence.") { [([], Double(service.counts.fences))] }
        let state = state
        metrics.gauges("state_readable", help: "1: the shared state can be read.") { [([], state.isReadable ? 1 : 0)] }
        metrics.gauges("state_append_only", help: "1: Redis keeps an append-only file.") {
            [([], state.hasAppendOnlyFile ? 1 : 0)]
        }
    }
}

/// `hash-id` with a state in Redis.
package enum SharedStateKey {
    private static let patience = Duration.seconds(3)

    /// Blocks for 3 s at most.
    package static func read(_ redis: RedisConfig) throws(StateOpenError) -> Secret? {
        let address = redis.url.address
        let found = Lock<Result<Secret?, RedisError>?>(nil)
        let service: RedisService
        let loop: EventLoop
        do {
            service = try RedisService(redis, resolver: Resolver())
            loop = try EventLoop(name: "hash-id")
        } catch {
            throw .unusable(path: address, reason: "\(error)")
        }
        loop.start()
        loop.execute {
            let client = RedisClient(loop: loop, service: service)
            SharedState.readHashKey(client, deadline: loop.now + patience) { result in
                found.withLock { $0 = result }
                client.stop()
            }
        }
        _ = Waiting.until(patience + .seconds(1), time: SystemTime()) { found.withLock { $0 != nil } }
        loop.stop {}
        switch found.withLock({ $0 }) {
        case .success(let secret)?: return secret
        case .failure(let error)?: throw .unusable(path: address, reason: "\(error.reason)")
        case nil: throw .unusable(path: address, reason: "it does not answer")
        }
    }
}
