import StrictJSON

/// The effective configuration as YAML that loads again, each line ending with its source: `# file:12`, `# environment`, `# default`.
///
/// A secret from the environment, and a URL from the environment with something to hide, is a comment: the text loads again where the
/// same variables are set. From the file, user info and query of URLs appear as `<redacted>`. File names are absolute.
enum ConfigPrinter {
    static func print(_ root: ConfigSection) -> String {
        var lines: [String] = []
        append(root.entries, of: root, indent: "", to: &lines)
        return lines.map { $0 + "\n" }.joined()
    }

    private static func append(_ entries: [ConfigEntry], of section: ConfigSection, indent: String, to lines: inout [String]) {
        for entry in entries {
            let key = YAMLText.scalar(entry.key)
            let source = comment(entry.source)
            switch entry.value {
            case .secret:
                let path = section.path.isEmpty ? entry.key : "\(section.path).\(entry.key)"
                lines.append("\(indent)# \(secretName(path)): <redacted>\(source)")
            case .value(let value):
                let text = text(value, isRedacting: true)
                let isHidden = text != self.text(value, isRedacting: false)
                if case .environment = entry.source, isHidden {
                    lines.append("\(indent)# \(key): \(text)\(source)")
                } else {
                    lines.append("\(indent)\(key): \(text)\(source)")
                }
            case .section(let inner):
                let below = lines.count
                lines.append("")
                append(inner.entries, of: inner, indent: indent + "  ", to: &lines)
                let isEmpty = !lines[(below + 1)...].contains { !isComment($0) }
                lines[below] = "\(indent)\(key):\(isEmpty ? " {}" : "")\(source)"
            case .items(let items):
                lines.append("\(indent)\(key):\(items.isEmpty ? " []" : "")\(source)")
                for item in items { append(item, indent: indent + "  ", to: &lines) }
            }
        }
    }

    private static func append(_ item: ConfigItem, indent: String, to lines: inout [String]) {
        switch item.content {
        case .text(let text): lines.append("\(indent)- \(self.text(.text(text), isRedacting: true))\(comment(item.source))")
        case .section(let section):
            var inner: [String] = []
            append(section.entries, of: section, indent: indent + "  ", to: &inner)
            // The dash goes before the first line that is no comment.
            guard let first = inner.firstIndex(where: { !isComment($0) }) else {
                lines += inner
                lines.append("\(indent)- {}\(comment(item.source))")
                return
            }
            inner[first] = "\(indent)- " + inner[first].dropFirst(indent.count + 2)
            lines += inner
        }
    }

    private static func isComment(_ line: String) -> Bool {
        line.drop { $0 == " " }.first == "#"
    }

    /// `january.api_key_file` holds the name of a file; what the variable gives is the key itself.
    private static func secretName(_ path: String) -> String {
        for suffix in ["_files", "_file"] where path.hasSuffix(suffix) { return String(path.dropLast(suffix.count)) }
        return path
    }

    private static func comment(_ source: ConfigSource) -> String {
        switch source {
        case .file(let line): "  # file:\(line)"
        case .environment: "  # environment"
        case .builtIn: "  # default"
        }
    }

    private static func text(_ value: ConfigValue, isRedacting: Bool) -> String {
        func shown(_ text: String) -> String { isRedacting ? ConfigText.redacted(text) : text }
        return switch value {
        case .text(let text): YAMLText.scalar(shown(text))
        case .number(let text): text
        case .boolean(let value): value ? "true" : "false"
        case .texts(let texts): YAMLText.list(texts.map(shown))
        case .json(let value): json(value, shown)
        }
    }

    private static func json(_ value: JSONValue, _ shown: (String) -> String) -> String {
        switch value {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let number): number.text
        case .string(let text): YAMLText.quoted(shown(text))
        case .array(let values): "[\(values.map { json($0, shown) }.joined(separator: ", "))]"
        case .object(let object):
            "{\(object.members.map { "\(YAMLText.quoted($0.name)): \(json($0.value, shown))" }.joined(separator: ", "))}"
        }
    }
}
