import EventLoop
import Primitives
import Redis
import TLS

/// Whether Redis of the rate limits answers, for whoever asks once.
package enum RedisProbe {
    private static let limit = Duration.seconds(3)

    /// - Parameter completion: once, on the loop or before this returns, with the bounded reason of a failure. Not called, and false
    ///   returned, where there is no Redis to ask.
    package static func ask(
        _ config: RootConfig, on loop: EventLoop, time: any TimeSource, completion: @escaping @Sendable (String?) -> Void
    ) -> Bool {
        guard let redis = config.rateLimits.store.redis else { return false }
        do throws(TLSError) {
            let service = try RedisService(redis, resolver: Resolver(time: time))
            loop.execute {
                let client = RedisClient(loop: loop, service: service)
                // One of the commands that the server itself needs.
                client.send(RedisCommand("TIME"), deadline: loop.now + limit) { result in
                    switch result {
                    case .success: completion(nil)
                    case .failure(let error): completion(error.reason.description)
                    }
                    client.stop()
                }
            }
        } catch {
            completion(error.reason.description)
        }
        return true
    }
}
