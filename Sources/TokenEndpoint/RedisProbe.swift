import EventLoop
import Primitives
import Redis
import Revocations
import TLS

/// Redis, for whoever asks once.
package enum RedisProbe {
    private static let limit = Duration.seconds(3)

    /// Whether it lets us in and answers.
    ///
    /// - Parameter completion: once, on the loop or before this returns, with the bounded reason of a failure.
    package static func ask(
        _ redis: RedisConfig, on loop: EventLoop, resolver: Resolver, completion: @escaping @Sendable (String?) -> Void
    ) {
        connect(redis, on: loop, resolver: resolver) { client, loop in
            // One of the commands that the server itself needs.
            client.send(RedisCommand("TIME"), deadline: loop.now + limit) { result in
                switch result {
                case .success: completion(nil)
                case .failure(let error): completion(error.reason.description)
                }
                client.stop()
            }
        } failed: {
            completion($0)
        }
    }

    /// What there is to know about it before it holds a state.
    ///
    /// - Parameter completion: as above.
    package static func inspect(
        _ redis: RedisConfig, on loop: EventLoop, resolver: Resolver,
        completion: @escaping @Sendable (Result<RedisInfo, Refusal>) -> Void
    ) {
        connect(redis, on: loop, resolver: resolver) { client, loop in
            SharedState.inspect(client, deadline: loop.now + limit) { result in
                completion(result.mapError { Refusal(reason: $0.reason.description) })
                client.stop()
            }
        } failed: {
            completion(.failure(Refusal(reason: $0)))
        }
    }

    /// The bounded reason of a failure.
    package struct Refusal: Error, Equatable, Sendable { package let reason: String }

    private static func connect(
        _ redis: RedisConfig, on loop: EventLoop, resolver: Resolver,
        then use: @escaping @Sendable (RedisClient, EventLoop) -> Void, failed: (String) -> Void
    ) {
        do throws(TLSError) {
            let service = try RedisService(redis, resolver: resolver)
            loop.execute { use(RedisClient(loop: loop, service: service), loop) }
        } catch {
            failed(error.reason.description)
        }
    }
}
