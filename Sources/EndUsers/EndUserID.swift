/// The stable, opaque ID that January knows a person by. Exists only in a form that January accepts.
package struct EndUserID: Sendable, Hashable {
    /// In bytes of UTF-8. January says "characters"; bytes are the strictest reading.
    package static let maxBytes = 64

    package let text: String

    package init(_ text: String) throws(EndUserError) {
        if let reason = Self.problem(text) { throw .invalid(reason) }
        self.text = text
    }

    /// A MAC in hexadecimal behind a prefix that was checked with the configuration.
    init(checked text: String) { self.text = text }

    package static func == (left: EndUserID, right: EndUserID) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Why nobody can have this ID at January, whoever minted for it: narrower than what is minted for here, where an ID must not be
    /// taken for an e-mail address and the strictest reading of "characters" holds.
    package static func problemForJanuary(_ text: String) -> EndUserError.Invalid? {
        if EndUserText.isBlank(text) { return .blank }
        if text.unicodeScalars.count > maxBytes { return .tooLong }
        let hasControl = text.unicodeScalars.contains { $0.properties.generalCategory == .control }
        return hasControl ? .controlCharacter : nil
    }

    /// Why January would refuse this, or might read it as something else.
    static func problem(_ text: String) -> EndUserError.Invalid? {
        if text.utf8.count <= maxBytes && EndUserText.isHarmless(text) { return nil }
        if EndUserText.isBlank(text) { return .blank }
        if text.utf8.count > maxBytes { return .tooLong }
        if let problem = EndUserText.problem(text) { return problem }
        if EndUserText.hasWhiteSpaceAtEnds(text) { return .whiteSpaceAtEnds }
        return EndUserText.looksLikeEmail(text) ? .looksLikeEmail : nil
    }
}

/// Properties of text that decide whether it may be part of an ID.
enum EndUserText {
    /// Nothing but visible ASCII without `@`, and at least one of it: what nearly every ID is, seen in one pass.
    static func isHarmless(_ text: String) -> Bool {
        text.utf8.withContiguousStorageIfAvailable { bytes in
            var others: UInt8 = bytes.isEmpty ? 1 : 0
            for byte in bytes { others |= byte &- 0x21 < 0x5E && byte != UInt8(ascii: "@") ? 0 : 1 }
            return others == 0
        } ?? false
    }

    static func isBlank(_ text: String) -> Bool {
        // Most IDs begin with a letter or digit; properties of Unicode are looked up only for the others.
        if let first = text.utf8.first, first > 0x20 && first < 0x7F { return false }
        return text.unicodeScalars.allSatisfy(\.properties.isWhitespace)
    }

    /// Control and format characters (Cc, Cf), line and paragraph separators (Zl, Zp), wherever they stand.
    static func problem(_ text: String) -> EndUserError.Invalid? {
        if text.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) { return nil }
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format: return .controlCharacter
            case .lineSeparator, .paragraphSeparator: return .lineSeparator
            default: continue
            }
        }
        return nil
    }

    static func hasWhiteSpaceAtEnds(_ text: String) -> Bool {
        if let first = text.utf8.first, let last = text.utf8.last, (0x21...0x7E).contains(first), (0x21...0x7E).contains(last) {
            return false
        }
        return [text.unicodeScalars.first, text.unicodeScalars.last].contains { $0?.properties.isWhitespace ?? false }
    }

    /// An `@` and, anywhere behind it, a dot.
    static func looksLikeEmail(_ text: String) -> Bool {
        guard let at = text.utf8.firstIndex(of: UInt8(ascii: "@")) else { return false }
        return text.utf8[at...].contains(UInt8(ascii: "."))
    }
}
