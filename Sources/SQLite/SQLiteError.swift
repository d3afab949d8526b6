import CSQLite

/// Why a statement or a file was refused. Bounded: `reason` is a log field.
package enum SQLiteError: Error, Equatable, Sendable {
    /// Another process has the file.
    case busy
    /// The disk, or a quota, is full.
    case full
    case readOnly
    /// The file is damaged.
    case corrupt
    /// The file is something else.
    case notADatabase
    case cannotOpen
    /// Reading or writing failed. The extended result code.
    case io(Int32)
    /// The thread is not taking jobs: too many wait, or it has stopped.
    case tooBusy
    /// Anything else: a fault of ours, out of memory. The extended result code.
    case other(Int32)

    init(code: Int32) {
        switch code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED: self = .busy
        case SQLITE_FULL: self = .full
        case SQLITE_READONLY: self = .readOnly
        case SQLITE_CORRUPT: self = .corrupt
        case SQLITE_NOTADB: self = .notADatabase
        case SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH: self = .cannotOpen
        case SQLITE_IOERR: self = .io(code)
        default: self = .other(code)
        }
    }

    /// For people: with SQLite's number where there is one.
    package var detail: String {
        if case .other(let code) = self { "code \(code)" } else { reason }
    }

    package var reason: String {
        switch self {
        case .busy: "busy"
        case .full: "full"
        case .readOnly: "read_only"
        case .corrupt: "corrupt"
        case .notADatabase: "not_a_database"
        case .cannotOpen: "cannot_open"
        case .io: "io"
        case .tooBusy: "too_busy"
        case .other: "other"
        }
    }
}
