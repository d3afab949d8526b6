/// What a reader asks for at one key: the material for `config/schema.json` and for the test that compares it, the example and the readers.
package struct ConfigKeyRecord: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        case text, integer, number, seconds, boolean, choice, choices, texts, textOrTexts, value
        case section, sections, items, off, secretFile, secretFiles, file, files, path
    }

    /// The key with `[]` for the items of a list and `*` for a name the operator chooses: `sessions.verifiers[].issuer`,
    /// `feature_scopes.*`.
    package let path: String
    /// More than one where a key takes several, `false` or a mapping.
    package var kinds: [Kind]
    /// As it would stand in the file; `nil` where leaving the key out is not the same as giving any value.
    package var defaultText: String?
    /// Inclusive, in the key's own unit, as it would stand in the file.
    package var minimum: String?
    package var maximum: String?
    /// The only words a `choice` or `choices` takes.
    package var words: [String]

    init(
        _ path: String, _ kind: Kind, default defaultText: String? = nil, minimum: String? = nil, maximum: String? = nil,
        words: [String] = []
    ) {
        self.path = path
        kinds = [kind]
        self.defaultText = defaultText
        self.minimum = minimum
        self.maximum = maximum
        self.words = words
    }
}

/// Records by path, in the order the keys were first asked for. A key asked for twice is one record that knows both.
package struct ConfigKeyRecords: Sendable {
    package private(set) var all: [ConfigKeyRecord] = []
    private var indices: [String: Int] = [:]

    package init() {}

    package mutating func add(_ record: ConfigKeyRecord) {
        guard let index = indices[record.path] else {
            indices[record.path] = all.count
            all.append(record)
            return
        }
        for kind in record.kinds where !all[index].kinds.contains(kind) { all[index].kinds.append(kind) }
        for word in record.words where !all[index].words.contains(word) { all[index].words.append(word) }
        all[index].defaultText = all[index].defaultText ?? record.defaultText
        all[index].minimum = all[index].minimum ?? record.minimum
        all[index].maximum = all[index].maximum ?? record.maximum
    }

    package mutating func add(_ records: [ConfigKeyRecord]) {
        for record in records { add(record) }
    }
}
