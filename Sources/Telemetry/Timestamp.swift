import Primitives

/// RFC 3339 section 5.6 in UTC with milliseconds: `2026-11-30T00:00:00.000Z`.
package enum Timestamp {
    /// Appends 24 octets. A ``WallInstant`` spans the years 1677 to 2262, so the year always has four digits.
    package static func append(_ instant: WallInstant, to bytes: inout [UInt8]) {
        let seconds = instant.secondsSinceEpoch
        let nanoseconds = instant.nanosecondsSinceEpoch &- seconds &* 1_000_000_000
        let (days, secondOfDay) = floorDivide(seconds, by: 86_400)
        let (year, month, day) = civil(daysSinceEpoch: days)
        digits(year, count: 4, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        digits(month, count: 2, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        digits(day, count: 2, to: &bytes)
        bytes.append(UInt8(ascii: "T"))
        digits(secondOfDay / 3600, count: 2, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        digits(secondOfDay / 60 % 60, count: 2, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        digits(secondOfDay % 60, count: 2, to: &bytes)
        bytes.append(UInt8(ascii: "."))
        digits(nanoseconds / 1_000_000, count: 3, to: &bytes)
        bytes.append(UInt8(ascii: "Z"))
    }

    package static func text(_ instant: WallInstant) -> String {
        var bytes: [UInt8] = []
        append(instant, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digits(_ value: Int64, count: Int, to bytes: inout [UInt8]) {
        var divisor: Int64 = 1
        for _ in 1..<count { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value / divisor % 10))
            divisor /= 10
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
