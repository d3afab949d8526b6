/// What the `Connection` lines of a message say about the connection (RFC 9112 section 9.3). `upgrade` and names are ignored.
struct ConnectionOptions: Sendable {
    private var hasClose = false
    private var hasKeepAlive = false

    /// Looks at one field line; ignores every other name.
    @inline(__always)
    mutating func add(_ bytes: RawSpan, _ entry: Fields.Entry) {
        guard entry.nameEnd &- entry.nameStart == 10, bytes.equals(entry.name, ignoringCase: "connection") else { return }
        if bytes.listContains(entry.value, "close") { hasClose = true }
        if bytes.listContains(entry.value, "keep-alive") { hasKeepAlive = true }
    }

    /// `close` wins; HTTP/1.0 goes on only when it asks to.
    func isPersistent(_ version: HTTPVersion) -> Bool {
        !hasClose && (version == .http11 || hasKeepAlive)
    }
}

extension HTTPVersion {
    /// `HTTP/` DIGIT `.` DIGIT, case-sensitive (RFC 9112 section 2.3). Another major version is 505.
    init(_ bytes: RawSpan, _ range: Range<Int>) throws(HTTPParseError) {
        let start = range.lowerBound
        // `equals` folds the case of the bytes, so the literal's letters are checked one by one.
        guard range.count == 8, bytes[at: start] == UInt8(ascii: "H"), bytes[at: start &+ 1] == UInt8(ascii: "T"),
            bytes[at: start &+ 2] == UInt8(ascii: "T"), bytes[at: start &+ 3] == UInt8(ascii: "P"),
            bytes[at: start &+ 4] == UInt8(ascii: "/"), bytes[at: start &+ 5].isDigit,
            bytes[at: start &+ 6] == UInt8(ascii: "."), bytes[at: start &+ 7].isDigit
        else { throw HTTPParseError(.versionInvalid, at: start) }
        guard bytes[at: start &+ 5] == UInt8(ascii: "1") else { throw HTTPParseError(.versionUnsupported, at: start) }
        self = bytes[at: start &+ 7] == UInt8(ascii: "0") ? .http10 : .http11
    }
}
