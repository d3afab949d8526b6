import Configuration
import Telemetry
import TokenEndpoint

/// The configuration as every command reads it: from `--config FILE`, else `CONFIG_FILE`, else the environment alone. No path is searched.
struct LoadedConfiguration {
    let reader: ConfigReader
    /// `nil` where there are problems.
    let config: RootConfig?

    init(_ invocation: Invocation) {
        let variable = invocation.environment["CONFIG_FILE"].flatMap { $0.isEmpty ? nil : $0 }
        reader = ConfigReader.load(file: invocation.options.value(.config) ?? variable, environment: invocation.environment)
        config = RootConfig.read(reader)
    }

    /// The file of `audit.file` cannot be opened: one more problem, where the key stands.
    func auditFileFails(_ path: String, _ error: AuditFile.OpenError) {
        reader.root.section("audit").problem("file", "cannot open \(ConfigText.quoted(path)): \(error.text)")
    }

    /// Every problem to standard error, one a line.
    func refuse(_ console: any Console) -> ExitCode {
        for problem in reader.problems { console.complain(problem.description) }
        return .configuration
    }
}
