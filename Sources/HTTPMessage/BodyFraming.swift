/// Which rule ends the message body (RFC 9112 section 6.3).
package enum BodyFraming: Sendable, Equatable {
    case none
    case length(Int)
    case chunked
    /// Responses only: the body ends with the connection.
    case untilClose

    /// Whether content can follow the head: not for ``none`` and a length of zero.
    package var hasContent: Bool {
        switch self {
        case .none, .length(0): false
        case .length, .chunked, .untilClose: true
        }
    }

    /// Whether the body announces more than is read; then it is refused (413) without being asked for.
    package func exceeds(_ limits: HTTPLimits) -> Bool {
        if case .length(let count) = self { count > limits.bodyBytes } else { false }
    }

    /// The table for requests. Everything else that RFC 9112 section 6.3 lets a lenient server do is an error here.
    ///
    /// | Transfer-Encoding | Content-Length | framing |
    /// | --- | --- | --- |
    /// | none | none | none |
    /// | none | one number | length |
    /// | exactly `chunked`, HTTP/1.1 | none | chunked |
    static func ofRequest(_ fields: FramingFields, version: HTTPVersion) throws(HTTPParseError) -> BodyFraming {
        try fields.checked(version: version) ?? .none
    }

    /// The table for responses, first row that fits. `head` may be informational.
    ///
    /// | response | framing |
    /// | --- | --- |
    /// | framing fields that contradict each other or themselves | error |
    /// | to HEAD; 304; 2xx to CONNECT | none |
    /// | 1xx, 204 | none; an error when it announces content (RFC 9110 sections 8.6, 15.3.5) |
    /// | `Transfer-Encoding: chunked`, HTTP/1.1 | chunked |
    /// | one `Content-Length` | length |
    /// | neither | until close |
    package static func ofResponse(_ head: ResponseHead, to method: Method) throws(HTTPParseError) -> BodyFraming {
        let announced = try FramingFields(head.fields).checked(version: head.version)
        switch head.status {
        case 100..<200, 204:
            if let announced, announced.hasContent { throw HTTPParseError(.contentForbidden, at: 0) }
            return .none
        case 304: return .none
        case 200..<300 where method == .connect: return .none
        case _ where method == .head: return .none
        default: return announced ?? .untilClose
        }
    }
}

/// What the two framing fields say, gathered line by line.
struct FramingFields: Sendable {
    private var length: Int?
    private var hasChunked = false
    private var hasUnknownCoding = false
    private var hasTransferEncoding = false
    private var transferEncodingOffset = 0
    private var lengthOffset = 0

    init() {}

    init(_ fields: Fields) throws(HTTPParseError) {
        let bytes = fields.storage.span.bytes
        for entry in fields.entries { try add(bytes, entry) }
    }

    /// Looks at one field line; ignores every other name.
    @inline(__always)
    mutating func add(_ bytes: RawSpan, _ entry: Fields.Entry) throws(HTTPParseError) {
        switch entry.nameEnd &- entry.nameStart {
        case 14 where bytes.equals(entry.name, ignoringCase: "content-length"): try addLength(bytes, entry.value)
        case 17 where bytes.equals(entry.name, ignoringCase: "transfer-encoding"): try addCodings(bytes, entry.value)
        default: break
        }
    }

    /// RFC 9112 section 6.3 lets a server take a list of equal numbers; we do not: digits, once.
    private mutating func addLength(_ bytes: RawSpan, _ value: Range<Int>) throws(HTTPParseError) {
        guard length == nil else { throw HTTPParseError(.contentLengthRepeated, at: value.lowerBound) }
        guard let number = bytes.decimal(value) else { throw HTTPParseError(.contentLengthInvalid, at: value.lowerBound) }
        length = number
        lengthOffset = value.lowerBound
    }

    /// All lines make one list. `chunked` is last and there once; it has no parameters; empty members are refused.
    private mutating func addCodings(_ bytes: RawSpan, _ value: Range<Int>) throws(HTTPParseError) {
        hasTransferEncoding = true
        transferEncodingOffset = value.lowerBound
        var start = value.lowerBound
        while start <= value.upperBound {
            var end = start
            while end < value.upperBound, bytes[at: end] != UInt8(ascii: ",") { end &+= 1 }
            let coding = bytes.trimmed(start..<end)
            guard !coding.isEmpty, !hasChunked else { throw HTTPParseError(.transferEncodingInvalid, at: start) }
            if bytes.equals(coding, ignoringCase: "chunked") {
                hasChunked = true
            } else {
                guard FramingFields.isUnknownCoding(bytes, coding) else {
                    throw HTTPParseError(.transferEncodingInvalid, at: start)
                }
                hasUnknownCoding = true
            }
            start = end &+ 1
        }
    }

    /// A token, perhaps with parameters, that is not `chunked`: a coding somebody may know, which we do not.
    private static func isUnknownCoding(_ bytes: RawSpan, _ coding: Range<Int>) -> Bool {
        let end = bytes.firstOutside(.token, from: coding.lowerBound, to: coding.upperBound)
        guard end > coding.lowerBound, !bytes.equals(coding.lowerBound..<end, ignoringCase: "chunked") else { return false }
        return end == coding.upperBound || bytes[at: bytes.trimmed(end..<coding.upperBound).lowerBound] == UInt8(ascii: ";")
    }

    /// `nil` when neither field is there.
    func checked(version: HTTPVersion) throws(HTTPParseError) -> BodyFraming? {
        guard hasTransferEncoding else { return length.map { .length($0) } }
        if length != nil { throw HTTPParseError(.lengthAndTransferEncoding, at: max(lengthOffset, transferEncodingOffset)) }
        // RFC 9112 section 6.1: faulty framing in a message of a version that does not know it.
        guard version == .http11 else { throw HTTPParseError(.transferEncodingInHTTP10, at: transferEncodingOffset) }
        guard !hasUnknownCoding else { throw HTTPParseError(.transferCodingUnknown, at: transferEncodingOffset) }
        return .chunked
    }
}
