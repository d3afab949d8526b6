import HTTPClient
import Primitives
import TestSupport
import Testing

/// The pool of one origin, one test per (state, event) pair that matters. No sockets, no clock.
@Suite struct PoolStateMachineTests {
    private typealias Machine = PoolStateMachine<String>
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000)
    private static let later = start + .seconds(1000)

    private static func machine(places: Int = 256, waiting: Int = 1024) -> (Machine, ConnectionBudget) {
        let budget = ConnectionBudget(limit: places)
        var limits = PoolLimits()
        limits.waitingCount = waiting
        return (Machine(limits: limits, budget: budget), budget)
    }

    private static func at(_ seconds: Int) -> MonotonicInstant { start + .seconds(seconds) }

    /// A machine with one connection that is leased to `name`.
    private static func leased(_ machine: inout Machine, _ name: String = "a", at now: MonotonicInstant = start) throws
        -> Machine.ConnectionID
    {
        #expect(machine.request(name, deadline: later, needsFresh: false, now: now) == .wait)
        let id = try #require(machine.nextConnection() as Machine.ConnectionID?)
        #expect(machine.connected(id, now: now) == .serve(name))
        return id
    }

    private static func idle(_ machine: inout Machine, at now: MonotonicInstant = start) throws -> Machine.ConnectionID {
        let id = try leased(&machine, at: now)
        #expect(machine.released(id, isReusable: true, now: now) == .keepIdle)
        return id
    }

    @Test func aRequestWithoutConnectionsWaitsAndOneConnectionIsOpened() throws {
        var (machine, budget) = Self.machine()
        #expect(machine.request("a", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        let id = try #require(machine.nextConnection() as Machine.ConnectionID?)
        #expect(machine.nextConnection() == nil)
        #expect(machine.state(of: id) == .connecting)
        #expect(budget.usedCount == 1)
        #expect(machine.connected(id, now: Self.start) == .serve("a"))
        #expect(machine.state(of: id) == .leased(opened: Self.start))
    }

    @Test func theMostRecentlyUsedIdleConnectionIsTakenFirst() throws {
        var (machine, _) = Self.machine()
        let first = try Self.leased(&machine, "a")
        let second = try Self.leased(&machine, "b")
        #expect(machine.released(first, isReusable: true, now: Self.at(1)) == .keepIdle)
        #expect(machine.released(second, isReusable: true, now: Self.at(2)) == .keepIdle)
        #expect(machine.request("c", deadline: Self.later, needsFresh: false, now: Self.at(3)) == .lease(second))
        #expect(machine.request("d", deadline: Self.later, needsFresh: false, now: Self.at(3)) == .lease(first))
        #expect(machine.request("e", deadline: Self.later, needsFresh: false, now: Self.at(3)) == .wait)
    }

    @Test func aReleasedConnectionServesTheFirstInLine() throws {
        var (machine, _) = Self.machine(places: 1)
        let id = try Self.leased(&machine)
        for name in ["b", "c"] {
            #expect(machine.request(name, deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        }
        #expect(machine.nextConnection() == nil)
        #expect(machine.needsConnection)
        #expect(machine.released(id, isReusable: true, now: Self.at(1)) == .serve("b"))
        #expect(machine.released(id, isReusable: true, now: Self.at(1)) == .serve("c"))
        #expect(machine.released(id, isReusable: true, now: Self.at(1)) == .keepIdle)
    }

    @Test func aBreakingReleaseClosesAndItsPlaceServesWhoWaits() throws {
        var (machine, budget) = Self.machine(places: 1)
        let id = try Self.leased(&machine)
        #expect(machine.request("b", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        #expect(machine.released(id, isReusable: false, now: Self.at(1)) == .close)
        #expect(machine.state(of: id) == .closing)
        #expect(machine.nextConnection() == nil)
        machine.closed(id)
        #expect(budget.usedCount == 0)
        let next = try #require(machine.nextConnection() as Machine.ConnectionID?)
        #expect(machine.connected(next, now: Self.at(2)) == .serve("b"))
    }

    /// Closed after 50 s idle: not one tick before, and never handed out from then on.
    @Test(arguments: [(Duration.seconds(50) - .nanoseconds(1), true), (.seconds(50), false), (.seconds(51), false)])
    func anIdleConnectionIsUsedForLessThanFiftySeconds(after: Duration, isUsed: Bool) throws {
        var (machine, _) = Self.machine()
        let id = try Self.idle(&machine)
        #expect(machine.nextExpiry == Self.at(50))
        #expect(machine.expiry(of: id) == Self.at(50))
        var swept = machine
        #expect(swept.takeStale(now: Self.start + after) == (isUsed ? [] : [id]))
        let action = machine.request("b", deadline: Self.later, needsFresh: false, now: Self.start + after)
        #expect(action == (isUsed ? .lease(id) : .wait))
        #expect(machine.hasStale == !isUsed)
        #expect(machine.takeStale(now: Self.start + after) == (isUsed ? [] : [id]))
    }

    @Test(arguments: [(Duration.seconds(300) - .nanoseconds(1), true), (.seconds(300), false)])
    func aConnectionIsRetiredAtThreeHundredSeconds(age: Duration, isKept: Bool) throws {
        var (machine, _) = Self.machine()
        let id = try Self.leased(&machine)
        #expect(machine.released(id, isReusable: true, now: Self.start + age) == (isKept ? .keepIdle : .close))
    }

    @Test func ageEndsAnIdleConnectionBeforeItsIdleTime() throws {
        var (machine, _) = Self.machine()
        let id = try Self.leased(&machine)
        #expect(machine.released(id, isReusable: true, now: Self.at(290)) == .keepIdle)
        #expect(machine.nextExpiry == Self.at(300))
        #expect(machine.request("b", deadline: Self.later, needsFresh: false, now: Self.at(300)) == .wait)
        #expect(machine.takeStale(now: Self.at(300)) == [id])
    }

    @Test(arguments: [0, 1, 3]) func oneMoreThanMayWaitIsRefused(limit: Int) {
        var (machine, _) = Self.machine(places: 0, waiting: limit)
        for index in 0..<limit {
            #expect(machine.request("\(index)", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        }
        #expect(machine.request("x", deadline: Self.later, needsFresh: false, now: Self.start) == .refuse(.tooManyWaiting))
        #expect(machine.waitingCount == limit)
    }

    @Test func aDeadlineThatHasPassedIsRefusedAtOnce() {
        var (machine, _) = Self.machine()
        #expect(machine.request("a", deadline: Self.start, needsFresh: false, now: Self.start) == .refuse(.tooLate))
    }

    @Test func whoWaitedTooLongIsPassedOver() throws {
        var (machine, _) = Self.machine(places: 1)
        let id = try Self.leased(&machine)
        #expect(machine.request("b", deadline: Self.at(5), needsFresh: false, now: Self.start) == .wait)
        #expect(machine.request("c", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        #expect(machine.released(id, isReusable: true, now: Self.at(5)) == .serve("c"))
        #expect(machine.withdraw("b") == true)
        #expect(machine.withdraw("b") == false)
        #expect(machine.waitingCount == 0)
    }

    /// The second attempt is made on a connection of its own, whatever else becomes free.
    @Test func aRetryTakesOnlyAFreshConnection() throws {
        var (machine, _) = Self.machine()
        let id = try Self.idle(&machine)
        #expect(machine.request("r", deadline: Self.later, needsFresh: true, now: Self.at(1)) == .wait)
        #expect(machine.request("b", deadline: Self.later, needsFresh: false, now: Self.at(1)) == .lease(id))
        #expect(machine.released(id, isReusable: true, now: Self.at(1)) == .keepIdle)
        let fresh = try #require(machine.nextConnection() as Machine.ConnectionID?)
        #expect(machine.connected(fresh, now: Self.at(2)) == .serve("r"))
    }

    @Test func aFailureToConnectIsTheFirstInLinesAndGivesThePlaceBack() throws {
        var (machine, budget) = Self.machine()
        for name in ["a", "b"] {
            #expect(machine.request(name, deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        }
        let first = try #require(machine.nextConnection() as Machine.ConnectionID?)
        let second = try #require(machine.nextConnection() as Machine.ConnectionID?)
        #expect(machine.nextConnection() == nil)
        #expect(machine.connectFailed(second, now: Self.start) == "a")
        #expect(machine.state(of: second) == .closed)
        #expect(budget.usedCount == 1)
        #expect(machine.connected(first, now: Self.start) == .serve("b"))
        #expect(machine.connectFailed(first, now: Self.start) == nil)
    }

    @Test func aConnectionNobodyWaitsForAnyMoreBecomesIdle() throws {
        var (machine, _) = Self.machine()
        #expect(machine.request("a", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        let id = try #require(machine.nextConnection() as Machine.ConnectionID?)
        #expect(machine.withdraw("a") == true)
        #expect(machine.connected(id, now: Self.at(1)) == .keepIdle)
        #expect(machine.state(of: id) == .idle(opened: Self.at(1), since: Self.at(1)))
    }

    @Test func aConnectionClosedWhileIdleIsNeverHandedOut() throws {
        var (machine, budget) = Self.machine()
        let id = try Self.idle(&machine)
        machine.closed(id)
        #expect(budget.usedCount == 0)
        #expect(machine.idleCount == 0)
        #expect(machine.request("b", deadline: Self.later, needsFresh: false, now: Self.at(1)) == .wait)
    }

    /// Events that do not fit the state change nothing.
    @Test func eventsOutOfStateAreIgnored() throws {
        var (machine, budget) = Self.machine()
        let id = try Self.idle(&machine)
        #expect(machine.connected(id, now: Self.start) == .none)
        #expect(machine.released(id, isReusable: true, now: Self.start) == .none)
        #expect(machine.connectFailed(id, now: Self.start) == nil)
        machine.closed(id)
        machine.closed(id)
        #expect(machine.released(id, isReusable: true, now: Self.start) == .none)
        #expect(budget.usedCount == 0)
        #expect(machine.openCount == 0)
    }

    @Test func drainingClosesWhatIsIdleAndFinishesWhatIsNot() throws {
        var (machine, _) = Self.machine(places: 2)
        let busy = try Self.leased(&machine, "a")
        let quiet = try Self.leased(&machine, "q")
        #expect(machine.released(quiet, isReusable: true, now: Self.start) == .keepIdle)
        #expect(machine.drain() == [quiet])
        #expect(machine.request("b", deadline: Self.later, needsFresh: false, now: Self.start) == .refuse(.draining))
        #expect(machine.released(busy, isReusable: true, now: Self.start) == .close)
        machine.closed(busy)
        machine.closed(quiet)
        #expect(machine.openCount == 0)
    }

    @Test func anIdleConnectionIsGivenUpForAnotherPool() throws {
        var (machine, budget) = Self.machine(places: 1)
        let id = try Self.idle(&machine)
        var other = PoolStateMachine<String>(limits: PoolLimits(), budget: budget)
        #expect(other.request("x", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        #expect(other.nextConnection() == nil)
        #expect(other.needsConnection)
        #expect(machine.shed() == id)
        #expect(machine.shed() == nil)
        machine.closed(id)
        #expect(other.nextConnection() != nil)
    }

    @Test func aConnectionIsNotKeptIdleWhileAnotherPoolWaitsForItsPlace() throws {
        var (machine, budget) = Self.machine(places: 1)
        let id = try Self.leased(&machine)
        let member = ConnectionBudget.Member(wake: {}, shed: {})
        budget.join(member)
        #expect(!machine.isWaitedFor)
        budget.wait(member)
        #expect(machine.isWaitedFor, "what its connection has heard is told before the other pool gets its place")
        #expect(machine.released(id, isReusable: true, now: Self.start) == .close)
    }

    /// Two members, four places: while the other one waits, a pool goes down to its share of two, also when its own requests wait.
    @Test func aPoolWithMoreThanItsShareGivesPlacesToAnother() throws {
        let budget = ConnectionBudget(limit: 4)
        let (busy, poor) = (ConnectionBudget.Member(wake: {}, shed: {}), ConnectionBudget.Member(wake: {}, shed: {}))
        budget.join(busy)
        budget.join(poor)
        var machine = Machine(limits: PoolLimits(), budget: budget, member: busy)
        let leased = try (0..<4).map { try Self.leased(&machine, "\($0)") }
        for index in 0..<4 {
            #expect(machine.request("w\(index)", deadline: Self.later, needsFresh: false, now: Self.start) == .wait)
        }
        budget.wait(busy)
        #expect(machine.released(leased[0], isReusable: true, now: Self.start) == .serve("w0"), "nobody else waits")
        budget.wait(poor)
        #expect(machine.released(leased[1], isReusable: true, now: Self.start) == .close)
        machine.closed(leased[1])
        #expect(machine.released(leased[2], isReusable: true, now: Self.start) == .close)
        machine.closed(leased[2])
        budget.wait(poor)
        #expect(machine.released(leased[3], isReusable: true, now: Self.start) == .serve("w1"), "it has its share")
    }

    /// Random events against a simple model: the budget is never exceeded, every request is served, refused or still waiting exactly once,
    /// and nobody is overtaken by a later request of the same kind.
    @Test(arguments: 0..<12) func randomEventsKeepTheRules(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let places = Int.random(in: 1...6, using: &random)
        var (machine, budget) = Self.machine(places: places, waiting: 20)
        var now = Self.start
        var connecting: [Machine.ConnectionID] = []
        var leased: [Machine.ConnectionID] = []
        var waiting: [String] = []
        var served: Set<String> = []
        var next = 0
        func serve(_ name: String, _ id: Machine.ConnectionID) {
            #expect(served.insert(name).inserted, "served twice")
            waiting.removeAll { $0 == name }
            leased.append(id)
        }
        for _ in 0..<600 {
            now = now + .milliseconds(Int.random(in: 0...4000, using: &random))
            switch Int.random(in: 0..<7, using: &random) {
            case 0, 1:
                let name = "\(next)"
                next += 1
                switch machine.request(name, deadline: .distantFuture, needsFresh: false, now: now) {
                case .lease(let id): serve(name, id)
                case .wait: waiting.append(name)
                case .refuse(let refusal): #expect(refusal == .tooManyWaiting && waiting.count == 20)
                }
                for id in machine.takeStale(now: now) { machine.closed(id) }
            case 2:
                guard let id = connecting.popLast() else { continue }
                switch machine.connected(id, now: now) {
                case .serve(let name):
                    #expect(name == waiting.first)
                    serve(name, id)
                case .keepIdle: #expect(waiting.isEmpty)
                case .none, .close: Issue.record("a new connection is neither ignored nor closed")
                }
            case 3:
                guard let id = connecting.popLast() else { continue }
                let failed = machine.connectFailed(id, now: now)
                #expect(failed == waiting.first)
                if failed != nil { waiting.removeFirst() }
            case 4:
                guard !leased.isEmpty else { continue }
                let id = leased.remove(at: Int.random(in: 0..<leased.count, using: &random))
                switch machine.released(id, isReusable: Bool.random(using: &random), now: now) {
                case .serve(let name):
                    #expect(name == waiting.first)
                    serve(name, id)
                case .close: machine.closed(id)
                case .keepIdle: #expect(waiting.isEmpty)
                case .none: Issue.record("a leased connection was not known")
                }
            case 5:
                guard let name = waiting.randomElement(using: &random) else { continue }
                #expect(machine.withdraw(name) == true)
                waiting.removeAll { $0 == name }
            default: for id in machine.takeStale(now: now) { machine.closed(id) }
            }
            while let id = machine.nextConnection() { connecting.append(id) }
            let isConsistent =
                machine.waitingCount == waiting.count && machine.leasedCount == leased.count
                && machine.connectingCount == connecting.count
                && machine.openCount == leased.count + connecting.count + machine.idleCount
                && budget.usedCount == machine.openCount && budget.usedCount <= places
            // One check a round: each costs more than the round itself.
            if !isConsistent { Issue.record("the counts disagree: \(machine)") }
        }
    }
}

@Suite struct ConnectionBudgetTests {
    @Test(arguments: [1, 2, 256]) func noMoreThanTheLimitAreTaken(limit: Int) {
        let budget = ConnectionBudget(limit: limit)
        for _ in 0..<limit { #expect(budget.tryAcquire()) }
        #expect(!budget.tryAcquire())
        #expect(budget.usedCount == limit)
        budget.release()
        #expect(budget.tryAcquire())
    }

    @Test func aPlaceGivenBackWakesTheFirstInLineOnce() {
        let log = Lock<[String]>([])
        func member(_ name: String) -> ConnectionBudget.Member {
            .init(wake: { log.withLock { $0.append("wake \(name)") } }, shed: { log.withLock { $0.append("shed \(name)") } })
        }
        let budget = ConnectionBudget(limit: 1)
        let (a, b) = (member("a"), member("b"))
        budget.join(a)
        budget.join(b)
        #expect(budget.tryAcquire())
        budget.wait(a)
        budget.wait(a)
        #expect(budget.isWanted)
        budget.wait(b)
        #expect(log.withLock { $0 } == ["shed b", "shed a"])
        budget.release()
        #expect(log.withLock { $0 }.last == "wake a")
        budget.passOn()
        #expect(log.withLock { $0 }.last == "wake b")
        #expect(!budget.isWanted)
        budget.release()
        #expect(log.withLock { $0.count } == 4)
    }

    @Test func whoLeavesIsNotWoken() {
        let woken = Lock(0)
        let budget = ConnectionBudget(limit: 1)
        let member = ConnectionBudget.Member(wake: { woken.withLock { $0 += 1 } }, shed: {})
        budget.join(member)
        #expect(budget.tryAcquire())
        budget.wait(member)
        budget.leave(member)
        budget.release()
        #expect(woken.withLock { $0 } == 0)
        #expect(!budget.isWanted)
    }
}

extension PoolStateMachineTests {
    /// One that stayed in line would have another connection opened for it at once, and so on without end.
    @Test func aConnectionThatFailsTakesTheFirstInLineAlthoughItsTimeIsOver() throws {
        let budget = ConnectionBudget(limit: 4)
        var machine = PoolStateMachine<String>(limits: PoolLimits(), budget: budget)
        let start = MonotonicInstant(nanoseconds: 1_000_000_000)
        #expect(machine.request("a", deadline: start + .seconds(1), needsFresh: false, now: start) == .wait)
        let id = try #require(machine.nextConnection() as PoolStateMachine<String>.ConnectionID?)
        #expect(machine.connectFailed(id, now: start + .seconds(2)) == "a")
        #expect(!machine.needsConnection)
        #expect(budget.usedCount == 0)
    }
}
