import Primitives
import TestSupport
import Testing

@testable import Sessions

/// The key-set rules as (state, event) pairs: no loop, no socket, no sleep.
struct KeySetStateMachineTests {
    private typealias Action = KeySetStateMachine.Action

    /// The machine with a clock and the keys "its" provider has published.
    private struct Rig {
        var machine: KeySetStateMachine
        let time = TestTime()
        var keys: Set<String> = ["k1"]

        init(_ change: (inout KeySetStateMachine.Settings) -> Void = { _ in }) {
            var settings = KeySetStateMachine.Settings()
            change(&settings)
            machine = KeySetStateMachine(settings: settings)
        }

        var now: MonotonicInstant { time.monotonic() }
        var wall: WallInstant { time.wall() }

        mutating func start() -> [Action] { machine.start(now: now, wall: wall) }
        mutating func fire() -> [Action] { machine.timerFired(now: now, wall: wall) }
        mutating func succeed(maxAge: Duration? = nil) -> [Action] {
            let keys = keys
            return machine.loadSucceeded(maxAge: maxAge, now: now, wall: wall) { $0.map(keys.contains) ?? true }
        }
        mutating func fail() -> [Action] { machine.loadFailed(now: now, wall: wall) }
        mutating func ask(
            _ id: UInt64, key: String? = "k2", issuedAgo: Duration? = nil, arrivedAgo: Duration = .zero, isKnown: Bool = false
        ) -> [Action] {
            machine.unknownKey(
                .init(
                    id: id, keyID: key,
                    arrived: MonotonicInstant(nanoseconds: now.nanoseconds - arrivedAgo.wholeNanoseconds),
                    issuedAt: issuedAgo.map { wall.fractionalSeconds - $0.fractionalSeconds }),
                isKnown: isKnown, now: now, wall: wall)
        }
        mutating func pass(_ seconds: Double) { time.advance(by: .milliseconds(Int64(seconds * 1000))) }
        /// Started and loaded once, one second ago.
        static func loaded() -> Rig {
            var rig = Rig()
            _ = rig.start()
            _ = rig.succeed()
            rig.pass(1)
            return rig
        }
        var untilDeadline: Duration? { machine.deadline.map { $0 - now } }
    }

    @Test func theFirstLoadStartsAtOnceAndOnlyOnce() {
        var rig = Rig()
        #expect(rig.machine.deadline == nil)
        #expect(rig.start() == [.startLoad])
        #expect(rig.start() == [])
        #expect(rig.machine.deadline == nil)
        #expect(rig.machine.health(now: rig.now) == .starting)
    }

    @Test func aLoadedSetIsRefreshedAfterTheInterval() {
        var rig = Rig()
        _ = rig.start()
        #expect(rig.succeed() == [])
        #expect(rig.machine.health(now: rig.now) == .loaded)
        #expect(rig.untilDeadline == .seconds(600))
        rig.pass(599.999)
        #expect(rig.fire() == [])
        rig.pass(0.001)
        #expect(rig.fire() == [.startLoad])
    }

    /// RFC 9111 section 5.2.2.1, within bounds.
    @Test(
        arguments: [(nil, 600), (0, 60), (59, 60), (60, 60), (61, 61), (3_600, 3_600), (86_400, 86_400), (86_401, 86_400)]
            as [(Int?, Int)])
    func maxAgeIsHonouredBetweenAMinuteAndADay(maxAge: Int?, expected: Int) {
        var rig = Rig()
        _ = rig.start()
        _ = rig.succeed(maxAge: maxAge.map { .seconds($0) })
        #expect(rig.untilDeadline == .seconds(expected))
    }

    @Test func failedLoadsAreRepeatedWithADoublingPause() {
        var rig = Rig()
        let began = rig.now
        _ = rig.start()
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            #expect(rig.fail() == [])
            #expect(rig.untilDeadline == .seconds(pause))
            #expect(rig.machine.health(now: rig.now) == .failing(since: began, hasKeys: false))
            rig.pass(Double(pause))
            #expect(rig.fire() == [.startLoad])
        }
        _ = rig.succeed()
        #expect(rig.machine.health(now: rig.now) == .loaded)
        #expect(rig.untilDeadline == .seconds(600))
    }

    @Test func theLastGoodSetStaysWhileRefreshesFailUntilItIsTooOld() {
        var rig = Rig()
        _ = rig.start()
        _ = rig.succeed()
        rig.pass(600)
        _ = rig.fire()
        let began = rig.now
        _ = rig.fail()
        #expect(rig.machine.health(now: rig.now) == .failing(since: began, hasKeys: true))
        rig.pass(86_400)
        #expect(rig.machine.health(now: rig.now) == .failing(since: began, hasKeys: true))
        rig.pass(0.001)
        #expect(rig.machine.health(now: rig.now) == .failing(since: began, hasKeys: false))
        // Too old: what it lacks says nothing any more.
        _ = rig.fire()
        _ = rig.ask(1, issuedAgo: .seconds(90_000))
        rig.pass(2)
        #expect(rig.fire() == [.answer(id: 1, .unavailable(retryAfter: .seconds(1)))])
    }

    @Test func anUnknownKeyStartsOneLoadAndWaitsForIt() {
        var rig = Rig.loaded()
        #expect(rig.ask(1) == [.startLoad])
        #expect(rig.ask(2) == [])
        #expect(rig.ask(3, key: "k3") == [])
        rig.keys.insert("k2")
        #expect(rig.succeed() == [.answer(id: 1, .lookAgain), .answer(id: 2, .lookAgain), .answer(id: 3, .unknownKey)])
    }

    @Test func aKeyThatCameMeanwhileIsLookedUpAgainWithoutALoad() {
        var rig = Rig.loaded()
        #expect(rig.ask(1, isKnown: true) == [.answer(id: 1, .lookAgain)])
        #expect(rig.ask(2) == [.startLoad])
    }

    @Test func aSecondLoadForAnUnknownKeyWaitsThirtySeconds() {
        var rig = Rig.loaded()
        _ = rig.ask(1)
        #expect(rig.succeed() == [.answer(id: 1, .unknownKey)])
        rig.pass(10)
        // Signed before that load: the key would have been there.
        #expect(rig.ask(2, issuedAgo: .seconds(11)) == [.answer(id: 2, .unknownKey)])
        // In the second in which the load began, before or after it: `iat` does not say.
        #expect(rig.ask(20, issuedAgo: .seconds(10)) == [.answer(id: 20, .unavailable(retryAfter: .seconds(20)))])
        // Signed after it, or not known when: cannot be told before the next load is allowed.
        #expect(rig.ask(3, issuedAgo: .seconds(9)) == [.answer(id: 3, .unavailable(retryAfter: .seconds(20)))])
        #expect(rig.ask(4) == [.answer(id: 4, .unavailable(retryAfter: .seconds(20)))])
        rig.pass(19.999)
        #expect(rig.ask(5) == [.answer(id: 5, .unavailable(retryAfter: .seconds(1)))])
        rig.pass(0.001)
        #expect(rig.ask(6) == [.startLoad])
    }

    @Test func aFailedLoadCountsForTheThirtySecondsToo() {
        var rig = Rig.loaded()
        #expect(rig.ask(1) == [.startLoad])
        rig.pass(1)
        // The set is not due, so that callers start no rhythm of retries.
        #expect(rig.fail() == [.answer(id: 1, .unavailable(retryAfter: .seconds(29)))])
        #expect(rig.machine.health(now: rig.now) == .loaded)
        #expect(rig.untilDeadline == .seconds(598))
        #expect(rig.ask(2) == [.answer(id: 2, .unavailable(retryAfter: .seconds(29)))])
        rig.pass(29)
        #expect(rig.ask(3) == [.startLoad])
    }

    @Test func aFailedRefreshIsRepeatedSoonerThanCallersMayAsk() {
        var rig = Rig.loaded()
        rig.pass(599)
        #expect(rig.fire() == [.startLoad])
        #expect(rig.ask(1) == [])
        // The retry after the failure comes sooner than the next load an unknown key may start.
        #expect(rig.fail() == [.answer(id: 1, .unavailable(retryAfter: .seconds(1)))])
        #expect(rig.untilDeadline == .seconds(1))
    }

    @Test func aCallerWaitsTwoSecondsAtMost() {
        var rig = Rig.loaded()
        _ = rig.ask(1)
        rig.pass(0.5)
        _ = rig.ask(2, issuedAgo: .seconds(100))
        #expect(rig.untilDeadline == .milliseconds(1500))
        rig.pass(1.499)
        #expect(rig.fire() == [])
        rig.pass(0.001)
        #expect(rig.fire() == [.answer(id: 1, .unavailable(retryAfter: .seconds(28)))])
        rig.pass(0.5)
        // Signed before the last good load, and that set has no such key.
        #expect(rig.fire() == [.answer(id: 2, .unknownKey)])
        #expect(rig.machine.deadline == nil)
        #expect(rig.succeed() == [])
    }

    @Test func aCallerThatJoinsAnOlderLoadGetsOneOfItsOwn() {
        var rig = Rig()
        _ = rig.start()
        rig.pass(0.5)
        #expect(rig.ask(1) == [])
        rig.pass(0.5)
        #expect(rig.succeed() == [.startLoad])
        #expect(rig.succeed() == [.answer(id: 1, .unknownKey)])
    }

    @Test func beforeAnySetIsLoadedEverybodyIsToldToComeBack() {
        var rig = Rig()
        _ = rig.start()
        _ = rig.fail()
        #expect(rig.ask(1, key: nil, issuedAgo: .seconds(100)) == [.startLoad])
        #expect(rig.fail() == [.answer(id: 1, .unavailable(retryAfter: .seconds(2)))])
        #expect(rig.ask(2, key: "k1") == [.answer(id: 2, .unavailable(retryAfter: .seconds(2)))])
        rig.pass(2)
        #expect(rig.fire() == [.startLoad])
        #expect(rig.ask(3, key: nil) == [])
        #expect(rig.succeed() == [.answer(id: 3, .lookAgain)])
    }

    @Test func onlySoManyMayWait() {
        var rig = Rig { $0.maxWaiters = 2 }
        _ = rig.start()
        _ = rig.succeed()
        _ = rig.ask(1)
        _ = rig.ask(2)
        #expect(rig.ask(3) == [.answer(id: 3, .unavailable(retryAfter: .seconds(30)))])
        #expect(rig.succeed() == [.answer(id: 1, .unknownKey), .answer(id: 2, .unknownKey)])
    }

    @Test func stoppingAnswersEverybodyAndLoadsNothingMore() {
        var rig = Rig.loaded()
        _ = rig.ask(1)
        #expect(rig.machine.stop(now: rig.now) == [.answer(id: 1, .unavailable(retryAfter: .seconds(30)))])
        #expect(rig.machine.deadline == nil)
        #expect(rig.succeed() == [])
        #expect(rig.fail() == [])
        #expect(rig.fire() == [])
        #expect(rig.ask(2) == [.answer(id: 2, .unavailable(retryAfter: .seconds(30)))])
    }

    @Test func aStepOfTheWallClockMovesNoTimer() {
        var rig = Rig.loaded()
        let deadline = rig.machine.deadline
        rig.time.setWall(WallInstant(secondsSinceEpoch: 0))
        #expect(rig.machine.deadline == deadline)
        #expect(rig.fire() == [])
    }

    /// Whatever happens in whatever order: one load at a time, at most one per 30 s for unknown keys, everybody answered exactly once.
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func randomEventsNeverLoseACaller(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var rig = Rig()
        var loading = false
        var waiting: Set<UInt64> = []
        var nextID: UInt64 = 0
        var unknownKeyLoads: [MonotonicInstant] = []
        func apply(_ actions: [Action], fromCaller: Bool, _ rig: Rig) {
            for action in actions {
                switch action {
                case .startLoad:
                    #expect(!loading, "seed \(seed): two loads at once")
                    loading = true
                    if fromCaller { unknownKeyLoads.append(rig.now) }
                case .answer(let id, let answer):
                    #expect(waiting.remove(id) != nil, "seed \(seed): \(id) answered twice")
                    if case .unavailable(let pause) = answer { #expect(pause >= .seconds(1)) }
                }
            }
        }
        apply(rig.start(), fromCaller: false, rig)
        for _ in 0..<3_000 {
            rig.pass(Double(Int.random(in: 0...3_000, using: &random)) / 1_000)
            if let deadline = rig.machine.deadline, deadline <= rig.now { apply(rig.fire(), fromCaller: false, rig) }
            switch Int.random(in: 0..<6, using: &random) {
            case 0 where loading:
                loading = false
                if Bool.random(using: &random) { rig.keys.insert("k\(Int.random(in: 0..<50, using: &random))") }
                apply(rig.succeed(), fromCaller: !waiting.isEmpty, rig)
            case 1 where loading:
                loading = false
                apply(rig.fail(), fromCaller: !waiting.isEmpty, rig)
            default:
                nextID += 1
                waiting.insert(nextID)
                let key = "k\(Int.random(in: 0..<50, using: &random))"
                apply(rig.ask(nextID, key: key, isKnown: rig.keys.contains(key)), fromCaller: true, rig)
            }
        }
        apply(rig.machine.stop(now: rig.now), fromCaller: false, rig)
        #expect(waiting.isEmpty, "seed \(seed)")
        for (first, second) in zip(unknownKeyLoads, unknownKeyLoads.dropFirst()) {
            #expect(second - first >= .seconds(30), "seed \(seed)")
        }
    }
}
