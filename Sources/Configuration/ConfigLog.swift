/// What one load collects, shared by all its sections: problems, warnings, and every key that was ever asked for.
final class ConfigLog {
    /// The file as the operator named it; `nil` without a file.
    let fileName: String?
    /// Folder of the file, for relative names in it; empty for the working directory.
    let folder: String
    private(set) var problems: [ConfigProblem] = []
    private(set) var warnings: [ConfigProblem] = []
    private(set) var records = ConfigKeyRecords()
    /// Every file that was read besides the configuration itself, whether that worked or not.
    private(set) var files: [String] = []
    /// After a syntax error nothing a reader could say is worth reading.
    private(set) var isClosed = false

    init(fileName: String?, folder: String) {
        self.fileName = fileName
        self.folder = folder
    }

    func add(_ problem: ConfigProblem) {
        if !isClosed { problems.append(problem) }
    }

    func addWarning(_ warning: ConfigProblem) {
        if !isClosed { warnings.append(warning) }
    }

    func addFile(_ path: String) { files.append(path) }

    func add(_ record: ConfigKeyRecord) { records.add(record) }

    func close() { isClosed = true }

    /// A place for a problem: a line of the file, a variable, or neither.
    func place(_ source: ConfigSource) -> ConfigProblem.Place {
        switch source {
        case .file(let line): fileName.map { .file(name: $0, line: line) } ?? .configuration
        case .environment(let variable): .environment(variable: variable)
        case .builtIn: fileName.map { .file(name: $0, line: nil) } ?? .configuration
        }
    }
}
