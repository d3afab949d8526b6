import StrictJSON

/// The JSON schema (draft 2020-12) of everything the readers ask for, for editors. Made from ``ConfigKeyRecord``s, so it cannot differ
/// from the readers; those of several loads are merged with ``ConfigKeyRecords`` first, because one verifier asks only for its own keys.
package struct ConfigSchema {
    private final class Node {
        var record: ConfigKeyRecord?
        var names: [String] = []
        var children: [String: Node] = [:]

        func child(_ name: String) -> Node {
            if let known = children[name] { return known }
            let node = Node()
            names.append(name)
            children[name] = node
            return node
        }
    }

    private let root = Node()
    private let recursive: [String: String]
    private let descriptions: [String: String]

    /// - Parameters:
    ///   - records: of every load that counts.
    ///   - recursive: keys that have the shape of a key above them, `["grants[].when.not": "grants[].when"]`.
    ///   - descriptions: by record path, for hover texts.
    package init(_ records: [ConfigKeyRecord], recursive: [String: String] = [:], descriptions: [String: String] = [:]) {
        self.recursive = recursive
        self.descriptions = descriptions
        for record in records {
            var node = root
            for name in Self.tokens(record.path) { node = node.child(name) }
            node.record = record
        }
    }

    package func document(title: String) -> JSONValue {
        guard case .object(let root) = mapping(root, path: "") else { return .null }
        let head = [
            JSONMember(name: "$schema", value: .string("https://json-schema.org/draft/2020-12/schema")),
            JSONMember(name: "title", value: .string(title)),
        ]
        return .object(JSONObject(head + root.members))
    }

    /// The document as text with two spaces a level, for a file people look at.
    package func text(title: String) -> String {
        var text = ""
        Self.append(document(title: title), indent: "", to: &text)
        return text + "\n"
    }

    /// `a[].b.*` as `a`, `[]`, `b`, `*`.
    private static func tokens(_ path: String) -> [String] {
        path.split(separator: ".").flatMap { part -> [String] in
            var name = part
            var depth = 0
            while name.hasSuffix("[]") {
                name = name.dropLast(2)
                depth += 1
            }
            return [String(name)] + [String](repeating: "[]", count: depth)
        }
    }

    // MARK: - Keys

    private func schema(_ node: Node, path: String) -> JSONValue {
        if let target = recursive[path] { return ["$ref": .string(Self.pointer(to: target))] }
        guard let record = node.record else { return mapping(node, path: path) }
        let shapes = record.kinds.map { shape($0, record, node, path) }
        var members: [JSONMember]
        if shapes.count == 1, case .object(let only) = shapes[0] {
            members = only.members
        } else {
            members = [JSONMember(name: "anyOf", value: .array(shapes))]
        }
        if let text = descriptions[path] { members.append(JSONMember(name: "description", value: .string(text))) }
        if let text = record.defaultText, let value = Self.value(text) {
            members.append(JSONMember(name: "default", value: value))
        }
        return .object(JSONObject(members))
    }

    private func shape(_ kind: ConfigKeyRecord.Kind, _ record: ConfigKeyRecord, _ node: Node, _ path: String) -> JSONValue {
        let text: JSONValue = ["type": "string"]
        switch kind {
        case .text, .secretFile, .file, .path: return text
        case .integer: return ranged("integer", record)
        case .number, .seconds: return ranged("number", record)
        case .boolean: return ["type": "boolean"]
        case .off: return ["const": .bool(false)]
        case .choice: return ["enum": .array(record.words.map { .string($0) })]
        case .choices: return list(["enum": .array(record.words.map { .string($0) })])
        case .texts, .secretFiles, .files: return list(text)
        case .textOrTexts: return ["anyOf": .array([text, list(text)])]
        case .value: return [:]
        case .section: return mapping(node, path: path)
        case .sections: return list(items(node, path))
        case .items:
            let hasMappings = node.children["[]"] != nil
            return list(hasMappings ? ["anyOf": .array([text, items(node, path)])] : text)
        }
    }

    private func items(_ node: Node, _ path: String) -> JSONValue {
        if let target = recursive["\(path)[]"] { return ["$ref": .string(Self.pointer(to: target))] }
        return mapping(node.child("[]"), path: "\(path)[]")
    }

    private func list(_ items: JSONValue) -> JSONValue { ["type": "array", "items": items] }

    private func ranged(_ type: String, _ record: ConfigKeyRecord) -> JSONValue {
        var object: JSONObject = ["type": .string(type)]
        object["minimum"] = record.minimum.flatMap(JSONNumber.init).map { .number($0) }
        object["maximum"] = record.maximum.flatMap(JSONNumber.init).map { .number($0) }
        return .object(object)
    }

    private func mapping(_ node: Node, path: String) -> JSONValue {
        var properties: [JSONMember] = []
        var others = JSONValue.bool(false)
        for name in node.names {
            guard let child = node.children[name] else { continue }
            let schema = schema(child, path: path.isEmpty ? name : "\(path).\(name)")
            if name == "*" { others = schema } else { properties.append(JSONMember(name: name, value: schema)) }
        }
        return ["type": "object", "properties": .object(JSONObject(properties)), "additionalProperties": others]
    }

    private static func pointer(to path: String) -> String {
        tokens(path).reduce("#") { pointer, token in
            switch token {
            case "[]": pointer + "/items"
            case "*": pointer + "/additionalProperties"
            default: pointer + "/properties/\(token)"
            }
        }
    }

    /// A default as it would stand in the file.
    private static func value(_ text: String) -> JSONValue? {
        let tree = YAMLTree(Array("value: \(text)".utf8))
        return tree.problems.isEmpty ? tree.root["value"].map(ConfigSection.json) : nil
    }

    // MARK: - Text

    private static func append(_ value: JSONValue, indent: String, to text: inout String) {
        let inner = indent + "  "
        switch value {
        case .object(let object) where !object.isEmpty:
            text += "{\n"
            for (index, member) in object.members.enumerated() {
                text += inner + compact(.string(member.name)) + ": "
                append(member.value, indent: inner, to: &text)
                text += index == object.count - 1 ? "\n" : ",\n"
            }
            text += indent + "}"
        case .array(let values) where values.contains { $0.object != nil || $0.array != nil }:
            text += "[\n"
            for (index, item) in values.enumerated() {
                text += inner
                append(item, indent: inner, to: &text)
                text += index == values.count - 1 ? "\n" : ",\n"
            }
            text += indent + "]"
        default: text += compact(value)
        }
    }

    private static func compact(_ value: JSONValue) -> String {
        String(decoding: value.encoded(), as: UTF8.self)
    }
}
