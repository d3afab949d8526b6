import Primitives
import TestSupport
import Testing

@testable import January

/// The load machine in front of a January that is played event by event: no sockets, no sleeping, the same every time.
@Suite struct LoadSimulationTests {
    private static let budget = 8.0
    private static let connections = 32

    private struct Tally {
        /// By the second in which they came.
        var answered = [Int](repeating: 0, count: 120)
        var refused = [Int](repeating: 0, count: 120)
        /// Sent and not answered in time: a token for nobody.
        var wasted = [Int](repeating: 0, count: 120)
        /// Turned away after having waited.
        var late = [Int](repeating: 0, count: 120)
        var longest = 0.0
        var mostWaiting = 0
    }

    private struct Mint {
        let came: Int
        let arrived: Double
    }

    /// `perSecond` mints come in a second, at random; each takes `service` of when it is sent. `most` may be under way.
    private static func run(
        seconds: Int, perSecond: Double, most: Int = .max, seed: UInt64 = 1,
        service: (_ sentAt: Double, inout SeededRandom) -> Double
    ) -> Tally {
        var random = SeededRandom(seed: seed)
        var machine = LoadMachine(connections: connections, budget: .seconds(8))
        var tally = Tally()
        var waiting: [Mint] = []
        var serving: [(mint: Mint, sentAt: Double, ends: Double)] = []
        func instant(_ time: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: 1_000_000_000_000 + Int64(time * 1e9)) }
        func left(_ mint: Mint, _ now: Double) -> Double { mint.arrived + budget - now }
        var arrival = 0.0
        while true {
            let end = serving.map(\.ends).min() ?? .infinity
            let now = min(arrival, end)
            if now >= Double(seconds) { break }
            if arrival <= end {
                let mint = Mint(came: Int(now), arrived: now)
                let isFull = waiting.count + serving.count >= most
                let decision =
                    isFull ? .refuse : machine.enter(left: .nanoseconds(Int64(left(mint, now) * 1e9)), now: instant(now))
                if decision == .refuse { tally.refused[mint.came] += 1 } else { waiting.append(mint) }
                tally.mostWaiting = max(tally.mostWaiting, machine.waiting)
                arrival += -Double.random(in: Double.leastNonzeroMagnitude...1, using: &random).logarithm / perSecond
            } else if let index = serving.firstIndex(where: { $0.ends == end }) {
                let done = serving.remove(at: index)
                machine.end(sentAt: instant(done.sentAt), now: instant(now))
                let took = now - done.mint.arrived
                if took >= budget { tally.wasted[done.mint.came] += 1 } else { tally.answered[Int(now)] += 1 }
                tally.longest = max(tally.longest, took)
            }
            while serving.count < connections, !waiting.isEmpty {
                let mint = waiting.removeFirst()
                let left = left(mint, now)
                guard left >= 0.5, machine.isWorthSending(left: .nanoseconds(Int64(left * 1e9)), now: instant(now)) else {
                    machine.leave()
                    tally.late[mint.came] += 1
                    continue
                }
                machine.send(now: instant(now))
                // Given up when the budget is over.
                serving.append((mint, now, min(now + service(now, &random), mint.arrived + budget)))
            }
        }
        return tally
    }

    private static func sum(_ counts: [Int], _ range: Range<Int>) -> Int { counts[range].reduce(0, +) }

    /// Service times, each with how long it takes on average: fixed, up to just below the budget, and scattered.
    @Test(arguments: [0.05, 1, 2.9, 4.1])
    func tenTimesOverloadIsServedAtFullSpeedAndTheRestRefusedAtOnce(service: Double) {
        let capacity = Double(Self.connections) / service
        // Enough of them for quick ones in a quarter of the time.
        let end = service < 1 ? 30 : 100
        let tally = Self.run(seconds: end, perSecond: 10 * capacity) { _, _ in service }
        let answered = Self.sum(tally.answered, 20..<end)
        let least = 0.95 * Double(end - 20) * capacity
        #expect(Double(answered) >= least)
        // After the first answers nobody waits in vain.
        #expect(Self.sum(tally.wasted, 10..<(end - 10)) == 0 && Self.sum(tally.late, 10..<(end - 10)) == 0)
        #expect(tally.longest <= Self.budget)
        let refused = Double(Self.sum(tally.refused, 20..<end))
        let leastRefused = 8 * Double(end - 20) * capacity
        #expect(refused > leastRefused)
    }

    @Test(arguments: [1, 2] as [UInt64])
    func scatteredServiceTimesWasteLittle(seed: UInt64) {
        // Exponential with a mean of 1 s: one in 3,000 takes longer than the budget by itself.
        let capacity = Double(Self.connections)
        let tally = Self.run(seconds: 100, perSecond: 10 * capacity, seed: seed) { _, random in
            -Double.random(in: Double.leastNonzeroMagnitude...1, using: &random).logarithm
        }
        let answered = Double(Self.sum(tally.answered, 10..<100))
        let least = 0.9 * 90 * capacity
        #expect(answered >= least)
        let wasted = Double(Self.sum(tally.wasted, 0..<100))
        #expect(wasted < 0.06 * answered)
    }

    @Test func aServiceTimeThatSuddenlyRisesCostsThoseWhoWaitedAndNobodyAfterwards() {
        // From 50 ms to 6 s at 30 s.
        let tally = Self.run(seconds: 90, perSecond: 1_000, most: 64) { time, _ in time < 30 ? 0.05 : 6 }
        #expect(Self.sum(tally.wasted, 0..<29) == 0)
        // Those who had come before it could be known; then, whatever comes is served or refused.
        #expect(Self.sum(tally.wasted, 40..<80) == 0 && Self.sum(tally.late, 40..<80) == 0)
        let answered = Double(Self.sum(tally.answered, 42..<90))
        let least = 0.9 * 48 * Double(Self.connections) / 6
        #expect(answered >= least)
        // Five in a second are served, of a thousand.
        let refused = Self.sum(tally.refused, 40..<80)
        #expect(refused > 38_900)
    }

    @Test func aServiceTimeThatSuddenlyFallsIsUsedAtOnce() {
        // From 7 s to 50 ms at 35 s: capacity 4.6, then 640 a second. What is under way at the change ends within 7 s.
        let tally = Self.run(seconds: 60, perSecond: 6_400) { time, _ in time < 35 ? 7 : 0.05 }
        #expect(tally.answered[43] >= 576)
        #expect(Self.sum(tally.wasted, 10..<60) == 0)
    }

    @Test func withoutAnAnswerWhoWaitsIsBoundedByTheConnections() {
        // Nothing was ever measured, and January hangs.
        let tally = Self.run(seconds: 7, perSecond: 5_000) { _, _ in .infinity }
        #expect(tally.mostWaiting == Self.connections + 1 || tally.mostWaiting == Self.connections)
        #expect(Self.sum(tally.refused, 0..<7) >= 5_000 * 6)
    }

    @Test func aJanuaryThatHangsIsNoticedWhileItHangs() {
        // 50 ms, then nothing: what waits is bounded by what could be served in the budget by what is known, and the longer nothing comes the
        // fewer may wait.
        let tally = Self.run(seconds: 20, perSecond: 2_000) { time, _ in time < 10 ? 0.05 : .infinity }
        #expect(Self.sum(tally.refused, 15..<18) >= 2_000 * 3 * 95 / 100)
    }

    @Test func belowCapacityNobodyIsRefused() {
        let tally = Self.run(seconds: 60, perSecond: 0.8 * 32 / 0.2) { _, random in
            Double.random(in: 0.1...0.3, using: &random)
        }
        #expect(Self.sum(tally.refused, 0..<60) == 0 && Self.sum(tally.wasted, 0..<60) == 0)
    }
}

extension Double {
    /// Of numbers from 0 to 1, without Foundation: the exponent, and a series for the rest.
    fileprivate var logarithm: Double {
        let ratio = (significand - 1) / (significand + 1)
        var sum = 0.0
        var power = ratio
        for step in stride(from: 1.0, through: 39, by: 2) {
            sum += power / step
            power *= ratio * ratio
        }
        return Double(exponent) * 0.693_147_180_559_945_3 + 2 * sum
    }
}
