import EventLoop
import Primitives
import SQLite
import Telemetry

/// The state file, opened: checked, of our version, this process's alone, its fences in memory. Opening blocks; it is part of the start.
package struct SQLiteState: Sendable {
    package struct Options: Sendable {
        package var path: String
        /// `state_must_exist`
        package var mustExist = false
        /// For another process that is about to end.
        package var waitsFor: Duration = .seconds(25)
        /// Configuration keys with what was made of their values: must be as at the first start.
        package var identity: [String: String] = [:]
        /// `end_user_id.accept_new_mapping`
        package var acceptsNewIdentity = false
        /// `log.hash_secret_file`; `nil`: the state's own random key.
        package var hashSecret: Secret?

        package init(path: String) { self.path = path }
    }

    /// What the start tells the operator.
    package struct Findings: Sendable, Equatable {
        package var isNew = false
        /// The last process did not end in order.
        package var wasUnclean = false
        /// Nor can it be told whether all that its log had is there.
        package var mayLackChanges = false
        /// The mode of a folder that others may read.
        package var openFolderMode: UInt32?
        /// Keys that differ and were accepted.
        package var acceptedChanges: [String] = []
        package init() {}
    }

    let thread: SQLiteThread
    let lock: FileLock
    package let path: String
    package let fences: FenceTable
    package let findings: Findings
    package let hash: EndUserHash
    package let storeID: String

    private static let identityPrefix = "identity:"
    private static let hashIdentity = "log.hash_secret_file"

    /// - Parameters:
    ///   - givesUp: asked while it waits for another process.
    ///   - waits: called once, when that wait begins.
    package static func open(
        _ options: Options, time: any TimeSource, givesUp: () -> Bool = { false }, waits: () -> Void = {}
    ) throws(StateOpenError) -> SQLiteState {
        let path = options.path
        var findings = Findings()
        let lock = try acquire(options, time, givesUp, waits, &findings)
        let info = try system(path) { () throws(SystemError) in try StateFile.info(path) }
        if info == nil {
            findings.isNew = true
            let log = try system(path) { () throws(SystemError) in try StateFile.info(path + "-wal") }
            if log != nil { throw .orphanedLog(path: path) }
            if options.mustExist { throw .missing(path: path) }
            try create(options)
        } else if info?.byteCount == 0 {
            // A new file gets its name when it is whole: an empty one has lost what it had.
            throw .damaged(path: path)
        }
        try system(path) { () throws(SystemError) in try StateFile.makePrivate(path) }
        // Before SQLite makes one.
        let hasLog = try system(path) { () throws(SystemError) in try StateFile.info(path + "-wal") } != nil
        let database = try sqlite(path) { () throws(SQLiteError) in try SQLiteDatabase(path: path) }
        // Before anything in it is believed.
        try sqlite(path) { () throws(SQLiteError) in try database.check() }
        let id = try sqlite(path) { () throws(SQLiteError) in try database.applicationID() }
        if id != SQLiteSchema.applicationID { throw .foreign(path: path) }
        let version = try sqlite(path) { () throws(SQLiteError) in try database.userVersion() }
        if version > SQLiteSchema.migrations.count { throw .newer(path: path) }
        try sqlite(path) { () throws(SQLiteError) in
            try database.migrate(SQLiteSchema.migrations)
            try SQLiteSchema.checkRows(database)
        }

        let hash = try prepareHash(database, options)
        try checkIdentity(database, options, hash, &findings)
        let storeID = try begin(database, path, hasLog: hasLog, &findings, now: time.wall())
        let fences = try sqlite(path) { () throws(SQLiteError) in try loadFences(database) }
        return SQLiteState(
            thread: SQLiteThread(database), lock: lock, path: path, fences: fences, findings: findings, hash: hash,
            storeID: storeID)
    }

    // MARK: Files

    private static func acquire(
        _ options: Options, _ time: any TimeSource, _ givesUp: () -> Bool, _ waits: () -> Void, _ findings: inout Findings
    ) throws(StateOpenError) -> FileLock {
        let path = options.path
        let folder = StateFile.folder(of: path)
        try system(path) { () throws(SystemError) in try StateFile.makeFolder(folder) }
        let info = try system(path) { () throws(SystemError) in try StateFile.info(folder) }
        if let mode = info?.mode, mode & 0o077 != 0 { findings.openFolderMode = mode }
        // On a file of its own: what others do to SQLite's files cannot take it away.
        let lock = try system(path) { () throws(SystemError) in
            try FileLock.acquire(path + ".lock", within: options.waitsFor, time: time, givesUp: givesUp, waits: waits)
        }
        guard let lock else { throw .inUse(path: path) }
        return lock
    }

    /// The whole file under another name first: a crash leaves no half of one.
    ///
    /// What makes it this state is in it from the first moment on: a file that lacks it has lost what it had.
    private static func create(_ options: Options) throws(StateOpenError) {
        let path = options.path
        let temporary = path + ".new"
        try system(path) { () throws(SystemError) in
            for suffix in ["-wal", "-shm", "-journal"] { try StateFile.remove(temporary + suffix) }
            try StateFile.create(temporary)
        }
        try sqlite(path) { () throws(SQLiteError) in
            let database = try SQLiteDatabase(path: temporary)
            defer { database.close() }
            try database.migrate(SQLiteSchema.migrations)
            try database.transaction { () throws(SQLiteError) in
                let key = SystemRandom.bytes(32)
                if options.hashSecret == nil { try SQLiteSchema.setMeta("hash_key", key, database) }
                try record(identity(options, EndUserHash(secret: options.hashSecret ?? Secret(key))), database)
                try SQLiteSchema.setMeta("store_id", Array(Hex.encode(SystemRandom.bytes(16)).utf8), database)
                try SQLiteSchema.setMeta("clean", [1], database)
            }
            try database.writeLogBack()
        }
        try system(path) { () throws(SystemError) in
            for suffix in ["-wal", "-shm"] { try StateFile.remove(temporary + suffix) }
            try StateFile.publish(temporary, as: path)
        }
    }

    static func system<Result>(
        _ path: String, _ body: () throws(SystemError) -> Result
    ) throws(StateOpenError) -> Result {
        do throws(SystemError) { return try body() } catch { throw .unusable(path: path, reason: error.text) }
    }

    static func sqlite<Result>(
        _ path: String, _ body: () throws(SQLiteError) -> Result
    ) throws(StateOpenError) -> Result {
        do throws(SQLiteError) {
            return try body()
        } catch {
            switch error {
            case .busy: throw .inUse(path: path)
            case .corrupt, .notADatabase: throw .damaged(path: path)
            case .readOnly: throw .unusable(path: path, reason: "it is read-only; make file and folder writable for this process")
            case .full: throw .unusable(path: path, reason: "the disk is full")
            case .cannotOpen:
                throw .unusable(
                    path: path, reason: "SQLite cannot open it; make file and folder readable and writable for this process")
            case .io(let code):
                throw .unusable(
                    path: path, reason: "reading or writing failed (SQLite \(code)); look at the disk and the kernel's log")
            case .tooBusy, .other:
                // A table or column that is not there, say: the file passes every check and is none of ours.
                throw .unusable(
                    path: path,
                    reason:
                        "SQLite reports an error (\(error.detail)) that its checks have not found; if it comes again, move the file,"
                        + " \(path)-wal and \(path)-shm away, together, and put a backup in their place; if there is none, start without"
                        + " and revoke every deleted account again, for their fences are lost")
            }
        }
    }

    /// The key under which this state hashes end users while no `log.hash_secret_file` is configured; `nil` where it has none. For
    /// commands; the server may be running.
    package static func hashKey(at path: String) throws(StateOpenError) -> Secret? {
        let (info, log) = try system(path) { () throws(SystemError) in
            (try StateFile.info(path), try StateFile.info(path + "-wal"))
        }
        if info == nil { throw .unusable(path: path, reason: "it does not exist") }
        return try sqlite(path) { () throws(SQLiteError) in
            // SQLite would make a log where there is none: see `inspect`.
            let database = try SQLiteDatabase(path: path, access: log == nil ? .readUnused : .read)
            defer { database.close() }
            return try SQLiteSchema.meta("hash_key", database).map { Secret($0) }
        }
    }

    // MARK: What is in it

    /// A configured key, else the state's own; that one is made once and stays.
    private static func prepareHash(
        _ database: SQLiteDatabase, _ options: Options
    ) throws(StateOpenError) -> EndUserHash {
        if let secret = options.hashSecret { return EndUserHash(secret: secret) }
        let key = try sqlite(options.path) { () throws(SQLiteError) -> [UInt8] in
            if let key = try SQLiteSchema.meta("hash_key", database) { return key }
            let key = SystemRandom.bytes(32)
            try database.transaction { () throws(SQLiteError) in try SQLiteSchema.setMeta("hash_key", key, database) }
            return key
        }
        return EndUserHash(secret: Secret(key))
    }

    private static func checkIdentity(
        _ database: SQLiteDatabase, _ options: Options, _ hash: EndUserHash, _ findings: inout Findings
    ) throws(StateOpenError) {
        let identity = identity(options, hash)
        let known = try sqlite(options.path) { () throws(SQLiteError) -> [String: String] in
            var known: [String: String] = [:]
            try database.query("SELECT name, value FROM meta WHERE name GLOB 'identity:*'") { row in
                let name = (row.text(0) ?? "").dropFirst(identityPrefix.count)
                known[String(name)] = String(decoding: row.blob(1) ?? [], as: UTF8.self)
            }
            return known
        }
        // It is there before anything else is.
        if known.isEmpty { throw .damaged(path: options.path) }
        let names = Set(known.keys).union(identity.keys)
        let changed = names.filter { name in
            !(known[name] ?? "").utf8.elementsEqual((identity[name] ?? "").utf8)
        }.sorted()
        if !changed.isEmpty && !options.acceptsNewIdentity { throw .changed(keys: changed) }
        findings.acceptedChanges = changed
        if changed.isEmpty { return }
        try sqlite(options.path) { () throws(SQLiteError) in
            try database.transaction { () throws(SQLiteError) in try record(identity, database) }
        }
    }

    private static func identity(_ options: Options, _ hash: EndUserHash) -> [String: String] {
        var identity = options.identity
        identity[hashIdentity] = hash.fingerprint
        return identity
    }

    private static func record(_ identity: [String: String], _ database: SQLiteDatabase) throws(SQLiteError) {
        try database.run("DELETE FROM meta WHERE name GLOB 'identity:*'")
        for (name, value) in identity { try SQLiteSchema.setMeta(identityPrefix + name, Array(value.utf8), database) }
    }

    /// Marks the file as in use, so that the next process knows when this one did not end in order.
    ///
    /// - Parameter hasLog: a WAL was there before the file was opened.
    private static func begin(
        _ database: SQLiteDatabase, _ path: String, hasLog: Bool, _ findings: inout Findings, now: WallInstant
    ) throws(StateOpenError) -> String {
        let found = try sqlite(path) { () throws(SQLiteError) in
            (
                id: try SQLiteSchema.meta("store_id", database), clean: try SQLiteSchema.meta("clean", database),
                log: try SQLiteSchema.meta(SQLiteSchema.logMark, database)
            )
        }
        guard let storeID = found.id else { throw .damaged(path: path) }
        findings.wasUnclean = found.clean != [1]
        if findings.wasUnclean {
            if !hasLog && found.log == [0] { throw .logGone(path: path) }
            // Of a version that did not say; or its end came in the moment between two logs.
            findings.mayLackChanges = found.log == [0] || (!hasLog && found.log == nil)
        }
        try sqlite(path) { () throws(SQLiteError) in
            try database.transaction { () throws(SQLiteError) in
                try SQLiteSchema.setMeta("clean", [0], database)
                // A clock that was wrong when the work was put off must not keep it waiting.
                let latest = (now + RevocationRecord.lateDelay).nanosecondsSinceEpoch
                try database.run(
                    "UPDATE revocations SET next_at = min(next_at, ?), late_at = min(late_at, ?) WHERE phase < 2",
                    .integer(latest), .integer(latest))
            }
            // From here on SQLite does not do it by itself: see there.
            try database.execute("PRAGMA wal_autocheckpoint=0")
            do throws(SQLiteError) {
                try SQLiteSchema.writeLogBack(database)
            } catch .busy, .full {
                // Somebody reads it, or there is no room for more: later.
            }
        }
        return String(decoding: storeID, as: UTF8.self)
    }

    private static func loadFences(_ database: SQLiteDatabase) throws(SQLiteError) -> FenceTable {
        let table = FenceTable()
        var pending: Set<EndUserKey> = []
        try database.query("SELECT end_user FROM revocations WHERE phase = 0") { row in
            if let key = EndUserKey(row.blob(0) ?? []) { pending.insert(key) }
        }
        try database.query("SELECT end_user, block, since FROM fences") { row in
            guard let key = EndUserKey(row.blob(0) ?? []) else { return }
            let fence = Fence(block: SQLiteSchema.block(row.integer(1) ?? 2), since: SQLiteSchema.instant(row.integer(2)))
            table.set(key, fence: fence, isPending: pending.remove(key) != nil)
        }
        for key in pending { table.set(key, fence: nil, isPending: true) }
        return table
    }
}
