import Configuration
import Digests
import Primitives
import Redis

/// `rate_limits.store` and the keys beside it.
package enum LimitStoreConfig: Sendable, Equatable {
    /// `memory`: of each process alone.
    case memory
    /// `redis://…` or `rediss://…`: of all replicas.
    case redis(RedisConfig)

    package var redis: RedisConfig? { if case .redis(let config) = self { config } else { nil } }

    private static let keys = RedisConfig.Keys(url: "store")

    /// - Parameter section: `rate_limits`.
    package static func read(_ section: ConfigSection) -> LimitStoreConfig {
        let text = section.string("store", default: "memory") ?? "memory"
        let isURL = RedisConfig.isURL(text)
        if !isURL && text != "memory" { section.invalid("store", "must be memory, or a URL such as redis://127.0.0.1:6379/1") }
        guard let config = RedisConfig.read(section, keys, text: isURL ? text : nil) else { return .memory }
        config.checkCertificates(section, keys)
        return .redis(config)
    }
}

/// What makes the keys of cells that replicas share: the same in every replica, and known to nobody else.
package enum SharedLimitSecret {
    private static let purpose = Array("january-endpoint keys of shared limits".utf8)

    /// - Parameters:
    ///   - hashSecret: `log.hash_secret_file`; then an end user's cell has the name that `hash-id` prints.
    ///   - apiKey: the first one, which every replica has.
    package static func make(hashSecret: Secret?, apiKey: Secret) -> Secret {
        hashSecret ?? Secret(HMACKey(.sha256, key: apiKey).authenticate(purpose))
    }

    /// Tells January's accounts apart in a Redis that several use.
    package static func account(apiKey: Secret) -> [UInt8] {
        Array(HMACKey(.sha256, key: apiKey).authenticate(Array("january-endpoint account".utf8)).prefix(8))
    }
}
