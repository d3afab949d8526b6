import Primitives

/// Dates of the proleptic Gregorian calendar in UTC, as January writes them (RFC 3339).
struct CalendarText {
    let year: Int
    let month: Int
    let day: Int
    private let secondOfDay: Int
    private let millisecond: Int

    init(_ instant: WallInstant) {
        let seconds = Int(instant.secondsSinceEpoch)
        let days = (seconds >= 0 ? seconds : seconds - 86_399) / 86_400
        secondOfDay = seconds - days * 86_400
        millisecond = Int((instant.nanosecondsSinceEpoch - instant.secondsSinceEpoch &* 1_000_000_000) / 1_000_000)
        // Days to civil date over eras of 400 years that begin on 1 March.
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// `2026-11-30T06:27:05.123Z`
    var dateTime: String {
        var text = Array(date.utf8)
        text.append(UInt8(ascii: "T"))
        Self.append(secondOfDay / 3_600, width: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.append(secondOfDay / 60 % 60, width: 2, to: &text)
        text.append(UInt8(ascii: ":"))
        Self.append(secondOfDay % 60, width: 2, to: &text)
        text.append(UInt8(ascii: "."))
        Self.append(millisecond, width: 3, to: &text)
        text.append(UInt8(ascii: "Z"))
        return String(decoding: text, as: UTF8.self)
    }

    /// `2026-11-30`
    var date: String { Self.date(year, month, day) }

    var firstOfMonth: String { Self.date(year, month, 1) }

    var lastOfMonth: String {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let length = month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
        return Self.date(year, month, length)
    }

    var firstOfNextMonth: String { month == 12 ? Self.date(year + 1, 1, 1) : Self.date(year, month + 1, 1) }

    private static func date(_ year: Int, _ month: Int, _ day: Int) -> String {
        var text: [UInt8] = []
        append(year, width: 4, to: &text)
        text.append(UInt8(ascii: "-"))
        append(month, width: 2, to: &text)
        text.append(UInt8(ascii: "-"))
        append(day, width: 2, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    private static func append(_ value: Int, width: Int, to text: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<width { divisor *= 10 }
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: abs(value) / divisor % 10))
            divisor /= 10
        }
    }
}
