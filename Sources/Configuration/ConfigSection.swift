import Primitives
import StrictJSON

/// A mapping at a path, read by its owner through typed getters (the other files of this type).
///
/// Every getter records a problem and answers with the default (or `nil`) when the value does not fit, and records the effective value
/// with its source. A section that is not a mapping in the file is one problem; its getters then answer with defaults and are silent.
/// Belongs to one load and one thread.
package final class ConfigSection {
    enum State {
        case given, absent
        /// Has the wrong type; the problem was recorded by whoever found it.
        case broken
    }

    let state: State
    /// `sessions.verifiers[0]`; empty at the root.
    package let path: String
    /// `sessions.verifiers[]`: the same with `[]` for indices and `*` for names, for ``ConfigKeyRecord``.
    let recordPath: String
    /// Where the section stands, for printing.
    let source: ConfigSource
    /// Where a key that is missing here would have been written.
    private let home: ConfigSource
    let log: ConfigLog

    private let nodes: [String: ConfigNode]
    private let variables: [String: String]
    /// The keys that were given, in their order.
    package let keys: [String]

    private var presets: [String: ConfigNode] = [:]
    private var asked: Set<String> = []
    private var brokenKeys: Set<String> = []
    private var childSections: [String: [ConfigSection]] = [:]
    private var childItems: [String: [ConfigItem]] = [:]
    private var isFinished = false
    private var isAbandoned = false
    private var isMapOfNames = false

    private(set) var entries: [ConfigEntry] = []

    init(
        state: State, mapping: ConfigMapping, source: ConfigSource, home: ConfigSource? = nil, path: String = "",
        recordPath: String = "",
        log: ConfigLog
    ) {
        self.state = state
        self.path = path
        self.recordPath = recordPath
        self.source = source
        self.home = home ?? source
        self.log = log
        keys = mapping.members.map(\.key)
        nodes = Dictionary(mapping.members.map { ($0.key, $0.value) }) { first, _ in first }
        variables = mapping.variables
    }

    /// Whether the file or the environment gives the key, whatever its value.
    package func has(_ key: String) -> Bool { nodes[key] != nil }

    /// Whether the section itself was given; false for one that ``section(_:)`` made up.
    package var isGiven: Bool { state == .given }

    /// Whether the section has the wrong type, which is one problem already: its owner has nothing to add.
    package var isBroken: Bool { state == .broken }

    /// The keys that were given, for a section whose keys are names the operator chooses (features, claims). In the key records they
    /// all appear as `*`.
    package var names: [String] {
        isMapOfNames = true
        return keys
    }

    /// What stands at the key. Counts as asking for it.
    package func kind(_ key: String) -> ConfigKind? {
        asked.insert(key)
        guard let node = nodes[key] ?? presets[key] else { return nil }
        if node.isNull { return .null }
        return switch node.content {
        case .scalar(let text, let style): .scalar(text: text, isQuoted: style == .quoted)
        case .sequence: .list
        case .mapping: .mapping
        case .secret: .scalar(text: nil, isQuoted: false)
        case .refused: nil
        }
    }

    /// Where the key's value comes from: a URL with a password is accepted from the environment and nowhere else.
    package func source(_ key: String) -> ConfigSource { nodes[key]?.source ?? .builtIn }

    // MARK: - Presets

    /// What a preset puts at a key that was not given; later getters answer with it. Printed as `# default`.
    package func setDefault(_ key: String, _ value: ConfigValue) { presets[key] = value.node(.builtIn) }

    /// Records an effective value without a getter: what a preset expanded to.
    package func record(_ key: String, _ value: ConfigValue) {
        asked.insert(key)
        note(key, .value(value), nodes[key])
    }

    // MARK: - Problems

    /// A problem at a key (given or missing), or at the section itself. Silent where a getter has already said what is wrong.
    package func problem(_ key: String?, _ message: String) {
        guard state != .broken else { return }
        if let key {
            if brokenKeys.contains(key) { return }
            asked.insert(key)
        }
        log.add(made(key, message))
    }

    /// The same with the value: `must be a URL (got "x")`. A value that looks like a secret is left out.
    package func invalid(_ key: String, _ message: String) {
        problem(key, message + got(key, nodes[key]))
    }

    /// A problem at one item of a list of scalars, with the item's own line and value: `features[1]: is no feature (got "x")`.
    package func invalid(_ key: String, at index: Int, _ message: String) {
        problem(key, at: index, message + (item(key, index).map { got(key, $0) } ?? ""))
    }

    /// The same without the value: for items that name secrets.
    package func problem(_ key: String, at index: Int, _ message: String) {
        guard state != .broken else { return }
        guard let item = item(key, index) else { return problem(key, message) }
        log.add(problem(at: item.source, path: "\(joined(key))[\(index)]", message, isDirect: true))
    }

    private func item(_ key: String, _ index: Int) -> ConfigNode? {
        guard let node = nodes[key], case let items = Self.items(node), items.indices.contains(index) else { return nil }
        return items[index]
    }

    package func warning(_ key: String?, _ message: String) {
        guard state != .broken else { return }
        log.addWarning(made(key, message))
    }

    /// Declares the section read: keys nobody asked for are problems from now on (``ConfigReader/problems``), here and in the sections
    /// below. Several owners may read one section and each finish it.
    package func finish() { isFinished = true }

    /// For a section that was refused as a whole: what is in it is no further problem.
    package func abandon() { isAbandoned = true }

    private func made(_ key: String?, _ message: String) -> ConfigProblem {
        guard let key else { return problem(at: home, path: path, message, isDirect: false) }
        let node = nodes[key]
        if let node { return problem(at: node.source, path: joined(key), message, isDirect: true) }
        // A key that nobody gave: the variable that would set it, or the line of the section that lacks it.
        if let variable = variables[key] {
            return ConfigProblem(place: .environment(variable: variable), path: "", message: message)
        }
        if log.fileName == nil, let variable = EnvironmentTable.variable(for: joined(key)) {
            return ConfigProblem(place: .environment(variable: variable), path: "", message: message)
        }
        return problem(at: home, path: joined(key), message, isDirect: false)
    }

    private func problem(at source: ConfigSource, path: String, _ message: String, isDirect: Bool) -> ConfigProblem {
        let place = log.place(source == .builtIn ? home : source)
        // A variable's name says it all where the variable is the key's own.
        if isDirect, case .environment = place { return ConfigProblem(place: place, path: "", message: message) }
        return ConfigProblem(place: place, path: path, message: message)
    }

    /// "required", with the way the environment could give it.
    func requiredMessage(_ key: String) -> String {
        if variables[key] == nil, log.fileName != nil, let variable = EnvironmentTable.variable(for: joined(key)) {
            return "required (or set \(variable))"
        }
        return "required"
    }

    /// Records a problem of a getter; whatever the owner says about this key afterwards is left out.
    func fail(_ key: String, _ message: String) {
        problem(key, message)
        brokenKeys.insert(key)
    }

    func failItem(_ key: String, _ index: Int, _ node: ConfigNode, _ message: String) {
        guard state != .broken else { return }
        brokenKeys.insert(key)
        log.add(problem(at: node.source, path: "\(joined(key))[\(index)]", message, isDirect: true))
    }

    /// Something in the key's value was refused before; its problem is recorded.
    func markBroken(_ key: String) { brokenKeys.insert(key) }

    /// ` (got "x")`, or nothing.
    func got(_ key: String, _ node: ConfigNode?) -> String {
        guard let node else { return "" }
        if node.isNull { return " (got nothing)" }
        switch node.content {
        case .sequence: return " (got a list)"
        case .mapping: return " (got a mapping)"
        case .secret, .refused: return ""
        case .scalar(let text, let style):
            if ConfigText.isSecretLike(key: key, text: text) { return "" }
            if style == .plain, PlainScalar.isNumber(text) || text == "true" || text == "false" { return " (got \(text))" }
            return " (got \(ConfigText.quoted(text)))"
        }
    }

    // MARK: - For the getters

    func joined(_ key: String) -> String {
        path.isEmpty ? ConfigText.pathKey(key) : "\(path).\(ConfigText.pathKey(key))"
    }

    func recordJoined(_ key: String) -> String {
        let last = isMapOfNames ? "*" : key
        return recordPath.isEmpty ? last : "\(recordPath).\(last)"
    }

    /// The node at a key: given, or put there by a preset. `nil` also for one that was refused before.
    func ask(_ key: String, _ record: ConfigKeyRecord) -> ConfigNode? {
        asked.insert(key)
        log.add(record)
        guard state != .broken, let node = nodes[key] ?? presets[key] else { return nil }
        if case .refused = node.content {
            brokenKeys.insert(key)
            return nil
        }
        return node
    }

    func note(_ key: String, _ value: ConfigEntry.Value, _ node: ConfigNode?) {
        let entry = ConfigEntry(key: key, value: value, source: node?.source ?? .builtIn)
        if let index = entries.firstIndex(where: { $0.key == key }) { entries[index] = entry } else { entries.append(entry) }
    }

    func cachedSections(_ key: String, _ make: () -> [ConfigSection]) -> [ConfigSection] {
        if let known = childSections[key] { return known }
        let made = make()
        childSections[key] = made
        return made
    }

    func cachedItems(_ key: String, _ make: () -> [ConfigItem]) -> [ConfigItem] {
        if let known = childItems[key] { return known }
        let made = make()
        childItems[key] = made
        return made
    }

    func child(_ key: String, _ node: ConfigNode?, index: Int? = nil) -> ConfigSection {
        let suffix = index.map { "[\($0)]" } ?? ""
        let recordSuffix = index == nil ? "" : "[]"
        var mapping = ConfigMapping()
        var state = State.absent
        if let node {
            state = .given
            if case .mapping(let given) = node.content { mapping = given } else if !node.isNull { state = .broken }
        } else if self.state == .broken || brokenKeys.contains(key) {
            state = .broken
        }
        let childSource = node?.source ?? .builtIn
        // A mapping that exists only because a variable set one of its keys is no place where others are missing.
        let childHome: ConfigSource =
            switch childSource {
            case .file: childSource
            case .environment: mapping.variables.isEmpty ? home : childSource
            case .builtIn: home
            }
        return ConfigSection(
            state: state, mapping: mapping, source: childSource, home: childHome,
            path: joined(key) + suffix, recordPath: recordJoined(key) + recordSuffix, log: log)
    }

    // MARK: - Keys as a whole

    private var below: [ConfigSection] {
        childSections.values.joined() + childItems.values.joined().compactMap(\.section)
    }

    /// The given keys of this section and those below, in the form of ``ConfigKeyRecord/path``.
    func givenRecordPaths() -> Set<String> {
        below.reduce(into: Set(keys.map(recordJoined))) { $0.formUnion($1.givenRecordPaths()) }
    }

    func unknownKeys(isFinished parentIsFinished: Bool) -> [ConfigProblem] {
        guard state != .broken, !isAbandoned else { return [] }
        let isFinished = isFinished || parentIsFinished
        var problems: [ConfigProblem] = []
        if isFinished {
            for key in keys where !asked.contains(key) { problems += unknown(key) }
        }
        for section in below { problems += section.unknownKeys(isFinished: isFinished) }
        return problems
    }

    private func unknown(_ key: String) -> [ConfigProblem] {
        guard let node = nodes[key] else { return [] }
        let given = Self.variables(in: node)
        if !given.isEmpty {
            return given.map {
                let message = "sets \(joined(key)), which this version does not know"
                return ConfigProblem(place: .environment(variable: $0), path: "", message: message)
            }
        }
        if case .refused = node.content { return [] }
        var message = "unknown key"
        if let file = ["_file", "_files"].map({ key + $0 }).first(where: asked.contains) {
            message = "secrets are not written in the file; name a file in \"\(file)\""
            if let variable = EnvironmentTable.variable(for: joined(file)) { message += ", or set \(variable)" }
        } else if let near = Suggestion.nearest(to: key, in: asked.subtracting(keys).sorted()) {
            message += "; did you mean \"\(near)\"?"
        } else if let near = Suggestion.nearest(to: key, in: asked.sorted()) {
            message += "; did you mean \"\(near)\"?"
        }
        return [made(key, message)]
    }

    /// The variables that made a value, first come first; empty for one from the file.
    private static func variables(in node: ConfigNode) -> [String] {
        guard case .environment(let variable) = node.source else { return [] }
        guard case .mapping(let mapping) = node.content else { return [variable] }
        return mapping.members.reduce(into: []) { found, member in
            for name in variables(in: member.value) where !found.contains(name) { found.append(name) }
        }
    }
}
