import GCRA
import Primitives
import TestSupport
import Testing

private let second: Int64 = 1_000_000_000

@Suite struct GCRATests {
    struct Shape: Sendable, CustomTestStringConvertible {
        var requests: Int
        var seconds: Int64
        var burst: Int
        var testDescription: String { "\(requests)/\(seconds) s, burst \(burst)" }
        var rule: GCRARule { GCRARule(requests: requests, periodNanoseconds: seconds * second, burst: burst) }
    }

    static let shapes = [
        Shape(requests: 600, seconds: 60, burst: 600), Shape(requests: 6, seconds: 60, burst: 10),
        Shape(requests: 12, seconds: 60, burst: 30), Shape(requests: 1, seconds: 86_400, burst: 1),
        Shape(requests: 1, seconds: 86_400, burst: 1000), Shape(requests: 1_000_000, seconds: 1, burst: 1),
        Shape(requests: 1_000_000, seconds: 1, burst: 1_000_000), Shape(requests: 7, seconds: 60, burst: 3),
        Shape(requests: 999_983, seconds: 86_400, burst: 17),
    ]

    /// ITU-T I.371: exactly the burst passes back to back, and not one more.
    @Test(arguments: shapes)
    func aBurstPassesAndNotOneMore(shape: Shape) {
        let rule = shape.rule
        var cell = GCRACell()
        let now = 5 * second
        #expect(cell.remaining(now: now, rule: rule) == shape.burst)
        for _ in 0..<shape.burst { #expect(cell.charge(now: now, rule: rule) == .allowed) }
        #expect(cell.remaining(now: now, rule: rule) == 0)
        #expect(cell.charge(now: now, rule: rule) == .limited(retryAfter: rule.emissionInterval))
    }

    /// Waiting exactly so long is enough; a nanosecond less is not, and neither is a second less where the wait is that long.
    @Test(arguments: shapes)
    func waitingExactlyAsLongAsToldSucceeds(shape: Shape) {
        let rule = shape.rule
        var cell = GCRACell()
        var now = 12_345 * second
        for _ in 0..<shape.burst { _ = cell.charge(now: now, rule: rule) }
        now += rule.emissionInterval / 3
        guard case .limited(let wait) = cell.charge(now: now, rule: rule) else {
            Issue.record("was allowed")
            return
        }
        for early in [now + wait - 1, now + wait - second] where early >= now {
            var copy = cell
            #expect(copy.charge(now: early, rule: rule) == .limited(retryAfter: now + wait - early))
        }
        #expect(cell.charge(now: now + wait, rule: rule) == .allowed)
    }

    struct Offer: Sendable, CustomTestStringConvertible {
        let shape: Shape
        /// Of the configured rate.
        let factor: Double
        let isRandom: Bool
        var testDescription: String { "\(shape.testDescription), \(factor) times\(isRandom ? ", at random" : "")" }
    }

    /// With a burst of 1 a request has to meet the very moment, so what comes at other times is lost; from 2 on nothing is.
    static let offers = shapes.filter { $0.burst >= 2 }.flatMap { shape in
        [1.01, 1.3, 2, 10, Effort.isSanitized ? 20 : 1_000].map { Offer(shape: shape, factor: $0, isRandom: false) }
            + (shape.burst >= 10 ? [2, 10].map { Offer(shape: shape, factor: $0, isRandom: true) } : [])
    }

    /// More than the limit allows is offered for long: what is admitted is the configured rate, to one per cent.
    @Test(arguments: offers)
    func aSteadyOfferAboveTheLimitIsAdmittedAtTheConfiguredRate(offer: Offer) {
        let rule = offer.shape.rule
        let between = Double(offer.shape.seconds) * 1e9 / Double(offer.shape.requests) / offer.factor
        var random = SeededRandom(seed: 11)
        var cell = GCRACell()
        var now = 1e12
        // The burst at the beginning comes on top of the rate.
        while case .allowed = cell.charge(now: Int64(now), rule: rule) {}
        let start = now
        var admitted = 0
        for _ in 0..<Int(4_000 * offer.factor) {
            now += offer.isRandom ? between * 2 * Double.random(in: 0..<1, using: &random) : between
            if cell.charge(now: Int64(now), rule: rule) == .allowed { admitted += 1 }
        }
        let configured = (now - start) / 1e9 * Double(offer.shape.requests) / Double(offer.shape.seconds)
        let share = Double(admitted) / configured
        #expect((0.99...1.01).contains(share), "\(admitted) of \(configured)")
    }

    @Test func aRefusalLeavesTheCellAsItIs() {
        let rule = GCRARule(requests: 1, periodNanoseconds: second, burst: 2)
        var cell = GCRACell()
        _ = cell.charge(cost: 2, now: 0, rule: rule)
        let before = cell
        #expect(cell.charge(cost: 2, now: second, rule: rule) == .limited(retryAfter: second))
        #expect(cell == before)
    }

    @Test(arguments: [(1, true), (3, true), (4, false)])
    func aCostBeyondTheBurstIsNeverAllowed(cost: Int, isAllowed: Bool) {
        let rule = GCRARule(requests: 1, periodNanoseconds: second, burst: 3)
        var cell = GCRACell()
        #expect((cell.charge(cost: cost, now: 1_000_000 * second, rule: rule) == .allowed) == isAllowed)
    }

    /// Three for a refused session: one was asked for, two are added, even beyond the burst, and no farther.
    @Test func penaltiesGoTwoRequestsBeyondTheBurstAndNoFarther() {
        let rule = GCRARule(requests: 1, periodNanoseconds: second, burst: 4)
        var cell = GCRACell()
        #expect(cell.charge(now: 0, rule: rule) == .allowed)
        cell.penalize(cost: 2, now: 0, rule: rule)
        #expect(cell.remaining(now: 0, rule: rule) == 1)
        #expect(cell.charge(now: 0, rule: rule) == .allowed)
        cell.penalize(cost: 2, now: 0, rule: rule)
        #expect(cell.charge(now: 0, rule: rule) == .limited(retryAfter: 3 * second))
        for _ in 0..<100 { cell.penalize(cost: 2, now: 0, rule: rule) }
        #expect(cell.charge(now: 0, rule: rule) == .limited(retryAfter: 3 * second))
    }

    /// A reload that makes a limit smaller does not keep anybody waiting for the old one.
    @Test func aCellOfALargerLimitFitsTheSmallerOne() {
        let old = GCRARule(requests: 1, periodNanoseconds: 3600 * second, burst: 1000)
        var cell = GCRACell()
        for _ in 0..<1000 { _ = cell.charge(now: 0, rule: old) }
        let new = GCRARule(requests: 1, periodNanoseconds: second, burst: 2)
        #expect(cell.charge(now: 0, rule: new) == .limited(retryAfter: 3 * second))
        #expect(cell.charge(now: 3 * second - 1, rule: new) == .limited(retryAfter: 1), "what was told goes by, and is over once")
        #expect(cell.charge(now: 3 * second, rule: new) == .allowed)
    }

    /// Every end of every range, with the largest burst used up: nothing traps, nothing wraps around to "allowed for ever".
    @Test func theLargestLimitsDoNotOverflow() {
        for requests in [1, 2, 999_999, 1_000_000] {
            for period in [Int64(1), second, 86_400 * second, .max] {
                for burst in [1, 999_999, 1_000_000] {
                    let rule = GCRARule(requests: requests, periodNanoseconds: period, burst: burst)
                    #expect(rule.emissionInterval >= 1000)
                    #expect(rule.tolerance <= GCRARule.maxTolerance)
                    for now in [Int64(0), 1 << 60] {
                        var cell = GCRACell()
                        _ = cell.charge(cost: burst, now: now, rule: rule)
                        cell.penalize(cost: burst, now: now, rule: rule)
                        guard case .limited(let wait) = cell.charge(cost: 1, now: now, rule: rule) else {
                            Issue.record("\(rule) was allowed")
                            continue
                        }
                        #expect(wait > 0 && cell.charge(now: now + wait, rule: rule) == .allowed)
                    }
                }
            }
        }
    }

    @Test func aClockThatGoesBackALittleNeverGivesMore() {
        let rule = GCRARule(requests: 1, periodNanoseconds: second, burst: 2)
        var cell = GCRACell()
        _ = cell.charge(now: 10 * second, rule: rule)
        _ = cell.charge(now: 10 * second, rule: rule)
        #expect(cell.charge(now: 9 * second, rule: rule) == .limited(retryAfter: 2 * second))
    }

    /// The same limit as a bucket that is refilled nanosecond by nanosecond: fractions of a request as exact multiples of the interval.
    struct NaiveBucket {
        let rule: GCRARule
        /// In nanoseconds of emission.
        var level: Int64
        var last: Int64 = 0
        init(_ rule: GCRARule) {
            self.rule = rule
            level = rule.tolerance
        }
        mutating func refill(_ now: Int64) {
            level = min(rule.tolerance, level + (now - last))
            last = now
        }
        mutating func charge(_ cost: Int, _ now: Int64) -> Bool {
            refill(now)
            let need = rule.emissionInterval * Int64(cost)
            guard level >= need else { return false }
            level -= need
            return true
        }
        mutating func penalize(_ cost: Int, _ now: Int64) {
            refill(now)
            let floor = -rule.emissionInterval * Int64(GCRARule.maxPenalty)
            level = max(floor, level - rule.emissionInterval * Int64(cost))
        }
    }

    @Test func everyInterleavingIsJudgedAsByAPlainBucket() {
        var random = SeededRandom(seed: 4)
        for _ in 0..<400 {
            let rule = GCRARule(
                requests: Int.random(in: 1...50, using: &random),
                periodNanoseconds: Int64.random(in: 1...100, using: &random) * second,
                burst: Int.random(in: 1...20, using: &random))
            var cells = Array(repeating: GCRACell(), count: 3)
            var buckets = Array(repeating: NaiveBucket(rule), count: 3)
            var now = Int64.random(in: 0...1000, using: &random) * second
            for index in buckets.indices { buckets[index].last = now }
            for _ in 0..<200 {
                let steps: [Int64] = [
                    0, 1, rule.emissionInterval - 1, rule.emissionInterval, rule.emissionInterval / 2,
                    Int64.random(in: 0...rule.tolerance, using: &random),
                ]
                now += steps[Int.random(in: steps.indices, using: &random)]
                let key = Int.random(in: cells.indices, using: &random)
                let cost = Int.random(in: 1...3, using: &random)
                if Int.random(in: 0..<5, using: &random) == 0 {
                    cells[key].penalize(cost: cost, now: now, rule: rule)
                    buckets[key].penalize(cost, now)
                } else {
                    let allowed = cells[key].charge(cost: cost, now: now, rule: rule) == .allowed
                    #expect(allowed == buckets[key].charge(cost, now))
                }
                #expect(cells[key].isIdle(now: now) == (buckets[key].level == rule.tolerance))
            }
        }
    }
}
