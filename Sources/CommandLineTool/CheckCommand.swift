import Telemetry

/// `check`: everything that is wrong with the configuration, without side effects. Loading runs the policy tests; nothing is connected to,
/// and the audit file, which `serve` opens, is only looked at.
enum CheckCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        let loaded = LoadedConfiguration(invocation)
        for warning in loaded.reader.warnings { invocation.console.complain("warning: \(warning)") }
        guard let config = loaded.config else { return loaded.refuse(invocation.console) }
        if let path = config.audit.file {
            do throws(AuditFile.OpenError) {
                try AuditFile.check(path)
            } catch {
                loaded.auditFileFails(path, error)
                return loaded.refuse(invocation.console)
            }
        }
        invocation.console.print("ok")
        return .ok
    }
}
