import Configuration
import EventLoop
import Primitives
import Telemetry
import TokenEndpoint

/// The configuration as every command reads it: from `--config FILE`, else `CONFIG_FILE`, else the environment alone. No path is searched.
struct LoadedConfiguration {
    let reader: ConfigReader
    /// `nil` where there are problems.
    let config: RootConfig?
    private let readAt: WallInstant

    init(_ invocation: Invocation) { self.init(file: Self.file(invocation), environment: invocation.environment) }

    /// The file that the command line or the environment names, if any.
    static func file(_ invocation: Invocation) -> String? {
        let variable = invocation.environment["CONFIG_FILE"].flatMap { $0.isEmpty ? nil : $0 }
        return invocation.options.value(.config) ?? variable
    }

    init(file: String?, environment: [String: String], time: any TimeSource = SystemTime()) {
        readAt = time.wall()
        reader = ConfigReader.load(file: file, environment: environment)
        config = RootConfig.read(reader)
        if let config { StartWarnings.add(config, to: reader, environment: environment, now: readAt) }
    }

    /// The same configuration, with only the files it names read again.
    init(again files: Files, environment: [String: String], time: any TimeSource) {
        readAt = time.wall()
        reader = ConfigReader.load(files.source, environment: environment)
        config = RootConfig.read(reader)
        if let config { StartWarnings.add(config, to: reader, environment: environment, now: readAt) }
    }

    /// What a running server has to remember.
    struct Files: Sendable {
        let source: ConfigReader.Source
        let paths: [String]
        /// When reading began.
        let readAt: WallInstant
    }

    var files: Files { Files(source: reader.source, paths: reader.files, readAt: readAt) }

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
