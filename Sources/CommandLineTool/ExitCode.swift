/// Every way the program ends. 64, 69 and 78 are `EX_USAGE`, `EX_UNAVAILABLE` and `EX_CONFIG` of `sysexits.h`.
package enum ExitCode: Int32, Sendable, CaseIterable {
    case ok = 0
    /// Anything that has no code of its own; `explain`: the session is refused; `healthcheck`: not ready.
    case failed = 1
    /// `explain` could not find out.
    case unknown = 2
    /// `revoke`: accepted and not finished yet; it goes on by itself.
    case pending = 3
    /// Unknown command, unknown flag, missing value.
    case usage = 64
    /// The address is taken, or cannot be listened on.
    case unavailable = 69
    /// The configuration is wrong.
    case configuration = 78

    /// What it means whatever the command; what it means for one is in ``CommandTable``.
    var summary: String {
        switch self {
        case .ok: "done"
        case .failed: "failed, refused, or not ready"
        case .unknown: "could not be found out"
        case .pending: "accepted, and not complete yet"
        case .usage: "an unknown command or flag, or a missing value"
        case .unavailable: "an address cannot be listened on, or the state cannot be opened"
        case .configuration: "the configuration is wrong"
        }
    }
}
