import Primitives

/// A JSON pointer in its string form (RFC 6901 section 5): empty for the whole value, else `/` before every reference token.
package struct JSONPointer: Sendable, Hashable, CustomStringConvertible {
    /// As written.
    package let text: String
    /// Unescaped (`~1` is `/`, `~0` is `~`).
    package let tokens: [String]

    /// `nil` where `text` is neither empty nor starts with `/`, or holds a `~` that is not `~0` or `~1`.
    package init?(_ text: String) {
        var tokens: [String] = []
        var parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)[...]
        guard parts.popFirst()?.isEmpty ?? true else { return nil }
        for part in parts {
            guard let token = Self.unescape(part) else { return nil }
            tokens.append(token)
        }
        self.text = text
        self.tokens = tokens
    }

    package var description: String { text }

    package static func == (left: JSONPointer, right: JSONPointer) -> Bool { left.text.hasSameBytes(as: right.text) }
    package func hash(into hasher: inout Hasher) { NameKey(text).hash(into: &hasher) }

    private static func unescape(_ part: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var iterator = part.makeIterator()
        while let byte = iterator.next() {
            if byte != UInt8(ascii: "~") {
                bytes.append(byte)
                continue
            }
            switch iterator.next() {
            case UInt8(ascii: "0"): bytes.append(UInt8(ascii: "~"))
            case UInt8(ascii: "1"): bytes.append(UInt8(ascii: "/"))
            default: return nil
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// An array index (RFC 6901 section 4): decimal without leading zeros. `-`, the element behind the last, is never there.
    fileprivate static func index(_ token: String) -> Int? {
        guard token.utf8.count == 1 || token.utf8.first != UInt8(ascii: "0") else { return nil }
        return ASCII.decimal(token.utf8)
    }
}

extension JSONValue {
    /// What the pointer refers to, `nil` where there is nothing.
    package subscript(pointer: JSONPointer) -> JSONValue? {
        var current = self
        for token in pointer.tokens {
            switch current {
            case .object(let object):
                guard let value = object[token] else { return nil }
                current = value
            case .array(let elements):
                guard let index = JSONPointer.index(token), elements.indices.contains(index) else { return nil }
                current = elements[index]
            case .null, .bool, .number, .string: return nil
            }
        }
        return current
    }
}

extension JSONObject {
    package subscript(pointer: JSONPointer) -> JSONValue? { JSONValue.object(self)[pointer] }
}
