/// The head of a response, informational ones included.
package struct ResponseHead: Sendable {
    package let version: HTTPVersion
    /// 100 to 599.
    package let status: Int
    package let fields: Fields
    private let connection: ConnectionOptions

    fileprivate init(version: HTTPVersion, status: Int, fields: Fields, connection: ConnectionOptions) {
        self.version = version
        self.status = status
        self.fields = fields
        self.connection = connection
    }

    /// 1xx: another head follows.
    package var isInformational: Bool { status < 200 }

    /// Whether the server lets the connection go on (RFC 9112 section 9.3). A body until close ends it all the same.
    package var isPersistent: Bool { connection.isPersistent(version) }
}

/// Finds and checks the head of one response. As strict as for requests: upstreams may be hostile, too.
package struct ResponseHeadParser: Sendable {
    private enum State: Sendable {
        case statusLine
        case fields(version: HTTPVersion, status: Int)
    }

    private let limits: HTTPLimits
    private var state = State.statusLine
    private var reader = HeadReader()
    private var connection = ConnectionOptions()

    package init(limits: HTTPLimits) { self.limits = limits }

    /// Ready for the next head on the same connection.
    package mutating func reset() { self = ResponseHeadParser(limits: limits) }

    /// `bytes` is everything received of this head so far, from its first byte; it only grows from call to call. `nil` means that more
    /// is needed. The framing fields are judged by ``BodyFraming/ofResponse(_:to:)``, which knows the request.
    package mutating func parse(_ bytes: RawSpan) throws(HTTPParseError) -> ParsedHead<ResponseHead>? {
        if case .statusLine = state {
            guard
                let line = try reader.nextLine(bytes, maxBytes: limits.requestLineBytes, tooLong: .requestLineTooLong)
            else { return nil }
            state = try ResponseHeadParser.statusLine(bytes, line)
            reader.beginFields()
        }
        guard case .fields(let version, let status) = state else { return nil }
        while true {
            switch try reader.nextField(bytes, limits) {
            case .needMore: return nil
            case .field(let entry): connection.add(bytes, entry)
            case .end(let end):
                let fields = Fields(storage: bytes.copy(0..<end), entries: reader.entries)
                return ParsedHead(
                    head: ResponseHead(version: version, status: status, fields: fields, connection: connection), byteCount: end)
            }
        }
    }

    /// `HTTP-version SP status-code SP [reason-phrase]` (RFC 9112 section 4). A missing last SP is let pass: it leaves no second
    /// reading, and servers that leave it out are common.
    private static func statusLine(_ bytes: RawSpan, _ line: Range<Int>) throws(HTTPParseError) -> State {
        let start = line.lowerBound
        guard line.count >= 12 else { throw HTTPParseError(.statusLineMalformed, at: line.upperBound) }
        let version = try HTTPVersion(bytes, start..<start &+ 8)
        guard bytes[at: start &+ 8] == UInt8(ascii: " "), let status = bytes.decimal(start &+ 9..<start &+ 12),
            (100..<600).contains(status), line.count == 12 || bytes[at: start &+ 12] == UInt8(ascii: " ")
        else { throw HTTPParseError(.statusLineMalformed, at: start &+ 8) }
        return .fields(version: version, status: status)
    }
}
