import EventLoop
import Primitives

/// One database on one thread. Writes that wait together share one transaction and one `fsync`: a single write costs what the disk
/// costs, a thousand at once cost little more.
package final class SQLiteThread: Sendable {
    /// Jobs that wait; one more is `.tooBusy`.
    package static let capacity = 4096
    /// Writes of one transaction, so that the first of them does not wait for thousands.
    static let batch = 512

    package enum Job: Sendable {
        /// Runs inside a transaction with others. `done` is called once that is on the disk, or with what happened instead.
        case write(
            @Sendable (SQLiteDatabase) throws(SQLiteError) -> Void, done: @Sendable (SQLiteError?) -> Void)
        /// Sees every write before it.
        case read(@Sendable (SQLiteDatabase) -> Void, refused: @Sendable () -> Void)
    }

    private let thread = SerialThread<Job>(name: "state", capacity: SQLiteThread.capacity)
    private let database: Lock<Held>

    /// What lets the connection go from the thread that opened it to the one that uses it.
    private struct Held: @unchecked Sendable {
        // Sendable: touched by the opening thread before `start`, by the state thread afterwards, never by both.
        var database: SQLiteDatabase?
    }

    package init(_ database: sending SQLiteDatabase) { self.database = Lock(Held(database: database)) }

    package func start() throws(SystemError) {
        let held = database.withLock { held in
            defer { held = Held(database: nil) }
            return held
        }
        try thread.start { jobs in
            guard let database = held.database else { return }
            Self.run(jobs, database)
        }
        closing.withLock { $0 = held }
    }

    private let closing = Lock(Held(database: nil))

    package func submit(_ job: Job) {
        guard !thread.submit(job) else { return }
        switch job {
        case .write(_, let done): done(.tooBusy)
        case .read(_, let refused): refused()
        }
    }

    /// What was accepted is written; then the file is closed.
    package func stop(then: @escaping @Sendable () -> Void) {
        thread.stop { [self] in
            closing.withLock { held in
                held.database?.close()
                held = Held(database: nil)
            }
            then()
        }
    }

    private static func run(_ jobs: [Job], _ database: SQLiteDatabase) {
        var writes: [Job] = []
        for job in jobs {
            switch job {
            case .write:
                writes.append(job)
                if writes.count == batch { commit(&writes, database) }
            case .read(let body, _):
                commit(&writes, database)
                body(database)
            }
        }
        commit(&writes, database)
    }

    /// One transaction for all. When one of them is refused on its own (not by the disk) the others go on without it.
    private static func commit(_ jobs: inout [Job], _ database: SQLiteDatabase) {
        guard !jobs.isEmpty else { return }
        let batch = jobs
        jobs = []
        var refused: [Int: SQLiteError] = [:]
        var failure: SQLiteError?
        do throws(SQLiteError) {
            try database.transaction { () throws(SQLiteError) in
                for (index, job) in batch.enumerated() {
                    guard case .write(let body, _) = job else { continue }
                    do throws(SQLiteError) {
                        try database.savepoint { () throws(SQLiteError) in try body(database) }
                    } catch .other(let code) {
                        refused[index] = .other(code)
                    }
                }
            }
        } catch {
            failure = error
        }
        for (index, job) in batch.enumerated() {
            guard case .write(_, let done) = job else { continue }
            done(failure ?? refused[index])
        }
    }
}
