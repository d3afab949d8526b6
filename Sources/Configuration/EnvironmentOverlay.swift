import Primitives

/// Lays the environment over the tree of the file: a variable wins over the file, an empty one counts as unset.
struct EnvironmentOverlay {
    private let environment: [String: String]

    init(_ environment: [String: String]) {
        self.environment = environment.filter { !$0.value.isEmpty }
    }

    func apply(to root: inout ConfigMapping, log: ConfigLog) {
        for rule in EnvironmentTable.rules {
            guard let node = node(for: rule, log: log) else { continue }
            set(rule.path[...], node, in: &root)
        }
        if environment["LISTEN"] == nil, let port = environment["PORT"] { setPort(port, in: &root, log: log) }
        setDefaultState(in: &root)
        warnOfUnknownVariables(log)
        if let verifier = verifier(log: log) {
            let list = ConfigNode(content: .sequence([verifier]), source: verifier.source)
            set(["sessions", "verifiers"], list, in: &root)
        }
    }

    /// A variable that looks like one of ours and is none changes nothing, which its author does not expect.
    private func warnOfUnknownVariables(_ log: ConfigLog) {
        let known = EnvironmentTable.variables
        let unknown = environment.keys.filter { name in
            EnvironmentTable.prefixes.contains { name.hasPrefix($0) } && !known.contains(name)
                && !EnvironmentTable.isSomebodyElses(name)
        }
        for name in unknown.sorted() {
            let hint = Suggestion.nearest(to: name, in: known).map { "; did you mean \($0)?" } ?? ""
            log.addWarning(
                ConfigProblem(
                    place: .environment(variable: name), path: "", message: "unknown variable; it changes nothing\(hint)"))
        }
    }

    // MARK: - One variable

    private func node(for rule: EnvironmentTable.Rule, log: ConfigLog) -> ConfigNode? {
        switch rule.kind {
        case .text: environment[rule.variable].map { scalar($0, from: rule.variable) }
        case .list: environment[rule.variable].map { list($0, from: rule.variable) }
        case .secret: secret(rule.variable, log: log)
        case .secretList:
            secret(rule.variable, log: log).map { ConfigNode(content: .sequence([$0]), source: $0.source) }
        }
    }

    private func scalar(_ text: String, from variable: String) -> ConfigNode {
        ConfigNode(content: .scalar(text, .untyped), source: .environment(variable: variable))
    }

    private func list(_ text: String, from variable: String) -> ConfigNode {
        let items = text.split(separator: ",").map(Self.trimmed).filter { !$0.isEmpty }
        // One item fits both a key that wants a list and one that wants a text or a list.
        if items.count == 1 { return scalar(String(items[0]), from: variable) }
        return ConfigNode(
            content: .sequence(items.map { scalar(String($0), from: variable) }), source: .environment(variable: variable))
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0.isWhitespace }
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }

    private func secret(_ variable: String, log: ConfigLog) -> ConfigNode? {
        let fileVariable = "\(variable)_FILE"
        let source = ConfigSource.environment(variable: variable)
        switch (environment[variable], environment[fileVariable]) {
        case (nil, nil): return nil
        case (nil, let name?): return scalar(name, from: fileVariable)
        case (_?, _?): return refused(variable, "may not be set together with \(fileVariable)", log: log)
        case (let text?, nil):
            switch SecretFile.secret(from: Array(text.utf8)) {
            case .success(let secret): return ConfigNode(content: .secret(secret), source: source)
            case .failure(let failure): return refused(variable, failure.message, log: log)
            }
        }
    }

    private func refused(_ variable: String, _ message: String, log: ConfigLog) -> ConfigNode {
        log.add(ConfigProblem(place: .environment(variable: variable), path: "", message: message))
        return ConfigNode(content: .refused, source: .environment(variable: variable))
    }

    /// Platforms that say only `PORT` want every address.
    private func setPort(_ text: String, in root: inout ConfigMapping, log: ConfigLog) {
        let port = ASCII.decimal(text.utf8).flatMap { UInt16(exactly: $0) }
        let node =
            port.map { scalar("0.0.0.0:\($0)", from: "PORT") }
            ?? refused("PORT", "must be a port number from 0 to 65535 (got \(ConfigText.quoted(text)))", log: log)
        set(["listen"], node, in: &root)
    }

    /// systemd's `StateDirectory=` (several are separated by colons) gives a default, weaker than the file.
    private func setDefaultState(in root: inout ConfigMapping) {
        guard root["state"] == nil, let folder = environment["STATE_DIRECTORY"]?.split(separator: ":").first else { return }
        root["state"] = scalar("sqlite:\(folder)/state.db", from: "STATE_DIRECTORY")
    }

    // MARK: - The one verifier

    /// `SESSION_…` or `AUTH_PROVIDER` as a mapping that the verifier's own reader takes like one from the file.
    private func verifier(log: ConfigLog) -> ConfigNode? {
        let sessionVariables = EnvironmentTable.sessionRules.flatMap { [$0.variable, "\($0.variable)_FILE"] }
            .filter { environment[$0] != nil }
        guard let provider = environment["AUTH_PROVIDER"] else {
            guard let first = sessionVariables.first else { return nil }
            return verifier(type: "jwt", from: first, EnvironmentTable.sessionRules, log: log)
        }
        if !sessionVariables.isEmpty {
            return refused(
                "AUTH_PROVIDER", "may not be set together with \(sessionVariables.joined(separator: ", "))", log: log)
        }
        guard let rules = EnvironmentTable.providers.first(where: { $0.name == provider })?.rules else {
            let names = EnvironmentTable.providers.map(\.name)
            let hint = Suggestion.nearest(to: provider, in: names).map { "; did you mean \"\($0)\"?" } ?? ""
            return refused(
                "AUTH_PROVIDER",
                "must be one of \(names.joined(separator: ", ")) (got \(ConfigText.quoted(provider)))\(hint)", log: log)
        }
        return verifier(type: provider, from: "AUTH_PROVIDER", rules, log: log)
    }

    private func verifier(type: String, from variable: String, _ rules: [EnvironmentTable.Rule], log: ConfigLog) -> ConfigNode {
        var mapping = ConfigMapping()
        mapping["type"] = scalar(type, from: variable)
        for rule in rules {
            let key = rule.path[0]
            mapping.variables[key] = rule.variable
            mapping[key] = node(for: rule, log: log)
        }
        return ConfigNode(content: .mapping(mapping), source: .environment(variable: variable))
    }

    // MARK: - The tree

    /// Makes the mappings on the way. What the file has there and is no mapping stays: its reader will say so.
    private func set(_ path: ArraySlice<String>, _ node: ConfigNode, in mapping: inout ConfigMapping) {
        guard let key = path.first else { return }
        if path.count == 1 {
            mapping[key] = node
            return
        }
        let current = mapping[key] ?? ConfigNode(content: .mapping(ConfigMapping()), source: node.source)
        var inner = ConfigMapping()
        if case .mapping(let given) = current.content { inner = given } else if !current.isNull { return }
        set(path.dropFirst(), node, in: &inner)
        mapping[key] = ConfigNode(content: .mapping(inner), source: current.source)
    }
}
