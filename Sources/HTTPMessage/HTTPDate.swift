import Primitives

/// IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7): the only form that is written. All three are read.
package enum HTTPDate {
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

    /// All three forms that a recipient has to understand; the day name is not checked against the date.
    ///
    /// - Parameter now: the years around it give two-digit years their century.
    package static func parse(_ text: String, now: WallInstant) -> WallInstant? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: true)
        switch parts.count {
        case 6 where parts[5] == "GMT" && parts[0].utf8.last == UInt8(ascii: ","):
            // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
            return instant(year: number(parts[3], digits: 4), month: parts[2], day: number(parts[1], digits: 2), time: parts[4])
        case 4 where parts[3] == "GMT" && parts[0].utf8.last == UInt8(ascii: ","):
            // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
            let date = parts[1].split(separator: "-", omittingEmptySubsequences: false)
            guard date.count == 3, let short = number(date[2], digits: 2) else { return nil }
            return instant(year: fullYear(short, now), month: date[1], day: number(date[0], digits: 2), time: parts[2])
        case 5:
            // asctime: Sun Nov  6 08:49:37 1994
            let day = number(parts[2], digits: parts[2].utf8.count == 1 ? 1 : 2)
            return instant(year: number(parts[4], digits: 4), month: parts[1], day: day, time: parts[3])
        default: return nil
        }
    }

    /// More than 50 years ahead means the century before (RFC 9110 section 5.6.7).
    private static func fullYear(_ short: Int, _ now: WallInstant) -> Int {
        let thisYear = 1970 + Int(now.secondsSinceEpoch / 31_556_952)
        let year = thisYear - thisYear % 100 + short
        return year > thisYear + 50 ? year - 100 : year
    }

    private static func number(_ text: Substring, digits: Int) -> Int? {
        text.utf8.count == digits ? ASCII.decimal(text.utf8) : nil
    }

    private static let monthNames = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func instant(year: Int?, month: Substring, day: Int?, time: Substring) -> WallInstant? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map { number($0, digits: 2) }
        guard let year, let day, let month = monthNames.firstIndex(where: { $0 == month }), clock.count == 3,
            let hour = clock[0], let minute = clock[1], let second = clock[2], (1...31).contains(day), hour < 24, minute < 60,
            // 60: a leap second.
            second <= 60
        else { return nil }
        let days = daysSinceEpoch(year: year, month: month + 1, day: day)
        // A 30th of February has come out as a day in March.
        guard civil(days).day == day else { return nil }
        return WallInstant(secondsSinceEpoch: Int64(days * 86_400 + hour * 3_600 + minute * 60 + second))
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
