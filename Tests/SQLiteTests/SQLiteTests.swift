import EventLoop
import Foundation
import Primitives
import SQLite
import TestSupport
import Testing

@Suite struct SQLiteDatabaseTests {
    private func withFile<Result>(_ body: (String) throws -> Result) throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sqlite-\(UUID().uuidString)").path
        try StateFile.makeFolder(folder)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try StateFile.create(folder + "/test.db")
        return try body(folder + "/test.db")
    }

    @Test func valuesComeBackAsTheyWereBound() throws {
        try withFile { path in
            let database = try SQLiteDatabase(path: path)
            try database.execute("CREATE TABLE t (a INTEGER, b TEXT, c BLOB, d TEXT)")
            let hostile = "'; DROP TABLE t; --\u{0}ä"
            try database.run(
                "INSERT INTO t VALUES (?, ?, ?, ?)", .integer(.min), .text(hostile), .blob([0, 255, 7]), .null)
            var rows = 0
            try database.query("SELECT * FROM t WHERE b = ?", .text(hostile)) { row in
                rows += 1
                #expect(row.integer(0) == .min && row.text(1) == hostile && row.blob(2) == [0, 255, 7] && row.text(3) == nil)
                #expect(row.text(0) == nil && row.integer(1) == nil)
            }
            #expect(rows == 1)
        }
    }

    @Test func aTransactionIsAllOrNothing() throws {
        try withFile { path in
            let database = try SQLiteDatabase(path: path)
            try database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
            #expect(throws: SQLiteError.self) {
                try database.transaction { () throws(SQLiteError) in
                    try database.run("INSERT INTO t VALUES (1)")
                    try database.run("INSERT INTO t VALUES (1)")
                }
            }
            var count: Int64?
            try database.query("SELECT count(*) FROM t") { count = $0.integer(0) }
            #expect(count == 0)
        }
    }

    @Test func commitsAreFullAndInAWriteAheadLog() throws {
        try withFile { path in
            let database = try SQLiteDatabase(path: path)
            var mode: String?
            try database.query("PRAGMA journal_mode") { mode = $0.text(0) }
            var level: Int64?
            try database.query("PRAGMA synchronous") { level = $0.integer(0) }
            #expect(mode == "wal" && level == 2)
        }
    }

    @Test func migrationsRunOnceAndALaterSchemaIsRefused() throws {
        try withFile { path in
            let database = try SQLiteDatabase(path: path)
            let one = ["CREATE TABLE a (x)"]
            let two = ["CREATE TABLE b (x)"]
            #expect(try database.migrate([one]) == 0)
            #expect(try database.migrate([one, two]) == 1)
            #expect(try database.migrate([one, two]) == 2)
            #expect(throws: SQLiteError.notADatabase) { try database.migrate([one]) }
        }
    }

    @Test func whatIsNoDatabaseIsCalledSo() throws {
        try withFile { path in
            try Data(repeating: 65, count: 8192).write(to: URL(filePath: path))
            #expect(throws: SQLiteError.notADatabase) { try SQLiteDatabase(path: path) }
        }
    }

    @Test func jobsOfAThreadAreDurableInTheirOrderAndRunBeforeItStops() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sqlite-\(UUID().uuidString)").path
        try StateFile.makeFolder(folder)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try StateFile.create(folder + "/test.db")
        let thread = SQLiteThread(try SQLiteDatabase(path: folder + "/test.db"))
        try thread.start()
        let order = Lock<[Int]>([])
        thread.submit(
            .write({ database throws(SQLiteError) in try database.execute("CREATE TABLE t (a INTEGER UNIQUE)") }, done: { _ in }))
        for number in 0..<1000 {
            thread.submit(
                .write(
                    { database throws(SQLiteError) in
                        try database.run("INSERT INTO t VALUES (?)", .integer(Int64(number == 500 ? 1 : number)))
                    },
                    done: { error in
                        // One that is refused on its own takes nobody with it.
                        #expect((error != nil) == (number == 500))
                        order.withLock { $0.append(number) }
                    }))
        }
        let stopped = Promise<Void>("stopped")
        thread.stop { stopped.fulfil(()) }
        try await stopped.value()
        #expect(order.withLock { $0 } == Array(0..<1000))
        let refused = Promise<SQLiteError?>("refused")
        thread.submit(.write({ _ throws(SQLiteError) in }, done: { refused.fulfil($0) }))
        #expect(try await refused.value() == .tooBusy)
    }

    @Test func aLockHasOneHolder() throws {
        try withFile { path in
            var lock = try FileLock.acquire(path + ".lock")
            #expect(lock != nil)
            #expect(try FileLock.acquire(path + ".lock") == nil)
            #expect(try FileLock.acquire(path + ".lock", within: .milliseconds(60), time: SystemTime()) == nil)
            lock = nil
            #expect(try FileLock.acquire(path + ".lock") != nil)
        }
    }
}
