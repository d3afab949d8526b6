import EventLoop
import Primitives
import Redis
import Telemetry

/// Looks after a shared state on one loop: finds it at the start, reads `INFO` every minute and when somebody has got no answer, tries again every second while it
/// cannot be used.
///
/// What it finds out is one of three: the state can be used, it cannot be used now (minting stops, and it looks again), or nobody may use it as it
/// is, which ends the start and later is the same as the second.
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
    private var isLooking = false
    private var nextLook = MonotonicInstant(nanoseconds: .min)
    /// Called after each look that came to a result; the error is one that no waiting cures.
    private let report: (StateOpenError?) -> Void
    private lazy var timer = LoopTimer { [weak self] in self?.tick() }
    private var lastReason = ""
    private var warnings: Set<String> = []

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
        client.onConnectionLost = { [weak self] in self?.nextLook = MonotonicInstant(nanoseconds: .min) }
        tick()
    }

    package func stop() {
        isStopped = true
        loop.cancel(timer)
    }

    private func tick() {
        guard !isStopped else { return }
        if !isLooking, !state.isReadable || loop.now >= nextLook || state.takeDoubt() { look() }
        loop.schedule(timer, after: Self.patience)
    }

    // MARK: One look

    private func look() {
        isLooking = true
        client.send(
            [RedisCommand(words: ["INFO"]), RedisCommand(words: ["TIME"])], deadline: loop.now + Self.callTimeout
        ) { [weak self] result in
            guard let self else { return }
            switch result {
            case .failure(let error): unusable("\(error.reason)")
            case .success(let replies):
                if let error = replies.compactMap(\.error).first { return unusable("\(error.reason)") }
                guard replies.count == 2, let info = replies[0].text.map(RedisInfo.init), let time = Self.instant(replies[1])
                else { return unusable("unexpected_reply") }
                // The reply's way here makes it a little late: what is due is done later, never sooner.
                let point = (wall: time, monotonic: loop.time.monotonic())
                if accepts(info) { open(info, point) }
            }
        }
    }

    private static func instant(_ reply: RedisReply) -> WallInstant? {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].text.flatMap({ Int64($0) }),
            let microseconds = parts[1].text.flatMap({ Int64($0) }), (0..<9_000_000_000).contains(seconds)
        else { return nil }
        return WallInstant(nanosecondsSinceEpoch: seconds * 1_000_000_000 + microseconds * 1000)
    }

    /// A store that may throw fences away at any moment is none; one that forgets them with its memory is worth a warning.
    private func accepts(_ info: RedisInfo) -> Bool {
        if info.evicts("allkeys-") {
            refuse("its maxmemory-policy is \(info.evictionPolicy), which may throw fences away; set noeviction")
            return false
        }
        if !info.appendsOnly && state.options.isStrict {
            refuse("it has no append-only file and state_durability is strict; set appendonly yes")
            return false
        }
        guard info.isPrimary else {
            unusable("read_only")
            return false
        }
        warn("Redis keeps no append-only file: its restart loses fences and unfinished revocations", if: !info.appendsOnly)
        warn(
            "Redis may throw away which mints are under way when its memory is full; set maxmemory-policy noeviction",
            if: info.evicts("volatile-"))
        return true
    }

    /// Once, until it has been otherwise.
    private func warn(_ message: StaticString, if condition: Bool) {
        guard condition else {
            warnings.remove("\(message)")
            return
        }
        if warnings.insert("\(message)").inserted { log.write(.warning, message, [LogField("redis", address)]) }
    }

    private func open(_ info: RedisInfo, _ point: StateClock.Point) {
        let id = Array(Hex.encode(SystemRandom.bytes(16)).utf8)
        let mayCreate = !state.options.mustExist && state.remembered == nil
        client.run(
            RedisStateScripts.open, keys: [RedisStateScripts.store],
            arguments: [id, Array(Hex.encode(SystemRandom.bytes(32)).utf8), [UInt8(ascii: mayCreate ? "1" : "0")]],
            deadline: loop.now + Self.callTimeout
        ) { [weak self] result in
            guard let self else { return }
            guard case .success(let reply) = result, let parts = reply.array else {
                if case .failure(let error) = result { return unusable("\(error.reason)") }
                return unusable("unexpected_reply")
            }
            guard parts.first?.integer == 1, parts.count == 3, let storeID = parts[1].bytes, let key = parts[2].text else {
                unusable("store_lost")
                if state.remembered == nil { report(.missing(path: address)) }
                return
            }
            if let known = state.remembered, known.storeID != storeID { return unusable("another_store") }
            let hash: EndUserHash
            if let configured = state.options.hashSecret {
                hash = EndUserHash(secret: configured)
            } else if let bytes = Hex.decode(Array(key.utf8)), !bytes.isEmpty {
                hash = EndUserHash(secret: Secret(bytes))
            } else {
                return unusable("no_hash_key")
            }
            let found = SharedState.Known(
                storeID: storeID, hash: hash, appendsOnly: info.appendsOnly,
                waitsForAOF: info.appendsOnly && info.version >= RedisInfo.firstWithWaitAOF)
            identify(found, isNew: storeID == id, point)
        }
    }

    private func identify(_ found: SharedState.Known, isNew: Bool, _ point: StateClock.Point) {
        var identity = state.options.identity
        identity["log.hash_secret_file"] = found.hash.fingerprint
        let pairs = identity.sorted { $0.key < $1.key }.flatMap { [Array($0.key.utf8), Array($0.value.utf8)] }
        client.run(
            RedisStateScripts.identify, keys: [RedisStateScripts.store, RedisStateScripts.identity],
            arguments: [found.storeID, [UInt8(ascii: state.options.acceptsNewIdentity ? "1" : "0")]] + pairs,
            deadline: loop.now + Self.callTimeout
        ) { [weak self] result in
            guard let self else { return }
            guard case .success(let reply) = result, let parts = reply.array, let verdict = parts.first?.integer else {
                if case .failure(let error) = result { return unusable("\(error.reason)") }
                return unusable("unexpected_reply")
            }
            let changed = parts.dropFirst().compactMap(\.text).sorted()
            switch verdict {
            case 0: use(found, isNew: isNew, accepted: changed, point)
            case 1:
                // Another replica was started with another mapping: what it fences is fenced for nobody here.
                unusable("another_mapping")
                report(.changed(keys: changed))
            default: unusable("another_store")
            }
        }
    }

    // MARK: What came of it

    private func use(_ found: SharedState.Known, isNew: Bool, accepted: [String], _ point: StateClock.Point) {
        isLooking = false
        nextLook = loop.now + Self.interval
        let address = LogField("redis", address)
        if isNew { log.write(.warning, "the state in Redis is new: it holds no fences", [address]) }
        if !accepted.isEmpty {
            log.write(
                .warning, "the end-user mapping has changed and was accepted: older fences may hold for nobody",
                [LogField("keys", accepted.joined(separator: ", "))])
        }
        if !lastReason.isEmpty { log.write(.info, "the state can be used again", [address]) }
        lastReason = ""
        if !state.isReadable { state.found(at: point) }
        state.use(found)
        report(nil)
    }

    private func unusable(_ reason: String) {
        isLooking = false
        state.lose()
        guard reason != lastReason else { return }
        lastReason = reason
        log.write(.error, "the state in Redis cannot be used", [LogField("redis", address), LogField("reason", reason)])
    }

    /// At the start that ends it; later minting stops until it is put right.
    private func refuse(_ text: String) {
        let isFirst = state.remembered == nil
        unusable(text)
        if isFirst { report(.unusable(path: address, reason: text)) }
    }
}
