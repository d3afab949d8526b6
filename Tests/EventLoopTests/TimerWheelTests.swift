import Primitives
import TestSupport
import Testing

@testable import EventLoop

struct TimerWheelTests {
    private final class Recorder: TimerNode {
        let id: Int
        init(_ id: Int) { self.id = id }
    }

    private static let start = MonotonicInstant(nanoseconds: 5_000_000_000)

    /// Distances around a tick, around one turn of the wheel, and far beyond it.
    @Test(arguments: [0, 1, 4_194_303, 4_194_304, 4_194_305, 17_179_869_184, 17_179_869_185, 75_000_000_000, 3_600_000_000_000])
    func aTimerIsNeverEarlyAndAtMostTwoTicksLate(nanoseconds: Int64) {
        var wheel = TimerWheel(now: Self.start)
        let node = Recorder(1)
        let deadline = Self.start.advanced(byNanoseconds: nanoseconds)
        _ = wheel.schedule(node, at: deadline)
        var due: [TimerNode] = []
        wheel.takeDue(now: deadline.advanced(byNanoseconds: -1), into: &due)
        #expect(due.isEmpty)
        wheel.takeDue(now: deadline.advanced(byNanoseconds: 8_388_608), into: &due)
        #expect(due.count == 1)
        #expect(!node.isScheduled)
        #expect(wheel.count == 0)
    }

    /// What is taken out is not fired yet: until then it can be cancelled and put off.
    @Test
    func aTimerWhoseTimeHasComeCanStillBeCancelledOrPutOff() {
        var wheel = TimerWheel(now: Self.start)
        let nodes = (0..<3).map(Recorder.init)
        for node in nodes { _ = wheel.schedule(node, at: Self.start) }
        var due: [TimerNode] = []
        wheel.takeDue(now: Self.start + .seconds(1), into: &due)
        #expect(due.count == 3)
        wheel.cancel(nodes[0])
        _ = wheel.schedule(nodes[1], at: Self.start + .seconds(2))
        #expect(nodes.map { $0.takeDue() } == [false, false, true])
        #expect(wheel.count == 1)
        due = []
        wheel.takeDue(now: Self.start + .seconds(3), into: &due)
        #expect(due.count == 1)
        #expect(nodes.map { $0.takeDue() } == [false, true, false])
    }

    /// One slot is one chain; freed from its head it would need a stack as deep as it is long.
    @Test
    func aWheelWithAVeryLongChainIsEmptied() {
        var wheel = TimerWheel(now: Self.start)
        for id in 0..<300_000 { _ = wheel.schedule(Recorder(id), at: Self.start + .seconds(10)) }
        #expect(wheel.removeAll().count == 300_000)
        #expect(wheel.count == 0)
        #expect(wheel.nextWake() == nil)
    }

    @Test
    func aCancelledTimerDoesNotFireAndCanBeScheduledAgain() {
        var wheel = TimerWheel(now: Self.start)
        let node = Recorder(1)
        _ = wheel.schedule(node, at: Self.start + .seconds(1))
        wheel.cancel(node)
        wheel.cancel(node)
        var due: [TimerNode] = []
        wheel.takeDue(now: Self.start + .seconds(2), into: &due)
        #expect(due.isEmpty)
        _ = wheel.schedule(node, at: Self.start + .seconds(3))
        wheel.takeDue(now: Self.start + .seconds(4), into: &due)
        #expect(due.count == 1)
    }

    @Test
    func aPastDeadlineFiresAtTheNextTick() {
        var wheel = TimerWheel(now: Self.start)
        let node = Recorder(1)
        let wake = wheel.schedule(node, at: Self.start.advanced(byNanoseconds: -1_000_000_000))
        #expect(wake > Self.start)
        var due: [TimerNode] = []
        wheel.takeDue(now: wake, into: &due)
        #expect(due.count == 1)
    }

    /// Random scheduling, moving, cancelling and passing of time against a dictionary that is searched whole.
    @Test(arguments: [UInt64(1), 2, 3, 4, 5, 6, 7, 8])
    func itDoesWhatASortedListWouldDo(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var now = Self.start
        var wheel = TimerWheel(now: now)
        let nodes = (0..<200).map(Recorder.init)
        var expected: [Int: MonotonicInstant] = [:]
        for _ in 0..<Effort.rounds(3000) {
            let node = nodes[Int.random(in: 0..<nodes.count, using: &random)]
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let deadline = now.advanced(byNanoseconds: Int64.random(in: 0..<40_000_000_000, using: &random))
                _ = wheel.schedule(node, at: deadline)
                expected[node.id] = deadline
            case 5:
                wheel.cancel(node)
                expected[node.id] = nil
            default:
                now = now.advanced(byNanoseconds: Int64.random(in: 0..<2_000_000_000, using: &random))
                var due: [TimerNode] = []
                wheel.takeDue(now: now, into: &due)
                let fired = Set(due.compactMap { ($0 as? Recorder)?.id })
                let late = Set(expected.filter { $0.value.advanced(byNanoseconds: 8_388_608) <= now }.keys)
                #expect(fired.isSuperset(of: late), "seed \(seed)")
                #expect(fired.allSatisfy { id in expected[id].map { $0 <= now } ?? false }, "seed \(seed)")
                for id in fired { expected[id] = nil }
            }
            #expect(wheel.count == expected.count)
            if let wake = wheel.nextWake(), let first = expected.values.min() {
                #expect(wake <= first.advanced(byNanoseconds: 8_388_608) || first < now)
            }
        }
    }
}
