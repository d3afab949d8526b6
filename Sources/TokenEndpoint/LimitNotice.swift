import GCRA
import RateLimiting

/// What a refused caller is told about the limit that decided: `Retry-After` (RFC 9110 section 10.2.3), and `RateLimit-Policy` and
/// `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10: lists of structured-field strings with parameters, RFC 9651).
struct LimitNotice: Sendable, Equatable {
    let name: LimitName
    let rule: GCRARule
    /// Whole seconds, rounded up: whoever waits so long is let through, unless others used the limit meanwhile.
    let retryAfter: Int

    /// - Parameter wait: nanoseconds.
    init(_ name: LimitName, rule: GCRARule, wait: Int64) {
        self.name = name
        self.rule = rule
        retryAfter = max(1, Self.wholeSeconds(wait))
    }

    private static func wholeSeconds(_ nanoseconds: Int64) -> Int {
        let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return Int(seconds) + (rest > 0 ? 1 : 0)
    }

    /// `q`: requests in a window of `w` seconds; `r`: what is left of them; `t`: seconds until there is one again.
    func append(to fields: inout [UInt8]) {
        func append(_ text: StaticString) {
            fields.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        }
        append("RateLimit-Policy: \"")
        fields += name.rawValue.utf8
        // The window is in whole seconds; a shorter one is told as what fits into the next longer one.
        let window = Self.wholeSeconds(rule.period)
        let share = Double(window) * 1_000_000_000 / Double(rule.period)
        append("\";q=")
        fields.appendDecimal(Int((Double(rule.requests) * share).rounded(.down)))
        append(";w=")
        fields.appendDecimal(window)
        append("\r\nRateLimit: \"")
        fields += name.rawValue.utf8
        append("\";r=0;t=")
        fields.appendDecimal(retryAfter)
        append("\r\n")
    }
}
