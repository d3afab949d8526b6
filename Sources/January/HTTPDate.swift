import Primitives

/// HTTP-date (RFC 9110 section 5.6.7). A recipient has to understand all three forms; the day name is not checked against the date.
enum HTTPDate {
    /// `now`: the years around it give two-digit years their century.
    static func parse(_ text: String, now: WallInstant) -> WallInstant? {
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

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func instant(year: Int?, month: Substring, day: Int?, time: Substring) -> WallInstant? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map { number($0, digits: 2) }
        guard let year, let day, let month = months.firstIndex(where: { $0 == month }), clock.count == 3,
            let hour = clock[0], let minute = clock[1], let second = clock[2], (1...31).contains(day), hour < 24, minute < 60,
            // 60: a leap second.
            second <= 60
        else { return nil }
        // Days since 1970-01-01 in the proleptic Gregorian calendar, with years that begin in March.
        let shifted = month >= 2 ? year : year - 1
        let monthFromMarch = (month + 10) % 12
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
        return WallInstant(secondsSinceEpoch: Int64(days * 86_400 + hour * 3_600 + minute * 60 + second))
    }
}
