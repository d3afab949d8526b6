import January
import Primitives

/// The steps of a mint that have to do with load: what cannot be answered inside the budget is refused at once.
extension MintHandler {
    /// Where a mint is, as ``MintLoad`` counts it.
    enum Place {
        case outside
        case waiting(isInLine: Bool)
        case sent(at: MonotonicInstant)
    }

    /// Asked before the limits, so that whoever is turned away for load has used up nothing of what is theirs.
    func refuseWhatCannotBeServed() -> Progress {
        if loop.shared.mintsInFlight.isFull { return shed("max_in_flight") }
        if loop.shared.load.decide(deadline: deadline, now: loop.loop.now) == .refuse { return shed("no_time_left") }
        return .next
    }

    func enterLoad() -> Bool {
        switch loop.shared.load.enter(deadline: deadline, now: loop.loop.now) {
        case .refuse: return false
        case .send: place = .waiting(isInLine: false)
        case .wait: place = .waiting(isInLine: true)
        }
        return true
    }

    /// Right before the first byte. False: its turn came too late.
    func sendInTime() -> Bool {
        switch place {
        case .outside: return false
        // With the other key: the same mint goes on.
        case .sent: return true
        case .waiting(let isInLine):
            let now = loop.loop.now
            guard loop.shared.load.send(hasWaited: isInLine, deadline: deadline, now: now) else {
                cameTooLate = true
                return false
            }
            place = .sent(at: now)
            return true
        }
    }

    /// - Parameter answer: `nil`: January was not asked.
    func leaveLoad(_ answer: MintOutcome?) {
        switch place {
        case .outside: break
        case .waiting: loop.shared.load.leave()
        case .sent(let sentAt):
            loop.shared.load.end(sentAt: sentAt, now: loop.loop.now, answer?.end ?? .broken)
        }
        place = .outside
    }

    /// 503 `overloaded`, with a time to come back that differs from caller to caller.
    func shed(_ reason: String) -> Progress {
        loop.shared.metrics.overloaded.add()
        return .refused(
            Problem(.overloaded, reason: reason, retryAfter: loop.shared.load.retryAfter(now: loop.loop.now)))
    }
}

extension MintOutcome {
    /// What its end says about how long January takes.
    fileprivate var end: LoadMachine.End {
        switch (second ?? first)?.error {
        case nil: .answered
        case .timedOut(sent: true): .givenUp
        case .timedOut(sent: false), .notSent, .broken: .broken
        }
    }
}
