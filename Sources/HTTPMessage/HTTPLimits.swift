/// How much of a message is read. Sizes in bytes; each bound itself is still accepted.
package struct HTTPLimits: Sendable, Equatable {
    /// The start-line without its CRLF; more is 414.
    package var requestLineBytes: Int
    /// All field lines with their CRLFs, without the empty line; for the trailer section the same again. More is 431.
    package var fieldsBytes: Int
    /// Lines in the field section; for the trailer section the same again. More is 431.
    package var fieldLines: Int
    /// Content, that is without chunk framing; more is 413.
    package var bodyBytes: Int
    /// One chunk line (size and extensions) without its CRLF; more is 400.
    package var chunkLineBytes: Int

    package init(
        requestLineBytes: Int = 8192, fieldsBytes: Int = 16384, fieldLines: Int = 100, bodyBytes: Int = 65536,
        chunkLineBytes: Int = 256
    ) {
        self.requestLineBytes = requestLineBytes
        self.fieldsBytes = fieldsBytes
        self.fieldLines = fieldLines
        self.bodyBytes = bodyBytes
        self.chunkLineBytes = chunkLineBytes
    }

    package static let standard = HTTPLimits()
}
