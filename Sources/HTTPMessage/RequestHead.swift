/// The head of a request that passed every rule: what is in here is unambiguous.
///
/// An object, because it goes through several hands on its way to whoever answers it.
package final class RequestHead: Sendable {
    package let method: Method
    package let target: RequestTarget
    package let version: HTTPVersion
    package let fields: Fields
    /// A length may be beyond ``HTTPLimits/bodyBytes``: the head is answered (404, 405) before the body is refused (413).
    package let framing: BodyFraming
    /// Whether the client wants to go on after this message (RFC 9112 section 9.3).
    package let isPersistent: Bool
    /// `Expect: 100-continue` with content still to come; never for HTTP/1.0 (RFC 9110 section 10.1.1).
    package let expectsContinue: Bool

    /// Host and port the client means: of the target in absolute-form, else of `Host` (RFC 9112 section 3.3). `nil` only for HTTP/1.0
    /// without `Host`.
    package var authority: ArraySlice<UInt8>? { target.authority ?? fields.first(.host) }

    fileprivate init(
        method: Method, target: RequestTarget, version: HTTPVersion, fields: Fields, framing: BodyFraming, isPersistent: Bool,
        expectsContinue: Bool
    ) {
        self.method = method
        self.target = target
        self.version = version
        self.fields = fields
        self.framing = framing
        self.isPersistent = isPersistent
        self.expectsContinue = expectsContinue
    }
}

/// Finds and checks the head of one request.
package struct RequestHeadParser: Sendable {
    private struct RequestLine: Sendable {
        let method: Method
        let target: RequestTarget.Parts
        let version: HTTPVersion
    }

    private enum State: Sendable {
        case beforeLine
        case requestLine
        case fields(RequestLine)
    }

    private let limits: HTTPLimits
    private var state = State.beforeLine
    private var reader = HeadReader()
    private var found = RequestFields()

    package init(limits: HTTPLimits) { self.limits = limits }

    /// Ready for the next message on the same connection.
    package mutating func reset() { self = RequestHeadParser(limits: limits) }

    /// Whether a byte of a request was seen: empty lines before it are none.
    package var hasBegun: Bool {
        if case .beforeLine = state { false } else { true }
    }

    /// `bytes` is everything received of this message so far, from its first byte; it only grows from call to call. `nil` means that
    /// more is needed; what was looked at is not looked at again. After a head or an error, ``reset()`` before the next message.
    package mutating func parse(_ bytes: RawSpan) throws(HTTPParseError) -> ParsedHead<RequestHead>? {
        if case .beforeLine = state {
            guard reader.skipEmptyLines(bytes) else { return nil }
            state = .requestLine
        }
        if case .requestLine = state {
            guard
                let line = try reader.nextLine(bytes, maxBytes: limits.requestLineBytes, tooLong: .requestLineTooLong)
            else { return nil }
            state = .fields(try RequestHeadParser.requestLine(bytes, line))
            reader.beginFields()
        }
        guard case .fields(let line) = state else { return nil }
        while true {
            switch try reader.nextField(bytes, limits) {
            case .needMore: return nil
            case .field(let entry): try found.add(bytes, entry)
            case .end(let end): return ParsedHead(head: try head(bytes, line, end), byteCount: end)
            }
        }
    }

    private func head(_ bytes: RawSpan, _ line: RequestLine, _ end: Int) throws(HTTPParseError) -> RequestHead {
        // HTTP/1.0 without Host is the one exception (RFC 9112 section 3.2).
        guard found.hasHost || line.version == .http10 else { throw HTTPParseError(.hostMissing, at: end) }
        let framing = try BodyFraming.ofRequest(found.framing, version: line.version)
        if let offset = found.unknownExpectation, line.version == .http11 {
            throw HTTPParseError(.expectationUnknown, at: offset)
        }
        let storage = bytes.copy(0..<end)
        return RequestHead(
            method: line.method, target: RequestTarget(storage: storage, parts: line.target), version: line.version,
            fields: Fields(storage: storage, entries: reader.entries), framing: framing,
            isPersistent: found.connection.isPersistent(line.version),
            expectsContinue: found.expectsContinue && line.version == .http11 && framing.hasContent)
    }

    /// `method SP request-target SP HTTP-version` (RFC 9112 section 3): one SP each, no other white space.
    private static func requestLine(_ bytes: RawSpan, _ line: Range<Int>) throws(HTTPParseError) -> RequestLine {
        let methodEnd = bytes.firstOutside(.token, from: line.lowerBound, to: line.upperBound)
        guard methodEnd < line.upperBound else { throw HTTPParseError(.requestLineMalformed, at: methodEnd) }
        guard bytes[at: methodEnd] == UInt8(ascii: " "), let method = Method(bytes, line.lowerBound..<methodEnd) else {
            throw HTTPParseError(.methodInvalid, at: methodEnd)
        }
        let targetStart = methodEnd &+ 1
        var targetEnd = targetStart
        while targetEnd < line.upperBound, bytes[at: targetEnd] != UInt8(ascii: " ") { targetEnd &+= 1 }
        guard targetEnd < line.upperBound else { throw HTTPParseError(.requestLineMalformed, at: targetEnd) }
        // Before the target: `PRI * HTTP/2.0` is another version, whatever its target.
        let version = try HTTPVersion(bytes, targetEnd &+ 1..<line.upperBound)
        let target = try RequestTarget.parse(bytes, targetStart..<targetEnd, method: method)
        return RequestLine(method: method, target: target, version: version)
    }
}

/// What the request's own field lines say about the message, gathered line by line.
private struct RequestFields: Sendable {
    private(set) var framing = FramingFields()
    private(set) var connection = ConnectionOptions()
    private(set) var hasHost = false
    private(set) var expectsContinue = false
    /// Where the first expectation is that we cannot meet.
    private(set) var unknownExpectation: Int?

    @inline(__always)
    mutating func add(_ bytes: RawSpan, _ entry: Fields.Entry) throws(HTTPParseError) {
        switch entry.nameEnd &- entry.nameStart {
        case 4 where bytes.equals(entry.name, ignoringCase: "host"): try addHost(bytes, entry.value)
        case 6 where bytes.equals(entry.name, ignoringCase: "expect"): addExpectation(bytes, entry.value)
        case 10: connection.add(bytes, entry)
        case 14, 17: try framing.add(bytes, entry)
        default: break
        }
    }

    private mutating func addHost(_ bytes: RawSpan, _ value: Range<Int>) throws(HTTPParseError) {
        guard !hasHost else { throw HTTPParseError(.hostRepeated, at: value.lowerBound) }
        guard Authority(bytes, value) != nil else { throw HTTPParseError(.hostInvalid, at: value.lowerBound) }
        hasHost = true
    }

    private mutating func addExpectation(_ bytes: RawSpan, _ value: Range<Int>) {
        if bytes.equals(value, ignoringCase: "100-continue") {
            expectsContinue = true
        } else if unknownExpectation == nil {
            unknownExpectation = value.lowerBound
        }
    }
}
