/// A set of ASCII bytes in two words: membership without a table in memory. Bytes of 0x80 and above are never in it.
struct ByteSet: Sendable {
    let low: UInt64
    let high: UInt64

    @inline(__always)
    func contains(_ byte: UInt8) -> Bool {
        // Without a branch: which half, which bit, and zero for bytes of 0x80 and above.
        let half = byte & 0x40 == 0 ? low : high
        return (half &>> UInt64(byte & 0x3F)) & UInt64(byte &>> 7 ^ 1) != 0
    }

    /// `tchar`, RFC 9110 section 5.6.2.
    static let token = ByteSet(low: 0x03FF_6CFA_0000_0000, high: 0x57FF_FFFF_C7FF_FFFE)
    /// `pchar` and `/` without `%`, RFC 3986 section 3.3.
    static let path = ByteSet(low: 0x2FFF_FFD2_0000_0000, high: 0x47FF_FFFE_87FF_FFFF)
    /// RFC 3986 section 3.4 without `%`, and what browsers leave bare in a query: brackets, braces, `|`, `\`, `^` and the backtick
    /// (URL Standard, query percent-encode set).
    static let query = ByteSet(low: 0xAFFF_FFD2_0000_0000, high: 0x7FFF_FFFF_FFFF_FFFF)
    /// `reg-name` without `%` (RFC 3986 section 3.2.2), and without the comma: a list of hosts is two readings.
    static let host = ByteSet(low: 0x2BFF_6FD2_0000_0000, high: 0x47FF_FFFE_87FF_FFFE)
    /// Names that are looked up: letters, digits, `-`, `.` and `_`.
    static let hostName = ByteSet(low: 0x03FF_6000_0000_0000, high: 0x07FF_FFFE_87FF_FFFE)
}

/// Kept here and not in `Primitives`, because these run once per byte and are inlined only inside their own module.
extension UInt8 {
    @inline(__always)
    var lowercasedASCII: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }

    @inline(__always)
    var isDigit: Bool { self &- 0x30 < 10 }

    /// The value of a hexadecimal digit of either case, else 0xFF.
    @inline(__always)
    var hexValue: UInt8 {
        if isDigit { return self &- 0x30 }
        let letter = (self | 0x20) &- 0x61
        return letter < 6 ? letter &+ 10 : 0xFF
    }

    /// SP or HTAB: the white space of OWS and BWS.
    @inline(__always)
    var isBlank: Bool { self == 0x20 || self == 0x09 }

    /// What may stand in a field value: HTAB, SP, VCHAR and obs-text (RFC 9110 section 5.5).
    @inline(__always)
    var isFieldContent: Bool { self >= 0x20 && self != 0x7F || self == 0x09 }
}

extension RawSpan {
    /// Callers keep `offset` below `byteCount`: every loop here is bounded by a range that was checked against it once.
    @inline(__always)
    subscript(at offset: Int) -> UInt8 { unsafeLoad(fromByteOffset: offset, as: UInt8.self) }

    /// The first byte that ends or spoils a line: a control character other than HTAB. `end` when there is none.
    func firstControl(from start: Int, to end: Int) -> Int {
        var offset = start
        while offset &+ 8 <= end {
            // Eight bytes at once: the high bit of a byte is set where it is below 0x20 or equal to 0x7F. A borrow can set wrong bits, but
            // only above a right one, so the lowest is always right.
            let word = UInt64(littleEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
            let delete = word ^ 0x7F7F_7F7F_7F7F_7F7F
            let below = (word &- 0x2020_2020_2020_2020) & ~word
            let found = (below | ((delete &- 0x0101_0101_0101_0101) & ~delete)) & 0x8080_8080_8080_8080
            if found == 0 {
                offset &+= 8
                continue
            }
            offset &+= found.trailingZeroBitCount &>> 3
            guard self[at: offset] == 0x09 else { return offset }
            offset &+= 1
        }
        while offset < end, self[at: offset].isFieldContent { offset &+= 1 }
        return offset
    }

    @inline(__always)
    func firstOutside(_ set: ByteSet, from start: Int, to end: Int) -> Int {
        var offset = start
        while offset < end, set.contains(self[at: offset]) { offset &+= 1 }
        return offset
    }

    /// Like ``firstOutside(_:from:to:)``, with `%` and two hexadecimal digits as one more member (RFC 3986 section 2.1).
    func firstOutsideEncoded(_ set: ByteSet, from start: Int, to end: Int) -> Int {
        var offset = start
        while true {
            offset = firstOutside(set, from: offset, to: end)
            guard offset &+ 2 < end, self[at: offset] == UInt8(ascii: "%"), self[at: offset &+ 1].hexValue < 16,
                self[at: offset &+ 2].hexValue < 16
            else { return offset }
            offset &+= 3
        }
    }

    /// `lowercase` is in lower case already; the bytes here may be in either.
    @inline(__always)
    func equals(_ range: Range<Int>, ignoringCase lowercase: StaticString) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        var offset = 0
        while offset < range.count {
            if self[at: range.lowerBound &+ offset].lowercasedASCII != lowercase.utf8Start[offset] { return false }
            offset &+= 1
        }
        return true
    }

    /// Without SP and HTAB on either side (OWS).
    @inline(__always)
    func trimmed(_ range: Range<Int>) -> Range<Int> {
        var start = range.lowerBound
        var end = range.upperBound
        while start < end, self[at: start].isBlank { start &+= 1 }
        while start < end, self[at: end &- 1].isBlank { end &-= 1 }
        return start..<end
    }

    /// One or more digits and nothing else; `nil` on anything else and on overflow.
    func decimal(_ range: Range<Int>) -> Int? {
        guard !range.isEmpty else { return nil }
        var value = 0
        for offset in range {
            guard self[at: offset].isDigit else { return nil }
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, overflow2) = product.addingReportingOverflow(Int(self[at: offset] &- 0x30))
            if overflow || overflow2 { return nil }
            value = sum
        }
        return value
    }

    func copy(_ range: Range<Int>) -> [UInt8] {
        withUnsafeBytes { [UInt8]($0[range]) }
    }
}
