import Primitives
import TestSupport
import Testing

@testable import Revocations

@Suite struct MintsInFlightTests {
    private let soon = MonotonicInstant(nanoseconds: 8)

    @Test func mintIsFoundByItsEndUserUntilItLeaves() throws {
        let mints = MintsInFlight(maxCount: 10)
        let first = try #require(mints.enter("u1", deadline: soon))
        let second = try #require(mints.enter("u1", deadline: .distantFuture))
        let other = try #require(mints.enter("u2", deadline: soon))
        #expect(mints.entries(of: "u1") == [first, second])
        #expect(first.number < second.number && second.number < other.number)
        #expect(mints.entries(of: "u1").map(\.deadline) == [soon, .distantFuture])
        #expect(mints.count == 3)
        mints.leave(first)
        mints.leave(first)
        #expect(mints.entries(of: "u1") == [second])
        #expect(mints.count == 2)
        mints.leave(second)
        #expect(mints.count(of: "u1") == 0)
        #expect(mints.count(of: "u2") == 1)
        #expect(mints.count == 1)
    }

    @Test func oneMoreThanTheBoundIsRefusedAndCostsNothing() throws {
        let mints = MintsInFlight(maxCount: 2)
        let first = try #require(mints.enter("u1", deadline: soon))
        #expect(mints.enter("u1", deadline: soon) != nil)
        #expect(mints.enter("u2", deadline: soon) == nil)
        #expect(mints.count == 2)
        #expect(mints.count(of: "u2") == 0)
        mints.leave(first)
        #expect(mints.enter("u2", deadline: soon) != nil)
        mints.setMaxCount(3)
        #expect(mints.enter("u3", deadline: soon) != nil)
        #expect(mints.enter("u3", deadline: soon) == nil)
    }

    @Test func equivalentTextsAreTwoEndUsers() {
        let mints = MintsInFlight(maxCount: 2)
        #expect(mints.enter("\u{E9}", deadline: soon) != nil)
        #expect(mints.count(of: "e\u{301}") == 0)
        #expect(mints.count(of: "\u{E9}") == 1)
    }

    @Test func manyThreadsEnterAndLeaveAndNothingIsLeft() async {
        let mints = MintsInFlight(maxCount: 1_000, shardCount: 3)
        await withTaskGroup(of: Void.self) { group in
            for seed in 0..<4 {
                group.addTask {
                    var random = SeededRandom(seed: UInt64(seed))
                    var mine: [MintsInFlight.Entry] = []
                    for _ in 0..<2_000 {
                        if mine.isEmpty || Bool.random(using: &random) {
                            let user = "u\(Int.random(in: 0..<20, using: &random))"
                            if let entry = mints.enter(user, deadline: .distantFuture) { mine.append(entry) }
                        } else {
                            mints.leave(mine.remove(at: Int.random(in: 0..<mine.count, using: &random)))
                        }
                    }
                    mine.forEach(mints.leave)
                }
            }
        }
        #expect(mints.count == 0)
        #expect((0..<20).allSatisfy { mints.entries(of: "u\($0)").isEmpty })
    }
}
