import Primitives
import StrictJSON

/// One value at a key.
extension ConfigSection {
    /// Text as it stands, quoted or not. An empty text is a value.
    package func string(_ key: String, default defaultValue: String? = nil) -> String? {
        let record = ConfigKeyRecord(recordJoined(key), .text, default: defaultValue.map(YAMLText.scalar))
        guard let node = ask(key, record) else {
            if let defaultValue { note(key, .value(.text(defaultValue)), nil) }
            return defaultValue
        }
        guard let text = text(key, node) else { return defaultValue }
        note(key, .value(.text(text)), node)
        return text
    }

    /// `nil` = a problem is recorded: missing, empty, or no text.
    package func requiredString(_ key: String) -> String? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .text)) else {
            fail(key, requiredMessage(key))
            return nil
        }
        guard let text = text(key, node) else { return nil }
        if text.isEmpty {
            fail(key, "must not be empty")
            return nil
        }
        note(key, .value(.text(text)), node)
        return text
    }

    package func integer(_ key: String, default defaultValue: Int, in range: ClosedRange<Int>) -> Int {
        if let value = optionalInteger(key, in: range, default: defaultValue) { return value }
        return defaultValue
    }

    package func optionalInteger(_ key: String, in range: ClosedRange<Int>) -> Int? {
        optionalInteger(key, in: range, default: nil)
    }

    private func optionalInteger(_ key: String, in range: ClosedRange<Int>, default defaultValue: Int?) -> Int? {
        let record = ConfigKeyRecord(
            recordJoined(key), .integer, default: defaultValue.map(String.init), minimum: String(range.lowerBound),
            maximum: range.upperBound == .max ? nil : String(range.upperBound))
        guard let node = ask(key, record) else {
            if let defaultValue { note(key, .value(.number(String(defaultValue))), nil) }
            return nil
        }
        guard let value = number(key, node, "a whole number", PlainScalar.integer) else { return nil }
        guard range.contains(value) else {
            fail(key, "\(Self.rangeText(record)) \(gotNumber(node))")
            return nil
        }
        note(key, .value(.number(String(value))), node)
        return value
    }

    /// A whole number, or `false` (the default): there is no bound.
    package func integerUnlessFalse(_ key: String, in range: ClosedRange<Int>) -> Int? {
        let off = ConfigKeyRecord(recordJoined(key), .off, default: "false")
        switch kind(key) {
        case .scalar(text: "false", isQuoted: false)?, nil:
            let node = ask(key, off)
            _ = ask(
                key,
                ConfigKeyRecord(
                    recordJoined(key), .integer, minimum: String(range.lowerBound), maximum: String(range.upperBound)))
            note(key, .value(.boolean(false)), node)
            return nil
        case .scalar?, .null?, .mapping?, .list?:
            _ = ask(key, off)
            return optionalInteger(key, in: range)
        }
    }

    /// Whole or fractional seconds, to the nanosecond.
    package func seconds(_ key: String, default defaultValue: Duration, in range: ClosedRange<Duration>) -> Duration {
        optionalSeconds(key, in: range, default: defaultValue) ?? defaultValue
    }

    package func optionalSeconds(_ key: String, in range: ClosedRange<Duration>) -> Duration? {
        optionalSeconds(key, in: range, default: nil)
    }

    private func optionalSeconds(_ key: String, in range: ClosedRange<Duration>, default defaultValue: Duration?) -> Duration? {
        let record = ConfigKeyRecord(
            recordJoined(key), .seconds, default: defaultValue.map(PlainScalar.text), minimum: PlainScalar.text(range.lowerBound),
            maximum: PlainScalar.text(range.upperBound))
        guard let node = ask(key, record) else {
            if let defaultValue { note(key, .value(.number(PlainScalar.text(defaultValue))), nil) }
            return nil
        }
        guard let value = number(key, node, "a number of seconds", PlainScalar.seconds) else { return nil }
        guard range.contains(value) else {
            fail(key, "\(Self.rangeText(record)) seconds \(gotNumber(node))")
            return nil
        }
        note(key, .value(.number(PlainScalar.text(value))), node)
        return value
    }

    /// A ratio or another real number.
    package func number(_ key: String, default defaultValue: Double, in range: ClosedRange<Double>) -> Double {
        func shown(_ value: Double) -> String {
            Int(exactly: value).map(String.init) ?? "\(value)"
        }
        let record = ConfigKeyRecord(
            recordJoined(key), .number, default: shown(defaultValue), minimum: shown(range.lowerBound),
            maximum: shown(range.upperBound))
        guard let node = ask(key, record) else {
            note(key, .value(.number(shown(defaultValue))), nil)
            return defaultValue
        }
        guard let value = number(key, node, "a number", { JSONNumber($0)?.double }) else { return defaultValue }
        guard range.contains(value) else {
            fail(key, "\(Self.rangeText(record)) \(gotNumber(node))")
            return defaultValue
        }
        note(key, .value(.number(shown(value))), node)
        return value
    }

    /// `true` or `false` and no other spelling.
    package func boolean(_ key: String, default defaultValue: Bool) -> Bool {
        let node = ask(key, ConfigKeyRecord(recordJoined(key), .boolean, default: defaultValue ? "true" : "false"))
        guard let node else {
            note(key, .value(.boolean(defaultValue)), nil)
            return defaultValue
        }
        guard case .scalar(let text, let style) = node.content, style != .quoted, text == "true" || text == "false" else {
            fail(key, "must be true or false\(withoutQuotes(node, ["true", "false"]))\(got(key, node))")
            return defaultValue
        }
        note(key, .value(.boolean(text == "true")), node)
        return text == "true"
    }

    /// One of the words of an enumeration.
    package func choice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, default defaultValue: Choice
    ) -> Choice where Choice.RawValue == String {
        let words = Choice.allCases.map(\.rawValue)
        let record = ConfigKeyRecord(recordJoined(key), .choice, default: YAMLText.scalar(defaultValue.rawValue), words: words)
        guard let node = ask(key, record) else {
            note(key, .value(.text(defaultValue.rawValue)), nil)
            return defaultValue
        }
        guard case .scalar(let text, _) = node.content, let value = Choice(rawValue: text) else {
            fail(key, wordsMessage(words, key, node))
            return defaultValue
        }
        note(key, .value(.text(text)), node)
        return value
    }

    /// The same without a default.
    package func optionalChoice<Choice: RawRepresentable & CaseIterable>(
        _ key: String, as type: Choice.Type
    ) -> Choice? where Choice.RawValue == String {
        let words = Choice.allCases.map(\.rawValue)
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .choice, words: words)) else { return nil }
        guard case .scalar(let text, _) = node.content, let value = Choice(rawValue: text) else {
            fail(key, wordsMessage(words, key, node))
            return nil
        }
        note(key, .value(.text(text)), node)
        return value
    }

    /// Any JSON value: quoted scalars are strings; plain ones `null`, `true`, `false`, JSON numbers, else strings.
    package func value(_ key: String) -> JSONValue? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .value)) else { return nil }
        let value = Self.json(node)
        note(key, .value(.json(value)), node)
        return value
    }

    // MARK: - Scalars

    /// The text of a scalar for a key that wants text; `nil` = a problem is recorded.
    private func text(_ key: String, _ node: ConfigNode) -> String? {
        if node.isNull {
            fail(key, "must be text (got nothing); leave the key out, or put the text in quotes")
            return nil
        }
        guard case .scalar(let text, _) = node.content else {
            fail(key, "must be text\(got(key, node))")
            return nil
        }
        return text
    }

    private func number<Value>(_ key: String, _ node: ConfigNode, _ what: String, _ read: (String) -> Value?) -> Value? {
        if case .scalar(let text, let style) = node.content, style != .quoted, let value = read(text) { return value }
        var hint = ""
        if case .scalar(let text, .quoted) = node.content, read(text) != nil { hint = " without quotes" }
        fail(key, "must be \(what)\(hint)\(got(key, node))")
        return nil
    }

    private func gotNumber(_ node: ConfigNode) -> String {
        if case .scalar(let text, _) = node.content { return "(got \(ConfigText.shortened(text)))" }
        return ""
    }

    private func withoutQuotes(_ node: ConfigNode, _ words: [String]) -> String {
        if case .scalar(let text, .quoted) = node.content, words.contains(text) { return " without quotes" }
        return ""
    }

    func wordsMessage(_ words: [String], _ key: String, _ node: ConfigNode) -> String {
        var message = (words.count == 1 ? "must be " : "must be one of ") + words.joined(separator: ", ") + got(key, node)
        if case .scalar(let text, _) = node.content, let near = Suggestion.nearest(to: text, in: words) {
            message += "; did you mean \"\(near)\"?"
        }
        return message
    }

    private static func rangeText(_ record: ConfigKeyRecord) -> String {
        guard let minimum = record.minimum else { return "is out of range" }
        return record.maximum.map { "must be from \(minimum) to \($0)" } ?? "must be \(minimum) or more"
    }

    static func json(_ node: ConfigNode) -> JSONValue {
        switch node.content {
        case .scalar(let text, .plain): PlainScalar.value(text)
        case .scalar(let text, _): .string(text)
        case .sequence(let nodes): .array(nodes.map(json))
        case .mapping(let mapping): .object(JSONObject(mapping.members.map { JSONMember(name: $0.key, value: json($0.value)) }))
        case .secret, .refused: .null
        }
    }
}
