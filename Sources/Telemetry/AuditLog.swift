import Primitives
import Synchronization

/// What is recorded. The text is the record's `message`, and stable.
package enum AuditEvent: Sendable, CaseIterable {
    /// January was asked for a token.
    case mint
    /// No token, because of a fence or of a revocation under way.
    case mintRefused
    case revocationRequested
    /// January was asked to revoke, once.
    case revocationSwept
    case revocationCompleted
    /// A block was lifted, or will be with the completion of what is pending.
    case revocationLifted
    /// Another API key is in use.
    case keyChanged
    case reloaded
    case securityEvent

    package var message: StaticString {
        switch self {
        case .mint: "mint"
        case .mintRefused: "mint refused"
        case .revocationRequested: "revocation requested"
        case .revocationSwept: "revocation swept"
        case .revocationCompleted: "revocation completed"
        case .revocationLifted: "revocation lifted"
        case .keyChanged: "API key changed"
        case .reloaded: "configuration reloaded"
        case .securityEvent: "security event"
        }
    }

    var level: LogLevel { self == .securityEvent ? .error : .info }
}

/// The audit trail: one record each for what was given, refused, revoked and changed. Any thread; never blocks.
///
/// Records are lines like those of the log, of type `audit`, neither filtered by level nor limited in number: on standard output in the
/// log's format, in a file always JSON. A record is taken before what it tells of is answered, and written a few milliseconds later.
package final class AuditLog: Sendable {
    private enum Target {
        case log(Log)
        case output(any LogOutput)
    }

    private let target: Target
    private let time: any TimeSource
    private let settings: Atomic<UInt8>
    private let hash: EndUserHash

    /// What a reload may change.
    private struct Settings: OptionSet {
        let rawValue: UInt8
        static let mints = Settings(rawValue: 1)
        static let refuses = Settings(rawValue: 2)
        static let plainIDs = Settings(rawValue: 4)

        init(rawValue: UInt8) { self.rawValue = rawValue }

        init(_ config: AuditConfig, _ endUserID: LogEndUserID) {
            self = []
            if config.mints { insert(.mints) }
            if config.whenBlocked == .refuse { insert(.refuses) }
            if endUserID == .plain { insert(.plainIDs) }
        }
    }

    /// - Parameters:
    ///   - output: of its own; `nil`: among the lines of `log`.
    ///   - endUserID: how end users appear, `log.end_user_id`.
    package init(
        _ config: AuditConfig, log: Log, output: (any LogOutput)?, time: any TimeSource, hash: EndUserHash,
        endUserID: LogEndUserID
    ) {
        target = output.map(Target.output) ?? .log(log)
        self.time = time
        self.hash = hash
        settings = Atomic(Settings(config, endUserID).rawValue)
    }

    /// For a reload. Where records go stays as it is.
    package func apply(_ config: AuditConfig, endUserID: LogEndUserID) {
        settings.store(Settings(config, endUserID).rawValue, ordering: .relaxed)
    }

    private func has(_ setting: Settings) -> Bool {
        Settings(rawValue: settings.load(ordering: .relaxed)).contains(setting)
    }

    /// Goes nowhere: for tests of what only carries it.
    package static func nowhere(time: any TimeSource) -> AuditLog {
        AuditLog(
            AuditConfig(), log: Log(time: time, output: LogNowhere()), output: nil, time: time, hash: .random(), endUserID: .hash)
    }

    package func write(_ event: AuditEvent, _ fields: @autoclosure () -> [LogField]) {
        write(event) { line in
            for field in fields() { line.add(field) }
        }
    }

    /// The same for records that every mint writes: their fields go into the line one by one.
    package func write(_ event: AuditEvent, fields: (inout LogLine) -> Void) {
        switch target {
        case .log(let log): log.write(event.level, event.message, .audit, fields: fields)
        case .output(let output):
            var line = LogLine(format: .json, time: time.wall(), level: event.level, type: .audit, message: event.message)
            fields(&line)
            line.end()
            output.append(line.bytes, type: .audit)
        }
    }

    /// The field `end_user` of a record.
    package func endUser(_ endUserID: String) -> LogField { hash.field(endUserID, as: has(.plainIDs) ? .plain : .hash) }

    /// The same, into a record.
    package func addEndUser(_ endUserID: String, to line: inout LogLine) {
        guard !has(.plainIDs) else { return line.add(endUser(endUserID)) }
        let (high, low) = hash.bits(endUserID)
        line.add("end_user", hex: high, low)
    }

    package var recordsMints: Bool { has(.mints) }

    /// No token may be given now, because its record would be lost.
    package var refusesMints: Bool { has([.mints, .refuses]) && output.isBlocked }

    /// Records that were lost.
    package var droppedCount: Int { output.droppedAuditCount }

    private var output: any LogOutput {
        switch target {
        case .log(let log): log.output
        case .output(let output): output
        }
    }
}
