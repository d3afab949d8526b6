import Primitives

/// A request-target (RFC 9112 section 3.2) as it was sent: nothing is decoded, joined or normalised, so that the path that is
/// checked is the path that was sent.
package struct RequestTarget: Sendable {
    package enum Form: Sendable, Hashable { case origin, absolute, authority, asterisk }

    /// What was found, as ranges in the message.
    struct Parts: Sendable {
        let form: Form
        var authority: Range<Int>?
        var path: Range<Int>
        var query: Range<Int>?
    }

    private let storage: [UInt8]
    private let parts: Parts

    init(storage: [UInt8], parts: Parts) {
        self.storage = storage
        self.parts = parts
    }

    package var form: Form { parts.form }

    /// From the first `/` up to the query. Empty where there is none: authority- and asterisk-form, and absolute-form without a path.
    package var pathBytes: ArraySlice<UInt8> { storage[parts.path] }

    /// What follows the first `?`; `nil` when there is no `?`.
    package var queryBytes: ArraySlice<UInt8>? { parts.query.map { storage[$0] } }

    /// `host [":" port]` of absolute- and authority-form. It overrules the `Host` field (RFC 9112 section 3.2.2).
    package var authority: ArraySlice<UInt8>? { parts.authority.map { storage[$0] } }

    /// The path as text; `/` for absolute-form without a path, `*` for asterisk-form.
    package var path: String {
        switch parts.form {
        case .asterisk: "*"
        case .absolute where parts.path.isEmpty: "/"
        case .origin, .absolute, .authority: String(decoding: storage[parts.path], as: UTF8.self)
        }
    }

    /// Byte by byte. Never true for authority- and asterisk-form.
    package func pathEquals(_ other: [UInt8]) -> Bool {
        switch parts.form {
        case .authority, .asterisk: return false
        case .absolute where parts.path.isEmpty: return other == [UInt8(ascii: "/")]
        case .origin, .absolute:
            return Bytes.equal(storage[parts.path], other)
        }
    }

    /// Reads the form that the method allows: asterisk-form is for `OPTIONS`, authority-form is for `CONNECT` and the only one there.
    static func parse(
        _ bytes: RawSpan, _ range: Range<Int>, method: Method
    ) throws(HTTPParseError) -> Parts {
        let start = range.lowerBound
        guard !range.isEmpty else { throw HTTPParseError(.targetInvalid, at: start) }
        if method == .connect {
            guard let authority = Authority(bytes, range), authority.port != nil else {
                throw HTTPParseError(.targetInvalid, at: start)
            }
            return Parts(form: .authority, authority: range, path: range.upperBound..<range.upperBound)
        }
        switch bytes[at: start] {
        case UInt8(ascii: "/"):
            return try pathAndQuery(bytes, range, into: Parts(form: .origin, path: range))
        case UInt8(ascii: "*"):
            guard range.count == 1, method == .options else { throw HTTPParseError(.targetInvalid, at: start) }
            return Parts(form: .asterisk, path: range.upperBound..<range.upperBound)
        default:
            return try absolute(bytes, range)
        }
    }

    private static func absolute(_ bytes: RawSpan, _ range: Range<Int>) throws(HTTPParseError) -> Parts {
        var start = range.lowerBound
        if range.count >= 7, bytes.equals(start..<start &+ 7, ignoringCase: "http://") {
            start &+= 7
        } else if range.count >= 8, bytes.equals(start..<start &+ 8, ignoringCase: "https://") {
            start &+= 8
        } else {
            throw HTTPParseError(.targetInvalid, at: start)
        }
        var end = start
        while end < range.upperBound, bytes[at: end] != UInt8(ascii: "/"), bytes[at: end] != UInt8(ascii: "?") { end &+= 1 }
        // No user info: RFC 9110 section 4.2.4 has it treated as an error. `Authority` does not know `@`.
        guard Authority(bytes, start..<end) != nil else { throw HTTPParseError(.targetInvalid, at: start) }
        let parts = Parts(form: .absolute, authority: start..<end, path: end..<range.upperBound)
        return try pathAndQuery(bytes, end..<range.upperBound, into: parts)
    }

    private static func pathAndQuery(
        _ bytes: RawSpan, _ range: Range<Int>, into parts: Parts
    ) throws(HTTPParseError) -> Parts {
        var parts = parts
        let end = bytes.firstOutsideEncoded(.path, from: range.lowerBound, to: range.upperBound)
        parts.path = range.lowerBound..<end
        guard end < range.upperBound else { return parts }
        guard bytes[at: end] == UInt8(ascii: "?") else { throw HTTPParseError(.targetInvalid, at: end) }
        let queryEnd = bytes.firstOutsideEncoded(.query, from: end &+ 1, to: range.upperBound)
        guard queryEnd == range.upperBound else { throw HTTPParseError(.targetInvalid, at: queryEnd) }
        parts.query = end &+ 1..<queryEnd
        return parts
    }
}
