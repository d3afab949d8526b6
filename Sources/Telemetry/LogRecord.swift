import Primitives

/// How serious a line is. The configured level filters lines of type `log` only; request and audit lines have settings of their own.
package enum LogLevel: String, Sendable, CaseIterable, Comparable {
    case debug, info, warning, error

    var rank: UInt8 {
        switch self {
        case .debug: 0
        case .info: 1
        case .warning: 2
        case .error: 3
        }
    }

    package static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    var name: StaticString {
        switch self {
        case .debug: "debug"
        case .info: "info"
        case .warning: "warning"
        case .error: "error"
        }
    }
}

package enum LogType: String, Sendable, CaseIterable {
    case log, request, audit

    var name: StaticString {
        switch self {
        case .log: "log"
        case .request: "request"
        case .audit: "audit"
        }
    }
}

package enum LogFormat: String, Sendable, CaseIterable { case json, text }

/// What a field may hold. There is no way to put a `Secret` in; text is valid UTF-8 because a `String` always is.
package enum LogValue: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    case string(String)
    case strings([String])
    case integer(Int)
    /// Printed as the shortest decimal that reads back the same; not a number and infinities as `null`.
    case double(Double)
    /// A number with three decimals: `.thousandths(12_345)` is 12.345.
    case thousandths(Int)
    case boolean(Bool)

    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .boolean(value) }

    /// A duration in milliseconds with at most three decimals, for fields named `…_ms`.
    package static func milliseconds(_ duration: Duration) -> Self {
        .thousandths(Int(duration.wholeNanoseconds / 1000))
    }
}

/// Texts whose JSON is made once, for fields that say the same in many lines.
package final class LogList: Sendable {
    let texts: [String]
    /// As it stands in a JSON line.
    let json: [UInt8]

    package init(_ texts: [String]) {
        self.texts = texts
        json = LogLine.json(texts)
    }
}

/// One field of a line. The name is a constant; `time`, `level`, `type`, `message` and `left_out` are taken.
package struct LogField: Sendable, Equatable {
    package let name: StaticString
    package let value: LogValue

    package init(_ name: StaticString, _ value: LogValue) {
        self.name = name
        self.value = value
    }

    package init(_ name: StaticString, _ value: String) { self.init(name, .string(value)) }
    package init(_ name: StaticString, _ value: Int) { self.init(name, .integer(value)) }

    package static func == (left: Self, right: Self) -> Bool {
        left.name.description == right.name.description && left.value == right.value
    }
}
