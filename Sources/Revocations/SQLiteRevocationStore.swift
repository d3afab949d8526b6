import EventLoop
import Primitives
import SQLite
import Synchronization

/// Fences and revocations in one SQLite file that this process owns. What is durable is put into ``FenceTable`` before anybody is told, so a
/// mint asks memory only.
package final class SQLiteRevocationStore: RevocationStore {
    package let scope = FenceScope.process
    private let state: SQLiteState
    private let mints: MintsInFlight
    private let time: any TimeSource
    /// Until then mints of the process before may still be committed at January.
    private let uncleanUntil: MonotonicInstant
    private let writable = Atomic<Bool>(true)

    /// Starts the state's thread.
    package init(_ state: SQLiteState, mints: MintsInFlight, time: any TimeSource) throws(SystemError) {
        self.state = state
        self.mints = mints
        self.time = time
        let now = time.monotonic()
        uncleanUntil = state.findings.wasUnclean ? now + RevocationRecord.lateDelay : now
        try state.thread.start()
    }

    package var fences: FenceTable { state.fences }
    /// The last write reached the disk.
    package var isWritable: Bool { writable.load(ordering: .relaxed) }

    private func write<Value: Sendable>(
        _ completion: @escaping Completion<Value>, durable: @escaping @Sendable (Value) -> Void = { _ in },
        _ body: @escaping @Sendable (SQLiteDatabase) throws(SQLiteError) -> Value
    ) {
        let result = Lock<Value?>(nil)
        CrashPoint.reached(.beforeWrite)
        state.thread.submit(
            .write(
                { database throws(SQLiteError) in
                    let value = try body(database)
                    result.withLock { $0 = value }
                    CrashPoint.reached(.beforeCommit)
                },
                done: { [self] error in
                    if let error {
                        // A full queue says nothing about the disk.
                        if error != .tooBusy { writable.store(false, ordering: .relaxed) }
                        return completion(.failure(StateError(reason: error.reason)))
                    }
                    CrashPoint.reached(.afterCommit)
                    writable.store(true, ordering: .relaxed)
                    guard let value = result.withLock({ $0 }) else { return completion(.failure(StateError(reason: "other"))) }
                    durable(value)
                    completion(.success(value))
                }))
    }

    private func read<Value: Sendable>(
        _ completion: @escaping Completion<Value>, _ body: @escaping @Sendable (SQLiteDatabase) throws(SQLiteError) -> Value
    ) {
        state.thread.submit(
            .read(
                { database in
                    do throws(SQLiteError) {
                        completion(.success(try body(database)))
                    } catch {
                        completion(.failure(StateError(reason: error.reason)))
                    }
                }, refused: { completion(.failure(StateError(reason: SQLiteError.tooBusy.reason))) }))
    }

    // MARK: One user

    package func update(
        _ key: EndUserKey, _ change: @escaping @Sendable (inout UserState, Bool) -> Void,
        completion: @escaping Completion<UserState>
    ) {
        write(
            completion,
            durable: { [state] user in state.fences.set(key, fence: user.fence, isPending: user.isPending) }
        ) { database throws(SQLiteError) in
            let old = try SQLiteSchema.read(key, database)
            var new = old
            change(&new, false)
            try SQLiteSchema.write(key, from: old, to: new, database)
            return new
        }
    }

    package func read(_ key: EndUserKey, completion: @escaping Completion<UserState>) {
        read(completion) { database throws(SQLiteError) in try SQLiteSchema.read(key, database) }
    }

    // MARK: Work

    package func claim(
        limit: Int, now: WallInstant, except: Set<EndUserKey>, completion: @escaping Completion<DueWork>
    ) {
        read(completion) { database throws(SQLiteError) in
            var due = DueWork(records: [], next: nil)
            try database.query(
                "SELECT \(SQLiteSchema.columns) FROM revocations WHERE phase < 2 ORDER BY next_at LIMIT ?",
                .integer(Int64(limit + except.count + 1))
            ) { row in
                guard let record = SQLiteSchema.record(row), !except.contains(record.key) else { return }
                if record.nextAt <= now && due.records.count < limit {
                    due.records.append(record)
                } else if due.next == nil {
                    due.next = record.nextAt
                }
            }
            return due
        }
    }

    // This process is the only one.
    package func claim(_ key: EndUserKey, completion: @escaping Completion<Bool>) { completion(.success(true)) }
    package func renew(_ keys: [EndUserKey], now: WallInstant) {}
    package func release(_ key: EndUserKey) {}

    package func olderMints(of record: RevocationRecord, completion: @escaping Completion<OlderMints>) {
        guard let endUserID = record.endUserID else { return completion(.success(OlderMints())) }
        // In this order: one that gives up in between is unanswered before it is no longer awaiting. While the fence stands or the work
        // is pending nobody enters and stays, so all who are in are older.
        let areAwaiting = mints.hasEntries(of: endUserID, through: .max)
        let now = time.monotonic()
        let areUnanswered = mints.unansweredCount(of: endUserID, now: now) > 0 || now < uncleanUntil
        completion(.success(OlderMints(areAwaiting: areAwaiting, areUnanswered: areUnanswered)))
    }

    package func mintCount(of endUserID: String, key: EndUserKey, completion: @escaping Completion<Int>) {
        completion(.success(mints.count(of: endUserID) + mints.unansweredCount(of: endUserID, now: time.monotonic())))
    }

    // MARK: Looking

    package func find(_ id: RevocationID, completion: @escaping Completion<RevocationRecord?>) {
        read(completion) { database throws(SQLiteError) in
            var found: RevocationRecord?
            try database.query("SELECT \(SQLiteSchema.columns) FROM revocations WHERE id = ?", .blob(id.bytes)) {
                found = SQLiteSchema.record($0)
            }
            return found
        }
    }

    package func page(
        pendingOnly: Bool, limit: Int, after: RevocationID?, completion: @escaping Completion<[RevocationRecord]?>
    ) {
        read(completion) { database throws(SQLiteError) -> [RevocationRecord]? in
            var number: Int64 = 0
            if let after {
                var found: Int64?
                try database.query("SELECT number FROM revocations WHERE id = ?", .blob(after.bytes)) { found = $0.integer(0) }
                guard let found else { return nil }
                number = found
            }
            var records: [RevocationRecord] = []
            let filter = pendingOnly ? "phase = 0 AND" : ""
            try database.query(
                "SELECT \(SQLiteSchema.columns) FROM revocations WHERE \(filter) number > ? ORDER BY number LIMIT ?",
                .integer(number), .integer(Int64(limit + 1))
            ) { row in
                if let record = SQLiteSchema.record(row) { records.append(record) }
            }
            return records
        }
    }

    package func counts(completion: @escaping Completion<StateCounts>) {
        let fences = fences
        read(completion) { database throws(SQLiteError) in
            var oldest: WallInstant?
            try database.query("SELECT min(requested_at) FROM revocations WHERE phase = 0") { row in
                oldest = row.integer(0).map { SQLiteSchema.instant($0) }
            }
            return StateCounts(pending: fences.pendingCount, fences: fences.fenceCount, oldestPending: oldest)
        }
    }

    package func probe(completion: @escaping Completion<Void>) {
        let wall = time.wall().nanosecondsSinceEpoch
        write(completion) { database throws(SQLiteError) in
            try SQLiteSchema.setMeta("probed_at", Array(String(wall).utf8), database)
        }
    }

    package func forget(olderThan limit: WallInstant, completion: @escaping Completion<Void>) {
        let cut = SQLiteValue.integer(limit.nanosecondsSinceEpoch)
        let forgotten = Lock<[EndUserKey]>([])
        write(
            completion,
            durable: { [state] _ in
                for key in forgotten.withLock({ $0 }) { state.fences.set(key, fence: nil, isPending: false) }
            }
        ) { database throws(SQLiteError) in
            var keys: [EndUserKey] = []
            try database.query(
                "SELECT end_user FROM fences WHERE since < ? AND end_user NOT IN (SELECT end_user FROM revocations WHERE phase < 2)",
                cut
            ) { row in
                if let key = EndUserKey(row.blob(0) ?? []) { keys.append(key) }
            }
            for key in keys { try database.run("DELETE FROM fences WHERE end_user = ?", .blob(key.bytes)) }
            try database.run("DELETE FROM revocations WHERE phase = 2 AND completed_at < ?", cut)
            let gone = keys
            forgotten.withLock { $0 = gone }
        }
    }

    // MARK: End

    /// Closes the file. `isOrderly`: no mint of this process can still be committed at January.
    package func close(isOrderly: Bool, then: @escaping @Sendable () -> Void) {
        let state = state
        let finish: @Sendable () -> Void = {
            state.thread.stop {
                // The lock goes last.
                state.lock.release()
                then()
            }
        }
        guard isOrderly else { return finish() }
        write({ (_: Result<Void, StateError>) in finish() }) { database throws(SQLiteError) in
            try SQLiteSchema.setMeta("clean", [1], database)
        }
    }
}
