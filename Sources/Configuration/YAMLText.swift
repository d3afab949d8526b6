/// Scalars and flow lists as YAML text that reads back as the same value.
enum YAMLText {
    /// Plain where that is safe in every reader and every place, else in double quotes.
    static func scalar(_ text: String) -> String {
        isPlain(text) ? text : quoted(text)
    }

    static func list(_ texts: [String]) -> String {
        "[\(texts.map(scalar).joined(separator: ", "))]"
    }

    private static func isPlain(_ text: String) -> Bool {
        guard let first = text.utf8.first, (first | 0x20) &- 0x61 < 26 || first == UInt8(ascii: "/") else { return false }
        let rest: Set<UInt8> = [UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "/")]
        guard text.utf8.allSatisfy({ ConfigText.isWordByte($0) || rest.contains($0) }) else { return false }
        // What YAML 1.1 readers take for a boolean or null.
        return !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(text.lowercased())
    }

    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x22: result += "\\\""
            case 0x5C: result += "\\\\"
            case 0x0A: result += "\\n"
            case 0x09: result += "\\t"
            case 0...0x1F, 0x7F...0xA0: result += "\\x" + hex(scalar.value, digits: 2)
            case 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF: result += "\\u" + hex(scalar.value, digits: 4)
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }

    private static func hex(_ value: UInt32, digits: Int) -> String {
        let text = String(value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }
}
