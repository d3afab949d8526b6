import Foundation
import TestSupport

/// The published JSON schemas of the API, as far as our kinds need them: `Tests/Fixtures/kubernetes-1.37.schema.json` says where they come from.
struct KubernetesSchema {
    /// One schema, with the keywords that the file uses. Any other would be a rule that nobody checks, so it cannot be read.
    final class Node: Decodable {
        enum Keyword: String, CodingKey, CaseIterable {
            case reference = "$ref"
            case type, properties, required, items, additionalProperties, format, oneOf
            case values = "enum"
            case listMapKeys = "x-kubernetes-list-map-keys"
        }
        private struct AnyKey: CodingKey {
            let stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        let reference: String?
        let types: [String]
        let properties: [String: Node]
        let required: [String]
        let items: Node?
        /// Of members that `properties` does not name.
        let others: Node?
        let refusesOthers: Bool
        let format: String?
        let oneOf: [Node]
        let values: [String]
        let listMapKeys: [String]

        init(from decoder: any Decoder) throws {
            for key in try decoder.container(keyedBy: AnyKey.self).allKeys where Keyword(stringValue: key.stringValue) == nil {
                throw Child.Failure(what: "unknown keyword \(key.stringValue)")
            }
            let members = try decoder.container(keyedBy: Keyword.self)
            reference = try members.decodeIfPresent(String.self, forKey: .reference).map {
                String($0.dropFirst("#/$defs/".count))
            }
            if let one = try? members.decode(String.self, forKey: .type) {
                types = [one]
            } else {
                types = try members.decodeIfPresent([String].self, forKey: .type) ?? []
            }
            properties = try members.decodeIfPresent([String: Node].self, forKey: .properties) ?? [:]
            required = try members.decodeIfPresent([String].self, forKey: .required) ?? []
            items = try members.decodeIfPresent(Node.self, forKey: .items)
            if let allowed = try? members.decode(Bool.self, forKey: .additionalProperties) {
                (others, refusesOthers) = (nil, !allowed)
            } else {
                (others, refusesOthers) = (try members.decodeIfPresent(Node.self, forKey: .additionalProperties), false)
            }
            format = try members.decodeIfPresent(String.self, forKey: .format)
            oneOf = try members.decodeIfPresent([Node].self, forKey: .oneOf) ?? []
            values = try members.decodeIfPresent([String].self, forKey: .values) ?? []
            listMapKeys = try members.decodeIfPresent([String].self, forKey: .listMapKeys) ?? []
        }
    }

    private let kinds: [String: String]
    private let definitions: [String: Node]

    init() throws { try self.init(DeploymentTests.text("Tests/Fixtures/kubernetes-1.37.schema.json")) }

    init(_ text: String) throws {
        struct File: Decodable {
            enum CodingKeys: String, CodingKey {
                case kinds
                case definitions = "$defs"
            }
            let kinds: [String: String]
            let definitions: [String: Node]
        }
        let file = try JSONDecoder().decode(File.self, from: Data(text.utf8))
        (kinds, definitions) = (file.kinds, file.definitions)
    }

    /// What the API would refuse, and what it would ignore: `kubectl apply` with `--validate=strict` refuses that, too.
    func problems(_ object: YAMLValue) -> [String] {
        let kind = object["kind"]?.text ?? "?"
        guard let name = kinds["\(object["apiVersion"]?.text ?? "?") \(kind)"], let node = definitions[name] else {
            return ["\(kind): unknown"]
        }
        return problems(object, node, kind).sorted()
    }

    private func problems(_ value: YAMLValue, _ node: Node, _ path: String) -> [String] {
        if let reference = node.reference {
            guard let target = definitions[reference] else { return ["\(path): no schema \(reference)"] }
            return problems(value, target, path)
        }
        if !node.oneOf.isEmpty {
            let fitting = node.oneOf.filter { problems(value, $0, path).isEmpty }
            return fitting.count == 1 ? [] : ["\(path): \(value.kind), not \(node.oneOf.flatMap(\.types).joined(separator: "|"))"]
        }
        guard node.types.isEmpty || node.types.contains(where: value.isOfType) else {
            return ["\(path): \(value.kind), not \(node.types.filter { $0 != "null" }.joined(separator: "|"))"]
        }
        switch value {
        case .mapping(let members):
            var found = members.flatMap { name, value -> [String] in
                guard let schema = node.properties[name] ?? node.others else {
                    return node.refusesOthers ? ["\(path).\(name): unknown"] : []
                }
                return problems(value, schema, "\(path).\(name)")
            }
            found += node.required.filter { members[$0] == nil }.map { "\(path).\($0): missing" }
            return found
        case .list(let items):
            var found = items.enumerated().flatMap { index, item in
                node.items.map { problems(item, $0, "\(path)[\(index)]") } ?? []
            }
            var seen: [[YAMLValue?]] = []
            for (index, item) in items.enumerated() where !node.listMapKeys.isEmpty {
                let key = node.listMapKeys.map { item[$0] }
                if seen.contains(key) {
                    found.append("\(path)[\(index)]: its \(node.listMapKeys.joined(separator: ", ")) is there")
                }
                seen.append(key)
            }
            return found
        case .text(let text):
            return node.values.isEmpty || node.values.contains(text) ? [] : ["\(path): \(text), not \(node.values)"]
        case .integer(let number):
            return node.format == "int32" && Int32(exactly: number) == nil ? ["\(path): \(number), not int32"] : []
        case .null, .boolean: return []
        }
    }
}

extension YAMLValue {
    fileprivate func isOfType(_ type: String) -> Bool {
        switch (type, self) {
        case ("null", .null), ("string", .text), ("integer", .integer), ("number", .integer), ("boolean", .boolean),
            ("array", .list), ("object", .mapping):
            true
        default: false
        }
    }
}
