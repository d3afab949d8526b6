import StrictJSON

/// An effective value, as getters and presets record it.
package enum ConfigValue: Sendable, Equatable {
    case text(String)
    /// Digits, as they would stand in the file.
    case number(String)
    case boolean(Bool)
    case texts([String])
    case json(JSONValue)

    /// As a node a preset puts under a key.
    func node(_ source: ConfigSource) -> ConfigNode {
        func scalar(_ text: String, _ style: ConfigNode.Style = .untyped) -> ConfigNode {
            ConfigNode(content: .scalar(text, style), source: source)
        }
        return switch self {
        case .text(let text): scalar(text)
        case .number(let text): scalar(text)
        case .boolean(let value): scalar(value ? "true" : "false")
        case .texts(let texts): ConfigNode(content: .sequence(texts.map { scalar($0) }), source: source)
        case .json(.null): scalar("null", .plain)
        case .json(.bool(let value)): scalar(value ? "true" : "false", .plain)
        case .json(.number(let number)): scalar(number.text, .plain)
        case .json(.string(let text)): scalar(text, .quoted)
        case .json(.array(let values)):
            ConfigNode(content: .sequence(values.map { ConfigValue.json($0).node(source) }), source: source)
        case .json(.object(let object)):
            ConfigNode(
                content: .mapping(
                    ConfigMapping(
                        members: object.members.map { .init(key: $0.name, value: ConfigValue.json($0.value).node(source)) })),
                source: source)
        }
    }
}

extension ConfigValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral
{
    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int) { self = .number(String(value)) }
    package init(booleanLiteral value: Bool) { self = .boolean(value) }
    package init(arrayLiteral elements: String...) { self = .texts(elements) }
}
