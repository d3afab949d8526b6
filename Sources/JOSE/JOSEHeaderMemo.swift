import Primitives

/// The headers of tokens that were read last, by the text they were read from. The tokens of one issuer differ in everything but this
/// part, and reading it means the same for each of them. Not a cache of verdicts: what a header says is checked for every token.
///
/// At most ``maxHeaders`` of at most ``maxBytes`` each. One per loop.
package final class JOSEHeaderMemo {
    static let maxHeaders = 8
    static let maxBytes = 512

    private var entries: [(text: [UInt8], header: JOSEHeader)] = []
    private var next = 0

    package init() {}

    func header(_ text: RawSpan) throws(JWSFormatError) -> JOSEHeader {
        for entry in entries where Self.isSame(entry.text, text) { return entry.header }
        let header = try CompactJWS.header(text)
        guard text.byteCount <= Self.maxBytes else { return header }
        let entry = (text: text.withUnsafeBytes { [UInt8]($0) }, header: header)
        if entries.count < Self.maxHeaders {
            entries.append(entry)
        } else {
            // In turn: whoever invents headers can push the good ones out, and then every token costs what it did without this.
            entries[next] = entry
            next = (next + 1) % Self.maxHeaders
        }
        return header
    }

    private static func isSame(_ left: [UInt8], _ right: RawSpan) -> Bool {
        guard left.count == right.byteCount else { return false }
        return right.withUnsafeBytes { right in
            left.withUnsafeBufferPointer { left in right.withMemoryRebound(to: UInt8.self) { Bytes.equal(left, $0) } }
        }
    }
}
