import Primitives
import Synchronization

/// Where finished lines go. Called from any thread; must not block.
package protocol LogOutput: Sendable {
    /// - Parameters:
    ///   - line: one line with its line feed.
    ///   - type: of the record; lost ones of type `audit` are counted by themselves, too.
    /// - Returns: whether it was taken.
    @discardableResult
    func append(_ line: [UInt8], type: LogType) -> Bool

    /// A line given now would most likely be lost.
    var isBlocked: Bool { get }

    /// Lines of type `audit` that were lost.
    var droppedAuditCount: Int { get }
}

extension LogOutput {
    package var isBlocked: Bool { false }
    package var droppedAuditCount: Int { 0 }

    /// A line of type `log`.
    @discardableResult
    package func append(_ line: [UInt8]) -> Bool { append(line, type: .log) }
}

/// The log of the process. Any thread; one value for everybody.
package final class Log: Sendable {
    package let output: any LogOutput
    private let time: any TimeSource
    private let limiter = LineLimiter()
    private let minimum: Atomic<UInt8>
    private let printsText: Atomic<Bool>

    package init(level: LogLevel = .info, format: LogFormat = .json, time: any TimeSource, output: any LogOutput) {
        self.output = output
        self.time = time
        minimum = Atomic(level.rank)
        printsText = Atomic(format == .text)
    }

    /// For a reload. Lines that are being made keep the old settings.
    package func apply(level: LogLevel, format: LogFormat) {
        minimum.store(level.rank, ordering: .relaxed)
        printsText.store(format == .text, ordering: .relaxed)
    }

    /// Whether lines of type `log` are written at this level.
    package func isEnabled(_ level: LogLevel) -> Bool { level.rank >= minimum.load(ordering: .relaxed) }

    /// Writes one line.
    ///
    /// - Parameters:
    ///   - level: how serious it is.
    ///   - message: constant, says what happened; everything that varies is a field.
    ///   - fields: evaluated only when the line is written.
    ///   - type: `request` and `audit` lines are not filtered by the level.
    ///   - callerCaused: somebody at the network can make this line happen: at most ten a second of one message are written, and the
    ///     next one says in `left_out` how many were not.
    package func write(
        _ level: LogLevel, _ message: StaticString, _ fields: @autoclosure () -> [LogField] = [], type: LogType = .log,
        callerCaused: Bool = false
    ) {
        guard type != .log || isEnabled(level) else { return }
        var leftOut = 0
        if callerCaused {
            guard case .write(let count) = limiter.decide(message, now: time.monotonic()) else { return }
            leftOut = count
        }
        write(level, message, type, leftOut: leftOut) { line in
            for field in fields() { line.add(field) }
        }
    }

    /// Writes one line whatever the level; `fields` adds its fields one by one.
    @inline(__always)
    func write(
        _ level: LogLevel, _ message: StaticString, _ type: LogType, leftOut: Int = 0, fields: (inout LogLine) -> Void
    ) {
        var line = LogLine(
            format: printsText.load(ordering: .relaxed) ? .text : .json, time: time.wall(), level: level, type: type,
            message: message)
        fields(&line)
        line.end(leftOut: leftOut)
        output.append(line.bytes, type: type)
    }
}

/// Keeps every line, for tests.
package final class LogMemory: LogOutput {
    private let bytes = Lock<[UInt8]>([])

    package init() {}

    package func append(_ line: [UInt8], type: LogType) -> Bool {
        bytes.withLock { $0 += line }
        return true
    }

    /// All lines so far, as text.
    package var text: String { String(decoding: bytes.withLock { $0 }, as: UTF8.self) }

    /// All lines so far, without their line feeds.
    package var lines: [String] { text.split(separator: "\n").map(String.init) }
}

/// Throws every line away.
package struct LogNowhere: LogOutput {
    package init() {}
    package func append(_ line: [UInt8], type: LogType) -> Bool { true }
}
