import Foundation
import Primitives
import Testing

@testable import Revocations

/// Every order in which mints, a revocation, a repeat, a lift, January, a crash and a restart can meet, for small numbers of each. The rules
/// (``UserState``, ``SweepMachine``, ``Fence``) are the real ones; around them are January, two mints and a process that can die.
@Suite struct InterleavingTests {
    struct Scenario: Sendable, CustomTestStringConvertible {
        var name: String
        var blocks: [RevocationBlock]
        var mints = 2
        var crashes = 0
        var lifts = 0
        var testDescription: String { name }
    }

    /// `JANUARY_PROVE`: two mints everywhere, which takes a minute.
    private static let isThorough = ProcessInfo.processInfo.environment["JANUARY_PROVE"] != nil

    @Test(arguments: [
        Scenario(name: "user", blocks: [.user]),
        Scenario(name: "sessions", blocks: [.sessions]),
        Scenario(name: "none", blocks: [.none]),
        Scenario(name: "user, crash", blocks: [.user], mints: isThorough ? 2 : 1, crashes: 1),
        Scenario(name: "none, crash", blocks: [.none], mints: isThorough ? 2 : 1, crashes: 1),
        Scenario(name: "user, lift", blocks: [.user], mints: isThorough ? 2 : 1, lifts: 1),
        Scenario(name: "sessions, lift", blocks: [.sessions], mints: isThorough ? 2 : 1, lifts: 1),
        Scenario(name: "none joined by none", blocks: [.none, .none], mints: isThorough ? 2 : 1),
        Scenario(name: "sessions joined by none", blocks: [.sessions, .none], mints: 1),
        Scenario(name: "none joined by user, crash", blocks: [.none, .user], mints: 1, crashes: 1),
        Scenario(name: "user, lift, crash", blocks: [.user], mints: 1, crashes: 1, lifts: 1),
    ])
    func noOrderBreaksThePromise(_ scenario: Scenario) {
        var search = Search()
        search.run(World(scenario))
        #expect(search.broken == nil, "\(search.broken ?? "")")
        // A search that finds nothing to do would find nothing wrong.
        #expect(search.completions > 0 && search.deliveries > 0 && search.seen.count > 100)
        print("\(scenario.name): \(search.seen.count) states")
    }

    /// The search can fail: each of the rules left out is found.
    @Test(arguments: [World.Fault.noSecondLook, .noWait, .noLateSweep, .noCrashMark])
    func aRuleLeftOutIsFound(_ fault: World.Fault) {
        var search = Search()
        let isLate = fault == .noLateSweep || fault == .noCrashMark
        var world = World(
            Scenario(name: "", blocks: [isLate ? .none : .user], crashes: fault == .noCrashMark ? 1 : 0))
        world.fault = fault
        search.run(world)
        #expect(search.broken != nil)
    }
}

/// Depth first, every state once.
private struct Search {
    var seen: Set<World> = []
    var broken: String?
    var completions = 0
    var deliveries = 0

    mutating func run(_ start: World) {
        var open: [World] = [start]
        while let world = open.popLast(), broken == nil {
            for action in world.actions() {
                var next = world
                next.act(action)
                if let violation = next.violation {
                    broken = "\(violation) after \(next.path?.all ?? [])"
                    return
                }
                if next.promised > world.promised { completions += 1 }
                if next.deliveredCount > world.deliveredCount { deliveries += 1 }
                if seen.insert(next).inserted { open.append(next) }
            }
        }
    }
}

/// Shared by all that come after it: a copy of a world costs nothing for its past.
final class PastStep: Sendable {
    let action: World.Action
    let before: PastStep?

    init(_ action: World.Action, _ before: PastStep?) {
        self.action = action
        self.before = before
    }

    var all: [World.Action] { (before?.all ?? []) + [action] }
}

struct World: Hashable, Sendable {
    enum Fault: Hashable, Sendable { case noSecondLook, noWait, noLateSweep, noCrashMark }

    enum Action: Hashable, Sendable {
        case enter(Int), send(Int), commit(Int), answer(Int), lose(Int)
        case revoke, publish, work, januaryRevokes, revocationAnswers, revocationIsLost, keep, crash, later, lift
    }

    enum MintState: Hashable, Sendable {
        case idle, entered, sent, over
    }

    struct Mint: Hashable, Sendable {
        var state = MintState.idle
        /// January has made the token; it is alive.
        var isCommitted = false
        var isAlive = false
        /// Not committed yet, but may be.
        var mayCommit = false
        var isDelivered = false
        var isAnswered = false
        var isUnanswered = false
        /// Revocations that the process knew of when it entered.
        var enteredAfter = 0
    }

    enum Call: Hashable, Sendable { case none, sent, done(Int) }

    var mints: [Mint]
    var durable = UserState()
    /// What the process knows; nil while nothing is published or after a crash before the restart has read the state.
    var memory = UserState()
    var machine: SweepMachine?
    var step: SweepMachine.Step?
    var call = Call.none
    var revocations = 0
    /// Of them, those that mints can see.
    var published = 0
    var hasLifted = false
    /// Revocations whose 200 is out.
    var promised = 0
    var isUnclean = false
    var now = WallInstant(secondsSinceEpoch: 1_000)
    let blocks: [RevocationBlock]
    var crashes: Int
    var lifts: Int
    var fault: Fault?
    /// How it came to be; no part of the state.
    var path: PastStep?
    var violation: String?

    static let key = EndUserKey([UInt8](repeating: 7, count: 16))
    static let endUser = "u"

    init(_ scenario: InterleavingTests.Scenario) {
        mints = Array(repeating: Mint(), count: scenario.mints)
        blocks = scenario.blocks
        crashes = scenario.crashes
        lifts = scenario.lifts
    }

    /// The way here is no part of the state.
    static func == (left: World, right: World) -> Bool {
        left.mints == right.mints && left.durable == right.durable && left.memory == right.memory && left.machine == right.machine
            && left.step == right.step && left.call == right.call && left.revocations == right.revocations
            && left.published == right.published && left.hasLifted == right.hasLifted
            && left.promised == right.promised && left.isUnclean == right.isUnclean && left.now == right.now
            && left.crashes == right.crashes && left.lifts == right.lifts
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(mints)
        hasher.combine(durable)
        hasher.combine(call)
        hasher.combine(promised)
        hasher.combine(revocations)
        hasher.combine(crashes)
        hasher.combine(now)
        hasher.combine(published)
        hasher.combine(machine?.isCalling)
        hasher.combine(memory.work?.generation)
        hasher.combine(isUnclean)
    }

    var deliveredCount: Int { mints.count { $0.isDelivered } }

    /// Sessions of both mints began after everything: `sessions` lets them in again, `user` does not.
    private func decide(_ state: UserState) -> FenceDecision { state.decide(sessionStartedAt: 1e12) }

    private var older: OlderMints {
        if fault == .noWait { return OlderMints() }
        let unanswered = fault != .noLateSweep && (isUnclean && fault != .noCrashMark || mints.contains { $0.isUnanswered })
        return OlderMints(areAwaiting: mints.contains { $0.state == .entered || $0.state == .sent }, areUnanswered: unanswered)
    }

    func actions() -> [Action] {
        var actions: [Action] = []
        for (index, mint) in mints.enumerated() {
            switch mint.state {
            case .idle: actions.append(.enter(index))
            case .entered: actions.append(.send(index))
            case .sent:
                if mint.mayCommit { actions.append(.commit(index)) }
                if mint.isCommitted { actions.append(.answer(index)) }
                actions.append(.lose(index))
            case .over: if mint.mayCommit { actions.append(.commit(index)) }
            }
        }
        if revocations < blocks.count { actions.append(.revoke) }
        if memory != durable { actions.append(.publish) }
        if durable.work != nil, call == .none, memory == durable { actions.append(.work) }
        switch call {
        case .sent:
            actions.append(.januaryRevokes)
            if crashes > 0 { actions.append(.revocationIsLost) }
        case .done: actions.append(.revocationAnswers)
        case .none: break
        }
        if case .complete? = step { actions.append(.keep) }
        if crashes > 0, durable.work != nil { actions.append(.crash) }
        // 75 s go by only when everybody has had the time to answer.
        if let work = durable.work, now < work.lateAt, memory == durable,
            !mints.contains(where: { $0.state == .sent || $0.state == .entered })
        {
            actions.append(.later)
        }
        if lifts > 0, revocations > 0, memory == durable { actions.append(.lift) }
        return actions
    }

    mutating func act(_ action: Action) {
        path = PastStep(action, path)
        switch action {
        case .enter(let index): enter(index)
        case .send(let index): send(index)
        case .commit(let index):
            mints[index].mayCommit = false
            mints[index].isCommitted = true
            mints[index].isAlive = true
        case .answer(let index): answer(index)
        case .lose(let index):
            mints[index].state = .over
            mints[index].isUnanswered = true
        case .revoke: revoke()
        case .publish:
            memory = durable
            published = revocations
        case .work: work()
        case .januaryRevokes: januaryRevokes()
        case .revocationAnswers:
            if case .done(let count) = call { machine?.answered(count: count) }
            call = .none
        case .revocationIsLost:
            machine?.failed()
            call = .none
        case .keep: keep()
        case .crash: crash()
        case .later:
            now = max(now, durable.work?.lateAt ?? now)
            for index in mints.indices { mints[index].mayCommit = false }
            // Its time at January is over, and so is what this process was told to fear.
            for index in mints.indices where mints[index].state == .over { mints[index].isUnanswered = false }
            isUnclean = false
        case .lift:
            lifts -= 1
            hasLifted = true
            durable.lift(isSweeping: machine != nil)
            durable.ended = []
            if let work = durable.work { machine?.changed(work) } else { machine = nil }
            if durable.work == nil { step = nil }
        }
    }

    private mutating func enter(_ index: Int) {
        guard decide(memory) == .free else {
            mints[index].state = .over
            // Nobody is locked out by a block that is gone.
            if durable.fence == nil && durable.work == nil && memory == durable { violation = "locked out" }
            return
        }
        mints[index].state = .entered
        mints[index].enteredAfter = published
    }

    private mutating func send(_ index: Int) {
        guard decide(memory) == .free || fault != nil else {
            mints[index].state = .over
            return
        }
        if promised > 0, promised == revocations, durable.fence?.block == .user { violation = "sent after the 200" }
        mints[index].state = .sent
        mints[index].mayCommit = true
    }

    private mutating func answer(_ index: Int) {
        mints[index].state = .over
        mints[index].isAnswered = true
        guard decide(memory) == .free || fault == .noSecondLook else { return }
        mints[index].isDelivered = true
        if decide(memory) != .free { violation = "delivered although there is a fence" }
        if mints[index].enteredAfter < promised { violation = "delivered after the 200" }
    }

    private mutating func revoke() {
        let block = blocks[revocations]
        revocations += 1
        guard let key = Self.key, let id = RevocationID(bytes: [UInt8](repeating: UInt8(revocations), count: 16)) else { return }
        durable.revoke(key, endUserID: Self.endUser, block: block, newID: id, now: StateTime(wall: now, steady: now))
        durable.ended = []
        step = nil
        if let work = durable.work, machine?.record.id == work.id { machine?.changed(work) } else { machine = nil }
    }

    private mutating func work() {
        guard let work = durable.work else { return }
        var machine = self.machine ?? SweepMachine(work)
        let next = machine.step(mints: older, now: now)
        step = next
        if next == .call {
            machine.callBegins(mints: older, now: now)
            call = .sent
        }
        self.machine = machine
    }

    private mutating func januaryRevokes() {
        var count = 0
        for index in mints.indices where mints[index].isAlive {
            mints[index].isAlive = false
            count += 1
            if mints[index].isDelivered && mints[index].enteredAfter >= revocations { violation = "a later token was revoked" }
        }
        call = .done(count)
    }

    private mutating func keep() {
        guard case .complete(let isLate)? = step, let machine else { return }
        step = nil
        let wasPending = durable.isPending
        let done = durable.complete(generation: machine.record.generation, revokedCount: 0, isLate: isLate, now: now)
        durable.ended = []
        guard done else {
            if let work = durable.work { self.machine?.changed(work) }
            return
        }
        self.machine = nil
        if wasPending { promise() }
        guard durable.work == nil, !hasLifted else { return }
        // Nothing more will be done for what entered before.
        for mint in mints where mint.enteredAfter < promised && (mint.isAlive || mint.mayCommit) {
            violation = "an older token is alive, or may be"
        }
    }

    /// The 200 goes out.
    private mutating func promise() {
        promised = revocations
        for mint in mints where mint.enteredAfter < promised {
            if mint.isAlive && mint.isAnswered { violation = "an answered token is alive at the 200" }
            if mint.state == .sent || mint.state == .entered { violation = "a mint is under way at the 200" }
        }
    }

    /// Power off and on: what was sent may be committed, nobody is waiting for it.
    private mutating func crash() {
        crashes -= 1
        for index in mints.indices where mints[index].state == .entered || mints[index].state == .sent {
            mints[index].state = .over
        }
        isUnclean = true
        memory = durable
        published = revocations
        machine = nil
        step = nil
        call = .none
    }
}
