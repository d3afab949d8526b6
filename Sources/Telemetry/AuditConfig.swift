import Configuration

/// What becomes of mints while audit records cannot be written.
package enum AuditWhenBlocked: String, Sendable, CaseIterable {
    /// They go on; records that do not fit are lost and counted (`audit_dropped_total`).
    case drop
    /// 503: no token without its record.
    case refuse
}

/// The section `audit`.
package struct AuditConfig: Sendable, Equatable {
    /// `audit.file`; `nil`: standard output, among the lines of the log.
    package var file: String?
    /// `audit.mints`: one record for each mint. All other events are always recorded.
    package var mints = true
    /// `audit.when_blocked`
    package var whenBlocked = AuditWhenBlocked.drop

    package init() {}

    package static func read(_ section: ConfigSection) -> AuditConfig {
        var config = AuditConfig()
        config.file = section.filePath("file")
        config.mints = section.boolean("mints", default: config.mints)
        config.whenBlocked = section.choice("when_blocked", default: config.whenBlocked)
        section.finish()
        return config
    }
}
