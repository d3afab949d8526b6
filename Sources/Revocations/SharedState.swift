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
        var waitsForAOF: Bool
    }

    /// Names this process in leases and among mints.
    package let replica: String
    package let options: Options
    private let known = Lock<Known?>(nil)
    private let readable = Atomic<Bool>(false)
    private let appendsOnly = Atomic<Bool>(false)
    private let number = Atomic<UInt64>(0)

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
        appendsOnly.store(state.waitsForAOF, ordering: .relaxed)
        readable.store(true, ordering: .releasing)
    }

    func lose() { readable.store(false, ordering: .releasing) }

    func nextMint() -> [UInt8] { Array("\(replica):\(number.add(1, ordering: .relaxed).newValue)".utf8) }
}

/// Looks after a shared state on one loop: finds it at the start, reads `INFO` every minute, tries again every second while it cannot be used.
package final class SharedStateKeeper {
    private static let patience = Duration.seconds(1)
    private static let interval = Duration.seconds(60)
    private static let callTimeout = Duration.seconds(2)

    private let loop: EventLoop
    private let client: RedisClient
    private let state: SharedState
    private let address: String
    private let log: Log
    private var isStopped = false
    /// Called after each look; the error is one that no waiting cures.
    private let report: (StateOpenError?) -> Void
    private lazy var timer = LoopTimer { [weak self] in self?.look() }
    private var lastReason = ""

    package init(
        loop: EventLoop, client: RedisClient, state: SharedState, address: String, log: Log,
        report: @escaping (StateOpenError?) -> Void
    ) {
        self.address = address
        self.loop = loop
        self.client = client
        self.state = state
        self.log = log
        self.report = report
    }

    package func start() {
        client.onConnectionLost = { [weak self] in self?.soon() }
        look()
    }

    package func stop() {
        isStopped = true
        loop.cancel(timer)
    }

    private func soon() {
        guard !isStopped else { return }
        loop.cancel(timer)
        loop.schedule(timer, after: .milliseconds(50))
    }

    private func look() {
        guard !isStopped else { return }
        let secret = Hex.encode(SystemRandom.bytes(32))
        let mayCreate = !state.options.mustExist && state.remembered == nil
        client.send(
            [RedisCommand(words: ["INFO"]), RedisCommand(words: ["HGETALL", "january-endpoint:identity"])],
            deadline: loop.now + Self.callTimeout
        ) { [weak self] result in
            guard let self else { return }
            guard case .success(let replies) = result, replies.count == 2, let info = replies[0].text,
                let pairs = replies[1].array
            else {
                if case .success(let replies) = result, let error = replies.compactMap(\.error).first {
                    return self.unusable("\(error.reason)")
                }
                if case .failure(let error) = result { return self.unusable("\(error.reason)") }
                return self.unusable("unexpected_reply")
            }
            guard self.accepts(info) else { return }
            self.open(secret, mayCreate, Self.dictionary(pairs), info)
        }
    }

    private static func dictionary(_ pairs: [RedisReply]) -> [String: String] {
        var values: [String: String] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            if let name = pairs[index].text, let value = pairs[index + 1].text { values[name] = value }
        }
        return values
    }

    private static func field(_ name: String, _ info: String) -> String? {
        for line in info.split(whereSeparator: \.isNewline) where line.hasPrefix(name + ":") {
            return String(line.dropFirst(name.count + 1))
        }
        return nil
    }

    /// A store that may throw fences away at any moment is none; one that forgets them with its memory is worth a warning.
    private func accepts(_ info: String) -> Bool {
        if let policy = Self.field("maxmemory_policy", info), policy.hasPrefix("allkeys-") {
            refuse("its maxmemory-policy is \(policy), which may throw fences away; set noeviction")
            return false
        }
        let appendsOnly = Self.field("aof_enabled", info) == "1"
        if !appendsOnly && state.options.isStrict {
            refuse("it has no append-only file and state_durability is strict; set appendonly yes")
            return false
        }
        if !appendsOnly && state.remembered == nil {
            log.write(
                .warning, "Redis keeps no append-only file: its restart loses fences and unfinished revocations",
                [LogField("redis", address)])
        }
        return true
    }

    private func open(_ secret: String, _ mayCreate: Bool, _ identity: [String: String], _ info: String) {
        let id = Hex.encode(SystemRandom.bytes(16))
        client.run(
            RedisStateScripts.open, keys: [RedisStateScripts.state],
            arguments: [Array(id.utf8), Array(secret.utf8), Array((mayCreate ? "1" : "0").utf8)],
            deadline: loop.now + Self.callTimeout
        ) { [weak self] result in
            guard let self else { return }
            guard case .success(let reply) = result, let parts = reply.array else {
                if case .failure(let error) = result { return self.unusable("\(error.reason)") }
                return self.unusable("unexpected_reply")
            }
            guard parts.first?.integer == 1, parts.count == 3, let storeID = parts[1].bytes, let key = parts[2].text else {
                if self.state.remembered == nil { return self.report(.missing(path: self.address)) }
                return self.unusable("store_lost")
            }
            if let known = self.state.remembered, known.storeID != storeID { return self.unusable("another_store") }
            let hash: EndUserHash
            if let configured = self.state.options.hashSecret {
                hash = EndUserHash(secret: configured)
            } else if let bytes = Hex.decode(Array(key.utf8)), !bytes.isEmpty {
                hash = EndUserHash(secret: Secret(bytes))
            } else {
                return self.unusable("no_hash_key")
            }
            self.check(identity, hash) {
                let appendsOnly = Self.field("aof_enabled", info) == "1"
                let version = Self.field("redis_version", info) ?? ""
                if self.state.remembered == nil && storeID == Array(id.utf8) {
                    self.log.write(
                        .warning, "the state in Redis is new: it holds no fences", [LogField("redis", self.address)])
                }
                self.state.use(
                    SharedState.Known(storeID: storeID, hash: hash, waitsForAOF: appendsOnly && Self.hasWaitAOF(version)))
                if !self.lastReason.isEmpty {
                    self.log.write(.info, "the state can be used again", [LogField("redis", self.address)])
                }
                self.lastReason = ""
                self.report(nil)
                self.loop.schedule(self.timer, after: Self.interval)
            }
        }
    }

    /// WAITAOF came with Redis 7.2.
    private static func hasWaitAOF(_ version: String) -> Bool {
        let numbers = version.split(separator: ".").prefix(2).compactMap { Int($0) }
        guard numbers.count == 2 else { return false }
        return numbers[0] > 7 || (numbers[0] == 7 && numbers[1] >= 2)
    }

    private func check(_ recorded: [String: String], _ hash: EndUserHash, then: @escaping () -> Void) {
        var identity = state.options.identity
        identity["log.hash_secret_file"] = hash.fingerprint
        if !recorded.isEmpty {
            let changed = Set(recorded.keys).union(identity.keys).filter {
                !(recorded[$0] ?? "").utf8.elementsEqual((identity[$0] ?? "").utf8)
            }.sorted()
            if changed.isEmpty { return then() }
            if !state.options.acceptsNewIdentity { return report(.changed(keys: changed)) }
            log.write(
                .warning, "the end-user mapping has changed and was accepted: older fences may hold for nobody",
                [LogField("keys", changed.joined(separator: ", "))])
        }
        var command = RedisCommand(words: ["HSET", "january-endpoint:identity"])
        for (name, value) in identity.sorted(by: { $0.key < $1.key }) {
            command.append(name)
            command.append(value)
        }
        client.send(command, deadline: loop.now + Self.callTimeout) { [weak self] result in
            switch result {
            case .success: then()
            case .failure(let error): self?.unusable("\(error.reason)")
            }
        }
    }

    private func unusable(_ reason: String) {
        state.lose()
        if reason != lastReason {
            lastReason = reason
            log.write(
                .error, "the state in Redis cannot be used", [LogField("redis", address), LogField("reason", reason)])
        }
        loop.cancel(timer)
        if !isStopped { loop.schedule(timer, after: Self.patience) }
    }

    /// At the start that ends it; later minting stops until it is put right.
    private func refuse(_ text: String) {
        let isFirst = state.remembered == nil
        unusable(text)
        if isFirst { report(.unusable(path: address, reason: text)) }
    }
}
