import Primitives

/// How large and how deep a text may be.
package struct JSONLimits: Sendable, Equatable {
    /// The largest text, in bytes.
    package var bytes: Int
    /// The deepest nesting: `[]` is 1, a number is 0.
    package var depth: Int

    package init(bytes: Int, depth: Int = 32) {
        self.bytes = bytes
        self.depth = depth
    }

    /// 64 KiB, 32 deep. Tokens and key sets set their own, narrower limit.
    package static let standard = JSONLimits(bytes: 65_536)
}

/// Why a text is not the JSON that is accepted here.
package struct JSONParseError: Error, Equatable, CustomStringConvertible {
    /// Bounded: usable as a metric label.
    package enum Reason: String, Sendable, CaseIterable {
        case tooLarge = "too_large"
        case tooDeep = "too_deep"
        case duplicateName = "duplicate_name"
        case invalidUTF8 = "invalid_utf8"
        case loneSurrogate = "lone_surrogate"
        case controlCharacter = "control_character"
        case invalidEscape = "invalid_escape"
        case invalidNumber = "invalid_number"
        case byteOrderMark = "byte_order_mark"
        case unexpectedEnd = "unexpected_end"
        case trailingBytes = "trailing_bytes"
        case syntax = "syntax"
    }

    package let reason: Reason
    /// In bytes from the start; for a fault inside a string the start of that string or of the escape.
    package let offset: Int

    package init(_ reason: Reason, at offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    package var description: String { "\(reason.rawValue) at byte \(offset)" }
}

extension JSONValue {
    /// The one value that makes up the whole of `bytes`.
    ///
    /// - Complexity: O(bytes). Recursion is bounded by `limits.depth`.
    package static func parse(_ bytes: RawSpan, limits: JSONLimits = .standard) throws(JSONParseError) -> JSONValue {
        guard bytes.byteCount <= limits.bytes else { throw JSONParseError(.tooLarge, at: limits.bytes) }
        var parser = JSONParser(depthLeft: limits.depth)
        return try parser.document(bytes)
    }

    package static func parse(_ bytes: [UInt8], limits: JSONLimits = .standard) throws(JSONParseError) -> JSONValue {
        try parse(bytes.span.bytes, limits: limits)
    }

    package static func parse(_ text: String, limits: JSONLimits = .standard) throws(JSONParseError) -> JSONValue {
        try parse(Array(text.utf8), limits: limits)
    }
}

/// Recursive descent over the bytes. The bytes are a parameter of every step, because a span cannot be stored.
private struct JSONParser {
    private var position = 0
    private var depthLeft: Int
    init(depthLeft: Int) { self.depthLeft = depthLeft }

    mutating func document(_ bytes: RawSpan) throws(JSONParseError) -> JSONValue {
        if bytes.byteCount >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF {
            throw JSONParseError(.byteOrderMark, at: 0)
        }
        skipWhiteSpace(bytes)
        let result = try value(bytes)
        skipWhiteSpace(bytes)
        guard position == bytes.byteCount else { throw JSONParseError(.trailingBytes, at: position) }
        return result
    }

    private mutating func value(_ bytes: RawSpan) throws(JSONParseError) -> JSONValue {
        switch try peek(bytes) {
        case UInt8(ascii: "\""):
            let text = try scanString(bytes)
            return .string(try string(text, bytes))
        case UInt8(ascii: "{"): return try object(bytes)
        case UInt8(ascii: "["): return try array(bytes)
        case UInt8(ascii: "t"): return try literal("true", .bool(true), bytes)
        case UInt8(ascii: "f"): return try literal("false", .bool(false), bytes)
        case UInt8(ascii: "n"): return try literal("null", .null, bytes)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number(bytes)
        default: throw JSONParseError(.syntax, at: position)
        }
    }

    // MARK: Structure

    private mutating func object(_ bytes: RawSpan) throws(JSONParseError) -> JSONValue {
        try descend()
        skipWhiteSpace(bytes)
        if try take(UInt8(ascii: "}"), bytes) { return ascend(.object(JSONObject())) }
        var names = Set<NameKey>()
        var members: [JSONMember] = []
        members.reserveCapacity(8)
        repeat {
            skipWhiteSpace(bytes)
            guard try peek(bytes) == UInt8(ascii: "\"") else { throw JSONParseError(.syntax, at: position) }
            let text = try scanString(bytes)
            // A short name is all in its key.
            let isShort = text.isASCII && !text.hasEscapes && text.end - text.start <= 7
            let name = isShort ? "" : try string(text, bytes)
            let key = key(text, name, bytes)
            guard isNew(name, key, members, &names) else {
                throw JSONParseError(.duplicateName, at: text.start - 1)
            }
            skipWhiteSpace(bytes)
            guard try take(UInt8(ascii: ":"), bytes) else { throw JSONParseError(.syntax, at: position) }
            skipWhiteSpace(bytes)
            members.append(JSONMember(longName: name, key: key, value: try value(bytes)))
            skipWhiteSpace(bytes)
        } while try take(UInt8(ascii: ","), bytes)
        guard try take(UInt8(ascii: "}"), bytes) else { throw JSONParseError(.syntax, at: position) }
        return ascend(.object(JSONObject(distinct: members)))
    }

    private mutating func array(_ bytes: RawSpan) throws(JSONParseError) -> JSONValue {
        try descend()
        skipWhiteSpace(bytes)
        if try take(UInt8(ascii: "]"), bytes) { return ascend(.array([])) }
        var elements: [JSONValue] = []
        repeat {
            skipWhiteSpace(bytes)
            elements.append(try value(bytes))
            skipWhiteSpace(bytes)
        } while try take(UInt8(ascii: ","), bytes)
        guard try take(UInt8(ascii: "]"), bytes) else { throw JSONParseError(.syntax, at: position) }
        return ascend(.array(elements))
    }

    private mutating func descend() throws(JSONParseError) {
        guard depthLeft > 0 else { throw JSONParseError(.tooDeep, at: position) }
        depthLeft -= 1
        position += 1
    }

    private mutating func ascend(_ value: JSONValue) -> JSONValue {
        depthLeft += 1
        return value
    }

    /// Objects of up to 16 members are searched from end to end, larger ones get a set: linear work for any text.
    @inline(__always)
    private func isNew(_ name: String, _ key: JSONName, _ members: [JSONMember], _ names: inout Set<NameKey>) -> Bool {
        if members.count < 16 {
            for index in members.indices where members[index].isNamed(name, key) { return false }
            return true
        }
        if names.isEmpty { for member in members { names.insert(NameKey(member.name)) } }
        return names.insert(NameKey(key.isWhole ? key.text : name)).inserted
    }

    @inline(__always)
    private func key(_ text: ScannedString, _ name: String, _ bytes: RawSpan) -> JSONName {
        if text.hasEscapes { return JSONName(name) }
        var word: UInt64 = 0
        var offset = text.start
        let end = min(text.end, text.start &+ 7)
        while offset < end {
            word = word &<< 8 | UInt64(bytes[offset])
            offset &+= 1
        }
        return JSONName(firstBytes: word, count: text.end - text.start)
    }

    // MARK: Scalars

    private mutating func literal(_ word: StaticString, _ value: JSONValue, _ bytes: RawSpan) throws(JSONParseError) -> JSONValue
    {
        let start = position
        for index in 0..<word.utf8CodeUnitCount {
            guard try peek(bytes) == word.utf8Start[index] else { throw JSONParseError(.syntax, at: start) }
            position += 1
        }
        return value
    }

    private mutating func number(_ bytes: RawSpan) throws(JSONParseError) -> JSONValue {
        guard let end = JSONNumber.end(of: bytes, from: position) else { throw JSONParseError(.invalidNumber, at: position) }
        let number = JSONNumber(checked: bytes, position..<end)
        position = end
        return .number(number)
    }

    /// What lies between two quotation marks, still as written.
    private struct ScannedString {
        var start: Int
        var end: Int
        var hasEscapes: Bool
        var isASCII: Bool
    }

    /// Finds the closing quotation mark, eight bytes at a time.
    private mutating func scanString(_ bytes: RawSpan) throws(JSONParseError) -> ScannedString {
        let start = position + 1
        var offset = start
        var hasEscapes = false
        var seen: UInt64 = 0
        while true {
            while offset + 8 <= bytes.byteCount {
                let word = UInt64(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
                let found = Self.special(word)
                if found == 0 {
                    seen |= word
                    offset += 8
                } else {
                    // The bytes below the one found; its flag is its highest bit.
                    let bits = found.trailingZeroBitCount & ~7
                    seen |= word & (1 << UInt64(bits) &- 1)
                    offset += bits / 8
                    break
                }
            }
            guard offset < bytes.byteCount else { throw JSONParseError(.unexpectedEnd, at: bytes.byteCount) }
            let byte = bytes[offset]
            switch byte {
            case UInt8(ascii: "\""):
                position = offset + 1
                return ScannedString(
                    start: start, end: offset, hasEscapes: hasEscapes, isASCII: seen & 0x8080_8080_8080_8080 == 0)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                offset += 2
            case 0..<0x20: throw JSONParseError(.controlCharacter, at: offset)
            default:
                seen |= UInt64(byte)
                offset += 1
            }
        }
    }

    /// The high bit of every byte that is `"`, `\` or a control character. A borrow can set a bit too many, but only above a true one.
    @inline(__always)
    private static func special(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        let found = ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | ((word &- ones &* 0x20) & ~word)
        return found & (ones &* 0x80)
    }

    private func string(_ text: ScannedString, _ bytes: RawSpan) throws(JSONParseError) -> String {
        if text.isASCII, !text.hasEscapes {
            // Nothing to validate: three times as fast as the way below. Short ones live in the value itself, without memory of their own.
            return bytes.extracting(text.start..<text.end).withUnsafeBytes { text in
                guard text.count <= 15 else { return String(decoding: text, as: UTF8.self) }
                return String(unsafeUninitializedCapacity: text.count) { buffer in
                    UnsafeMutableRawBufferPointer(buffer).copyMemory(from: text)
                    return text.count
                }
            }
        }
        let result = String(validating: try unescape(text, bytes), as: UTF8.self)
        guard let result else { throw JSONParseError(.invalidUTF8, at: text.start - 1) }
        return result
    }

    private func unescape(_ text: ScannedString, _ bytes: RawSpan) throws(JSONParseError) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(text.end - text.start)
        var offset = text.start
        while offset < text.end {
            guard bytes[offset] == UInt8(ascii: "\\") else {
                result.append(bytes[offset])
                offset += 1
                continue
            }
            // The scan went over escapes in pairs, so a byte follows.
            switch bytes[offset + 1] {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): result.append(bytes[offset + 1])
            case UInt8(ascii: "b"): result.append(0x08)
            case UInt8(ascii: "f"): result.append(0x0C)
            case UInt8(ascii: "n"): result.append(0x0A)
            case UInt8(ascii: "r"): result.append(0x0D)
            case UInt8(ascii: "t"): result.append(0x09)
            case UInt8(ascii: "u"):
                offset = try unescapeUnicode(at: offset, in: text, bytes, into: &result)
                continue
            default: throw JSONParseError(.invalidEscape, at: offset)
            }
            offset += 2
        }
        return result
    }

    /// `\uXXXX`, or two of them where the first is a leading surrogate (RFC 8259 section 7). Returns the offset behind.
    private func unescapeUnicode(
        at offset: Int, in text: ScannedString, _ bytes: RawSpan, into result: inout [UInt8]
    ) throws(JSONParseError) -> Int {
        guard let unit = codeUnit(at: offset, in: text, bytes) else { throw JSONParseError(.invalidEscape, at: offset) }
        var next = offset + 6
        var scalar = UInt32(unit)
        if UTF16.isLeadSurrogate(unit) {
            guard let trail = codeUnit(at: next, in: text, bytes), UTF16.isTrailSurrogate(trail) else {
                throw JSONParseError(.loneSurrogate, at: offset)
            }
            scalar = 0x10000 + (UInt32(unit) & 0x3FF) << 10 + UInt32(trail) & 0x3FF
            next += 6
        }
        guard let character = Unicode.Scalar(scalar) else { throw JSONParseError(.loneSurrogate, at: offset) }
        result.append(contentsOf: UTF8.encode(character) ?? UTF8.encodedReplacementCharacter)
        return next
    }

    private func codeUnit(at offset: Int, in text: ScannedString, _ bytes: RawSpan) -> UInt16? {
        guard offset + 6 <= text.end, bytes[offset] == UInt8(ascii: "\\"), bytes[offset + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var unit: UInt16 = 0
        for index in 2..<6 {
            guard let digit = ASCII.hexDigit(bytes[offset + index]) else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    // MARK: Bytes

    @inline(__always)
    private mutating func skipWhiteSpace(_ bytes: RawSpan) {
        // Tokens have none: only where there may be some is it worth a call.
        if position < bytes.byteCount, bytes[position] <= 0x20 { skipBlanks(bytes) }
    }

    private mutating func skipBlanks(_ bytes: RawSpan) {
        while position < bytes.byteCount {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    @inline(__always)
    private func peek(_ bytes: RawSpan) throws(JSONParseError) -> UInt8 {
        guard position < bytes.byteCount else { throw JSONParseError(.unexpectedEnd, at: position) }
        return bytes[position]
    }

    @inline(__always)
    private mutating func take(_ byte: UInt8, _ bytes: RawSpan) throws(JSONParseError) -> Bool {
        guard try peek(bytes) == byte else { return false }
        position += 1
        return true
    }
}

extension RawSpan {
    @inline(__always)
    fileprivate subscript(offset: Int) -> UInt8 { unsafeLoad(fromByteOffset: offset, as: UInt8.self) }
}
