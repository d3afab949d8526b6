/// How values appear in messages and on screens: short, on one line, without what must not be seen.
package enum ConfigText {
    /// Values longer than this are cut in messages.
    private static let shownCharacterCount = 100

    /// The text in double quotes for a message: URLs redacted, control characters escaped, long values cut.
    package static func quoted(_ text: String) -> String {
        "\"\(shortened(redacted(text)))\""
    }

    static func shortened(_ text: String) -> String {
        var shown = ""
        for (count, scalar) in text.unicodeScalars.enumerated() {
            if count == shownCharacterCount {
                shown += "…"
                break
            }
            switch scalar {
            case "\"": shown += "\\\""
            case "\\": shown += "\\\\"
            case "\n": shown += "\\n"
            case "\t": shown += "\\t"
            default:
                switch scalar.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate:
                    shown += "\\u{\(String(scalar.value, radix: 16))}"
                default: shown.unicodeScalars.append(scalar)
                }
            }
        }
        return shown
    }

    /// A key as it stands in a path: as it is, or quoted where it could be mistaken for something else.
    static func pathKey(_ key: String) -> String {
        let isSimple = !key.isEmpty && key.utf8.count <= 100 && key.utf8.allSatisfy { isWordByte($0) || $0 == UInt8(ascii: "-") }
        return isSimple ? key : "\"\(shortened(key))\""
    }

    static func isWordByte(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "_") || (byte | 0x20) &- 0x61 < 26 || byte &- 0x30 < 10
    }

    /// User info and query of a URL as `<redacted>`; other text as it is, but for what looks like a URL that lost its scheme.
    package static func redacted(_ text: String) -> String {
        guard let separator = text.range(of: "://") else {
            guard let at = text.lastIndex(of: "@"), text[..<at].contains(":") else { return text }
            return "<redacted>\(text[at...])"
        }
        let scheme = text[..<separator.lowerBound]
        var rest = text[separator.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        var userInfo = ""
        if let at = authority.lastIndex(of: "@") {
            userInfo = "<redacted>@"
            rest = rest[rest.index(after: at)...]
        } else if let at = rest.lastIndex(of: "@"), !isWeb(scheme) || hasOddPort(authority) {
            // A password with an unescaped `/`, `?` or `#` in it: no valid URL, but it must not be shown either.
            userInfo = "<redacted>@"
            rest = rest[rest.index(after: at)...]
        }
        if let query = rest.firstIndex(where: { $0 == "?" || $0 == "#" }) {
            rest = rest[...query] + "<redacted>"
        }
        return "\(scheme)://\(userInfo)\(rest)"
    }

    private static func isWeb(_ scheme: Substring) -> Bool {
        let scheme = scheme.lowercased()
        return scheme == "http" || scheme == "https"
    }

    private static func hasOddPort(_ authority: Substring) -> Bool {
        guard !authority.hasPrefix("["), let colon = authority.firstIndex(of: ":") else { return false }
        return !authority[authority.index(after: colon)...].utf8.allSatisfy { $0 &- 0x30 < 10 }
    }

    /// Whether the value of this key, or text like this, must stay out of messages whatever is wrong with it.
    static func isSecretLike(key: String, text: String) -> Bool {
        if !key.hasSuffix("_file") && !key.hasSuffix("_files") {
            let words = key.lowercased().split(separator: "_")
            let telling: Set<Substring> = ["secret", "secrets", "password", "passphrase", "credential", "credentials", "key"]
            if words.contains(where: telling.contains) || key == "token" { return true }
        }
        return ["sk-", "ct-", "eyJ", "-----BEGIN"].contains { text.hasPrefix($0) }
    }

    /// Whether `text` is surely the name of a file and not a secret that was written where a file name belongs.
    static func isPathLike(_ text: String) -> Bool {
        guard !isSecretLike(key: "", text: text), text.contains("/") || text.contains(".") else { return false }
        let parts = text.split(separator: "/")
        return parts.allSatisfy { part in
            part.utf8.count <= 64
                && part.utf8.allSatisfy { isWordByte($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") || $0 == 0x20 }
        }
    }
}

extension String {
    /// The first place of `needle`, compared as bytes. Without Foundation there is no `range(of:)`.
    fileprivate func range(of needle: String) -> Range<String.Index>? {
        let pattern = Array(needle.utf8)
        var start = utf8.startIndex
        while start != utf8.endIndex {
            if utf8[start...].starts(with: pattern) { return start..<utf8.index(start, offsetBy: pattern.count) }
            start = utf8.index(after: start)
        }
        return nil
    }
}
