import EventLoop
import Primitives

/// Places at which tests of debug builds let the process die as if its power had gone: `CRASH_AT=NAME` in its environment, `CRASH_AT=NAME:3`
/// for the third time it comes there. Release builds have none of this.
package enum CrashPoint: String, Sendable, CaseIterable {
    case beforeWrite = "before_write"
    case beforeCommit = "before_commit"
    case afterCommit = "after_commit"
    case beforeSweep = "before_sweep"
    case afterSweep = "after_sweep"
    case beforeCompletion = "before_completion"
    case afterCompletion = "after_completion"
    case beforeLift = "before_lift"
    case afterLift = "after_lift"

    #if DEBUG
        private static let wanted = Lock<(point: CrashPoint, left: Int)?>(read())

        private static func read() -> (point: CrashPoint, left: Int)? {
            guard let text = ProcessSettings.variable("CRASH_AT") else { return nil }
            let parts = text.split(separator: ":")
            guard let name = parts.first, let point = CrashPoint(rawValue: String(name)) else { return nil }
            return (point, parts.count > 1 ? Int(parts[1]) ?? 1 : 1)
        }

        package static func reached(_ point: CrashPoint) {
            let dies = wanted.withLock { wanted in
                guard wanted?.point == point else { return false }
                wanted?.left -= 1
                return wanted?.left == 0
            }
            if dies { ProcessSettings.dieAtOnce() }
        }
    #else
        @inlinable
        package static func reached(_ point: CrashPoint) {}
    #endif
}
