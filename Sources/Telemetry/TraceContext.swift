import Primitives

/// Where in which trace somebody is: W3C Trace Context (recommendation of 23 November 2021), the field `traceparent`.
package struct TraceContext: Sendable, Equatable {
    /// Never both zero.
    package let traceHigh: UInt64
    package let traceLow: UInt64
    /// `parent-id` on the wire. Never zero.
    package let spanID: UInt64
    package let isSampled: Bool

    /// Of a `traceparent` of version 00.
    package static let byteCount = 55

    package init(traceHigh: UInt64, traceLow: UInt64, spanID: UInt64, isSampled: Bool) {
        self.traceHigh = traceHigh
        self.traceLow = traceLow
        self.spanID = spanID
        self.isSampled = isSampled
    }

    /// Reads `version "-" trace-id "-" parent-id "-" trace-flags` (section 3.2). Lower case only; `nil` for anything else, for ids of
    /// nothing but zeros and for version `ff`. Of a later version the parts known today are read, whatever a dash behind them begins
    /// (section 3.2.4); of the flags the one that is defined (section 3.2.2.5).
    package static func parse(_ value: ArraySlice<UInt8>) -> TraceContext? {
        value.withUnsafeBufferPointer { text in
            guard text.count >= byteCount, isDash(text[2]), isDash(text[35]), isDash(text[52]),
                let version = number(text, 0, 2), version != 0xFF,
                text.count == byteCount || (version > 0 && isDash(text[byteCount])),
                let high = number(text, 3, 16), let low = number(text, 19, 16), high | low != 0,
                let spanID = number(text, 36, 16), spanID != 0,
                let flags = number(text, 53, 2)
            else { return nil }
            return TraceContext(traceHigh: high, traceLow: low, spanID: spanID, isSampled: flags & 1 == 1)
        }
    }

    /// `traceparent` of version 00. Flags without a meaning in it are zero.
    package func append(to output: inout [UInt8]) {
        output.append(addingCapacity: Self.byteCount) { output in
            output.append("00-")
            output.append(hex: traceHigh)
            output.append(hex: traceLow)
            output.append(UInt8(ascii: "-"))
            output.append(hex: spanID)
            output.append(isSampled ? "-01" : "-00")
        }
    }

    /// 32 lower-case hexadecimal digits.
    package var traceID: String {
        var digits: [UInt8] = []
        digits.append(addingCapacity: 32) { output in
            output.append(hex: traceHigh)
            output.append(hex: traceLow)
        }
        return String(decoding: digits, as: UTF8.self)
    }

    private static func isDash(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "-") }

    /// At most 16 hexadecimal digits, none of them in upper case.
    private static func number(_ text: UnsafeBufferPointer<UInt8>, _ start: Int, _ count: Int) -> UInt64? {
        var number: UInt64 = 0
        for index in start..<start + count {
            let byte = text[index]
            let digit: UInt8
            if ASCII.isDigit(byte) {
                digit = byte &- 0x30
            } else if byte &- 0x61 < 6 {
                digit = byte &- 0x61 &+ 10
            } else {
                return nil
            }
            number = number << 4 | UInt64(digit)
        }
        return number
    }
}
