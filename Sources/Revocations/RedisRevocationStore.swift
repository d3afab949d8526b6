import EventLoop
import Primitives
import Redis

/// Fences and revocations in a Redis that several replicas share. One user's state changes by comparing its version: who comes second reads
/// it again. Any thread; Redis is asked on one loop.
package final class RedisRevocationStore: RevocationStore {
    package let scope = FenceScope.shared
    /// Until then a replica has to say again that it works on something, or another takes over: within 15 s and the next heartbeat (5 s).
    private static let lease = Duration.seconds(15)
    private static let callTimeout = Duration.seconds(2)
    private static let maxTries = 20

    private let loop: EventLoop
    private let client: LoopBound<RedisClient>
    private let writes: LoopBound<DurableWrites>
    private let state: SharedState
    private let clock: StateClock

    /// - Parameters:
    ///   - client: of that loop.
    ///   - writers: of that loop, too, one connection each, for writes that wait for Redis's disk: no look may stand behind such a wait.
    package init(loop: EventLoop, client: RedisClient, writers: [RedisClient], state: SharedState, time: any TimeSource) {
        self.loop = loop
        self.client = LoopBound(client, on: loop)
        writes = LoopBound(DurableWrites(loop: loop, script: RedisStateScripts.write, clients: writers), on: loop)
        self.state = state
        clock = StateClock(time, shared: { state.clock })
    }

    private static func failure(_ error: RedisError) -> StateError { StateError(reason: "\(error.reason)") }

    /// Runs a script on the loop; the answer's first number has been compared with the store's.
    private func run(
        _ script: RedisScript, _ keys: [[UInt8]], _ arguments: [[UInt8]],
        completion: @escaping @Sendable (Result<[RedisReply], StateError>) -> Void
    ) {
        guard let known = state.current else { return completion(.failure(StateError(reason: "unreadable"))) }
        let (loop, client, state) = (loop, client, state)
        let call = Self.call(known, keys, arguments)
        loop.execute {
            client.value.run(
                script, keys: call.keys, arguments: call.arguments, deadline: loop.now + Self.callTimeout
            ) { result in
                completion(result.mapError(Self.failure).flatMap { Self.parts($0, state) })
            }
        }
    }

    /// The same for the script that writes: acknowledged when it is on the disk of the server itself, where that can be asked.
    private func runWrite(
        _ keys: [[UInt8]], _ arguments: [[UInt8]], completion: @escaping @Sendable (Result<[RedisReply], StateError>) -> Void
    ) {
        guard let known = state.current, known.waitsForAOF else {
            return run(RedisStateScripts.write, keys, arguments, completion: completion)
        }
        let (writes, state) = (writes, state)
        let call = Self.call(known, keys, arguments)
        loop.execute {
            writes.value.submit(call) { result in
                completion(
                    result.mapError(Self.failure).flatMap { reply, isOnDisk in
                        Self.parts(reply, state).flatMap { parts in
                            // What was not written need not be anywhere.
                            guard parts.first?.integer == 0 && !isOnDisk else { return .success(parts) }
                            return .failure(StateError(reason: "not_durable"))
                        }
                    })
            }
        }
    }

    private static func call(_ known: SharedState.Known, _ keys: [[UInt8]], _ arguments: [[UInt8]]) -> RedisScriptCall {
        RedisScriptCall(keys: [RedisStateScripts.store] + keys, arguments: [known.storeID] + arguments)
    }

    private static func parts(_ reply: RedisReply, _ state: SharedState) -> Result<[RedisReply], StateError> {
        guard let parts = reply.array, let first = parts.first?.integer else {
            return .failure(StateError(reason: "unexpected_reply"))
        }
        guard first != -1 else {
            state.lose()
            return .failure(StateError(reason: "another_store"))
        }
        return .success(parts)
    }

    private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
    private var me: [UInt8] { Self.bytes(state.replica) }
    private static var leaseMilliseconds: [UInt8] { bytes(String(lease.components.seconds * 1000)) }

    // MARK: One user

    private struct Read: Sendable {
        let version: [UInt8]
        let state: UserState
        let isTaken: Bool
    }

    private func read(_ key: EndUserKey, _ completion: @escaping @Sendable (Result<Read, StateError>) -> Void) {
        let replica = state.replica
        run(RedisStateScripts.read, [RedisStateScripts.user(key), RedisStateScripts.lease(key)], []) { result in
            completion(
                result.flatMap { parts in
                    guard parts.count == 6, let version = parts[1].bytes, let block = parts[2].text, let since = parts[3].text,
                        let work = parts[4].bytes, let lease = parts[5].text
                    else { return .failure(StateError(reason: "unexpected_reply")) }
                    var user = UserState()
                    if !block.isEmpty {
                        // What is not understood is taken for the strictest.
                        user.fence = Fence(block: RevocationBlock(rawValue: block) ?? .user, since: Self.instant(since))
                    }
                    if !work.isEmpty {
                        guard let record = RedisRecordText.decode(work) else {
                            return .failure(StateError(reason: "unexpected_record"))
                        }
                        user.work = record
                    }
                    return .success(Read(version: version, state: user, isTaken: !lease.isEmpty && lease != replica))
                })
        }
    }

    /// Of seconds with a fraction, as scripts compare them.
    private static func instant(_ text: String) -> WallInstant {
        WallInstant(nanosecondsSinceEpoch: Int64(((Double(text) ?? 0) * 1e9).rounded()))
    }

    package func update(
        _ key: EndUserKey, _ change: @escaping @Sendable (inout UserState, Bool) -> Void,
        completion: @escaping Completion<UserState>
    ) {
        update(key, change, tries: 0, completion)
    }

    private func update(
        _ key: EndUserKey, _ change: @escaping @Sendable (inout UserState, Bool) -> Void, tries: Int,
        _ completion: @escaping Completion<UserState>
    ) {
        read(key) { [self] result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success(let old):
                var new = old.state
                change(&new, old.isTaken)
                let written = new
                write(key, old, written) { [self] result in
                    switch result {
                    case .failure(let error): completion(.failure(error))
                    case .success(true): completion(.success(written))
                    case .success(false) where tries < Self.maxTries: update(key, change, tries: tries + 1, completion)
                    case .success: completion(.failure(StateError(reason: "contended")))
                    }
                }
            }
        }
    }

    private func write(
        _ key: EndUserKey, _ old: Read, _ new: UserState, _ completion: @escaping @Sendable (Result<Bool, StateError>) -> Void
    ) {
        let records = new.ended + (new.work.map { [$0] } ?? [])
        let keys =
            [
                RedisStateScripts.user(key), RedisStateScripts.due, RedisStateScripts.pending, RedisStateScripts.fences,
                RedisStateScripts.list, RedisStateScripts.lease(key),
            ] + records.map { RedisStateScripts.revocation($0.id) }
        let texts: [String] =
            [
                key.text, new.fence?.block.rawValue ?? "", new.fence.map { RedisRecordText.seconds($0.since) } ?? "",
                new.isPending ? "1" : "0", new.work.map(RedisRecordText.encode) ?? "",
                new.work.map { RedisRecordText.milliseconds($0.nextAt) } ?? "",
                new.work?.id.text ?? "", state.replica, old.isTaken ? "1" : "0",
            ] + records.flatMap { [$0.id.text, RedisRecordText.encode($0)] }
        runWrite(keys, [old.version] + texts.map(Self.bytes)) { result in
            completion(result.map { $0.first?.integer == 0 })
        }
    }

    package func read(_ key: EndUserKey, completion: @escaping Completion<UserState>) {
        read(key) { completion($0.map(\.state)) }
    }

    // MARK: Work

    package func claim(
        limit: Int, now: WallInstant, except: Set<EndUserKey>, completion: @escaping Completion<DueWork>
    ) {
        let arguments = [
            Self.bytes(RedisRecordText.milliseconds(now)), Self.bytes(String(limit)), me, Self.leaseMilliseconds,
            Self.bytes(RedisStateScripts.prefix),
        ]
        run(RedisStateScripts.claim, [RedisStateScripts.due], arguments) { result in
            completion(
                result.map { parts in
                    let records = parts.dropFirst(2).compactMap { $0.bytes.flatMap(RedisRecordText.decode) }
                    let next = parts.count > 1 ? parts[1].text.flatMap { Double($0) } : nil
                    return DueWork(
                        records: records.filter { !except.contains($0.key) },
                        next: next.map { WallInstant(nanosecondsSinceEpoch: Int64($0) * 1_000_000) })
                })
        }
    }

    package func claim(_ key: EndUserKey, completion: @escaping Completion<Bool>) {
        run(RedisStateScripts.take, [RedisStateScripts.lease(key)], [me, Self.leaseMilliseconds]) { result in
            completion(result.map { $0.first?.integer == 1 })
        }
    }

    package func renew(_ keys: [EndUserKey], now: WallInstant) {
        run(
            RedisStateScripts.renew, [RedisStateScripts.due] + keys.map(RedisStateScripts.lease),
            [me, Self.leaseMilliseconds, Self.bytes(RedisRecordText.milliseconds(now))] + keys.map { Self.bytes($0.text) }
        ) { _ in }
    }

    package func release(_ key: EndUserKey) {
        run(RedisStateScripts.release, [RedisStateScripts.lease(key)], [me]) { _ in }
    }

    package func olderMints(of record: RevocationRecord, completion: @escaping Completion<OlderMints>) {
        let key = record.key
        let keys = [
            RedisStateScripts.user(key), RedisStateScripts.flight(key), RedisStateScripts.lease(key), RedisStateScripts.due,
        ]
        let arguments = [
            me, Self.leaseMilliseconds, Self.bytes(record.id.text), Self.bytes(RedisRecordText.milliseconds(clock.now().steady)),
            Self.bytes(key.text),
        ]
        run(RedisStateScripts.older, keys, arguments) { result in
            completion(
                result.flatMap { parts in
                    if parts.first?.integer == 2 { return .failure(.taken) }
                    return Self.counts(parts).map { OlderMints(areAwaiting: $0.awaiting > 0, areUnanswered: $0.unanswered > 0) }
                })
        }
    }

    package func mintCount(of endUserID: String, key: EndUserKey, completion: @escaping Completion<Int>) {
        mints(key) { completion($0.map { $0.awaiting + $0.unanswered }) }
    }

    private func mints(
        _ key: EndUserKey, _ completion: @escaping Completion<(awaiting: Int, unanswered: Int)>
    ) {
        run(RedisStateScripts.mints, [RedisStateScripts.user(key), RedisStateScripts.flight(key)], []) { result in
            completion(result.flatMap { Self.counts($0) })
        }
    }

    private static func counts(_ parts: [RedisReply]) -> Result<(awaiting: Int, unanswered: Int), StateError> {
        guard parts.count == 3, let awaiting = parts[1].integer, let unanswered = parts[2].integer else {
            return .failure(StateError(reason: "unexpected_reply"))
        }
        return .success((Int(awaiting), Int(unanswered)))
    }

    // MARK: Looking

    package func find(_ id: RevocationID, completion: @escaping Completion<RevocationRecord?>) {
        run(RedisStateScripts.find, [RedisStateScripts.revocation(id)], []) { result in
            completion(result.map { $0.last?.bytes.flatMap(RedisRecordText.decode) })
        }
    }

    package func page(
        pendingOnly: Bool, limit: Int, after: RevocationID?, completion: @escaping Completion<[RevocationRecord]?>
    ) {
        let arguments = [pendingOnly ? "1" : "0", String(limit + 1), after?.text ?? "", RedisStateScripts.prefix]
        run(RedisStateScripts.page, [RedisStateScripts.list, RedisStateScripts.pending], arguments.map(Self.bytes)) { result in
            completion(
                result.map { parts -> [RevocationRecord]? in
                    if parts.first?.integer == 1 { return nil }
                    return parts.dropFirst().compactMap { $0.bytes.flatMap(RedisRecordText.decode) }
                })
        }
    }

    package func counts(completion: @escaping Completion<StateCounts>) {
        let arguments = [Self.bytes(RedisStateScripts.prefix)]
        run(RedisStateScripts.counts, [RedisStateScripts.pending, RedisStateScripts.fences], arguments) { result in
            completion(
                result.map { parts in
                    StateCounts(
                        pending: parts.count > 1 ? Int(parts[1].integer ?? 0) : 0,
                        fences: parts.count > 2 ? Int(parts[2].integer ?? 0) : 0,
                        oldestPending: parts.last?.bytes.flatMap(RedisRecordText.decode)?.requestedAt)
                })
        }
    }

    /// What can be read can be written, or ``SharedStateKeeper`` has found out otherwise.
    package func probe(completion: @escaping Completion<Void>) { completion(.success(())) }

    package func forget(olderThan limit: WallInstant, completion: @escaping Completion<Void>) {
        let arguments = [RedisRecordText.seconds(limit), RedisRecordText.number(limit), RedisStateScripts.prefix]
        run(RedisStateScripts.forget, [RedisStateScripts.fences, RedisStateScripts.list], arguments.map(Self.bytes)) { [self] in
            switch $0 {
            case .failure(let error): completion(.failure(error))
            case .success(let parts) where parts.last?.integer ?? 0 > 0: forget(olderThan: limit, completion: completion)
            case .success: completion(.success(()))
            }
        }
    }
}
