import Primitives

/// Where an effective value comes from.
package enum ConfigSource: Sendable, Equatable {
    /// A line of the configuration file, counted from 1.
    case file(line: Int)
    case environment(variable: String)
    /// Nobody gave it: a built-in default, or what a preset filled in.
    case builtIn
}

/// One value of the tree, before anybody has said which type it should have.
struct ConfigNode: Sendable {
    enum Style: Sendable {
        case plain, quoted
        /// From an environment variable or a preset: text that may stand for any type.
        case untyped
    }

    enum Content: Sendable {
        case scalar(String, Style)
        case sequence([ConfigNode])
        case mapping(ConfigMapping)
        /// A secret given in the environment; stands where the name of a file could stand.
        case secret(Secret)
        /// A problem was recorded when it was made; readers say nothing more about it.
        case refused
    }

    var content: Content
    var source: ConfigSource

    /// A plain scalar that YAML reads as null: nothing at all, `~` or `null`.
    var isNull: Bool {
        if case .scalar(let text, .plain) = content { return text.isEmpty || text == "~" || text == "null" }
        return false
    }
}

struct ConfigMapping: Sendable {
    struct Member: Sendable {
        let key: String
        var value: ConfigNode
    }

    /// In the order of the file, every key once.
    var members: [Member] = []
    /// For a mapping made from the environment: which variable would have set a key, so that a missing one can be named.
    var variables: [String: String] = [:]

    subscript(key: String) -> ConfigNode? {
        get { members.first { $0.key == key }?.value }
        set {
            let index = members.firstIndex { $0.key == key }
            switch (index, newValue) {
            case (let index?, let value?): members[index].value = value
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append(Member(key: key, value: value))
            case (nil, nil): break
            }
        }
    }
}

/// What kind of value stands at a key, for readers of keys that take several.
package enum ConfigKind: Sendable, Equatable {
    /// `text` is `nil` for a secret from the environment.
    case scalar(text: String?, isQuoted: Bool)
    case list, mapping, null
}
