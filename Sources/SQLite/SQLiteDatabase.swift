import CSQLite
import Primitives

/// A value that is bound to a parameter.
package enum SQLiteValue: Sendable, Equatable {
    case null
    case integer(Int64)
    case text(String)
    case blob([UInt8])
}

/// One connection. Used by one thread at a time.
package final class SQLiteDatabase {
    private let connection: OpaquePointer
    /// Prepared once, kept: the statements of a program are few.
    private var statements: [String: OpaquePointer] = [:]
    package let path: String
    private static let busyMilliseconds: Int32 = 1000

    package enum Access: Sendable {
        case write
        /// Leaves the file as it is, its settings included.
        case read
        /// The same, of a file that no process has open: not even the files beside it are made.
        case readUnused
    }

    /// Opens a file that is there. Others may read it meanwhile (a backup, `hash-id`); that only one process writes is the caller's care.
    package init(path: String, access: Access = .write) throws(SQLiteError) {
        var handle: OpaquePointer?
        let isReadOnly = access != .write
        let flags =
            (isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
            | SQLITE_OPEN_NOFOLLOW
        let code =
            access == .readUnused
            ? sqlite3_open_v2(Self.unusedFile(path), &handle, flags | SQLITE_OPEN_URI, nil)
            : sqlite3_open_v2(path, &handle, flags, nil)
        guard code == SQLITE_OK, let handle else {
            sqlite3_close_v2(handle)
            throw SQLiteError(code: code)
        }
        connection = handle
        self.path = path
        // Attached databases, triggers and extensions are nothing we use: a file somebody else wrote cannot bring any.
        sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0)
        try execute("PRAGMA trusted_schema=OFF")
        // For somebody who looks at the file with another program.
        sqlite3_busy_timeout(handle, Self.busyMilliseconds)
        if isReadOnly { return }
        // A damaged page is an error and not an answer.
        try execute("PRAGMA cell_size_check=ON")
        try execute("PRAGMA journal_mode=WAL")
        // FULL: a commit is on the disk before it returns (with WAL, NORMAL would lose the last ones when the power goes).
        try execute("PRAGMA synchronous=FULL")
        // What is taken out of a row is overwritten: IDs of finished work are to be gone.
        try execute("PRAGMA secure_delete=ON")
        try execute("PRAGMA wal_autocheckpoint=1000")
        try execute("PRAGMA journal_size_limit=16777216")
        try execute("PRAGMA cache_size=-4096")
    }

    /// A URI (sqlite.org/uri.html), in which a path may hold anything but what ends it.
    private static func unusedFile(_ path: String) -> String {
        // An empty authority: a path may begin with two slashes.
        var text = path.hasPrefix("/") ? "file://" : "file:"
        for scalar in path.unicodeScalars {
            switch scalar {
            case "%": text += "%25"
            case "?": text += "%3f"
            case "#": text += "%23"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text + "?immutable=1"
    }

    deinit { close() }

    private var isClosed = false

    /// Writes the WAL back and closes. Once.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        for statement in statements.values { sqlite3_finalize(statement) }
        statements = [:]
        sqlite3_close_v2(connection)
    }

    /// One statement without values or rows that matter.
    package func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(connection, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code: code) }
    }

    /// - Returns: rows changed.
    @discardableResult
    package func run(_ sql: String, _ values: SQLiteValue...) throws(SQLiteError) -> Int {
        try step(sql, values) { _ in }
        return Int(sqlite3_changes(connection))
    }

    /// Every row of the answer, in order.
    package func query(_ sql: String, _ values: SQLiteValue..., row: (SQLiteRow) -> Void) throws(SQLiteError) {
        try step(sql, values, row)
    }

    private func step(_ sql: String, _ values: [SQLiteValue], _ row: (SQLiteRow) -> Void) throws(SQLiteError) {
        let statement = try prepared(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        for (index, value) in values.enumerated() { try bind(value, to: statement, at: Int32(index + 1)) }
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: row(SQLiteRow(statement))
            case SQLITE_DONE: return
            case let code: throw SQLiteError(code: code)
            }
        }
    }

    private func prepared(_ sql: String) throws(SQLiteError) -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement else { throw SQLiteError(code: code) }
        statements[sql] = statement
        return statement
    }

    /// SQLite copies what it is given: the pointers end with the call.
    private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    private func bind(_ value: SQLiteValue, to statement: OpaquePointer, at index: Int32) throws(SQLiteError) {
        let code: Int32
        switch value {
        case .null: code = sqlite3_bind_null(statement, index)
        case .integer(let number): code = sqlite3_bind_int64(statement, index, number)
        case .text(var text):
            code = text.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) {
                    sqlite3_bind_text(statement, index, $0.baseAddress, Int32(clamping: $0.count), Self.copied)
                }
            }
        case .blob(let bytes):
            code = bytes.withUnsafeBytes {
                sqlite3_bind_blob(statement, index, $0.baseAddress, Int32(clamping: $0.count), Self.copied)
            }
        }
        guard code == SQLITE_OK else { throw SQLiteError(code: code) }
    }

    /// All of `body` or nothing of it. The error of a commit means that nothing is there, unless it is `.io`: then nobody knows.
    package func transaction<Result>(_ body: () throws(SQLiteError) -> Result) throws(SQLiteError) -> Result {
        try execute("BEGIN IMMEDIATE")
        do throws(SQLiteError) {
            let result = try body()
            try execute("COMMIT")
            return result
        } catch {
            // A full disk has rolled back already; then this says so and that is all right.
            if sqlite3_get_autocommit(connection) == 0 { sqlite3_exec(connection, "ROLLBACK", nil, nil, nil) }
            throw error
        }
    }

    /// Part of a transaction that may fail on its own.
    package func savepoint<Result>(_ body: () throws(SQLiteError) -> Result) throws(SQLiteError) -> Result {
        try execute("SAVEPOINT part")
        do throws(SQLiteError) {
            let result = try body()
            try execute("RELEASE part")
            return result
        } catch {
            if sqlite3_get_autocommit(connection) == 0 {
                sqlite3_exec(connection, "ROLLBACK TO part", nil, nil, nil)
                sqlite3_exec(connection, "RELEASE part", nil, nil, nil)
            }
            throw error
        }
    }

    /// Brings everything from the WAL into the file and cuts the WAL to nothing. `.busy`: somebody reads what is older; some of it is done.
    package func writeLogBack() throws(SQLiteError) {
        // Not as long as elsewhere: whoever writes waits behind this.
        sqlite3_busy_timeout(connection, 50)
        defer { sqlite3_busy_timeout(connection, Self.busyMilliseconds) }
        var isBusy = false
        try query("PRAGMA wal_checkpoint(TRUNCATE)") { isBusy = $0.integer(0) != 0 }
        if isBusy { throw .busy }
    }

    /// Looks at every page, and whether tables and indexes say the same.
    package func check() throws(SQLiteError) {
        var answer = ""
        try query("PRAGMA integrity_check(1)") { answer = $0.text(0) ?? "" }
        guard answer == "ok" else { throw .corrupt }
    }

    /// The number that the program writes into the file to know its schema by.
    package func userVersion() throws(SQLiteError) -> Int {
        var version: Int64 = 0
        try query("PRAGMA user_version") { version = $0.integer(0) ?? 0 }
        return Int(version)
    }

    package func applicationID() throws(SQLiteError) -> Int {
        var id: Int64 = 0
        try query("PRAGMA application_id") { id = $0.integer(0) ?? 0 }
        return Int(id)
    }

    /// Brings the schema up to `migrations.count`, each step in a transaction of its own with its number.
    ///
    /// - Returns: the version that was found. One above ours throws `.notADatabase` before anything is changed.
    @discardableResult
    package func migrate(_ migrations: [[String]]) throws(SQLiteError) -> Int {
        let found = try userVersion()
        guard found <= migrations.count else { throw .notADatabase }
        for (index, statements) in migrations.enumerated() where index >= found {
            try transaction { () throws(SQLiteError) in
                for statement in statements { try execute(statement) }
                try execute("PRAGMA user_version=\(index + 1)")
            }
        }
        return found
    }
}

/// The row a query is at. Must not leave the closure.
package struct SQLiteRow {
    private let statement: OpaquePointer
    fileprivate init(_ statement: OpaquePointer) { self.statement = statement }

    package func integer(_ column: Int) -> Int64? {
        sqlite3_column_type(statement, Int32(column)) == SQLITE_INTEGER ? sqlite3_column_int64(statement, Int32(column)) : nil
    }

    package func text(_ column: Int) -> String? {
        guard sqlite3_column_type(statement, Int32(column)) == SQLITE_TEXT,
            let bytes = sqlite3_column_text(statement, Int32(column))
        else { return nil }
        let count = Int(sqlite3_column_bytes(statement, Int32(column)))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    package func blob(_ column: Int) -> [UInt8]? {
        guard sqlite3_column_type(statement, Int32(column)) == SQLITE_BLOB else { return nil }
        let count = Int(sqlite3_column_bytes(statement, Int32(column)))
        guard count > 0, let bytes = sqlite3_column_blob(statement, Int32(column)) else { return [] }
        return [UInt8](UnsafeRawBufferPointer(start: bytes, count: count))
    }
}
