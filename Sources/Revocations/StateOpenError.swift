/// Why the state cannot be used at the start. Says which file and what to do.
package enum StateOpenError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process has it.
    case inUse(path: String)
    /// `state_must_exist` is set and there is none.
    case missing(path: String)
    case damaged(path: String)
    case foreign(path: String)
    /// Written by a later version of this program.
    case newer(path: String)
    /// A WAL without its file: the state was here and is gone.
    case orphanedLog(path: String)
    /// A file whose WAL is gone: the last changes were in it.
    case logGone(path: String)
    case unusable(path: String, reason: String)
    /// The configuration keys whose values are not those the state was made with.
    case changed(keys: [String])

    package var description: String {
        switch self {
        case .inUse(let path): "state: \(path) is used by another process; one state file serves one process"
        case .missing(let path):
            "state: \(path) does not exist and state_must_exist is true: mount the volume that holds it, or restore it from a backup"
        case .damaged(let path):
            "state: \(path) is damaged: restore it from a backup together with \(path)-wal; if there is none, move both away and revoke"
                + " every deleted account again, for their fences are lost"
        case .foreign(let path): "state: \(path) is not a state file of this program: name another file"
        case .newer(let path): "state: \(path) was written by a later version: run that version, or restore a backup from before"
        case .orphanedLog(let path):
            "state: \(path) is missing but \(path)-wal is there: restore both from a backup; if there is none, move \(path)-wal away and"
                + " revoke every deleted account again, for their fences are lost"
        case .logGone(let path):
            "state: \(path)-wal is missing, and the last fences and revocations with it: put it back, or restore a backup; if there is none,"
                + " move \(path) away and revoke every deleted account again"
        case .unusable(let path, let reason): "state: \(path) cannot be used: \(reason)"
        case .changed(let keys):
            "\(keys.joined(separator: ", ")): not what the state was made with: every end user would become another one and every fence"
                + " would be lost. Put the old values back, or accept that with end_user_id.accept_new_mapping: true"
        }
    }
}
