import EventLoop
import Primitives
import Redis
import Synchronization
import Telemetry

/// What all loops know about a shared state: whether it can be used, and under which ID and key.
///
/// The store's ID is remembered from the first time it was seen: a server that comes back empty, or another one, is unreadable, for
/// whatever it says about fences is wrong.
package final class SharedState: Sendable {
    package struct Options: Sendable {
        /// `state_must_exist`
        package var mustExist = false
        /// `state_durability: strict`
        package var isStrict = false
        package var identity: [String: String] = [:]
        package var acceptsNewIdentity = false
        package var hashSecret: Secret?
        /// `revocations.when_unreadable: allow`
        package var allowsWhenUnreadable = false
        package init() {}
    }

    struct Known: Sendable {
        var storeID: [UInt8]
        var hash: EndUserHash
        /// The server has an append-only file.
        var appendsOnly: Bool
        /// And can be asked to say when something is in it.
        var waitsForAOF: Bool
    }

    /// Names this process in leases and among mints.
    package let replica: String
    package let options: Options
    private let known = Lock<Known?>(nil)
    private let readable = Atomic<Bool>(false)
    private let appendsOnly = Atomic<Bool>(false)
    private let number = Atomic<UInt64>(0)
    private let point = Lock<StateClock.Point?>(nil)

    package init(_ options: Options) {
        self.options = options
        replica = Hex.encode(SystemRandom.bytes(8))
    }

    /// `nil` while it cannot be used.
    var current: Known? { readable.load(ordering: .acquiring) ? known.withLock { $0 } : nil }
    var remembered: Known? { known.withLock { $0 } }
    package var isReadable: Bool { readable.load(ordering: .relaxed) }
    /// How this state knows an end user; `nil` before it has been read.
    package func key(of endUserID: String) -> EndUserKey? {
        known.withLock { $0 }.flatMap { EndUserKey(endUserID, under: $0.hash) }
    }

    /// Of logs and records, too, where no key is configured.
    package var hash: EndUserHash? { known.withLock { $0?.hash } }

    /// Redis writes every change to its append-only file.
    package var hasAppendOnlyFile: Bool { appendsOnly.load(ordering: .relaxed) }
    package var wasEverReadable: Bool { known.withLock { $0 != nil } }

    func use(_ state: Known) {
        known.withLock { $0 = state }
        appendsOnly.store(state.appendsOnly, ordering: .relaxed)
        readable.store(true, ordering: .releasing)
    }

    func lose() { readable.store(false, ordering: .releasing) }

    /// Redis's clock as it was when the state was found, or found again. It is not taken anew while all goes well: work that is due must not
    /// move when somebody sets the clock of that machine.
    package var clock: StateClock.Point? { point.withLock { $0 } }
    func found(at point: StateClock.Point) { self.point.withLock { $0 = point } }

    func nextMint() -> [UInt8] { Array("\(replica):\(number.add(1, ordering: .relaxed).newValue)".utf8) }
}

extension SharedState {
    /// Asks for the key under which this state hashes end users while no `log.hash_secret_file` is configured. For commands: nothing is changed,
    /// and there need be no server.
    ///
    /// - Parameter completion: on the client's loop; `nil` where there is no state.
    package static func readHashKey(
        _ client: RedisClient, deadline: MonotonicInstant, completion: @escaping (Result<Secret?, RedisError>) -> Void
    ) {
        let command = RedisCommand("HGET", [RedisStateScripts.store, Array("hash_key".utf8)])
        client.send(command, deadline: deadline) { result in
            completion(result.map { $0.bytes.flatMap { Hex.decode($0) }.map { Secret($0) } })
        }
    }
}
