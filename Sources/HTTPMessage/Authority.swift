/// `host [":" port]` of RFC 3986 section 3.2 as HTTP uses it: no user info, no empty host, no IPvFuture, no zone.
struct Authority {
    /// With brackets where it is an IP literal.
    let host: Range<Int>
    /// `nil` when absent or empty (`localhost:`); at most 65535.
    let port: Int?

    /// The whole range, or `nil`.
    init?(_ bytes: RawSpan, _ range: Range<Int>) {
        guard !range.isEmpty else { return nil }
        var end = range.lowerBound
        if bytes[at: end] == UInt8(ascii: "[") {
            while end < range.upperBound, bytes[at: end] != UInt8(ascii: "]") { end &+= 1 }
            guard end < range.upperBound, IPv6Text.parse(bytes, range.lowerBound &+ 1..<end) != nil else { return nil }
            end &+= 1
        } else {
            end = bytes.firstOutsideEncoded(.host, from: end, to: range.upperBound)
            guard end > range.lowerBound else { return nil }
        }
        host = range.lowerBound..<end
        if end == range.upperBound {
            port = nil
            return
        }
        guard bytes[at: end] == UInt8(ascii: ":") else { return nil }
        if end &+ 1 == range.upperBound {
            port = nil
            return
        }
        guard let number = bytes.decimal(end &+ 1..<range.upperBound), number <= 65535 else { return nil }
        port = number
    }
}

/// The text form of an IPv6 address (RFC 4291 section 2.2).
enum IPv6Text {
    /// The address as two words, most significant first; `nil` when the text is not one.
    static func parse(_ bytes: RawSpan, _ range: Range<Int>) -> (high: UInt64, low: UInt64)? {
        var groups = InlineArray<8, UInt16>(repeating: 0)
        var count = 0
        var gap: Int?
        var offset = range.lowerBound
        let end = range.upperBound
        guard range.count >= 2 else { return nil }
        if bytes[at: offset] == UInt8(ascii: ":") {
            guard bytes[at: offset &+ 1] == UInt8(ascii: ":") else { return nil }
            gap = 0
            offset &+= 2
        }
        while offset < end {
            guard count < 8 else { return nil }
            var value: UInt16 = 0
            let start = offset
            while offset < end, offset &- start < 4, bytes[at: offset].hexValue < 16 {
                value = value << 4 | UInt16(bytes[at: offset].hexValue)
                offset &+= 1
            }
            guard offset > start else { return nil }
            if offset < end, bytes[at: offset] == UInt8(ascii: ".") {
                guard count <= 6, let address = ipv4(bytes, start..<end) else { return nil }
                groups[count] = UInt16(truncatingIfNeeded: address >> 16)
                groups[count &+ 1] = UInt16(truncatingIfNeeded: address)
                count &+= 2
                break
            }
            groups[count] = value
            count &+= 1
            if offset == end { break }
            guard bytes[at: offset] == UInt8(ascii: ":"), offset &+ 1 < end else { return nil }
            offset &+= 1
            if bytes[at: offset] == UInt8(ascii: ":") {
                guard gap == nil else { return nil }
                gap = count
                offset &+= 1
            }
        }
        if let gap {
            // The gap stands for at least one group; what follows it moves to the end.
            guard count < 8 else { return nil }
            let moved = count &- gap
            for step in 0..<moved {
                groups[7 &- step] = groups[count &- 1 &- step]
            }
            for index in gap..<(8 &- moved) { groups[index] = 0 }
        } else if count != 8 {
            return nil
        }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for index in 0..<4 {
            high = high << 16 | UInt64(groups[index])
            low = low << 16 | UInt64(groups[index &+ 4])
        }
        return (high, low)
    }

    /// Four decimal octets without leading zeros.
    static func ipv4(_ bytes: RawSpan, _ range: Range<Int>) -> UInt32? {
        var address: UInt32 = 0
        var octets = 0
        var start = range.lowerBound
        while true {
            var end = start
            while end < range.upperBound, bytes[at: end] != UInt8(ascii: ".") { end &+= 1 }
            guard end &- start <= 3, let value = bytes.decimal(start..<end), value <= 255,
                end &- start == 1 || bytes[at: start] != UInt8(ascii: "0")
            else { return nil }
            address = address << 8 | UInt32(value)
            octets &+= 1
            if end == range.upperBound { break }
            guard octets < 4 else { return nil }
            start = end &+ 1
        }
        return octets == 4 ? address : nil
    }
}
