import Primitives
import Telemetry
import TestSupport
import Testing

@testable import Revocations

private let start = WallInstant(secondsSinceEpoch: 1_000_000)
private func time(_ seconds: Int64) -> StateTime { StateTime(wall: start + .seconds(seconds), steady: start + .seconds(seconds)) }
private func key(_ byte: UInt8 = 1) throws -> EndUserKey { try #require(EndUserKey([UInt8](repeating: byte, count: 16))) }
private func id(_ byte: UInt8) throws -> RevocationID { try #require(RevocationID(bytes: [UInt8](repeating: byte, count: 16))) }

@Suite struct FenceTests {
    @Test(arguments: [
        (RevocationBlock.user, Double?.none, true), (.user, 1e12, true), (.none, nil, false),
        // The revocation was at 1,000,000 s.
        (.sessions, 999_999, true), (.sessions, 1_000_000, true), (.sessions, 1_000_000.5, false), (.sessions, 1_000_001, false),
        (.sessions, nil, true), (.sessions, .nan, true), (.sessions, .infinity, true),
    ])
    func aFenceForbidsWhatBeganAtOrBeforeIt(block: RevocationBlock, startedAt: Double?, isForbidden: Bool) {
        #expect(Fence(block: block, since: start).forbids(sessionStartedAt: startedAt) == isForbidden)
    }

    @Test func whatAFenceForbidsIsRevokedAndTheRestWaitsForPendingWork() {
        let fence = Fence(block: .sessions, since: start)
        #expect(Fence.decide(fence, isPending: true, sessionStartedAt: 1) == .revoked)
        #expect(Fence.decide(fence, isPending: true, sessionStartedAt: 2_000_000) == .inProgress)
        #expect(Fence.decide(fence, isPending: false, sessionStartedAt: 2_000_000) == .free)
        #expect(Fence.decide(nil, isPending: true, sessionStartedAt: nil) == .inProgress)
        #expect(Fence.decide(nil, isPending: false, sessionStartedAt: nil) == .free)
    }
}

@Suite struct UserStateTests {
    @Test func aRepeatJoinsThePendingWorkWithTheStricterBlockAndTheLaterTime() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(1), now: time(0))
        #expect(state.fence == nil && state.isPending)
        state.revoke(try key(), endUserID: "u", block: .sessions, newID: try id(2), now: time(5))
        #expect(state.work?.id == (try id(1)))
        #expect(state.fence == Fence(block: .sessions, since: start + .seconds(5)))
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(3), now: time(9))
        #expect(state.work?.block == .sessions && state.work?.generation == 3)
        #expect(state.fence?.since == start + .seconds(9))
        #expect(state.work?.lateAt == start + .seconds(84))
    }

    @Test func aSweepForWhoJoinsBeginsAtOnceUnlessJanuaryHasToBeLeftAlone() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(1), now: time(0))
        // Only the late sweep is left to do.
        state.rest(revokedCount: 1, failure: nil, until: start + .seconds(75))
        state.revoke(try key(), endUserID: "u", block: .user, newID: try id(2), now: time(40))
        #expect(state.work?.nextAt == start + .seconds(40))
        #expect(state.work?.lateAt == start + .seconds(115))
        // The pause after a failure is kept.
        state.rest(revokedCount: 0, failure: "503", until: start + .seconds(50))
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(3), now: time(45))
        #expect(state.work?.nextAt == start + .seconds(50))
        // Behind a failure that is over, the late sweep is waited for again.
        state.rest(revokedCount: 0, failure: nil, until: start + .seconds(120))
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(4), now: time(60))
        #expect(state.work?.nextAt == start + .seconds(60))
    }

    @Test func onlyALiftWeakensABlock() throws {
        var state = UserState(fence: Fence(block: .user, since: start))
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(1), now: time(5))
        #expect(state.fence == Fence(block: .user, since: start))
        #expect(state.work?.block == .user)
        let isDone = state.complete(generation: 1, revokedCount: 2, isLate: false, now: start + .seconds(6))
        #expect(isDone)
        #expect(state.fence?.block == .user)
        #expect(state.work?.phase == .late && state.work?.revokedCount == 2)
        let lifted = state.lift(isSweeping: false)
        #expect(lifted && state.fence == nil && state.work == nil)
        #expect(state.ended.map(\.phase) == [.over] && state.ended.first?.endUserID == nil)
    }

    @Test func aLiftDuringPendingWorkTakesEffectWithItsCompletion() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .user, newID: try id(1), now: time(0))
        let lifted = state.lift(isSweeping: true)
        #expect(!lifted && state.fence?.block == .user)
        let isDone = state.complete(generation: 1, revokedCount: 0, isLate: false, now: start)
        #expect(isDone)
        #expect(state.fence == nil && state.work == nil && state.ended.count == 1)
    }

    @Test func aRequestAfterTheLiftIsWantedAgain() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .user, newID: try id(1), now: time(0))
        state.lift(isSweeping: true)
        state.revoke(try key(), endUserID: "u", block: .user, newID: try id(2), now: time(1))
        #expect(state.work?.lifts == false)
    }

    @Test func aCompletionOfAnEarlierGenerationChangesNothing() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(1), now: time(0))
        state.revoke(try key(), endUserID: "u", block: .none, newID: try id(2), now: time(1))
        let before = state
        let isComplete = state.complete(generation: 1, revokedCount: 1, isLate: false, now: start)
        #expect(!isComplete && state == before)
    }

    @Test func aWallClockThatStepsBackMakesNoFenceOlder() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .sessions, newID: try id(1), now: time(100))
        let isDone = state.complete(generation: 1, revokedCount: 0, isLate: true, now: start)
        #expect(isDone)
        state.revoke(try key(), endUserID: "u", block: .sessions, newID: try id(2), now: time(50))
        #expect(state.fence?.since == start + .seconds(100))
    }

    @Test func aNewRequestTakesOverTheLateSweepOfTheOneBefore() throws {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: .user, newID: try id(1), now: time(0))
        let isDone = state.complete(generation: 1, revokedCount: 0, isLate: false, now: start)
        #expect(isDone)
        state.revoke(try key(), endUserID: "u", block: .sessions, newID: try id(2), now: time(10))
        #expect(state.ended.map(\.id) == [try id(1)])
        #expect(state.work?.id == (try id(2)) && state.work?.block == .user)
        #expect(state.work?.lateAt == start + .seconds(85))
    }
}

@Suite struct SweepMachineTests {
    private func record(_ block: RevocationBlock) throws -> RevocationRecord {
        var state = UserState()
        state.revoke(try key(), endUserID: "u", block: block, newID: try id(1), now: time(0))
        return try #require(state.work)
    }

    /// A call with what is true when it is sent, and January's count.
    private func call(_ machine: inout SweepMachine, _ mints: OlderMints, at seconds: Int64 = 0, _ count: Int) {
        #expect(machine.step(mints: mints, now: time(seconds).steady) == .call)
        machine.callBegins(mints: mints, now: time(seconds).steady)
        machine.answered(count: count)
    }

    @Test(arguments: RevocationBlock.allCases)
    func withoutMintsItIsCompleteWhenJanuaryReportsNone(block: RevocationBlock) throws {
        var machine = SweepMachine(try record(block))
        call(&machine, OlderMints(), 500)
        call(&machine, OlderMints(), 3)
        call(&machine, OlderMints(), 0)
        #expect(machine.step(mints: OlderMints(), now: time(1).steady) == .complete(isLate: false))
        #expect(machine.revokedCount == 503)
    }

    @Test func aZeroFromBeforeAnAnswerProvesNothing() throws {
        var machine = SweepMachine(try record(.user))
        call(&machine, OlderMints(areAwaiting: true), 0)
        #expect(machine.step(mints: OlderMints(areAwaiting: true), now: time(1).steady) == .awaitMints)
        call(&machine, OlderMints(), at: 2, 1)
        call(&machine, OlderMints(), at: 2, 0)
        #expect(machine.step(mints: OlderMints(), now: time(2).steady) == .complete(isLate: false))
    }

    @Test func withAnUnansweredMintUserIsToldNowAndTheOthersWaitForTheLateSweep() throws {
        let unanswered = OlderMints(areUnanswered: true)
        var user = SweepMachine(try record(.user))
        call(&user, unanswered, 0)
        #expect(user.step(mints: unanswered, now: time(1).steady) == .complete(isLate: false))
        var none = SweepMachine(try record(.none))
        call(&none, unanswered, 0)
        #expect(none.step(mints: unanswered, now: time(1).steady) == .rest(until: time(75).steady))
        // One nanosecond too early, then at the time.
        #expect(none.step(mints: unanswered, now: time(75).steady + .nanoseconds(-1)) == .rest(until: time(75).steady))
        call(&none, unanswered, at: 75, 1)
        call(&none, unanswered, at: 75, 0)
        #expect(none.step(mints: unanswered, now: time(75).steady) == .complete(isLate: true))
    }

    @Test func aZeroFromBeforeAJoinProvesNothing() throws {
        var machine = SweepMachine(try record(.user))
        #expect(machine.step(mints: OlderMints(), now: start) == .call)
        machine.callBegins(mints: OlderMints(), now: start)
        var joined = machine.record
        joined.generation += 1
        machine.changed(joined)
        machine.answered(count: 0)
        #expect(machine.step(mints: OlderMints(), now: start) == .call)
    }

    @Test func aFailureProvesNothing() throws {
        var machine = SweepMachine(try record(.user))
        machine.callBegins(mints: OlderMints(), now: start)
        machine.failed()
        #expect(machine.step(mints: OlderMints(), now: start) == .call)
    }

    @Test func whoIsNeverDoneGivesWayToOthers() throws {
        var machine = SweepMachine(try record(.user))
        for _ in 0..<SweepMachine.maxRun { call(&machine, OlderMints(), 500) }
        #expect(machine.step(mints: OlderMints(), now: start) == .giveWay)
    }
}

@Suite struct BackoffTests {
    @Test(arguments: [(1, 1.0), (2, 2), (3, 4), (6, 32), (7, 60), (100, 60)])
    func itDoublesFromOneSecondToSixty(attempts: Int, seconds: Double) {
        #expect(Backoff.delay(attempts: attempts, retryAfter: nil, fraction: 0) == .seconds(seconds))
        #expect(Backoff.delay(attempts: attempts, retryAfter: nil, fraction: 1) == .seconds(seconds * 0.75))
    }

    @Test func januarysRetryAfterIsALowerBound() {
        #expect(Backoff.delay(attempts: 1, retryAfter: .seconds(120), fraction: 0.5) == .seconds(120))
        #expect(Backoff.delay(attempts: 7, retryAfter: .seconds(2), fraction: 0) == .seconds(60))
        #expect(Backoff.delay(attempts: 1, retryAfter: .seconds(86_400), fraction: 0) == .seconds(3600))
    }
}

@Suite struct FenceTableTests {
    @Test func itCountsFencesAndPendingWorkAndForgetsBoth() throws {
        let table = FenceTable()
        #expect(table.isEmpty && table.version == 0)
        table.set(try key(1), fence: Fence(block: .user, since: start), isPending: true)
        table.set(try key(2), fence: nil, isPending: true)
        #expect(!table.isEmpty && table.fenceCount == 1 && table.pendingCount == 2 && table.version == 2)
        #expect(table.decide(try key(1), sessionStartedAt: nil) == .revoked)
        #expect(table.decide(try key(2), sessionStartedAt: nil) == .inProgress)
        #expect(table.decide(try key(3), sessionStartedAt: nil) == .free)
        table.set(try key(1), fence: Fence(block: .user, since: start), isPending: false)
        table.set(try key(2), fence: nil, isPending: false)
        table.set(try key(1), fence: nil, isPending: false)
        #expect(table.isEmpty && table.fenceCount == 0 && table.pendingCount == 0)
    }
}

@Suite struct MintGateTests {
    private let deadline = MonotonicInstant(nanoseconds: 8_000_000_000)
    private let hash = EndUserHash(secret: Secret("0123456789abcdef"))

    @Test func aFenceIsSeenAtEveryLook() throws {
        let fences = FenceTable()
        let gate = MintGate(mints: MintsInFlight(maxCount: 2), fences: fences, hash: hash)
        guard case .entered(let ticket) = gate.enter("u", sessionStartedAt: nil, deadline: deadline) else {
            Issue.record("not let in")
            return
        }
        #expect(gate.look(ticket) == .free)
        fences.set(try #require(EndUserKey("u", under: hash)), fence: Fence(block: .user, since: start), isPending: true)
        #expect(gate.look(ticket) == .revoked)
        guard case .refused(.revoked) = gate.enter("u", sessionStartedAt: nil, deadline: deadline),
            case .entered(let other) = gate.enter("v", sessionStartedAt: nil, deadline: deadline)
        else {
            Issue.record("the fence is not of u alone")
            return
        }
        #expect(gate.mints.count == 2)
        guard case .full = gate.enter("v", sessionStartedAt: nil, deadline: deadline) else {
            Issue.record("no bound")
            return
        }
        gate.leave(other)
        gate.leaveUnanswered(ticket, now: deadline)
        #expect(gate.mints.count == 0)
        #expect(gate.mints.unansweredCount(of: "u", now: deadline) == 1)
        #expect(gate.mints.unansweredCount(of: "v", now: deadline) == 0)
        #expect(!gate.mints.hasNoUnanswered(now: deadline))
        let end = deadline + .seconds(75)
        #expect(gate.mints.unansweredCount(of: "u", now: end) == 0 && gate.mints.hasNoUnanswered(now: end))
    }
}
