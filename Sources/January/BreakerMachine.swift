import Primitives

/// Why mints are held back; one gauge each.
package enum BreakerReason: String, Sendable, CaseIterable {
    case key, forbidden, quota, unreachable, unavailable
    case rateLimited = "rate_limited"
}

/// Leave to send one request.
package struct BreakerTicket: Sendable, Equatable {
    /// Of the keys: an answer to an earlier key says nothing about the present one.
    let generation: Int
    /// When it was let through although the breaker is open; `nil` where it was closed.
    let probedAt: MonotonicInstant?

    package var isProbe: Bool { probedAt != nil }
}

package enum BreakerAdmission: Sendable, Equatable {
    case send(BreakerTicket)
    /// Everybody who is not a probe gets this, at once.
    case held(JanuaryFailure)
}

/// When January is left alone. Pure: events and the time in, a decision out. Three regions that do not depend on each other; a request
/// goes out when none of them holds it.
///
/// * account: answers that are the same for everybody (401, 403 of the account, spent quota). One probe every 5 s.
/// * run: failures in a row. Open after 5 with no success between, from at least 3 end users, so that one person's bad luck or one
///   person's bad requests stop nobody else. One probe a second.
/// * hold: after a 429 nothing at all until its time has passed.
///
/// A success closes account and run, and so does a changed key. Probes are counted in time and never waited for: one that gets lost
/// costs its interval and wedges nothing.
struct BreakerMachine: Sendable {
    static let accountProbeInterval = Duration.seconds(5)
    static let runProbeInterval = Duration.seconds(1)
    static let runLength = 5
    static let runUsers = 3

    private struct Account {
        var reason: BreakerReason
        var failure: JanuaryFailure
        var nextProbe: MonotonicInstant
    }

    private struct Run {
        var count = 0
        /// Distinct, at most `runUsers`.
        var users: [String] = []
        var reason = BreakerReason.unavailable
        /// `nil` while the run is too short to open.
        var nextProbe: MonotonicInstant?
    }

    private var account: Account?
    private var run = Run()
    private var holdUntil: MonotonicInstant?
    private(set) var generation = 0

    /// Something holds requests back, or may (a hold that has passed counts until somebody looks).
    var isOpen: Bool { account != nil || run.nextProbe != nil || holdUntil != nil }
    /// A success would change nothing.
    var isPristine: Bool { !isOpen && run.count == 0 }

    mutating func admit(now: MonotonicInstant) -> BreakerAdmission {
        if let failure = held(now: now) { return .held(failure) }
        guard account != nil || run.nextProbe != nil else { return .send(BreakerTicket(generation: generation, probedAt: nil)) }
        if account != nil { account?.nextProbe = now + Self.accountProbeInterval }
        if run.nextProbe != nil { run.nextProbe = now + Self.runProbeInterval }
        return .send(BreakerTicket(generation: generation, probedAt: now))
    }

    /// Asked again right before the first byte: what was let through may have waited for a connection since. `nil` is yes.
    mutating func objection(to ticket: BreakerTicket, now: MonotonicInstant) -> JanuaryFailure? {
        if let failure = rateLimited(now: now) { return failure }
        if ticket.isProbe { return nil }
        if let account { return account.failure }
        return run.nextProbe.map { .failing(run.reason, retryAfter: max(.zero, $0 - now)) }
    }

    private mutating func held(now: MonotonicInstant) -> JanuaryFailure? {
        if let failure = rateLimited(now: now) { return failure }
        if let account, now < account.nextProbe { return account.failure }
        if let probe = run.nextProbe, now < probe { return .failing(run.reason, retryAfter: probe - now) }
        return nil
    }

    private mutating func rateLimited(now: MonotonicInstant) -> JanuaryFailure? {
        guard let until = holdUntil else { return nil }
        if now < until { return .rateLimited(retryAfter: until - now) }
        holdUntil = nil
        return nil
    }

    mutating func succeeded() {
        account = nil
        run = Run()
    }

    mutating func keyChanged() {
        generation += 1
        succeeded()
    }

    mutating func failed(_ ticket: BreakerTicket, _ failure: JanuaryFailure, endUserID: String, now: MonotonicInstant) {
        switch failure.breakerEffect {
        case .hold(let duration): hold(for: duration, now: now)
        case .account(let reason):
            guard ticket.generation == generation else { return }
            account = Account(
                reason: reason, failure: failure, nextProbe: account?.nextProbe ?? now + Self.accountProbeInterval)
        case .run(let reason):
            guard ticket.generation == generation else { return }
            run.count += 1
            run.reason = reason
            if run.users.count < Self.runUsers, !run.users.contains(where: { $0.utf8.elementsEqual(endUserID.utf8) }) {
                run.users.append(endUserID)
            }
            if run.nextProbe == nil, run.count >= Self.runLength, run.users.count >= Self.runUsers {
                run.nextProbe = now + Self.runProbeInterval
            }
        case .notAsked:
            // January was not asked, so the next one may ask.
            guard let probedAt = ticket.probedAt else { return }
            if account?.nextProbe == probedAt + Self.accountProbeInterval { account?.nextProbe = now }
            if run.nextProbe == probedAt + Self.runProbeInterval { run.nextProbe = now }
        case .none: break
        }
    }

    /// January wants nothing for so long: what it answered here, or to another replica.
    mutating func hold(for duration: Duration, now: MonotonicInstant) {
        let until = now + min(duration, RetryAfter.cap)
        holdUntil = max(holdUntil ?? until, until)
    }

    /// For the gauges.
    func openReasons(now: MonotonicInstant) -> [BreakerReason] {
        var reasons: [BreakerReason] = []
        if let account { reasons.append(account.reason) }
        if run.nextProbe != nil { reasons.append(run.reason) }
        if let holdUntil, now < holdUntil { reasons.append(.rateLimited) }
        return reasons
    }
}

extension JanuaryFailure {
    enum BreakerEffect: Equatable {
        case account(BreakerReason)
        case run(BreakerReason)
        case hold(Duration)
        /// Nothing went to January.
        case notAsked
        /// This request's own affair.
        case none
    }

    var breakerEffect: BreakerEffect {
        switch self {
        case .keyRejected: .account(.key)
        case .forbidden(.forbidden), .forbidden(.clientTokenNotAllowed): .account(.forbidden)
        case .quotaExhausted: .account(.quota)
        case .unreachable: .run(.unreachable)
        case .unavailable(let status, _): status >= 500 ? .run(.unavailable) : .none
        case .connectionBroken, .timedOut, .invalidAnswer, .unexpectedStatus, .unreadableAnswer: .run(.unavailable)
        case .rateLimited(let duration): .hold(duration)
        case .tooLate, .overloaded, .cancelled, .failing: .notAsked
        case .forbidden, .rejectedRequest: .none
        }
    }
}
