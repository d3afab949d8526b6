import Primitives
import TestSupport
import Testing

@testable import Telemetry

@Suite struct LogTests {
    private let time = TestTime()
    private let memory = LogMemory()

    private func log(_ level: LogLevel = .info, _ format: LogFormat = .text) -> Log {
        Log(level: level, format: format, time: time, output: memory)
    }

    @Test func linesBelowTheLevelAreNotWrittenAndTheirFieldsNotMade() {
        let log = log(.warning)
        func never() -> [LogField] {
            Issue.record("fields of a line that is not written")
            return []
        }
        log.write(.info, "hidden", never())
        log.write(.warning, "shown")
        log.write(.error, "shown too")
        #expect(
            memory.lines == ["2026-11-30T00:00:00.000Z warning log shown", "2026-11-30T00:00:00.000Z error log shown too"])
        #expect(LogLevel.allCases.map(log.isEnabled) == [false, false, true, true])
    }

    @Test func requestAndAuditLinesHaveSettingsOfTheirOwn() {
        let log = log(.error)
        log.write(.info, "minted", type: .request)
        log.write(.info, "minted", type: .audit)
        #expect(
            memory.lines == ["2026-11-30T00:00:00.000Z info request minted", "2026-11-30T00:00:00.000Z info audit minted"])
    }

    @Test func aReloadChangesLevelAndFormat() {
        let log = log(.error)
        log.apply(level: .debug, format: .json)
        log.write(.debug, "now")
        #expect(
            memory.text == "{\"time\":\"2026-11-30T00:00:00.000Z\",\"level\":\"debug\",\"type\":\"log\",\"message\":\"now\"}\n")
    }

    @Test func whatACallerCausesIsWrittenTenTimesASecondAndTheNextLineSaysHowManyWereLeftOut() {
        let log = log()
        for _ in 0..<15 { log.write(.info, "caused", callerCaused: true) }
        #expect(memory.lines.count == 10)
        time.advance(by: .milliseconds(999))
        log.write(.info, "caused", callerCaused: true)
        #expect(memory.lines.count == 10)
        time.advance(by: .milliseconds(1))
        for _ in 0..<2 { log.write(.info, "caused", callerCaused: true) }
        #expect(
            memory.lines.suffix(2) == [
                "2026-11-30T00:00:01.000Z info log caused left_out=6", "2026-11-30T00:00:01.000Z info log caused",
            ])
    }

    @Test func messagesAreLimitedOneByOneAndOthersNotAtAll() {
        let log = log()
        for _ in 0..<20 {
            log.write(.info, "one", callerCaused: true)
            log.write(.info, "two", callerCaused: true)
            log.write(.info, "three")
        }
        let messages = memory.lines.map { $0.split(separator: " ")[3] }
        #expect(messages.filter { $0 == "one" }.count == 10)
        #expect(messages.filter { $0 == "two" }.count == 10)
        #expect(messages.filter { $0 == "three" }.count == 20)
    }

    /// The second is any second, not one that begins on a full second.
    @Test func noSecondHasMoreThanTenLines() {
        let limiter = LineLimiter()
        var random = SeededRandom(seed: 3)
        var now = MonotonicInstant(nanoseconds: 0)
        var written: [MonotonicInstant] = []
        var expectedLeftOut = 0
        for _ in 0..<5_000 {
            now = now + .milliseconds(Int.random(in: 0...150, using: &random))
            switch limiter.decide("same", now: now) {
            case .leaveOut: expectedLeftOut += 1
            case .write(let leftOut):
                #expect(leftOut == expectedLeftOut)
                expectedLeftOut = 0
                if written.count >= 10 { #expect(now - written[written.count - 10] >= .seconds(1)) }
                written.append(now)
            }
        }
        #expect(written.count > 100)
    }

    @Test func aLineBelowTheLevelIsNotCountedAsLeftOut() {
        let log = log(.warning)
        for _ in 0..<30 { log.write(.info, "caused", callerCaused: true) }
        log.write(.warning, "caused", callerCaused: true)
        #expect(memory.lines == ["2026-11-30T00:00:00.000Z warning log caused"])
    }

    @Test func messagesAreTheSameWhenTheirTextIs() {
        let limiter = LineLimiter()
        let now = MonotonicInstant(nanoseconds: 0)
        // A single scalar literal has no address.
        for _ in 0..<10 { #expect(limiter.decide("é", now: now) == .write(leftOut: 0)) }
        #expect(limiter.decide("é", now: now) == .leaveOut)
    }
}

@Suite struct EndUserHashTests {
    /// RFC 4231 section 4.3 (test case 2): key "Jefe", the first 128 bits.
    @Test func theHashIsTheFirst32DigitsOfHMACSHA256() {
        #expect(
            EndUserHash(secret: Secret("Jefe")).hash("what do ya want for nothing?") == "5bdcc146bf60754e6a042426089575c7")
    }

    @Test func aRandomKeyIsAnotherEachTime() {
        let hash = EndUserHash.random()
        #expect(hash.hash("u1") == hash.hash("u1"))
        #expect(hash.hash("u1") != hash.hash("u2"))
        #expect(hash.hash("u1") != EndUserHash.random().hash("u1"))
        #expect(hash.hash("u1").utf8.count == 32)
    }
}
