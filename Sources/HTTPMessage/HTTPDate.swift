import Primitives

/// IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7): the only form that is written, and the only one read.
package enum HTTPDate {
    package static let byteCount = 29
    private static let days: StaticString = "ThuFriSatSunMonTueWed"
    private static let months: StaticString = "JanFebMarAprMayJunJulAugSepOctNovDec"

    /// Years 1 to 9999, which is more than ``WallInstant`` holds.
    package static func append(_ instant: WallInstant, to output: inout [UInt8]) {
        let seconds = instant.secondsSinceEpoch
        let day = Int(seconds >= 0 ? seconds / 86400 : (seconds - 86399) / 86400)
        let second = Int(seconds) - day * 86400
        let (year, month, dayOfMonth) = civil(day)
        name(days, ((day % 7) + 7) % 7, &output)
        output.append(UInt8(ascii: ","))
        output.append(0x20)
        two(dayOfMonth, &output)
        output.append(0x20)
        name(months, month - 1, &output)
        output.append(0x20)
        two(year / 100, &output)
        two(year % 100, &output)
        output.append(0x20)
        two(second / 3600, &output)
        output.append(UInt8(ascii: ":"))
        two(second / 60 % 60, &output)
        output.append(UInt8(ascii: ":"))
        two(second % 60, &output)
        output.append(contentsOf: [0x20, UInt8(ascii: "G"), UInt8(ascii: "M"), UInt8(ascii: "T")])
    }

    /// `nil` for the obsolete forms, a day of the week that does not fit, and dates that do not exist. A leap second is the next one.
    package static func parse(_ bytes: RawSpan) -> WallInstant? {
        guard bytes.byteCount == byteCount,
            let month = (0..<12).first(where: { equals(bytes, at: 8, months, $0) }),
            let day = bytes.decimal(5..<7), let century = bytes.decimal(12..<14), let yearOfCentury = bytes.decimal(14..<16),
            let hour = bytes.decimal(17..<19), let minute = bytes.decimal(20..<22), let second = bytes.decimal(23..<25),
            hour < 24, minute < 60, second <= 60
        else { return nil }
        let count = daysSinceEpoch(year: century * 100 + yearOfCentury, month: month + 1, day: day)
        let instant = WallInstant(secondsSinceEpoch: Int64(count * 86400 + hour * 3600 + minute * 60 + second))
        // What is written again byte by byte was right in every byte, the seconds of a leap second apart.
        var text: [UInt8] = []
        append(WallInstant(secondsSinceEpoch: instant.secondsSinceEpoch - (second == 60 ? 1 : 0)), to: &text)
        if second == 60 { text[23...24] = [UInt8(ascii: "6"), UInt8(ascii: "0")] }
        return text == bytes.copy(0..<byteCount) ? instant : nil
    }

    private static func equals(_ bytes: RawSpan, at offset: Int, _ names: StaticString, _ index: Int) -> Bool {
        (0..<3).allSatisfy { bytes[at: offset + $0] == names.utf8Start[index * 3 + $0] }
    }

    private static func name(_ names: StaticString, _ index: Int, _ output: inout [UInt8]) {
        for offset in 0..<3 { output.append(names.utf8Start[index * 3 + offset]) }
    }

    private static func two(_ value: Int, _ output: inout [UInt8]) {
        output.append(0x30 &+ UInt8(truncatingIfNeeded: value / 10))
        output.append(0x30 &+ UInt8(truncatingIfNeeded: value % 10))
    }

    /// Proleptic Gregorian calendar in eras of 400 years that begin in March, so that the leap day is the last of its year.
    private static func civil(_ day: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// The `Date` field line of one loop, written anew only when the second changes.
package struct DateCache: Sendable {
    private var second = Int64.min
    private var line: [UInt8] = []

    package init() {}

    /// `Date: …` CRLF.
    package mutating func appendLine(_ now: WallInstant, to output: inout [UInt8]) {
        if now.secondsSinceEpoch != second {
            second = now.secondsSinceEpoch
            line.removeAll(keepingCapacity: true)
            line.append(contentsOf: "Date: ".utf8)
            HTTPDate.append(now, to: &line)
            line.append(contentsOf: [0x0D, 0x0A])
        }
        output.append(contentsOf: line)
    }
}
