import Primitives
import TestSupport
import Testing

@testable import January

@Suite struct LoadMachineTests {
    private static let budget = Duration.seconds(8)
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)

    private static func at(_ milliseconds: Int) -> MonotonicInstant { start + .milliseconds(milliseconds) }

    /// So many under way at January since the start, after `measured` answers that took so long each; the last one came at the start.
    private static func machine(
        connections: Int = 4, serving: Int = 0, waiting: Int = 0, measured: Duration? = nil, times: Int = 100
    ) -> LoadMachine {
        var machine = LoadMachine(connections: connections, budget: budget)
        if let measured {
            for _ in 0..<times {
                _ = machine.enter(left: budget, now: start)
                machine.send(now: start)
                machine.end(sentAt: start.advanced(byNanoseconds: -measured.wholeNanoseconds), now: start)
            }
        }
        for _ in 0..<serving {
            _ = machine.enter(left: budget, now: start)
            machine.send(now: start)
        }
        for _ in 0..<waiting { _ = machine.enter(left: budget, now: start) }
        return machine
    }

    // MARK: The table

    struct Row: Sendable, CustomTestStringConvertible {
        let what: String
        var serving = 0
        var waiting = 0
        var measured: Duration?
        var left = LoadMachineTests.budget
        /// Milliseconds after the last end.
        var at = 0
        let decision: LoadMachine.Decision
        var testDescription: String { what }
    }

    private static let rows = [
        Row(what: "nothing is under way", decision: .send),
        Row(what: "one connection is left", serving: 3, measured: .seconds(1), decision: .send),
        Row(
            what: "the last connection will be taken by who waits", serving: 2, waiting: 1, measured: .seconds(1), decision: .send
        ),
        Row(what: "a connection is free: however slow January is", serving: 3, measured: .seconds(20), decision: .send),
        Row(
            what: "a connection is free: however little is left", serving: 3, measured: .seconds(1), left: .milliseconds(500),
            decision: .send),
        Row(what: "the first in line waits a round", serving: 4, measured: .seconds(1), decision: .wait(.seconds(1))),
        Row(what: "the fourth waits one round, too", serving: 4, waiting: 3, measured: .seconds(1), decision: .wait(.seconds(1))),
        Row(what: "the fifth waits two", serving: 4, waiting: 4, measured: .seconds(1), decision: .wait(.seconds(2))),
        Row(
            what: "seven rounds and itself are the whole budget", serving: 4, waiting: 27, measured: .seconds(1),
            decision: .wait(.seconds(7))),
        Row(what: "one more round is too much", serving: 4, waiting: 28, measured: .seconds(1), decision: .refuse),
        Row(
            what: "a nanosecond less is left", serving: 4, waiting: 27, measured: .seconds(1), left: budget - .nanoseconds(1),
            decision: .refuse),
        Row(
            what: "a round and the least to send fit", serving: 4, measured: .milliseconds(10), left: .milliseconds(510),
            decision: .wait(.milliseconds(10))),
        Row(what: "and just do not", serving: 4, measured: .milliseconds(10), left: .milliseconds(509), decision: .refuse),
        Row(what: "half the budget each", serving: 4, measured: .seconds(4), decision: .wait(.seconds(4))),
        Row(what: "more than half: nobody waits", serving: 4, measured: .milliseconds(4001), decision: .refuse),
        Row(what: "not measured: one may wait for each connection", serving: 4, waiting: 3, decision: .wait(.seconds(3))),
        Row(what: "not measured: and no more", serving: 4, waiting: 4, decision: .refuse),
        Row(what: "not measured, and nothing has come for 5 s", serving: 4, at: 5_001, decision: .refuse),
        Row(
            what: "nothing has ended for a while: that is a round", serving: 4, measured: .milliseconds(10), at: 7_000,
            decision: .wait(.seconds(7))),
        Row(what: "nothing has ended for too long", serving: 4, measured: .milliseconds(10), at: 7_501, decision: .refuse),
        Row(
            what: "nothing has ended, but a connection is free", serving: 3, measured: .milliseconds(10), at: 7_900,
            decision: .send),
        Row(what: "nothing is left", serving: 4, measured: .milliseconds(10), left: .zero, decision: .refuse),
        Row(what: "less than nothing is left", serving: 4, measured: .milliseconds(10), left: .seconds(-1), decision: .refuse),
    ]

    @Test(arguments: rows)
    func whoEntersIsSentWaitsOrIsRefused(row: Row) {
        var machine = Self.machine(serving: row.serving, waiting: row.waiting, measured: row.measured)
        // Those that wait have come in although the table would not let them all.
        while machine.waiting < row.waiting { machine.enterAnyway() }
        #expect(machine.decide(left: row.left, now: Self.at(row.at)) == row.decision)
        let entered = machine.enter(left: row.left, now: Self.at(row.at))
        #expect(entered == row.decision)
        #expect(machine.waiting == row.waiting + (row.decision == .refuse ? 0 : 1))
    }

    @Test func eventsThatDoNotFitChangeNothing() {
        var machine = Self.machine()
        machine.leave()
        machine.send(now: Self.at(0))
        machine.end(sentAt: Self.at(0), now: Self.at(5))
        #expect(machine.waiting == 0 && machine.serving == 0 && machine.serviceTime == nil)
    }

    @Test func anEndThatIsNoMeasurementLeavesWhatIsKnown() {
        var machine = Self.machine(serving: 4, measured: .seconds(1))
        machine.end(sentAt: Self.at(0), now: Self.at(10), .broken)
        #expect(machine.serviceTime == .seconds(1))
        // Given up after less than January takes says nothing, after more it says that it takes more.
        machine.end(sentAt: Self.at(0), now: Self.at(1_000), .givenUp)
        #expect(machine.serviceTime == .seconds(1))
        machine.end(sentAt: Self.at(-3_000), now: Self.at(2_000), .givenUp)
        #expect(machine.serviceTime == .seconds(2))
        machine = Self.machine(serving: 1, measured: .seconds(1))
        machine.end(sentAt: Self.at(0), now: Self.at(200))
        #expect(machine.serviceTime == .milliseconds(800))
    }

    @Test func afterASilenceTheFirstAnswerCountsAlone() {
        var machine = Self.machine(measured: .seconds(9))
        _ = machine.enter(left: Self.budget, now: Self.at(1_000))
        machine.send(now: Self.at(1_000))
        machine.end(sentAt: Self.at(1_000), now: Self.at(1_050))
        #expect(machine.serviceTime == .milliseconds(50))
        // A moment sooner it would have been one of many.
        machine = Self.machine(measured: .seconds(9))
        _ = machine.enter(left: Self.budget, now: Self.at(999))
        machine.send(now: Self.at(999))
        machine.end(sentAt: Self.at(999), now: Self.at(1_049))
        #expect(machine.serviceTime == .milliseconds(6_762) + .microseconds(500))
    }

    @Test func whoseTurnComesTooLateIsNotSent() {
        let machine = Self.machine(serving: 1, measured: .seconds(2))
        #expect(machine.isWorthSending(left: .seconds(2), now: Self.at(10)))
        #expect(!machine.isWorthSending(left: .seconds(2) - .nanoseconds(1), now: Self.at(10)))
        // What was seen a second ago says nothing any more: somebody has to find out.
        #expect(!machine.isWorthSending(left: .seconds(1), now: Self.at(999)))
        #expect(machine.isWorthSending(left: .seconds(1), now: Self.at(1_000)))
        // A few slow answers are bad luck.
        #expect(Self.machine(measured: .seconds(2), times: 7).isWorthSending(left: .seconds(1), now: Self.at(10)))
        #expect(!Self.machine(measured: .seconds(2), times: 8).isWorthSending(left: .seconds(1), now: Self.at(10)))
        #expect(Self.machine().isWorthSending(left: .seconds(1), now: Self.at(10)))
    }

    @Test func clocksOfLoopsThatDifferTrapNothing() {
        var machine = Self.machine(serving: 4, measured: .seconds(1))
        machine.end(sentAt: Self.at(10), now: Self.at(5))
        #expect(machine.serviceTime == .milliseconds(750))
        #expect(machine.decide(left: Self.budget, now: Self.at(-1_000)) == .send)
        for now in [MonotonicInstant(nanoseconds: 0), MonotonicInstant(nanoseconds: 1 << 61), Self.at(0)] {
            _ = machine.enter(left: .nanoseconds(Int64.max), now: now)
            machine.send(now: now)
            machine.end(sentAt: MonotonicInstant(nanoseconds: 0), now: now)
            _ = machine.enter(left: .nanoseconds(Int64.min), now: now)
            let seconds = machine.retryAfter(now: now, random: .max)
            #expect((1...30).contains(seconds))
        }
    }

    // MARK: Coming back

    @Test func whoIsRefusedIsSpreadOverAtLeastThreeSeconds() {
        var machine = Self.machine(connections: 256, measured: .milliseconds(50))
        var random = SeededRandom(seed: 4)
        let told = (0..<300).map { _ in machine.retryAfter(now: Self.at(0), random: random.next()) }
        let counts = (1...3).map { second in told.filter { $0 == second }.count }
        #expect(counts.reduce(0, +) == 300)
        #expect(counts.allSatisfy { $0 > 60 })
    }

    /// A stampede of 100,000 is told to come back a quarter faster than it can be served, as far as 30 s go.
    @Test(arguments: [(20_000, 17), (100_000, 30), (2_000, 3)])
    func manyAreToldToComeBackAsFastAsTheyCanBeServed(count: Int, last: Int) {
        let capacity = 1_024.0
        // 256 connections, a quarter of a second each.
        var machine = Self.machine(connections: 256, measured: .milliseconds(250))
        var random = SeededRandom(seed: 5)
        var told = [Int](repeating: 0, count: 31)
        for index in 0..<count {
            // All within a second.
            let now = Self.start + .nanoseconds(Int64(index) * 1_000_000_000 / Int64(count))
            told[machine.retryAfter(now: now, random: random.next())] += 1
        }
        #expect(told[1...last].allSatisfy { $0 > 0 } && told[(last + 1)...].allSatisfy { $0 == 0 })
        if count < Int(30 * capacity) { #expect(told.allSatisfy { Double($0) <= 1.2 * 1.25 * capacity }) }
        // When the times that were given out are over, the next one is told little again.
        let later = machine.retryAfter(now: Self.at(40_000), random: 2)
        #expect(later == 3)
    }

    /// While January took eight seconds thousands were told to come back late. That it takes a twelfth of a second now counts at once.
    @Test func whoWasRefusedWhileJanuaryWasSlowIsNotInTheWayWhenItIsQuick() {
        var machine = Self.machine(connections: 256, measured: .seconds(8))
        for _ in 0..<100_000 { _ = machine.retryAfter(now: Self.at(0), random: 0) }
        #expect(machine.retryAfter(now: Self.at(0), random: 0) == 15)
        for _ in 0..<1_000 {
            _ = machine.enter(left: Self.budget, now: Self.at(0))
            machine.send(now: Self.at(0))
            machine.end(sentAt: Self.at(0), now: Self.at(80))
        }
        #expect(machine.retryAfter(now: Self.at(80), random: 0) == 1)
    }

    @Test func whoIsRefusedWhileNothingEndsIsToldByTheSilence() {
        var machine = Self.machine(connections: 4, serving: 4, measured: .milliseconds(10))
        for _ in 0..<20 { _ = machine.retryAfter(now: Self.at(0), random: 0) }
        #expect(machine.retryAfter(now: Self.at(0), random: 0) == 1)
        // One by one every 0.8 s: 5 of the 21 had their turn in these 4 s, the 17th after them has it in 13.6.
        #expect(machine.retryAfter(now: Self.at(4_000), random: 0) == 14)
    }

    /// 20,000 apps keep to the SDKs' schedule and to what they are told, whichever is later; for 20 s there was an outage. From 5 s after its
    /// end until nine in ten are served, January is kept busy (bench/herd does this with the real program).
    @Test func aStampedeKeepsJanuaryBusyUntilItIsOver() {
        let apps = 20_000, connections = 64, slot = 0.005, service = 25, admitted = 128
        var machine = LoadMachine(connections: connections, budget: Self.budget)
        var random = SeededRandom(seed: 6)
        func fraction() -> Double { Double(random.next() >> 11) / Double(UInt64(1) << 53) }
        var comes = [[Int]](repeating: [], count: 60_000)
        for app in 0..<apps { comes[Int(fraction() * 15 / slot)].append(app) }
        var tries = [Int](repeating: 0, count: apps)
        var ends = [Int](repeating: 0, count: 60_000)
        var servedAt: [Double] = [], line = 0, gaveUp = 0
        for tick in 0..<comes.count where servedAt.count + gaveUp < apps {
            let now = Self.at(tick * 5)
            func send() {
                machine.send(now: now)
                ends[tick + service] += 1
            }
            for _ in 0..<ends[tick] {
                machine.end(sentAt: Self.at((tick - service) * 5), now: now)
                servedAt.append(Double(tick) * slot)
                if line > 0 {
                    line -= 1
                    send()
                }
            }
            for app in comes[tick] {
                tries[app] += 1
                var told = 1
                if Double(tick) * slot >= 20 {
                    let isFull = machine.waiting + machine.serving >= admitted
                    let decision = isFull ? LoadMachine.Decision.refuse : machine.enter(left: Self.budget, now: now)
                    switch decision {
                    case .send: send()
                    case .wait: line += 1
                    case .refuse: told = machine.retryAfter(now: now, random: random.next())
                    }
                    if decision != .refuse { continue }
                }
                guard tries[app] < 9 else {
                    gaveUp += 1
                    continue
                }
                let schedule = [1.0, 2, 4, 8][min(tries[app], 4) - 1] * (0.8 + 0.4 * fraction())
                comes[tick + 1 + Int(max(schedule, Double(told)) / slot)].append(app)
            }
        }
        let capacity = Double(connections) / (Double(service) * slot)
        let end = servedAt[apps * 9 / 10]
        let windows = stride(from: 25, to: end - 5, by: 2.5).map { from in
            Double(servedAt.count { from <= $0 && $0 < from + 5 }) / 5 / capacity
        }
        #expect(windows.count > 5 && windows.allSatisfy { $0 > 0.93 }, "\(windows)")
        #expect(gaveUp <= apps / 1_000)
    }

    // MARK: A naive model

    /// The same rules over lists and fractions of seconds, counted anew every time.
    private struct Model {
        var connections: Int
        var waiting: [Int] = []
        var serving: [(id: Int, sentAt: Double)] = []
        /// Every measurement: when its mint was sent, when it ended, how many were under way when it was sent.
        var mean = 0.0
        var deviation = 0.0
        var count = 0
        var lastEnd = -1e9
        var quietSince = 0.0
        var isStale = false

        mutating func measure(_ took: Double) {
            if count == 0 || isStale {
                (mean, deviation, count, isStale) = (took, 0, 1, false)
            } else {
                deviation += (abs(took - mean) - deviation) / Double(max(4, connections))
                mean += (took - mean) / Double(max(4, connections))
                count += 1
            }
        }

        func fits(left: Double, now: Double) -> (fits: Bool, isClose: Bool, isFree: Bool) {
            let order = serving.map(\.id) + waiting
            if order.count < connections { return (true, false, true) }
            var round = count == 0 ? 3.0 : mean
            if !serving.isEmpty { round = max(round, now - quietSince) }
            // Rounds of all connections until everybody in front has had one.
            var rounds = 1
            var inFront = order.count - connections
            while inFront >= connections {
                rounds += 1
                inFront -= connections
            }
            let needed = Double(rounds) * round + max(0.5, count == 0 ? round : mean + 4 * deviation)
            return (needed <= left, abs(needed - left) < 1e-6, false)
        }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func decidesAsANaiveModelDoes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let connections = Int.random(in: 1...6, using: &random)
        var machine = LoadMachine(connections: connections, budget: Self.budget)
        var model = Model(connections: connections)
        var now = 0.0
        var next = 0
        var seen: Set<String> = []
        model.quietSince = -1e9
        for _ in 0..<4_000 {
            now += [0, 0.001, 0.03, 0.4, 3][Int.random(in: 0..<5, using: &random)] * Double.random(in: 0...1, using: &random)
            let instant = MonotonicInstant(nanoseconds: 1_000_000_000_000 + Int64(now * 1e9))
            switch Int.random(in: 0..<8, using: &random) {
            case 0..<4:
                let left = Double.random(in: 0.4...8, using: &random)
                let expected = model.fits(left: left, now: now)
                if expected.isClose { continue }
                let decision = machine.enter(left: .nanoseconds(Int64(left * 1e9)), now: instant)
                let isSame =
                    switch decision {
                    case .send: expected.isFree
                    case .wait: expected.fits && !expected.isFree
                    case .refuse: !expected.fits
                    }
                #expect(isSame, "\(decision), \(expected), seed \(seed)")
                guard isSame else { return }
                seen.insert(String("\(decision)".prefix(4)))
                if expected.fits {
                    model.waiting.append(next)
                    next += 1
                }
            case 4..<6:
                guard !model.waiting.isEmpty, model.serving.count < connections else { continue }
                if model.serving.isEmpty {
                    if model.count > 0, now - model.lastEnd >= 1 { model.isStale = true }
                    model.quietSince = now
                }
                model.serving.append((model.waiting.removeFirst(), now))
                machine.send(now: instant)
            case 6:
                guard !model.serving.isEmpty else { continue }
                let ended = model.serving.remove(at: Int.random(in: 0..<model.serving.count, using: &random))
                model.measure(now - ended.sentAt)
                model.lastEnd = now
                model.quietSince = now
                machine.end(
                    sentAt: MonotonicInstant(nanoseconds: 1_000_000_000_000 + Int64(ended.sentAt * 1e9)), now: instant)
            default:
                guard !model.waiting.isEmpty else { continue }
                model.waiting.removeLast()
                machine.leave()
            }
            #expect(machine.waiting == model.waiting.count && machine.serving == model.serving.count)
        }
        #expect(seen == ["send", "wait", "refu"])
    }
}

extension LoadMachine {
    /// As if there had been room.
    fileprivate mutating func enterAnyway() {
        _ = enter(left: .seconds(1_000_000), now: MonotonicInstant(nanoseconds: 1_000_000_000_000))
    }
}
