/// Finds the lines of a head in bytes that arrive bit by bit, and indexes its field lines. Common to requests and responses.
///
/// Every byte is looked at once for its class, in order, and what is wrong is decided by the first wrong byte: the verdict on a
/// message does not depend on how it was cut into reads. A line is judged as soon as it is complete, and a control character as
/// soon as it is there, so that what will never be HTTP is refused without waiting for an end that may not come.
struct HeadReader: Sendable {
    /// First byte of the line that is not complete yet.
    private(set) var lineStart = 0
    /// Everything before it has been looked at.
    private var cursor = 0
    private var fieldsStart = 0
    private(set) var entries: [Fields.Entry] = []

    init() {}

    /// Leaves out empty lines before a request-line: RFC 9112 section 2.2 asks for one at least; more than a few are no request.
    /// `false` while nothing else has come.
    mutating func skipEmptyLines(_ bytes: RawSpan) -> Bool {
        while lineStart < HeadReader.emptyLines * 2 {
            guard lineStart < bytes.byteCount else { return false }
            guard bytes[at: lineStart] == 0x0D else { return true }
            guard lineStart &+ 1 < bytes.byteCount else { return false }
            guard bytes[at: lineStart &+ 1] == 0x0A else { return true }
            lineStart &+= 2
            cursor = lineStart
        }
        return lineStart < bytes.byteCount
    }

    private static let emptyLines = 4

    /// The next complete line without its CRLF, or `nil`: more is needed. At most `maxBytes` long.
    mutating func nextLine(
        _ bytes: RawSpan, maxBytes: Int, tooLong: HTTPParseError.Reason
    ) throws(HTTPParseError) -> Range<Int>? {
        let limit = lineStart &+ maxBytes
        let stop = min(bytes.byteCount, limit &+ 1)
        cursor = bytes.firstControl(from: cursor, to: stop)
        guard cursor < stop else {
            if stop > limit { throw HTTPParseError(tooLong, at: limit) }
            return nil
        }
        switch bytes[at: cursor] {
        case 0x0D: break
        case 0x0A: throw HTTPParseError(.bareLineFeed, at: cursor)
        default: throw HTTPParseError(.controlCharacter, at: cursor)
        }
        guard cursor &+ 1 < bytes.byteCount else { return nil }
        guard bytes[at: cursor &+ 1] == 0x0A else { throw HTTPParseError(.bareCarriageReturn, at: cursor) }
        let line = lineStart..<cursor
        lineStart = cursor &+ 2
        cursor = lineStart
        return line
    }

    /// Called once, when the start-line is complete.
    mutating func beginFields() {
        fieldsStart = lineStart
        entries.reserveCapacity(16)
    }

    enum Line {
        case needMore
        case field(Fields.Entry)
        /// The empty line: the head ends before this offset.
        case end(Int)
    }

    mutating func nextField(_ bytes: RawSpan, _ limits: HTTPLimits) throws(HTTPParseError) -> Line {
        let left = limits.fieldsBytes &- (lineStart &- fieldsStart) &- 2
        guard let line = try nextLine(bytes, maxBytes: max(0, left), tooLong: .fieldsTooLarge) else { return .needMore }
        guard !line.isEmpty else { return .end(lineStart) }
        guard entries.count < limits.fieldLines else { throw HTTPParseError(.tooManyFields, at: line.lowerBound) }
        let entry = try HeadReader.fieldLine(bytes, line)
        entries.append(entry)
        return .field(entry)
    }

    /// `field-line = field-name ":" OWS field-value OWS` (RFC 9112 section 5). The line holds no control character but HTAB.
    static func fieldLine(_ bytes: RawSpan, _ line: Range<Int>) throws(HTTPParseError) -> Fields.Entry {
        let start = line.lowerBound
        let end = bytes.firstOutside(.token, from: start, to: line.upperBound)
        guard end < line.upperBound else { throw HTTPParseError(.colonMissing, at: end) }
        guard bytes[at: end] == UInt8(ascii: ":"), end > start else {
            let isBlank = bytes[at: end].isBlank
            if isBlank && end == start { throw HTTPParseError(.obsFold, at: start) }
            throw HTTPParseError(isBlank ? .whitespaceBeforeColon : .fieldNameInvalid, at: end)
        }
        return Fields.Entry(name: start..<end, value: bytes.trimmed(end &+ 1..<line.upperBound))
    }
}

/// A head and how many bytes it took, from the first byte that was given to the parser.
package struct ParsedHead<Head: Sendable>: Sendable {
    package let head: Head
    package let byteCount: Int
}
