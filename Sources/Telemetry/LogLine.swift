import Primitives

/// Makes one line of one record. Pure.
///
/// Whatever a field holds, the line is one line: controls (C0, DEL, C1), line and paragraph separators and the marks that reorder
/// bidirectional text are written as `\u…` in both formats, so a value can neither forge a line nor speak to a terminal.
package struct LogLine {
    /// Longer text is cut at a character and ends in `…`.
    static let maxValueBytes = 4096
    /// A record of a mint fits, so its memory is asked for once.
    private static let expectedBytes = 608

    private let format: LogFormat
    private(set) var bytes: [UInt8] = []

    /// For ``LogList``: the value alone.
    static func json(_ texts: [String]) -> [UInt8] {
        var line = LogLine()
        line.json(.strings(texts))
        return line.bytes
    }

    private init() { format = .json }

    /// Begins a line. Fields follow, then ``end(leftOut:)``.
    init(format: LogFormat, time: WallInstant, level: LogLevel, type: LogType, message: StaticString) {
        self.format = format
        bytes.reserveCapacity(Self.expectedBytes)
        switch format {
        case .json:
            literal("{\"time\":\"")
            Timestamp.append(time, to: &bytes)
            bytes.append(addingCapacity: 64) { output in
                output.append("\",\"level\":\"")
                output.append(level.name)
                output.append("\",\"type\":\"")
                output.append(type.name)
                output.append("\",\"message\":\"")
            }
            escaped(message)
            literal("\"")
        case .text:
            Timestamp.append(time, to: &bytes)
            literal(" ")
            literal(level.name)
            literal(" ")
            literal(type.name)
            literal(" ")
            escaped(message)
        }
    }

    init(
        format: LogFormat, time: WallInstant, level: LogLevel, type: LogType, message: StaticString, fields: [LogField],
        leftOut: Int
    ) {
        self.init(format: format, time: time, level: level, type: type, message: message)
        for field in fields { add(field) }
        end(leftOut: leftOut)
    }

    mutating func end(leftOut: Int = 0) {
        if leftOut > 0 { add("left_out", leftOut) }
        literal(format == .json ? "}\n" : "\n")
    }

    // MARK: Fields

    /// The name is a constant; `time`, `level`, `type`, `message` and `left_out` are taken.
    package mutating func add(_ field: LogField) { add(field.name, field.value) }

    package mutating func add(_ name: StaticString, _ value: LogValue) {
        begin(name)
        switch format {
        case .json: json(value)
        case .text: text(value)
        }
    }

    package mutating func add(_ name: StaticString, _ text: String) {
        if format == .text || !addPlain(name, text) { add(name, .string(text)) }
    }

    package mutating func add(_ name: StaticString, _ list: LogList) {
        guard format == .json else { return add(name, .strings(list.texts)) }
        begin(name)
        bytes += list.json
    }

    package mutating func add(_ name: StaticString, _ number: Int) { add(name, .integer(number)) }

    /// 32 lower-case hexadecimal digits.
    package mutating func add(_ name: StaticString, hex high: UInt64, _ low: UInt64) {
        bytes.append(addingCapacity: name.utf8CodeUnitCount + 38) { output in
            Self.begin(name, format, &output)
            if format == .json { output.append(UInt8(ascii: "\"")) }
            output.append(hex: high)
            output.append(hex: low)
            if format == .json { output.append(UInt8(ascii: "\"")) }
        }
    }

    /// 16 lower-case hexadecimal digits.
    package mutating func add(_ name: StaticString, hex value: UInt64) {
        bytes.append(addingCapacity: name.utf8CodeUnitCount + 22) { output in
            Self.begin(name, format, &output)
            if format == .json { output.append(UInt8(ascii: "\"")) }
            output.append(hex: value)
            if format == .json { output.append(UInt8(ascii: "\"")) }
        }
    }

    /// A JSON field whose value needs no escape and no cut, which nearly every one is, in one piece.
    ///
    /// - Returns: whether it was one.
    private mutating func addPlain(_ name: StaticString, _ text: String) -> Bool {
        var text = text
        return text.withUTF8 { utf8 in
            guard utf8.count <= Self.maxValueBytes, Self.plainEnd(utf8, from: 0) == utf8.count else { return false }
            bytes.append(addingCapacity: name.utf8CodeUnitCount + utf8.count + 6) { output in
                output.append(",\"")
                output.append(name)
                output.append("\":\"")
                output.append(utf8)
                output.append("\"")
            }
            return true
        }
    }

    private mutating func begin(_ name: StaticString) {
        bytes.append(addingCapacity: name.utf8CodeUnitCount + 4) { Self.begin(name, format, &$0) }
    }

    /// Four octets and the name, at most.
    private static func begin(_ name: StaticString, _ format: LogFormat, _ output: inout OutputSpan<UInt8>) {
        switch format {
        case .json:
            output.append(",\"")
            output.append(name)
            output.append("\":")
        case .text:
            output.append(" ")
            output.append(name)
            output.append("=")
        }
    }

    // MARK: Values

    private mutating func json(_ value: LogValue) {
        switch value {
        case .string(let text): quoted(text)
        case .strings(let texts):
            literal("[")
            for (index, text) in texts.enumerated() {
                if index > 0 { literal(",") }
                quoted(text)
            }
            literal("]")
        case .integer(let number): decimal(number)
        case .thousandths(let number): thousandths(number)
        case .double(let number): double(number)
        case .boolean(let flag): literal(flag ? "true" : "false")
        }
    }

    /// A value is quoted, as in JSON, unless it is plain (letters, digits, common marks).
    private mutating func text(_ value: LogValue) {
        switch value {
        case .string(let text) where Self.isPlain(text): bytes.append(contentsOf: text.utf8)
        case .strings(let texts) where !texts.isEmpty && texts.allSatisfy(Self.isPlain):
            for (index, text) in texts.enumerated() {
                if index > 0 { literal(",") }
                bytes.append(contentsOf: text.utf8)
            }
        default: json(value)
        }
    }

    private static func isPlain(_ text: String) -> Bool {
        guard !text.isEmpty, text.utf8.count <= maxValueBytes else { return false }
        return text.utf8.allSatisfy { byte in
            if ASCII.isLetter(byte) || ASCII.isDigit(byte) { return true }
            switch byte {
            case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "@"),
                UInt8(ascii: "+"):
                return true
            default: return false
            }
        }
    }

    private mutating func literal(_ text: StaticString) {
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    private mutating func decimal(_ number: Int) {
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        bytes.append(addingCapacity: 20) { $0.append(decimal: number.magnitude) }
    }

    private mutating func thousandths(_ number: Int) {
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        let (whole, rest) = number.magnitude.quotientAndRemainder(dividingBy: 1000)
        bytes.append(addingCapacity: 20) { $0.append(decimal: whole) }
        guard rest > 0 else { return }
        bytes.append(UInt8(ascii: "."))
        if rest < 100 { bytes.append(UInt8(ascii: "0")) }
        if rest < 10 { bytes.append(UInt8(ascii: "0")) }
        bytes.append(addingCapacity: 20) { $0.append(decimal: rest) }
        while bytes.last == UInt8(ascii: "0") { bytes.removeLast() }
    }

    private mutating func double(_ number: Double) {
        guard number.isFinite else { return literal("null") }
        // `description` is a JSON number for every finite value; 3.0 is shown as 3.
        if let whole = Int(exactly: number), whole.magnitude < 1 << 53 { return decimal(whole) }
        bytes.append(contentsOf: number.description.utf8)
    }

    private mutating func escaped(_ text: StaticString) {
        text.withUTF8Buffer { buffer in escape(buffer) }
    }

    private mutating func quoted(_ text: String) {
        var text = text
        if text.withUTF8({ quotedPlain($0) }) { return }
        literal("\"")
        text.withUTF8 { utf8 in
            guard utf8.count > Self.maxValueBytes else { return escape(utf8) }
            var end = Self.maxValueBytes
            while utf8[end] & 0xC0 == 0x80 { end -= 1 }
            escape(UnsafeBufferPointer(rebasing: utf8[..<end]))
            literal("…")
        }
        literal("\"")
    }

    private mutating func quotedPlain(_ utf8: UnsafeBufferPointer<UInt8>) -> Bool {
        guard utf8.count <= Self.maxValueBytes, Self.plainEnd(utf8, from: 0) == utf8.count else { return false }
        bytes.append(addingCapacity: utf8.count + 2) { output in
            output.append(UInt8(ascii: "\""))
            output.append(utf8)
            output.append(UInt8(ascii: "\""))
        }
        return true
    }

    /// JSON string escapes (RFC 8259 section 7) of valid UTF-8. Runs that need none are copied whole.
    private mutating func escape(_ utf8: UnsafeBufferPointer<UInt8>) {
        var start = 0
        var index = Self.plainEnd(utf8, from: 0)
        while index < utf8.count {
            let (unit, length) = Self.hidden(utf8, at: index)
            if let unit {
                bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<index]))
                escape(unit: unit)
                start = index + length
            }
            index = Self.plainEnd(utf8, from: index + length)
        }
        bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<utf8.count]))
    }

    /// The end of what is printable ASCII without quotation mark and backslash. Eight octets at a time: nearly all text is nothing else.
    private static func plainEnd(_ utf8: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        let raw = UnsafeRawBufferPointer(utf8)
        while index + 8 <= raw.count, PlainText.special(raw.loadUnaligned(fromByteOffset: index, as: UInt64.self)) == 0 {
            index += 8
        }
        while index < utf8.count, PlainText.isPlain(utf8[index]) { index += 1 }
        return index
    }

    /// The code unit to escape at `index`, or nil where the character is harmless; and how many octets it takes at least.
    private static func hidden(_ utf8: UnsafeBufferPointer<UInt8>, at index: Int) -> (unit: UInt16?, length: Int) {
        let byte = utf8[index]
        if byte < 0x80 { return (UInt16(byte), 1) }
        if byte == 0xC2, index + 1 < utf8.count, utf8[index + 1] < 0xA0 { return (UInt16(utf8[index + 1]), 2) }
        if byte == 0xE2, index + 2 < utf8.count, utf8[index + 1] == 0x80 || utf8[index + 1] == 0x81 {
            let unit = 0x2000 | UInt16(utf8[index + 1] & 0x3F) << 6 | UInt16(utf8[index + 2] & 0x3F)
            switch unit {
            case 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: return (unit, 3)
            default: return (nil, 3)
            }
        }
        return (nil, 1)
    }

    private mutating func escape(unit: UInt16) {
        switch unit {
        case 0x22: literal("\\\"")
        case 0x5C: literal("\\\\")
        case 0x08: literal("\\b")
        case 0x09: literal("\\t")
        case 0x0A: literal("\\n")
        case 0x0C: literal("\\f")
        case 0x0D: literal("\\r")
        default:
            literal("\\u")
            bytes.append(contentsOf: Hex.encode([UInt8(unit >> 8), UInt8(unit & 0xFF)]).utf8)
        }
    }
}
