/// A number as it was written. Nothing is converted before somebody asks, so neither 400 digits nor `1e999999` can trap.
package struct JSONNumber: Sendable, CustomStringConvertible {
    private enum Form: Sendable {
        /// Written in at most 15 digits and nothing else, so that the text follows from the value. What time stamps look like.
        case plain(Int64)
        case text(String)
    }

    private let form: Form

    /// In the grammar of RFC 8259 section 6.
    package var text: String {
        switch form {
        case .plain(let value): String(value)
        case .text(let text): text
        }
    }

    /// `nil` where `text` is not a JSON number.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard Self.end(of: bytes.span.bytes, from: 0) == bytes.count else { return nil }
        self.init(checked: bytes.span.bytes, 0..<bytes.count)
    }

    package init(_ value: some BinaryInteger) {
        if value >= 0, value < 1_000_000_000_000_000 {
            form = .plain(Int64(value))
        } else {
            form = .text(String(value))
        }
    }

    /// `nil` for infinity and NaN, which JSON cannot say.
    package init?(_ value: Double) {
        guard value.isFinite else { return nil }
        self.init("\(value)")
    }

    /// For the parser, which has checked the grammar: no leading zeros, so that digits alone are the text of their value.
    init(checked bytes: RawSpan, _ range: Range<Int>) {
        if range.count <= 15 {
            var value: Int64 = 0
            var offset = range.lowerBound
            while offset < range.upperBound {
                let digit = bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self) &- 0x30
                guard digit < 10 else { break }
                value = value &* 10 &+ Int64(digit)
                offset &+= 1
            }
            if offset == range.upperBound {
                form = .plain(value)
                return
            }
        }
        form = .text(bytes.extracting(range).withUnsafeBytes { String(decoding: $0, as: UTF8.self) })
    }

    package var description: String { text }

    /// The value when it is an integer that fits, however it is written (`1000`, `1e3`, `1.0`); otherwise `nil`.
    package var integer: Int64? {
        switch form {
        case .plain(let value): value
        case .text(let text): Decimal(text).integer
        }
    }

    /// The nearest value, `nil` when that is not finite. Too small becomes zero.
    package var double: Double? {
        switch form {
        // Exact: fewer than 2^53.
        case .plain(let value): return Double(value)
        case .text(let text):
            guard let value = Double(text), value.isFinite else { return nil }
            return value
        }
    }

    /// Where the number that starts at `start` ends; `nil` if none starts there.
    static func end(of bytes: RawSpan, from start: Int) -> Int? {
        func digits(_ from: Int) -> Int {
            var offset = from
            while offset < bytes.byteCount, bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self) &- 0x30 < 10 { offset += 1 }
            return offset
        }
        func byte(_ offset: Int) -> UInt8 {
            offset < bytes.byteCount ? bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self) : 0
        }
        var offset = start
        if byte(offset) == UInt8(ascii: "-") { offset += 1 }
        let whole = offset
        offset = digits(offset)
        guard offset > whole, byte(whole) != UInt8(ascii: "0") || offset == whole + 1 else { return nil }
        if byte(offset) == UInt8(ascii: ".") {
            let fraction = offset + 1
            offset = digits(fraction)
            guard offset > fraction else { return nil }
        }
        if byte(offset) | 0x20 == UInt8(ascii: "e") {
            var exponent = offset + 1
            if byte(exponent) == UInt8(ascii: "+") || byte(exponent) == UInt8(ascii: "-") { exponent += 1 }
            offset = digits(exponent)
            guard offset > exponent else { return nil }
        }
        return offset
    }
}

extension JSONNumber: Hashable {
    /// By value: `1`, `1.0` and `10e-1` are equal, and so are `0` and `-0`.
    package static func == (left: JSONNumber, right: JSONNumber) -> Bool {
        switch (left.form, right.form) {
        case (.plain(let left), .plain(let right)): left == right
        default: left.text == right.text || Decimal(left.text) == Decimal(right.text)
        }
    }

    package func hash(into hasher: inout Hasher) { Decimal(text).hash(into: &hasher) }
}

/// The one normal form of a number's text: digits without zeros at either end, times a power of ten.
private struct Decimal: Hashable {
    private var isNegative = false
    private var digits: [UInt8] = []
    private var exponent = 0
    /// Set when the exponent does not fit in 64 bits: such numbers are equal only when written alike.
    private var unbounded: String?

    init(_ text: String) {
        var fractionDigits = 0
        var inFraction = false
        var parts = text.utf8.makeIterator()
        var written: Exponent?
        while let byte = parts.next() {
            switch byte {
            case UInt8(ascii: "-") where written == nil: isNegative = true
            case UInt8(ascii: "."): inFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"): written = Exponent()
            default:
                if written != nil {
                    written?.append(byte)
                } else {
                    if inFraction { fractionDigits += 1 }
                    if !(digits.isEmpty && byte == UInt8(ascii: "0")) { digits.append(byte &- 0x30) }
                }
            }
        }
        var trailingZeros = 0
        while digits.last == 0 {
            digits.removeLast()
            trailingZeros += 1
        }
        if digits.isEmpty {
            isNegative = false
        } else if let value = written.map(\.value) ?? 0 {
            // Cannot overflow: the exponent is within 63 bits less a margin, the other two are lengths of texts.
            exponent = value - fractionDigits + trailingZeros
        } else {
            unbounded = text
        }
    }

    var integer: Int64? {
        guard unbounded == nil, exponent >= 0, exponent <= 19, digits.count + exponent <= 19 else { return nil }
        // Built on the negative side, where Int64 has one value more.
        var value: Int64 = 0
        for index in 0..<(digits.count + exponent) {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (difference, overflow2) = product.subtractingReportingOverflow(Int64(index < digits.count ? digits[index] : 0))
            if overflow || overflow2 { return nil }
            value = difference
        }
        if isNegative { return value }
        return value == .min ? nil : -value
    }

    private struct Exponent {
        private var isNegative = false
        private var magnitude: Int? = 0
        /// `nil` when it does not fit.
        var value: Int? { magnitude.map { isNegative ? -$0 : $0 } }

        mutating func append(_ byte: UInt8) {
            if byte == UInt8(ascii: "-") { isNegative = true }
            guard byte &- 0x30 < 10, let old = magnitude else { return }
            magnitude = old > Int.max / 100 ? nil : old * 10 + Int(byte &- 0x30)
        }
    }
}
