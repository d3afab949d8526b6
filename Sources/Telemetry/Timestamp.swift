import Primitives

/// RFC 3339 section 5.6 in UTC with milliseconds: `2026-11-30T00:00:00.000Z`.
package enum Timestamp {
    /// Appends 24 octets. A ``WallInstant`` spans the years 1677 to 2262, so the year always has four digits.
    package static func append(_ instant: WallInstant, to bytes: inout [UInt8]) {
        let seconds = instant.secondsSinceEpoch
        let nanoseconds = instant.nanosecondsSinceEpoch &- seconds &* 1_000_000_000
        let (days, secondOfDay) = floorDivide(seconds, by: 86_400)
        let (year, month, day) = civil(daysSinceEpoch: days)
        // One append: twenty-four small ones cost more than the arithmetic.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { text in
            text.initialize(repeating: UInt8(ascii: "-"))
            digits(year, count: 4, at: 0, of: text)
            digits(month, count: 2, at: 5, of: text)
            digits(day, count: 2, at: 8, of: text)
            text[10] = UInt8(ascii: "T")
            digits(secondOfDay / 3600, count: 2, at: 11, of: text)
            text[13] = UInt8(ascii: ":")
            digits(secondOfDay / 60 % 60, count: 2, at: 14, of: text)
            text[16] = UInt8(ascii: ":")
            digits(secondOfDay % 60, count: 2, at: 17, of: text)
            text[19] = UInt8(ascii: ".")
            digits(nanoseconds / 1_000_000, count: 3, at: 20, of: text)
            text[23] = UInt8(ascii: "Z")
            bytes.append(contentsOf: text)
        }
    }

    package static func text(_ instant: WallInstant) -> String {
        var bytes: [UInt8] = []
        append(instant, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digits(_ value: Int64, count: Int, at offset: Int, of text: UnsafeMutableBufferPointer<UInt8>) {
        var rest = UInt32(truncatingIfNeeded: value)
        for index in stride(from: offset + count - 1, through: offset, by: -1) {
            text[index] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
    }

    private static func floorDivide(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    /// Proleptic Gregorian date of a day number: eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
    private static func civil(daysSinceEpoch: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = floorDivide(daysSinceEpoch + 719_468, by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}
