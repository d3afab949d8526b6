import EventLoop
import Primitives
import RateLimiting
import Redis
import TLS
import Telemetry

/// Rate limits that replicas share: what the stores of all loops have in common. Absent where every process counts for itself.
struct SharedLimits: Sendable {
    private let service: RedisService
    let health: LimiterHealth
    private let account: [UInt8]

    /// - Returns: nil with `rate_limits.store: memory`.
    init?(
        _ config: RootConfig, resolver: Resolver, log: Log, metrics: Metrics, time: any TimeSource
    ) throws(TokenEndpoint.StartError) {
        guard let redis = config.rateLimits.store.redis else { return nil }
        do throws(TLSError) {
            service = try RedisService(redis, resolver: resolver)
        } catch {
            throw .tls(error)
        }
        health = LimiterHealth(address: redis.url.address, log: log, metrics: metrics, time: time)
        account = SharedLimitSecret.account(apiKey: config.january.apiKey.secret)
    }

    /// Cells have the same names in every replica, or names of this process's own.
    static func keys(_ config: RootConfig) -> LimitKeyMaker {
        guard config.rateLimits.store.redis != nil else { return LimitKeyMaker() }
        return LimitKeyMaker(
            shared: SharedLimitSecret.make(hashSecret: config.log.hashSecret?.secret, apiKey: config.january.apiKey.secret))
    }

    /// Whether a reload needs other stores: another Redis, or a key that cells are named after. Limits in memory survive every reload.
    static func differ(_ old: RootConfig, _ new: RootConfig) -> Bool {
        switch (old.rateLimits.store.redis, new.rateLimits.store.redis) {
        case (nil, nil): return false
        case (nil, _?), (_?, nil): return true
        case (let before?, let after?): return !after.isSamePlace(as: before) || old.january.apiKey != new.january.apiKey
        }
    }

    /// For a reload: another user, password or authority at the same place.
    func replace(_ access: RedisAccess) { service.replace(access) }

    /// The store of one loop, which begins to connect. Called on the loop.
    func makeStore(on loop: EventLoop, _ shared: SharedParts) -> RedisLimitStore {
        let store = RedisLimitStore(
            loop: loop, client: RedisClient(loop: loop, service: service), fallback: shared.localLimits, health: health,
            account: account)
        store.onHold = { [breaker = shared.mintBreaker] in breaker.hold(for: $0, now: loop.now) }
        store.start()
        return store
    }
}
