import Primitives
import TestSupport
import Testing

@testable import January

@Suite struct BreakerTests {
    private let time = TestTime()
    private let breaker = Breaker()

    private func admitted() -> BreakerTicket? {
        if case .send(let ticket) = breaker.admit(now: time.monotonic()) { ticket } else { nil }
    }

    private func heldBy() -> JanuaryFailure? {
        if case .held(let failure) = breaker.admit(now: time.monotonic()) { failure } else { nil }
    }

    private func fail(_ failure: JanuaryFailure, _ user: String = "u1", _ ticket: BreakerTicket? = nil) {
        let ticket = ticket ?? BreakerTicket(generation: 0, probedAt: nil)
        breaker.failed(ticket, failure, endUserID: user, now: time.monotonic())
    }

    private var reasons: [BreakerReason] { breaker.openReasons(now: time.monotonic()) }

    @Test(
        arguments: [
            (.keyRejected, .key), (.forbidden(.forbidden), .forbidden), (.forbidden(.clientTokenNotAllowed), .forbidden),
            (.quotaExhausted(.creditLimitExceeded), .quota), (.quotaExhausted(.requestLimitExceeded), .quota),
        ] as [(JanuaryFailure, BreakerReason)])
    func oneAccountWideAnswerOpensForItsReason(failure: JanuaryFailure, reason: BreakerReason) {
        fail(failure)
        #expect(reasons == [reason])
        #expect(heldBy() == failure)
        time.advance(by: .seconds(5) - .nanoseconds(1))
        #expect(heldBy() == failure)
        time.advance(by: .nanoseconds(1))
        #expect(admitted()?.isProbe == true)
        // The probe is out; everybody else waits for another 5 s, whether it reports or not.
        #expect(heldBy() == failure)
        time.advance(by: .seconds(5) - .nanoseconds(1))
        #expect(heldBy() == failure)
        time.advance(by: .nanoseconds(1))
        #expect(admitted()?.isProbe == true)
    }

    @Test func answersOfRequestsThatWereOutWhenItOpenedDelayNoProbe() {
        fail(.keyRejected)
        for _ in 0..<8 {
            time.advance(by: .milliseconds(600))
            fail(.keyRejected)
        }
        time.advance(by: .milliseconds(200))
        #expect(admitted()?.isProbe == true)
    }

    @Test func probeWithAnotherAccountWideAnswerChangesTheReason() throws {
        fail(.keyRejected)
        time.advance(by: .seconds(5))
        let probe = try #require(admitted())
        time.advance(by: .seconds(1))
        fail(.forbidden(.forbidden), "u1", probe)
        #expect(reasons == [.forbidden])
        #expect(heldBy() == .forbidden(.forbidden))
        time.advance(by: .seconds(4))
        #expect(admitted()?.isProbe == true)
    }

    @Test(
        arguments: [
            .rejectedRequest(status: 400, .invalidRequest), .rejectedRequest(status: 422, .other), .forbidden(.scopeInsufficient),
            .forbidden(.other), .unavailable(status: 408, .other), .unavailable(status: 425, .other), .overloaded, .cancelled,
            .tooLate,
        ] as [JanuaryFailure])
    func otherAnswersNeverOpen(failure: JanuaryFailure) {
        for user in 0..<50 { fail(failure, "u\(user)") }
        #expect(admitted() == BreakerTicket(generation: 0, probedAt: nil))
        #expect(reasons == [])
    }

    @Test(
        arguments: [
            (.unreachable(.refused), .unreachable), (.unreachable(.dns), .unreachable),
            (.unreachable(.connectTimeout), .unreachable),
            (.unreachable(.tls), .unreachable), (.unavailable(status: 500, .internalError), .unavailable),
            (.unavailable(status: 503, .serviceUnavailable), .unavailable), (.connectionBroken, .unavailable),
            (.timedOut(sent: true), .unavailable), (.timedOut(sent: false), .unavailable),
            (.invalidAnswer(.lifetime), .unavailable),
            (.unexpectedStatus(200), .unavailable), (.unreadableAnswer, .unavailable),
        ] as [(JanuaryFailure, BreakerReason)])
    func fifthFailureInARowFromThreeUsersOpens(failure: JanuaryFailure, reason: BreakerReason) {
        for user in ["a", "b", "c", "a"] { fail(failure, user) }
        #expect(admitted()?.isProbe == false)
        fail(failure, "a")
        #expect(reasons == [reason])
        #expect(heldBy() == .failing(reason, retryAfter: .seconds(1)))
        time.advance(by: .milliseconds(999))
        #expect(heldBy() == .failing(reason, retryAfter: .milliseconds(1)))
        time.advance(by: .milliseconds(1))
        #expect(admitted()?.isProbe == true)
        #expect(heldBy() == .failing(reason, retryAfter: .seconds(1)))
        time.advance(by: .seconds(1))
        #expect(admitted()?.isProbe == true)
    }

    @Test func twoUsersAloneNeverOpen() {
        for count in 0..<100 { fail(.connectionBroken, "u\(count % 2)") }
        #expect(admitted()?.isProbe == false)
        fail(.connectionBroken, "u2")
        #expect(reasons == [.unavailable])
    }

    @Test func successBetweenStartsTheCountAgain() {
        for user in ["a", "b", "c", "d"] { fail(.connectionBroken, user) }
        breaker.succeeded()
        for user in ["a", "b", "c", "d"] { fail(.connectionBroken, user) }
        #expect(reasons == [])
        fail(.connectionBroken, "a")
        #expect(reasons == [.unavailable])
    }

    @Test func answersThatAreNeitherDoNotBreakARow() {
        for user in ["a", "b", "c", "d"] { fail(.connectionBroken, user) }
        fail(.rejectedRequest(status: 400, .other), "x")
        fail(.cancelled, "y")
        fail(.connectionBroken, "a")
        #expect(reasons == [.unavailable])
    }

    @Test func lastFailureOfARowGivesTheReason() {
        for user in ["a", "b", "c", "d"] { fail(.connectionBroken, user) }
        fail(.unreachable(.refused), "a")
        #expect(reasons == [.unreachable])
        fail(.unavailable(status: 500, .other), "a")
        #expect(reasons == [.unavailable])
    }

    @Test(arguments: [true, false])
    func successOrAChangedKeyClosesAtOnce(byKey: Bool) {
        fail(.keyRejected)
        for user in ["a", "b", "c", "d", "e"] { fail(.connectionBroken, user) }
        #expect(reasons == [.key, .unavailable])
        if byKey { breaker.keyChanged() } else { breaker.succeeded() }
        #expect(reasons == [])
        #expect(admitted()?.isProbe == false)
        for user in ["a", "b", "c", "d"] { fail(.connectionBroken, user, admitted()) }
        #expect(admitted()?.isProbe == false)
    }

    @Test func answerToAnEarlierKeyOpensNothing() throws {
        let old = try #require(admitted())
        breaker.keyChanged()
        fail(.keyRejected, "u1", old)
        for user in ["a", "b", "c", "d", "e"] { fail(.connectionBroken, user, old) }
        #expect(reasons == [])
        fail(.keyRejected, "u1", admitted())
        #expect(reasons == [.key])
    }

    @Test func nothingIsSentUntilRetryAfterHasPassed() {
        fail(.rateLimited(retryAfter: .seconds(7)))
        #expect(reasons == [.rateLimited])
        #expect(heldBy() == .rateLimited(retryAfter: .seconds(7)))
        time.advance(by: .seconds(3))
        // A shorter one that comes later does not end the longer one.
        fail(.rateLimited(retryAfter: .seconds(1)))
        breaker.succeeded()
        breaker.keyChanged()
        #expect(heldBy() == .rateLimited(retryAfter: .seconds(4)))
        time.advance(by: .seconds(4) - .nanoseconds(1))
        #expect(heldBy() == .rateLimited(retryAfter: .nanoseconds(1)))
        time.advance(by: .nanoseconds(1))
        #expect(reasons == [])
        #expect(admitted()?.isProbe == false)
    }

    @Test func holdIsCappedAndZeroHoldsNothing() {
        fail(.rateLimited(retryAfter: .seconds(3600)))
        #expect(heldBy() == .rateLimited(retryAfter: .seconds(30)))
        time.advance(by: .seconds(30))
        fail(.rateLimited(retryAfter: .zero))
        #expect(admitted()?.isProbe == false)
    }

    @Test func rateLimitGoesBeforeAProbe() throws {
        fail(.keyRejected)
        time.advance(by: .seconds(5))
        let probe = try #require(admitted())
        fail(.rateLimited(retryAfter: .seconds(9)), "u1", probe)
        #expect(reasons == [.key, .rateLimited])
        time.advance(by: .seconds(5))
        #expect(heldBy() == .rateLimited(retryAfter: .seconds(4)))
        time.advance(by: .seconds(4))
        #expect(admitted()?.isProbe == true)
    }

    @Test func probeThatWasNeverSentIsGivenToTheNext() throws {
        fail(.keyRejected)
        time.advance(by: .seconds(5))
        let probe = try #require(admitted())
        time.advance(by: .milliseconds(10))
        fail(.cancelled, "u1", probe)
        let second = try #require(admitted())
        // The first one again is too late to give anything back.
        fail(.cancelled, "u1", probe)
        #expect(heldBy() == .keyRejected)
        #expect(second.isProbe)
    }

    @Test func whatWaitedForAConnectionIsAskedAgainBeforeItIsSent() throws {
        let early = try #require(admitted())
        #expect(breaker.objection(to: early, now: time.monotonic()) == nil)
        fail(.keyRejected)
        #expect(breaker.objection(to: early, now: time.monotonic()) == .keyRejected)
        time.advance(by: .seconds(5))
        let probe = try #require(admitted())
        #expect(breaker.objection(to: probe, now: time.monotonic()) == nil)
        #expect(breaker.objection(to: early, now: time.monotonic()) == .keyRejected)
        fail(.rateLimited(retryAfter: .seconds(2)))
        #expect(breaker.objection(to: probe, now: time.monotonic()) == .rateLimited(retryAfter: .seconds(2)))
        breaker.succeeded()
        time.advance(by: .seconds(2))
        #expect(breaker.objection(to: early, now: time.monotonic()) == nil)
    }

    @Test func manyThreadsLetOneProbeThrough() async {
        fail(.keyRejected)
        time.advance(by: .seconds(5))
        let now = time.monotonic()
        let breaker = breaker
        let probes = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    (0..<1_000).count { _ in
                        if case .send = breaker.admit(now: now) { true } else { false }
                    }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(probes == 1)
    }
}

/// The rules once more, read off the whole history each time.
private struct NaiveBreaker {
    enum Event {
        case success, keyChange
        case failure(JanuaryFailure.BreakerEffect, user: String, generation: Int, probe: MonotonicInstant?)
        case probe
    }

    var history: [(at: MonotonicInstant, event: Event)] = []

    var generation: Int {
        history.count { if case .keyChange = $0.event { true } else { false } }
    }

    private func opened(_ interval: Duration, _ isOpen: ([(user: String, effect: JanuaryFailure.BreakerEffect)]) -> Bool) -> (
        next: MonotonicInstant, last: JanuaryFailure.BreakerEffect
    )? {
        var failures: [(user: String, effect: JanuaryFailure.BreakerEffect)] = []
        var next: MonotonicInstant?
        var lastProbe: MonotonicInstant?
        var generation = 0
        for (at, event) in history {
            switch event {
            case .success: (failures, next, lastProbe) = ([], nil, nil)
            case .keyChange:
                (failures, next, lastProbe) = ([], nil, nil)
                generation += 1
            case .failure(.notAsked, _, _, let probe):
                if next != nil, let probe, probe == lastProbe {
                    next = at
                    lastProbe = nil
                }
            case .failure(let effect, let user, let of, _):
                if of == generation { failures.append((user, effect)) }
                if next == nil, isOpen(failures) { next = at + interval }
            case .probe:
                if next != nil { (next, lastProbe) = (at + interval, at) }
            }
        }
        guard let next else { return nil }
        return failures.last { isOpen([$0]) || isRun($0.effect) }.map { (next, $0.effect) }
    }

    private func isRun(_ effect: JanuaryFailure.BreakerEffect) -> Bool { if case .run = effect { true } else { false } }

    private func isAccount(_ effect: JanuaryFailure.BreakerEffect) -> Bool { if case .account = effect { true } else { false } }

    /// Whether a request at `now` goes out, and as what.
    func admits(_ now: MonotonicInstant) -> (sends: Bool, isProbe: Bool) {
        for (at, event) in history {
            if case .failure(.hold(let duration), _, _, _) = event, now < at + min(duration, .seconds(30)) {
                return (false, false)
            }
        }
        let account = opened(.seconds(5)) { $0.contains { isAccount($0.effect) } }
        let run = opened(.seconds(1)) { failures in
            let counted = failures.filter { isRun($0.effect) }
            return counted.count >= 5 && Set(counted.map(\.user)).count >= 3
        }
        if let account, now < account.next { return (false, false) }
        if let run, now < run.next { return (false, false) }
        return (true, account != nil || run != nil)
    }
}

@Suite struct BreakerModelTests {
    @Test(arguments: 0..<60)
    func randomHistoriesAgreeWithTheNaiveModel(seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let failures: [JanuaryFailure] = [
            .keyRejected, .forbidden(.forbidden), .forbidden(.other), .quotaExhausted(.creditLimitExceeded),
            .rejectedRequest(status: 400, .other), .unreachable(.refused), .connectionBroken, .connectionBroken,
            .timedOut(sent: true),
            .unavailable(status: 502, .other), .invalidAnswer(.endUser), .cancelled, .tooLate,
        ]
        var machine = BreakerMachine()
        var naive = NaiveBreaker()
        var now = MonotonicInstant(nanoseconds: 1_000_000_000_000)
        var tickets: [BreakerTicket] = []
        for step in 0..<150 {
            now = now + .milliseconds(Int.random(in: 1...900, using: &random)) + .nanoseconds(step)
            switch Int.random(in: 0..<20, using: &random) {
            case 0 where Bool.random(using: &random):
                machine.succeeded()
                naive.history.append((now, .success))
            case 1 where Bool.random(using: &random):
                machine.keyChanged()
                naive.history.append((now, .keyChange))
            case 2..<11:
                guard let ticket = tickets.randomElement(using: &random) else { continue }
                var failure = failures.randomElement(using: &random) ?? .cancelled
                // Account-wide answers seldom, so that rows get a chance.
                if case .account = failure.breakerEffect, Int.random(in: 0..<4, using: &random) > 0 {
                    failure = .connectionBroken
                }
                if Int.random(in: 0..<25, using: &random) == 0 { failure = .rateLimited(retryAfter: .milliseconds(1_700)) }
                let user = "u\(Int.random(in: 0..<4, using: &random))"
                machine.failed(ticket, failure, endUserID: user, now: now)
                naive.history.append(
                    (now, .failure(failure.breakerEffect, user: user, generation: ticket.generation, probe: ticket.probedAt)))
            default:
                let expected = naive.admits(now)
                switch machine.admit(now: now) {
                case .held: #expect(!expected.sends, "seed \(seed), step \(step)")
                case .send(let ticket):
                    #expect(expected.sends && expected.isProbe == ticket.isProbe, "seed \(seed), step \(step)")
                    #expect(ticket.generation == naive.generation)
                    tickets.append(ticket)
                    if ticket.isProbe { naive.history.append((now, .probe)) }
                }
            }
        }
    }
}
