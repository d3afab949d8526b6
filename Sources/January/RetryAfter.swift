import HTTPMessage
import Primitives

/// `Retry-After` as January may send it: seconds, a fraction allowed, or an HTTP-date (RFC 9110 section 10.2.3 has whole seconds).
package enum RetryAfter {
    /// The longest wait that is believed and passed on. January's window can be a day; an app that waits for that has given up.
    package static let cap = Duration.seconds(30)

    /// How long to wait, 0 s…`cap`; a date in the past is 0. `nil` where the text is neither form: as if there were none.
    package static func parse(_ text: String, now: WallInstant, cap: Duration = cap) -> Duration? {
        if let seconds = seconds(text, cap: cap) { return min(seconds, cap) }
        guard let date = HTTPDate.parse(text, now: now) else { return nil }
        let (difference, overflow) = date.nanosecondsSinceEpoch.subtractingReportingOverflow(now.nanosecondsSinceEpoch)
        if overflow { return date < now ? .zero : cap }
        return min(max(.nanoseconds(difference), .zero), cap)
    }

    /// Digits, then perhaps a dot and up to any number of digits. No sign, no exponent.
    private static func seconds(_ text: String, cap: Duration) -> Duration? {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, !whole.isEmpty, whole.allSatisfy(ASCII.isDigit) else { return nil }
        var nanoseconds: Int64 = 0
        if parts.count == 2 {
            guard !parts[1].isEmpty, parts[1].allSatisfy(ASCII.isDigit) else { return nil }
            var place: Int64 = 100_000_000
            for digit in parts[1].prefix(9) {
                nanoseconds += Int64(digit &- 0x30) * place
                place /= 10
            }
        }
        // Too many digits for a number are more than the cap.
        guard let seconds = ASCII.decimal(whole), seconds < cap.components.seconds else { return cap }
        return .seconds(seconds) + .nanoseconds(nanoseconds)
    }

    /// For our own field: whole seconds, rounded up, so that who waits that long is not early.
    package static func wholeSeconds(_ duration: Duration) -> Int {
        let (seconds, attoseconds) = duration.components
        return Int(max(0, attoseconds > 0 ? seconds + 1 : seconds))
    }
}
