import Primitives

/// One load: a file and an environment become sections. Used by one thread while it loads, then dropped; what the sections' owners
/// made of it stays.
package final class ConfigReader {
    package let root: ConfigSection
    private let log: ConfigLog
    /// The configuration itself, for reading only the files it names again.
    package private(set) var source = Source(file: nil, content: nil)

    /// A configuration as it was read: what becomes of its file later does not count.
    package struct Source: Sendable {
        let file: String?
        /// `nil` where there was no file or it could not be read.
        let content: [UInt8]?
    }

    private init(root: ConfigNode, log: ConfigLog, isBroken: Bool) {
        self.log = log
        guard case .mapping(let mapping) = root.content, !isBroken else {
            self.root = ConfigSection(state: .broken, mapping: ConfigMapping(), source: root.source, log: log)
            return
        }
        self.root = ConfigSection(state: .given, mapping: mapping, source: root.source, log: log)
    }

    /// Reads the file, when there is one, and lays the environment over it. Never fails: what is wrong is in ``problems``.
    ///
    /// - Parameters:
    ///   - file: as the operator named it; `nil` = environment only.
    ///   - environment: every variable of the process. An empty value counts as unset; unknown names are ignored.
    /// - Returns: a reader nobody has read from yet.
    package static func load(file: String?, environment: [String: String]) -> ConfigReader {
        guard let file else { return make(tree: nil, log: ConfigLog(fileName: nil, folder: ""), environment) }
        let folder = folder(of: file)
        do throws(FileBytes.Failure) {
            let bytes = try FileBytes.read(file, maxBytes: YAMLTree.maxBytes).bytes
            let reader = make(tree: YAMLTree(bytes), log: ConfigLog(fileName: file, folder: folder), environment)
            reader.source = Source(file: file, content: bytes)
            return reader
        } catch {
            let log = ConfigLog(fileName: file, folder: folder)
            log.add(
                ConfigProblem(place: .file(name: file, line: nil), path: "", message: "cannot read the file: \(error.message)"))
            var nothing = ConfigMapping()
            EnvironmentOverlay(environment).apply(to: &nothing, log: log)
            log.close()
            return ConfigReader(root: ConfigNode(content: .refused, source: .builtIn), log: log, isBroken: true)
        }
    }

    /// The same configuration, with the files it names read again: for a reload of secrets alone.
    package static func load(_ source: Source, environment: [String: String]) -> ConfigReader {
        let folder = source.file.map(folder) ?? ""
        let reader = make(
            tree: source.content.map { YAMLTree($0) }, log: ConfigLog(fileName: source.file, folder: folder), environment)
        reader.source = source
        return reader
    }

    private static func folder(of file: String) -> String {
        file.lastIndex(of: "/").map { String(file[..<file.index(after: $0)]) } ?? ""
    }

    /// The same for text that is not in a file. `name` stands for the file in problems; `folder` is for relative names, with a slash at
    /// its end, empty for the working directory.
    package static func parse(
        _ text: String, name: String = "config.yaml", folder: String = "", environment: [String: String] = [:]
    ) -> ConfigReader {
        parse(Array(text.utf8), name: name, folder: folder, environment: environment)
    }

    package static func parse(
        _ bytes: [UInt8], name: String = "config.yaml", folder: String = "", environment: [String: String] = [:]
    ) -> ConfigReader {
        make(tree: YAMLTree(bytes), log: ConfigLog(fileName: name, folder: folder), environment)
    }

    private static func make(tree: YAMLTree?, log: ConfigLog, _ environment: [String: String]) -> ConfigReader {
        var root = tree?.root ?? ConfigMapping()
        for note in tree?.problems ?? [] {
            let place = ConfigProblem.Place.file(name: log.fileName ?? "", line: note.line)
            log.add(ConfigProblem(place: place, path: note.path, message: note.message))
        }
        EnvironmentOverlay(environment).apply(to: &root, log: log)
        let isBroken = tree?.isComplete == false
        if isBroken { log.close() }
        let source = tree.map { ConfigSource.file(line: $0.rootLine) } ?? .builtIn
        return ConfigReader(root: ConfigNode(content: .mapping(root), source: source), log: log, isBroken: isBroken)
    }

    /// Everything wrong so far, in the order of the file, then the environment. Unknown keys of finished sections are found here, so
    /// it does not matter in which order the owners of one section read it.
    package var problems: [ConfigProblem] {
        ConfigProblem.sorted(log.problems + (log.isClosed ? [] : root.unknownKeys(isFinished: false)))
    }

    /// The files the configuration names and that were read: secrets, certificates, keys.
    package var files: [String] { log.files }

    package var warnings: [ConfigProblem] { ConfigProblem.sorted(log.warnings) }

    /// Every key that was asked for, with its type, default and range.
    package var keyRecords: [ConfigKeyRecord] { log.records.all }

    /// The keys the file and the environment give, in the form of ``ConfigKeyRecord/path``, as far as sections were read.
    package var givenKeys: Set<String> { root.givenRecordPaths() }

    /// The effective configuration as YAML, every line with its source. Whole only after every owner has read its section.
    package func printed() -> String { ConfigPrinter.print(root) }
}
