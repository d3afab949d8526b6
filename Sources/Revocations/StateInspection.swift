import EventLoop
import SQLite

extension SQLiteState {
    package enum Inspection: Sendable, Equatable {
        /// The first start makes one.
        case missing
        case whole
        /// A WAL waits to be taken in, and there is nothing yet to read it by: the start looks at both together.
        case unread
    }

    /// Whether the file at this path is a whole state of this version: every page is looked at, nothing is changed and no file made beside it.
    /// For commands; the server may be running.
    package static func inspect(_ path: String) throws(StateOpenError) -> Inspection {
        let (file, log, index) = try system(path) { () throws(SystemError) in
            (try StateFile.info(path), try StateFile.info(path + "-wal"), try StateFile.info(path + "-shm"))
        }
        guard let file else {
            if log != nil { throw .orphanedLog(path: path) }
            return .missing
        }
        if file.byteCount == 0 { throw .damaged(path: path) }
        if index == nil && log?.byteCount ?? 0 > 0 { return .unread }
        let found: Found
        do throws(StateOpenError) {
            // Where there is no log nobody writes, and SQLite, asked to read alone, would make an empty one: the next start would take that for the
            // log that is missing.
            found = try read(path, log != nil && index != nil ? .read : .readUnused)
            // As the start would: what was there before it is in the log alone.
            if log == nil && found.clean != [1] && found.logMark == [0] { throw .logGone(path: path) }
        } catch {
            // A process that has begun meanwhile changes what was read as unused.
            guard log == nil, (try? StateFile.info(path + "-wal")) != nil else { throw error }
            return try inspect(path)
        }
        if found.applicationID != SQLiteSchema.applicationID { throw .foreign(path: path) }
        if found.version > SQLiteSchema.migrations.count { throw .newer(path: path) }
        return .whole
    }

    private struct Found {
        var applicationID: Int
        var version: Int
        var clean: [UInt8]?
        var logMark: [UInt8]?
    }

    private static func read(_ path: String, _ access: SQLiteDatabase.Access) throws(StateOpenError) -> Found {
        try sqlite(path) { () throws(SQLiteError) in
            let database = try SQLiteDatabase(path: path, access: access)
            defer { database.close() }
            try database.check()
            var found = Found(applicationID: try database.applicationID(), version: try database.userVersion())
            if (found.applicationID, found.version) == (SQLiteSchema.applicationID, SQLiteSchema.migrations.count) {
                try SQLiteSchema.checkRows(database)
                found.clean = try SQLiteSchema.meta("clean", database)
                found.logMark = try SQLiteSchema.meta(SQLiteSchema.logMark, database)
            }
            return found
        }
    }
}
