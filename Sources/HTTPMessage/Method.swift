/// A method token, case-sensitive (RFC 9110 section 9.1): `get` is ``other(_:)``.
package enum Method: Sendable, Hashable {
    case get, head, post, put, delete, connect, options, trace, patch
    /// Any other token; never one of the names above.
    case other(String)

    /// `nil` when the bytes are not a token.
    package init?(_ bytes: RawSpan) { self.init(bytes, 0..<bytes.byteCount) }

    package init?(_ text: String) { self.init(Array(text.utf8).span.bytes) }

    init?(_ bytes: RawSpan, _ range: Range<Int>) {
        guard !range.isEmpty else { return nil }
        // Up to eight bytes as one number, first byte highest: one comparison for each known name.
        if range.count < 8 {
            var word: UInt64 = 0
            for offset in range { word = word << 8 | UInt64(bytes[at: offset]) }
            switch word {
            case 0x47_4554: self = .get
            case 0x4845_4144: self = .head
            case 0x504F_5354: self = .post
            case 0x50_5554: self = .put
            case 0x4445_4C45_5445: self = .delete
            case 0x43_4F4E_4E45_4354: self = .connect
            case 0x4F_5054_494F_4E53: self = .options
            case 0x54_5241_4345: self = .trace
            case 0x50_4154_4348: self = .patch
            default:
                guard bytes.firstOutside(.token, from: range.lowerBound, to: range.upperBound) == range.upperBound else {
                    return nil
                }
                self = .other(String(decoding: bytes.copy(range), as: UTF8.self))
            }
            return
        }
        guard bytes.firstOutside(.token, from: range.lowerBound, to: range.upperBound) == range.upperBound else { return nil }
        self = .other(String(decoding: bytes.copy(range), as: UTF8.self))
    }

    package var text: String {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .connect: "CONNECT"
        case .options: "OPTIONS"
        case .trace: "TRACE"
        case .patch: "PATCH"
        case .other(let text): text
        }
    }
}

/// What we speak. A higher minor version is read as HTTP/1.1 (RFC 9110 section 2.5).
package enum HTTPVersion: Sendable, Hashable, Comparable {
    case http10, http11
}
