import EventLoop
import Primitives
import Redis

/// What `INFO` says that matters for a shared state.
package struct RedisInfo: Sendable, Equatable {
    /// Major and minor.
    package struct Version: Sendable, Equatable, Comparable, CustomStringConvertible {
        package let major: Int
        package let minor: Int
        package static func < (left: Self, right: Self) -> Bool { (left.major, left.minor) < (right.major, right.minor) }
        package var description: String { "\(major).\(minor)" }
    }

    /// The scripts of the state need it.
    package static let firstForState = Version(major: 6, minor: 2)
    /// WAITAOF came with it.
    package static let firstWithWaitAOF = Version(major: 7, minor: 2)

    package let version: Version
    package let appendsOnly: Bool
    /// Empty where it is not said.
    package let evictionPolicy: String
    package let isPrimary: Bool

    package init(_ text: String) {
        var fields: [Substring: Substring] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            let pair = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            if pair.count == 2 { fields[pair[0]] = pair[1] }
        }
        let numbers = (fields["redis_version"] ?? "").split(separator: ".").compactMap { Int($0) }
        version = Version(major: numbers.first ?? 0, minor: numbers.count > 1 ? numbers[1] : 0)
        appendsOnly = fields["aof_enabled"] == "1"
        evictionPolicy = String(fields["maxmemory_policy"] ?? "")
        isPrimary = (fields["role"] ?? "master") == "master"
    }

    func evicts(_ prefix: String) -> Bool { evictionPolicy.hasPrefix(prefix) }

    /// Fences may be thrown away when its memory is full.
    package var evictsFences: Bool { evicts("allkeys-") }
    /// Which mints are under way may be.
    package var evictsMints: Bool { evicts("volatile-") }
}

extension SharedState {
    /// A key of its own, gone at once: whether scripts may run and write.
    private static let trial = RedisScript(
        """
        redis.call('SET', KEYS[1], '1', 'PX', 1000)
        return redis.call('DEL', KEYS[1])
        """)

    /// Looks at a server that is to hold a state, for commands: nothing stays changed, and there need be no state yet.
    ///
    /// - Parameter completion: on the client's loop.
    package static func inspect(
        _ client: RedisClient, deadline: MonotonicInstant, completion: @escaping (Result<RedisInfo, RedisError>) -> Void
    ) {
        client.send(RedisCommand(words: ["INFO"]), deadline: deadline) { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(let reply):
                guard let info = reply.text.map(RedisInfo.init) else { return completion(.failure(.unexpectedReply)) }
                // A replica refuses to write, which is said of it anyway.
                guard info.isPrimary else { return completion(.success(info)) }
                let key = RedisStateScripts.key("doctor:" + Hex.encode(SystemRandom.bytes(8)))
                client.run(trial, keys: [key], arguments: [], deadline: deadline) { completion($0.map { _ in info }) }
            }
        }
    }
}
