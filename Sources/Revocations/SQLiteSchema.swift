import Primitives
import SQLite

/// The tables of the state file and how their rows become values. Times are nanoseconds since 1970, keys and IDs are 16 bytes.
enum SQLiteSchema {
    /// "JTEs", so that another program's file is not taken for ours.
    static let applicationID = 0x4A54_4573

    static let migrations: [[String]] = [
        [
            "PRAGMA application_id=\(applicationID)",
            "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
            """
            CREATE TABLE fences (
              end_user BLOB PRIMARY KEY, block INTEGER NOT NULL, since INTEGER NOT NULL
            ) WITHOUT ROWID
            """,
            """
            CREATE TABLE revocations (
              number INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, end_user BLOB NOT NULL, end_user_id TEXT,
              phase INTEGER NOT NULL, block INTEGER NOT NULL, requested_at INTEGER NOT NULL, fenced_at INTEGER NOT NULL,
              generation INTEGER NOT NULL, completed_at INTEGER, revoked_count INTEGER NOT NULL, attempts INTEGER NOT NULL,
              last_error TEXT, lifts INTEGER NOT NULL, late_at INTEGER NOT NULL, next_at INTEGER NOT NULL
            )
            """,
            "CREATE UNIQUE INDEX work_by_end_user ON revocations (end_user) WHERE phase < 2",
            "CREATE INDEX work_by_time ON revocations (next_at) WHERE phase < 2",
            "CREATE INDEX pending_by_number ON revocations (number) WHERE phase = 0",
            "CREATE INDEX pending_by_request ON revocations (requested_at) WHERE phase = 0",
        ]
    ]

    static let columns =
        "id, end_user, end_user_id, phase, block, requested_at, fenced_at, generation, completed_at, revoked_count, attempts,"
        + " last_error, lifts, late_at, next_at"

    static func block(_ number: Int64) -> RevocationBlock {
        switch number {
        case 1: .sessions
        // What is not known is taken for the strictest.
        case 0: .none
        default: .user
        }
    }

    static func number(_ block: RevocationBlock) -> Int64 {
        switch block {
        case .user: 2
        case .sessions: 1
        case .none: 0
        }
    }

    static func instant(_ nanoseconds: Int64?) -> WallInstant { WallInstant(nanosecondsSinceEpoch: nanoseconds ?? 0) }

    static func record(_ row: SQLiteRow) -> RevocationRecord? {
        guard let id = RevocationID(bytes: row.blob(0) ?? []), let key = EndUserKey(row.blob(1) ?? []) else { return nil }
        var record = RevocationRecord(
            id: id, key: key, endUserID: row.text(2), phase: .init(rawValue: UInt8(clamping: row.integer(3) ?? 0)) ?? .pending,
            block: block(row.integer(4) ?? 2), requestedAt: instant(row.integer(5)), fencedAt: instant(row.integer(6)),
            generation: Int(row.integer(7) ?? 1), lateAt: instant(row.integer(13)), nextAt: instant(row.integer(14)))
        record.completedAt = row.integer(8).map { instant($0) }
        record.revokedCount = Int(row.integer(9) ?? 0)
        record.attempts = Int(row.integer(10) ?? 0)
        record.lastError = row.text(11)
        record.lifts = row.integer(12) == 1
        return record
    }

    /// A row that cannot be what was written would be a fence that holds for nobody, or work that is never done: `.corrupt`.
    static func checkRows(_ database: SQLiteDatabase) throws(SQLiteError) {
        let isKey = { (name: String) in "typeof(\(name)) = 'blob' AND length(\(name)) = 16" }
        let areNumbers = { (names: [String]) in names.map { "typeof(\($0)) = 'integer'" }.joined(separator: " AND ") }
        let fence = "\(isKey("end_user")) AND \(areNumbers(["since"])) AND block IN (1, 2)"
        let numbers = ["requested_at", "fenced_at", "generation", "revoked_count", "attempts", "late_at", "next_at"]
        let work =
            "\(isKey("id")) AND \(isKey("end_user")) AND \(areNumbers(numbers)) AND phase IN (0, 1, 2) AND block IN (0, 1, 2)"
            + " AND lifts IN (0, 1) AND (phase = 2 OR typeof(end_user_id) = 'text')"
        var isSound = true
        for (table, rule) in [("fences", fence), ("revocations", work)] {
            try database.query("SELECT 1 FROM \(table) WHERE NOT (\(rule)) LIMIT 1") { _ in isSound = false }
        }
        if !isSound { throw .corrupt }
    }

    // MARK: One user

    static func read(_ key: EndUserKey, _ database: SQLiteDatabase) throws(SQLiteError) -> UserState {
        var state = UserState()
        try database.query("SELECT block, since FROM fences WHERE end_user = ?", .blob(key.bytes)) { row in
            state.fence = Fence(block: block(row.integer(0) ?? 2), since: instant(row.integer(1)))
        }
        try database.query("SELECT \(columns) FROM revocations WHERE end_user = ? AND phase < 2", .blob(key.bytes)) { row in
            state.work = record(row)
        }
        return state
    }

    static func write(_ key: EndUserKey, from old: UserState, to new: UserState, _ database: SQLiteDatabase) throws(SQLiteError) {
        // What has ended first: of one end user there is one row of unfinished work.
        for record in new.ended { try upsert(record, database) }
        if let work = new.work, work != old.work { try upsert(work, database) }
        if new.fence != old.fence {
            if let fence = new.fence {
                try database.run(
                    "INSERT INTO fences (end_user, block, since) VALUES (?, ?, ?) ON CONFLICT (end_user) DO UPDATE SET"
                        + " block = excluded.block, since = excluded.since",
                    .blob(key.bytes), .integer(number(fence.block)), .integer(fence.since.nanosecondsSinceEpoch))
            } else {
                try database.run("DELETE FROM fences WHERE end_user = ?", .blob(key.bytes))
            }
        }
    }

    private static let upsertText =
        "INSERT INTO revocations (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        + " end_user_id = excluded.end_user_id, phase = excluded.phase, block = excluded.block, fenced_at = excluded.fenced_at,"
        + " generation = excluded.generation, completed_at = excluded.completed_at, revoked_count = excluded.revoked_count,"
        + " attempts = excluded.attempts, last_error = excluded.last_error, lifts = excluded.lifts, late_at = excluded.late_at,"
        + " next_at = excluded.next_at"

    private static func upsert(_ record: RevocationRecord, _ database: SQLiteDatabase) throws(SQLiteError) {
        try database.run(
            upsertText, .blob(record.id.bytes), .blob(record.key.bytes), record.endUserID.map { .text($0) } ?? .null,
            .integer(Int64(record.phase.rawValue)), .integer(number(record.block)),
            .integer(record.requestedAt.nanosecondsSinceEpoch), .integer(record.fencedAt.nanosecondsSinceEpoch),
            .integer(Int64(record.generation)), record.completedAt.map { .integer($0.nanosecondsSinceEpoch) } ?? .null,
            .integer(Int64(record.revokedCount)), .integer(Int64(record.attempts)),
            record.lastError.map { .text($0) } ?? .null, .integer(record.lifts ? 1 : 0),
            .integer(record.lateAt.nanosecondsSinceEpoch), .integer(record.nextAt.nanosecondsSinceEpoch))
    }

    // MARK: The log

    /// In the file itself 0, in its log 1: a file that says 0 is nothing without its log. So it says 1 whenever the log has been written back
    /// by somebody else (an end of this process, a backup, another program).
    static let logMark = "log"

    /// Writes the log back into the file and empties it: what was overwritten in the one is gone from the other. Nobody else writes meanwhile.
    static func writeLogBack(_ database: SQLiteDatabase) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in try setMeta(logMark, [0], database) }
        let failure: SQLiteError?
        do throws(SQLiteError) {
            try database.writeLogBack()
            failure = nil
        } catch {
            failure = error
        }
        try database.transaction { () throws(SQLiteError) in try setMeta(logMark, [1], database) }
        if let failure { throw failure }
    }

    // MARK: Meta

    static func meta(_ name: String, _ database: SQLiteDatabase) throws(SQLiteError) -> [UInt8]? {
        var value: [UInt8]?
        try database.query("SELECT value FROM meta WHERE name = ?", .text(name)) { value = $0.blob(0) }
        return value
    }

    static func setMeta(_ name: String, _ value: [UInt8], _ database: SQLiteDatabase) throws(SQLiteError) {
        try database.run(
            "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", .text(name),
            .blob(value))
    }
}
