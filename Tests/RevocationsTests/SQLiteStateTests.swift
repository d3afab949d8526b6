import EventLoop
import Foundation
import Primitives
import SQLite
import TestSupport
import Testing

@testable import Revocations

@Suite struct SQLiteStateTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "state-\(UUID().uuidString)").path
    private var path: String { folder + "/sub/state.db" }

    private func options(_ identity: [String: String] = ["end_user_id.prefix": "a"]) -> SQLiteState.Options {
        var options = SQLiteState.Options(path: path)
        options.waitsFor = .zero
        options.identity = identity
        return options
    }

    private func open(
        _ options: SQLiteState.Options? = nil, time: any TimeSource = SystemTime()
    ) throws -> (SQLiteState, SQLiteRevocationStore) {
        let state = try SQLiteState.open(options ?? self.options(), time: time)
        return (state, try SQLiteRevocationStore(state, mints: MintsInFlight(maxCount: 10), time: time))
    }

    private func close(_ store: SQLiteRevocationStore, isOrderly: Bool = true) async throws {
        let closed = Promise<Void>("closed")
        store.close(isOrderly: isOrderly) { closed.fulfil(()) }
        try await closed.value()
    }

    private func revoke(_ store: SQLiteRevocationStore, _ number: UInt8, _ block: RevocationBlock = .user) async throws {
        let key = try #require(EndUserKey([UInt8](repeating: number, count: 16)))
        let id = try #require(RevocationID(bytes: [UInt8](repeating: number, count: 16)))
        let done = Promise<Result<UserState, StateError>>("revoked")
        let now = StateClock(SystemTime()).now()
        store.update(
            key, { state, _ in state.revoke(key, endUserID: "user-\(number)", block: block, newID: id, now: now) },
            completion: { done.fulfil($0) })
        _ = try await done.value().get()
    }

    private func removeFolder() { try? FileManager.default.removeItem(atPath: folder) }

    @Test func aNewFileIsPrivateAndSaysThatItIsNew() async throws {
        defer { removeFolder() }
        let (state, store) = try open()
        #expect(state.findings.isNew && !state.findings.wasUnclean && state.findings.openFolderMode == nil)
        let file = try FileManager.default.attributesOfItem(atPath: path)
        let folder = try FileManager.default.attributesOfItem(atPath: self.folder + "/sub")
        #expect(file[.posixPermissions] as? Int == 0o600 && folder[.posixPermissions] as? Int == 0o700)
        try await close(store)
    }

    @Test func fencesAndPendingWorkAreThereAfterARestart() async throws {
        defer { removeFolder() }
        let time = TestTime()
        let (first, store) = try open(time: time)
        try await revoke(store, 1)
        try await revoke(store, 2, .none)
        try await close(store, isOrderly: false)
        let (second, again) = try open(time: time)
        #expect(
            second.findings
                == {
                    var findings = SQLiteState.Findings()
                    findings.wasUnclean = true
                    return findings
                }())
        #expect(second.storeID == first.storeID)
        #expect(second.fences.fenceCount == 1 && second.fences.pendingCount == 2)
        let due = Promise<Result<DueWork, StateError>>("due")
        again.claim(limit: 10, now: WallInstant(nanosecondsSinceEpoch: .max), except: [], completion: { due.fulfil($0) })
        #expect(try await due.value().get().records.map(\.endUserID) == ["user-1", "user-2"])
        time.advance(by: RevocationRecord.lateDelay)
        try await close(again)
        let (third, last) = try open(time: time)
        #expect(!third.findings.wasUnclean)
        try await close(last)
    }

    /// A mint of the killed process may be committed at January until 75 s have passed, whoever starts and ends meanwhile.
    @Test func anEndInOrderDoesNotMakeUpForTheOneBeforeIt() async throws {
        defer { removeFolder() }
        let time = TestTime()
        let (_, killed) = try open(time: time)
        try await close(killed, isOrderly: false)
        for seconds in [10, 74] {
            let (state, store) = try open(time: time)
            #expect(state.findings.wasUnclean)
            #expect(try await mayBeCommitted(store), "asked at once")
            time.advance(by: .seconds(seconds))
            #expect(try await mayBeCommitted(store))
            try await close(store)
        }
        let (third, store) = try open(time: time)
        #expect(third.findings.wasUnclean)
        time.advance(by: .seconds(75))
        #expect(try await mayBeCommitted(store) == false)
        try await close(store)
        let (last, again) = try open(time: time)
        #expect(!last.findings.wasUnclean)
        #expect(try await mayBeCommitted(again) == false)
        try await close(again)
    }

    private func mayBeCommitted(_ store: SQLiteRevocationStore) async throws -> Bool {
        let key = try #require(EndUserKey([UInt8](repeating: 1, count: 16)))
        let id = try #require(RevocationID(bytes: [UInt8](repeating: 1, count: 16)))
        let now = WallInstant(secondsSinceEpoch: 5)
        let record = RevocationRecord(
            id: id, key: key, endUserID: "user-1", block: .none, requestedAt: now, fencedAt: now, lateAt: now, nextAt: now)
        let mints = Promise<Result<OlderMints, StateError>>("mints")
        store.olderMints(of: record, completion: { mints.fulfil($0) })
        return try await mints.value().get().areUnanswered
    }

    @Test func aSecondOneIsRefused() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        #expect(throws: StateOpenError.inUse(path: path)) { try SQLiteState.open(options(), time: SystemTime()) }
        try await close(store)
    }

    @Test func anotherMappingIsRefusedAndNamesWhatDiffers() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        try await close(store)
        var other = options(["end_user_id.prefix": "b"])
        #expect(throws: StateOpenError.changed(keys: ["end_user_id.prefix"])) { try SQLiteState.open(other, time: SystemTime()) }
        other.acceptsNewIdentity = true
        let (state, again) = try open(other)
        #expect(state.findings.acceptedChanges == ["end_user_id.prefix"])
        try await close(again)
        // Accepted means recorded.
        other.acceptsNewIdentity = false
        let (_, last) = try open(other)
        try await close(last)
    }

    @Test func anotherHashSecretIsRefused() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        try await close(store)
        var other = options()
        other.hashSecret = Secret("another secret, of the log")
        #expect(throws: StateOpenError.changed(keys: ["log.hash_secret_file"])) {
            try SQLiteState.open(other, time: SystemTime())
        }
    }

    @Test func aMissingFileIsRefusedWhereItMustExist() throws {
        defer { removeFolder() }
        var strict = options()
        strict.mustExist = true
        #expect(throws: StateOpenError.missing(path: path)) { try SQLiteState.open(strict, time: SystemTime()) }
    }

    /// Never silently empty: each of these once held fences, or was never ours.
    @Test(arguments: [
        "cut to nothing", "text", "pages overwritten", "file gone, log there", "log gone", "without its ID",
        "without its mapping",
        "of another program", "of a later version",
    ])
    func aFileThatCannotBeTrustedIsRefused(_ damage: String) async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        for number in 1...100 { try await revoke(store, UInt8(number)) }
        // As it is when the process is killed.
        if damage == "log gone" { try FileManager.default.copyItem(atPath: path, toPath: path + ".killed") }
        try await close(store)
        let url = URL(filePath: path)
        let expected: StateOpenError
        switch damage {
        case "cut to nothing":
            try Data().write(to: url)
            expected = .damaged(path: path)
        case "text":
            try Data(repeating: 65, count: 5000).write(to: url)
            expected = .damaged(path: path)
        case "pages overwritten":
            var bytes = try Data(contentsOf: url)
            for offset in stride(from: 4096, to: bytes.count, by: 512) {
                bytes[offset..<offset + 64] = Data(repeating: 0xEE, count: 64)
            }
            try bytes.write(to: url)
            expected = .damaged(path: path)
        case "file gone, log there":
            try FileManager.default.moveItem(atPath: path, toPath: path + "-wal")
            expected = .orphanedLog(path: path)
        case "log gone":
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: path + ".killed", toPath: path)
            expected = .logGone(path: path)
        case "without its ID", "without its mapping":
            let database = try SQLiteDatabase(path: path)
            let name = damage == "without its ID" ? "store_id" : "identity:*"
            try database.execute("DELETE FROM meta WHERE name GLOB '\(name)'")
            database.close()
            expected = .damaged(path: path)
        case "of another program":
            let database = try SQLiteDatabase(path: path)
            try database.execute("PRAGMA application_id=17")
            database.close()
            expected = .foreign(path: path)
        default:
            let database = try SQLiteDatabase(path: path)
            try database.execute("PRAGMA user_version=99")
            database.close()
            expected = .newer(path: path)
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: folder + "/sub").sorted()
        // What its rows say together is for the start; the inspection leaves everything as it is.
        if !["without its ID", "without its mapping"].contains(damage) {
            #expect(throws: expected) { try SQLiteState.inspect(path) }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/sub").sorted() == files)
        #expect(throws: expected) { try SQLiteState.open(options(), time: SystemTime()) }
        #expect(expected.description.contains(path))
    }

    @Test func anInspectionReadsWhateverStateTheFileIsInAndMakesNone() async throws {
        defer { removeFolder() }
        #expect(try SQLiteState.inspect(path) == .missing)
        let (_, store) = try open()
        try await revoke(store, 1)
        #expect(try SQLiteState.inspect(path) == .whole)
        // A copy of both, as a backup has it, without the index.
        for suffix in ["", "-wal"] { try FileManager.default.copyItem(atPath: path + suffix, toPath: path + ".copy" + suffix) }
        #expect(try SQLiteState.inspect(path + ".copy") == .unread)
        try await close(store)
        #expect(try SQLiteState.inspect(path) == .whole)
        // A name that a URI would read otherwise.
        let odd = folder + "/sub/a%3f?b#c.db"
        try FileManager.default.copyItem(atPath: path, toPath: odd)
        #expect(try SQLiteState.inspect(odd) == .whole)
        #expect(!FileManager.default.fileExists(atPath: path + "-shm") && !FileManager.default.fileExists(atPath: odd + "-shm"))
    }

    /// SQLite would make an empty log, which the start would take for the one that is missing: its fences would be forgotten.
    @Test(arguments: [true, false])
    func whoLooksAtAFileWhoseLogIsGoneMakesNone(hasIndex: Bool) async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        try await revoke(store, 1)
        for suffix in ["", "-shm"] { try FileManager.default.copyItem(atPath: path + suffix, toPath: path + ".killed" + suffix) }
        try await close(store)
        for suffix in hasIndex ? ["", "-shm"] : [""] {
            try? FileManager.default.removeItem(atPath: path + suffix)
            try FileManager.default.moveItem(atPath: path + ".killed" + suffix, toPath: path + suffix)
        }
        #expect(throws: StateOpenError.logGone(path: path)) { try SQLiteState.inspect(path) }
        #expect(try SQLiteState.hashKey(at: path) != nil)
        #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
        #expect(throws: StateOpenError.logGone(path: path)) { try SQLiteState.open(options(), time: SystemTime()) }
    }

    /// Each of these has no log any more and lacks nothing: a copy with its log that somebody has opened, one that was killed without a fence
    /// since its log was written back, one that ended while a mint had no answer.
    @Test(arguments: ["copied and opened", "not orderly"])
    func aFileWhoseLogWasWrittenBackIsTaken(_ way: String) async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        for number in 1...100 { try await revoke(store, UInt8(number)) }
        let files = FileManager.default
        if way == "copied and opened" {
            for suffix in ["", "-wal"] { try files.copyItem(atPath: path + suffix, toPath: folder + "/copy.db" + suffix) }
            let database = try SQLiteDatabase(path: folder + "/copy.db")
            try database.check()
            database.close()
            #expect(!files.fileExists(atPath: folder + "/copy.db-wal"))
        }
        try await close(store, isOrderly: false)
        if way == "copied and opened" {
            try files.removeItem(atPath: path)
            try files.moveItem(atPath: folder + "/copy.db", toPath: path)
        }
        #expect(!files.fileExists(atPath: path + "-wal"))
        let (state, again) = try open()
        #expect(state.fences.fenceCount == 100 && state.findings.wasUnclean && !state.findings.mayLackChanges)
        try await close(again)
    }

    /// Killed in the moment between two logs: the old one is written back, the new one is empty.
    @Test func anEmptyLogIsTakenAndSaid() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        try FileManager.default.copyItem(atPath: path, toPath: path + ".killed")
        try await close(store)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: path + ".killed", toPath: path)
        try Data().write(to: URL(filePath: path + "-wal"))
        let (state, again) = try open()
        #expect(state.findings.wasUnclean && state.findings.mayLackChanges)
        try await close(again)
    }

    /// Nobody else writes it back, so it has a bound of our own.
    @Test func theLogDoesNotGrowWithoutEnd() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        let done = Promise<Void>("written")
        let left = Lock(1500)
        for number in 0..<1500 {
            let bytes = [UInt8(number / 256), UInt8(number % 256)] + [UInt8](repeating: 0, count: 14)
            store.update(
                try #require(EndUserKey(bytes)),
                { state, _ in state.fence = Fence(block: .user, since: WallInstant(secondsSinceEpoch: 5)) },
                completion: { _ in
                    let isLast = left.withLock { left in
                        left -= 1
                        return left == 0
                    }
                    if isLast { done.fulfil(()) }
                })
        }
        try await done.value()
        try await eventually("a thousand are in the file itself") {
            let copy = self.folder + "/copy.db"
            for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: copy + suffix) }
            guard (try? FileManager.default.copyItem(atPath: self.path, toPath: copy)) != nil,
                let database = try? SQLiteDatabase(path: copy)
            else { return false }
            var count: Int64 = 0
            try? database.query("SELECT count(*) FROM fences") { count = $0.integer(0) ?? 0 }
            database.close()
            return count >= 1000
        }
        try await close(store)
    }

    /// Pages, indexes and structure are sound, and still it is not what was written.
    @Test(arguments: [
        "UPDATE fences SET end_user = x'0102' WHERE end_user = x'01010101010101010101010101010101'",
        "UPDATE fences SET end_user = 'sixteen letters!' WHERE end_user = x'01010101010101010101010101010101'",
        "UPDATE fences SET block = 7", "UPDATE fences SET block = 'user'", "UPDATE fences SET since = 'now'",
        "UPDATE revocations SET end_user = x'01' WHERE number = 1", "UPDATE revocations SET id = x'01' WHERE number = 1",
        "UPDATE revocations SET phase = 9", "UPDATE revocations SET end_user_id = NULL",
        "UPDATE revocations SET next_at = 'soon'",
    ])
    func aRowThatCannotBeWhatWasWrittenIsDamage(_ change: String) async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        for number in 1...3 { try await revoke(store, UInt8(number)) }
        try await close(store)
        let database = try SQLiteDatabase(path: path)
        try database.execute(change)
        try database.check()
        database.close()
        #expect(throws: StateOpenError.damaged(path: path)) { try SQLiteState.open(options(), time: SystemTime()) }
    }

    /// `quick_check` would not see it: an index that has lost an entry hides work from who asks for it.
    @Test func anIndexThatLacksARowIsDamage() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        for number in 1...3 { try await revoke(store, UInt8(number)) }
        try await close(store)
        let database = try SQLiteDatabase(path: path)
        try database.execute("PRAGMA writable_schema=ON")
        // Rows change while the index is not known, and it comes back as it was.
        try database.execute("CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'work_by_time'")
        try database.execute("DELETE FROM sqlite_schema WHERE name = 'work_by_time'")
        database.close()
        let without = try SQLiteDatabase(path: path)
        try without.execute("UPDATE revocations SET next_at = next_at + 1 WHERE number = 2")
        try without.execute("PRAGMA writable_schema=ON")
        try without.execute("INSERT INTO sqlite_schema SELECT * FROM kept")
        without.close()
        let whole = try SQLiteDatabase(path: path)
        try whole.execute("DROP TABLE kept")
        #expect(throws: SQLiteError.corrupt) { try whole.check() }
        whole.close()
        #expect(throws: StateOpenError.damaged(path: path)) { try SQLiteState.open(options(), time: SystemTime()) }
    }

    @Test func whatSQLiteCannotDoSaysWhichFileAndWhatToDo() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        try await close(store)
        let database = try SQLiteDatabase(path: path)
        try database.execute("ALTER TABLE fences RENAME TO gates")
        database.close()
        let error = #expect(throws: StateOpenError.self) { try SQLiteState.open(options(), time: SystemTime()) }
        let text = error?.description ?? ""
        #expect(text.contains("state: \(path) cannot be used: SQLite reports an error (code 1)"))
        #expect(text.contains("\(path)-wal and \(path)-shm away, together, and put a backup in their place"))
    }

    @Test func completeWorkKeepsNoPlainID() async throws {
        defer { removeFolder() }
        let (_, store) = try open()
        try await revoke(store, 1, .none)
        let key = try #require(EndUserKey([UInt8](repeating: 1, count: 16)))
        let done = Promise<Result<UserState, StateError>>("complete")
        store.update(
            key,
            { state, _ in
                state.complete(
                    generation: 1, revokedCount: 2, isLate: false, now: WallInstant(secondsSinceEpoch: 5))
            }, completion: { done.fulfil($0) })
        #expect(try await done.value().get().work == nil)
        let page = Promise<Result<[RevocationRecord]?, StateError>>("page")
        store.page(pendingOnly: false, limit: 10, after: nil, completion: { page.fulfil($0) })
        let records = try #require(try await page.value().get())
        #expect(records.map(\.endUserID) == [nil] && records.map(\.phase) == [.over] && records.map(\.revokedCount) == [2])
        // What is told apart by it: while there is something to ask January it is there.
        try await revoke(store, 2, .none)
        func isThere(_ text: String) throws -> Bool {
            try ["", "-wal"].contains { try Data(contentsOf: URL(filePath: path + $0)).range(of: Data(text.utf8)) != nil }
        }
        #expect(try isThere("user-1") && isThere("user-2"))
        // Every few seconds, long before the end of the process.
        let probed = Promise<Result<Void, StateError>>("probed")
        store.probe(completion: { probed.fulfil($0) })
        try await probed.value().get()
        try await eventually("gone from both files") { (try? isThere("user-1")) == false }
        #expect(try isThere("user-2"))
        try await close(store)
        #expect(try Data(contentsOf: URL(filePath: path)).range(of: Data("user-1".utf8)) == nil)
    }

    /// The sanitizers keep what is freed, and shadows of what is there: resident memory says nothing under them.
    @Test(.disabled(if: Effort.isSanitized, "under a sanitizer"))
    func aMillionFencesCostLessThan200BytesEach() throws {
        let before = residentBytes()
        let table = FenceTable()
        for number in 0..<1_000_000 {
            var value = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
            let high = value
            value = value &* 0xBF58_476D_1CE4_E5B9 ^ value >> 31
            var bytes: [UInt8] = []
            for word in [high, value] {
                for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift * 8))) }
            }
            guard let key = EndUserKey(bytes) else { continue }
            table.set(key, fence: Fence(block: .user, since: WallInstant(secondsSinceEpoch: 1)), isPending: false)
        }
        #expect(table.fenceCount == 1_000_000)
        let perFence = (residentBytes() - before) / 1_000_000
        #expect(perFence <= 200, "\(perFence) bytes")
        withExtendedLifetime(table) {}
    }

    private func residentBytes() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
        return (Int(text.split(separator: " ").dropFirst().first ?? "") ?? 0) * 4096
    }
}
