/// Lists, and the sections below.
extension ConfigSection {
    /// A list of texts: `no` in it is the name "no".
    package func strings(_ key: String, default defaultValue: [String] = []) -> [String] {
        let record = ConfigKeyRecord(recordJoined(key), .texts, default: YAMLText.list(defaultValue))
        guard let node = ask(key, record) else {
            note(key, .value(.texts(defaultValue)), nil)
            return defaultValue
        }
        guard let texts = texts(key, node, "a list of texts") else { return defaultValue }
        note(key, .value(.texts(texts)), node)
        return texts
    }

    /// The same where leaving the key out differs from an empty list.
    package func optionalStrings(_ key: String) -> [String]? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .texts)) else { return nil }
        guard let texts = texts(key, node, "a list of texts") else { return nil }
        note(key, .value(.texts(texts)), node)
        return texts
    }

    /// One text or a list of them; printed as it was given.
    package func stringOrStrings(_ key: String) -> [String]? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .textOrTexts)) else { return nil }
        if case .scalar(let text, _) = node.content, !node.isNull {
            note(key, .value(.text(text)), node)
            return [text]
        }
        guard let texts = texts(key, node, "text or a list of texts") else { return nil }
        note(key, .value(.texts(texts)), node)
        return texts
    }

    /// A list of words of an enumeration; each wrong one is a problem of its own.
    package func choices<Choice: RawRepresentable & CaseIterable>(
        _ key: String, as type: Choice.Type
    ) -> [Choice]? where Choice.RawValue == String {
        let words = Choice.allCases.map(\.rawValue)
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .choices, words: words)) else { return nil }
        guard let texts = texts(key, node, "a list") else { return nil }
        var choices: [Choice] = []
        for (index, text) in texts.enumerated() {
            if let choice = Choice(rawValue: text) {
                choices.append(choice)
            } else {
                let item = Self.items(node)[index]
                failItem(key, index, item, wordsMessage(words, key, item))
            }
        }
        guard choices.count == texts.count else { return nil }
        note(key, .value(.texts(texts)), node)
        return choices
    }

    /// The mapping at a key; made up and empty when it is absent. The same object every time.
    package func section(_ key: String) -> ConfigSection {
        cachedSections(key) {
            let node = ask(key, ConfigKeyRecord(recordJoined(key), .section))
            let section = child(key, node)
            if let node, section.isBroken { fail(key, "must be a mapping\(got(key, node))") }
            note(key, .section(section), node)
            return [section]
        }.first ?? self
    }

    package func optionalSection(_ key: String) -> ConfigSection? {
        if has(key) || kind(key) != nil { return section(key) }
        _ = ask(key, ConfigKeyRecord(recordJoined(key), .section))
        return nil
    }

    /// `false` is one way to say "off", a mapping the other thing a key like this takes.
    package enum Toggle {
        case absent, off
        case section(ConfigSection)
    }

    package func sectionUnlessFalse(_ key: String) -> Toggle {
        switch kind(key) {
        case nil:
            log.add(ConfigKeyRecord(recordJoined(key), .off))
            return optionalSection(key).map { .section($0) } ?? .absent
        case .scalar(text: "false", isQuoted: false)?:
            let node = ask(key, ConfigKeyRecord(recordJoined(key), .off))
            log.add(ConfigKeyRecord(recordJoined(key), .section))
            note(key, .value(.boolean(false)), node)
            return .off
        case .mapping?: return .section(section(key))
        case .null?, .scalar?, .list?:
            let node = ask(key, ConfigKeyRecord(recordJoined(key), .off))
            fail(key, "must be false or a mapping\(got(key, node))")
            return .section(section(key))
        }
    }

    /// A list of mappings. An item of another type is a problem and left out.
    package func sections(_ key: String) -> [ConfigSection] {
        cachedSections(key) {
            guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .sections)) else { return [] }
            guard case .sequence(let nodes) = node.content else {
                fail(key, "must be a list of mappings\(got(key, node))")
                return []
            }
            var sections: [ConfigSection] = []
            for (index, item) in nodes.enumerated() {
                if case .refused = item.content {
                    markBroken(key)
                    continue
                }
                let section = child(key, item, index: index)
                if section.isBroken || item.isNull {
                    failItem(key, index, item, "must be a mapping\(got(key, item))")
                } else {
                    sections.append(section)
                }
            }
            note(key, .items(sections.map { ConfigItem(content: .section($0), source: $0.source) { _ in } }), node)
            return sections
        }
    }

    /// A list of scalars and mappings.
    package func items(_ key: String, default defaultValue: [String] = []) -> [ConfigItem] {
        cachedItems(key) {
            let record = ConfigKeyRecord(recordJoined(key), .items, default: YAMLText.list(defaultValue))
            guard let node = ask(key, record) else {
                let items = defaultValue.map { text in
                    ConfigItem(content: .text(text), source: .builtIn) { [weak self] in self?.problem(key, $0) }
                }
                note(key, .items(items), nil)
                return items
            }
            let nodes = Self.items(node)
            guard !nodes.isEmpty || isList(node) else {
                fail(key, "must be a list\(got(key, node))")
                return []
            }
            let items = nodes.enumerated().compactMap { index, item in self.item(key, index, item) }
            note(key, .items(items), node)
            return items
        }
    }

    private func item(_ key: String, _ index: Int, _ node: ConfigNode) -> ConfigItem? {
        // Weak: the section keeps its items.
        let report: (String) -> Void = { [weak self] in self?.failItem(key, index, node, $0) }
        switch node.content {
        case .refused:
            markBroken(key)
            return nil
        case .scalar(let text, _) where !node.isNull: return ConfigItem(content: .text(text), source: node.source, report: report)
        case .mapping:
            return ConfigItem(content: .section(child(key, node, index: index)), source: node.source, report: report)
        default:
            report("must be text or a mapping\(got(key, node))")
            return nil
        }
    }

    // MARK: - Nodes

    private func isList(_ node: ConfigNode) -> Bool {
        if case .sequence = node.content { return true }
        return false
    }

    /// The items of a list. One untyped scalar is a list of one: an environment variable without a comma.
    static func items(_ node: ConfigNode) -> [ConfigNode] {
        switch node.content {
        case .sequence(let nodes): nodes
        case .scalar(_, .untyped), .secret: [node]
        default: []
        }
    }

    func texts(_ key: String, _ node: ConfigNode, _ what: String) -> [String]? {
        let nodes = Self.items(node)
        guard !nodes.isEmpty || isList(node) else {
            fail(key, "must be \(what)\(got(key, node))")
            return nil
        }
        var texts: [String] = []
        for (index, item) in nodes.enumerated() {
            if case .scalar(let text, _) = item.content, !item.isNull {
                texts.append(text)
            } else if case .refused = item.content {
                markBroken(key)
            } else {
                failItem(key, index, item, "must be text\(got(key, item))")
            }
        }
        return texts.count == nodes.count ? texts : nil
    }
}
