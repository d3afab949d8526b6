/// base64url without padding (RFC 4648 section 5, RFC 7515 section 2), strict: no padding, no white space, no other alphabet, and the
/// unused bits of the last character are zero, so that one octet string has exactly one text.
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    private static let values: [UInt8] = Base64.table(alphabet)

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: Base64.encode(bytes, alphabet: alphabet), as: UTF8.self)
    }

    /// `nil` where the text is not canonical base64url.
    package static func decode(_ text: RawSpan) -> [UInt8]? { Base64.decode(text, values: values) }

    package static func decode(_ text: String) -> [UInt8]? { decode(Array(text.utf8).span.bytes) }
}

/// base64 with the standard alphabet (RFC 4648 section 4). Padding is required.
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let values: [UInt8] = table(alphabet)

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text = encode(bytes, alphabet: alphabet)
        while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    package static func decode(_ text: String) -> [UInt8]? {
        var bytes = Array(text.utf8)
        guard bytes.count % 4 == 0 else { return nil }
        for _ in 0..<2 where bytes.last == UInt8(ascii: "=") { bytes.removeLast() }
        return decode(bytes.span.bytes, values: values)
    }

    fileprivate static func table(_ alphabet: [UInt8]) -> [UInt8] {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }

    fileprivate static func encode(_ bytes: some Sequence<UInt8>, alphabet: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.underestimatedCount * 4 + 2) / 3)
        var accumulator: UInt32 = 0
        var bits = 0
        for byte in bytes {
            accumulator = accumulator << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(accumulator >> UInt32(bits) & 63)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(accumulator << UInt32(6 - bits) & 63)]) }
        return text
    }

    /// Four characters at a time into three bytes; what is no character of the alphabet has a value of 0xFF, whose high bits show in
    /// the sum of all that were seen.
    fileprivate static func decode(_ text: RawSpan, values: [UInt8]) -> [UInt8]? {
        let rest = text.byteCount % 4
        guard rest != 1 else { return nil }
        var seen: UInt8 = 0
        let bytes = text.withUnsafeBytes { text in
            values.withUnsafeBufferPointer { values in
                [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3 + max(0, rest - 1)) { bytes, count in
                    var offset = 0
                    // Bounded by the loop's own condition and by the capacity above: three bytes for every four characters.
                    while offset &+ 4 <= text.count {
                        let first = values[Int(text[offset])]
                        let second = values[Int(text[offset &+ 1])]
                        let third = values[Int(text[offset &+ 2])]
                        let fourth = values[Int(text[offset &+ 3])]
                        seen |= first | second | third | fourth
                        bytes[count] = first &<< 2 | second &>> 4
                        bytes[count &+ 1] = second &<< 4 | third &>> 2
                        bytes[count &+ 2] = third &<< 6 | fourth
                        offset &+= 4
                        count &+= 3
                    }
                    guard rest > 0 else { return }
                    let first = values[Int(text[offset])]
                    let second = values[Int(text[offset + 1])]
                    let third = rest == 3 ? values[Int(text[offset + 2])] : 0
                    seen |= first | second | third
                    bytes[count] = first << 2 | second >> 4
                    if rest == 3 { bytes[count + 1] = second << 4 | third >> 2 }
                    count += rest - 1
                    // Bits that no byte takes must be zero: one octet string, one text.
                    if (rest == 2 ? second & 15 : third & 3) != 0 { seen = 0xFF }
                }
            }
        }
        return seen & 0xC0 == 0 ? bytes : nil
    }
}

/// Lower-case hexadecimal out, either case in.
@usableFromInline
package enum Hex {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        // Memory where there is some: through iterators it costs ten times as much, and records are made of it.
        bytes.withContiguousStorageIfAvailable { encode($0) } ?? Array(bytes).withUnsafeBufferPointer { encode($0) }
    }

    private static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
        String(unsafeUninitializedCapacity: bytes.count * 2) { text in
            var offset = 0
            for byte in bytes {
                text[offset] = digit(byte >> 4)
                text[offset + 1] = digit(byte & 15)
                offset += 2
            }
            return offset
        }
    }

    /// The 8 digits of a number, as they lie in memory: all at once, without a loop or a table.
    @inlinable @inline(__always)
    package static func digits(_ value: UInt32) -> UInt64 {
        // Every digit into a byte of its own…
        var digits = UInt64(value)
        digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF
        digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF
        digits = (digits | digits << 4) & 0x0F0F_0F0F_0F0F_0F0F
        // …and those of ten and more from `0` on to `a` on.
        let letters = (digits &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return (digits &+ 0x3030_3030_3030_3030 &+ letters &* 39).bigEndian
    }

    @inline(__always)
    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }

    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        var high: UInt8?
        for character in text {
            guard let digit = ASCII.hexDigit(character) else { return nil }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return bytes
    }
}
