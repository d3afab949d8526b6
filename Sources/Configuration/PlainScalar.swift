import Primitives
import StrictJSON

/// What the text of a scalar means for each type a key can want.
enum PlainScalar {
    static func isNumber(_ text: String) -> Bool { JSONNumber(text) != nil }

    /// Decimal digits with an optional minus; `nil` for anything else. Too big for `Int` is clamped: it is out of every range.
    static func integer(_ text: String) -> Int? {
        guard isNumber(text), text.utf8.allSatisfy({ ASCII.isDigit($0) || $0 == UInt8(ascii: "-") }) else { return nil }
        return Int(text) ?? (text.hasPrefix("-") ? .min : .max)
    }

    /// Whole or fractional seconds, at most nine digits after the point, no exponent. Too big is clamped to about 292 years.
    static func seconds(_ text: String) -> Duration? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard isNumber(text), let whole = integer(String(parts[0])) else { return nil }
        let limit = 9_000_000_000
        guard parts.count == 2 else { return .seconds(min(max(whole, -limit), limit)) }
        let fraction = parts[1]
        guard fraction.utf8.count <= 9, let digits = ASCII.decimal(fraction.utf8) else { return nil }
        let scale = (fraction.utf8.count..<9).reduce(1) { scale, _ in scale * 10 }
        let nanoseconds = Duration.nanoseconds(digits * scale)
        let magnitude = Duration.seconds(min(whole.magnitude, UInt(limit))) + nanoseconds
        return text.hasPrefix("-") ? .zero - magnitude : magnitude
    }

    /// The shortest text that ``seconds(_:)`` reads back as the same duration (to the nanosecond).
    static func text(_ duration: Duration) -> String {
        let total = duration.wholeNanoseconds
        let magnitude = total.magnitude
        var text = (total < 0 ? "-" : "") + String(magnitude / 1_000_000_000)
        var fraction = magnitude % 1_000_000_000
        if fraction > 0 {
            var digits = String(fraction + 1_000_000_000).dropFirst()
            while digits.last == "0" { digits = digits.dropLast() }
            text += ".\(digits)"
            fraction = 0
        }
        return text
    }

    /// `null`, `true`, `false`, a JSON number, else text. For keys where any JSON value fits.
    static func value(_ text: String) -> JSONValue {
        switch text {
        case "", "~", "null": .null
        case "true": .bool(true)
        case "false": .bool(false)
        default: JSONNumber(text).map { .number($0) } ?? .string(text)
        }
    }
}
