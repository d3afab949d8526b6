/// Text that stands for itself in JSON: printable ASCII without quotation mark and backslash. Nearly all text is nothing else, so whoever
/// reads or writes it asks about eight octets at a time.
package enum PlainText {
    @inlinable @inline(__always)
    package static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// The high bit of every octet that is not plain. A borrow can set a bit too many, but only above a true one: the lowest is right, and
    /// none is set where all are plain.
    @inlinable @inline(__always)
    package static func special(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        let delete = word ^ (ones &* 0x7F)
        let found =
            ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | ((delete &- ones) & ~delete)
            | ((word &- ones &* 0x20) & ~word) | word
        return found & (ones &* 0x80)
    }
}
