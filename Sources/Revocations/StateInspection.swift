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
        // The index of the WAL is there while a process runs, and after one that has crashed. Without it nobody writes.
        let (id, version) = try sqlite(path) { () throws(SQLiteError) in
            let database = try SQLiteDatabase(path: path, access: index == nil ? .readUnused : .read)
            defer { database.close() }
            try database.check()
            let found = (try database.applicationID(), try database.userVersion())
            if found == (SQLiteSchema.applicationID, SQLiteSchema.migrations.count) { try SQLiteSchema.checkRows(database) }
            return found
        }
        if id != SQLiteSchema.applicationID { throw .foreign(path: path) }
        if version > SQLiteSchema.migrations.count { throw .newer(path: path) }
        return .whole
    }
}
