import January
import Primitives

/// The steps of a mint that have to do with load: what cannot be answered inside the budget is refused at once.
extension MintHandler {
    /// Where a mint is, as ``MintLoad`` counts it.
    enum Place {
        case outside
        case waiting
        case sent(at: MonotonicInstant)
    }

    /// Asked before the limits, so that whoever is turned away for load has used up nothing of what is theirs.
    func refuseWhatCannotBeServed() -> Progress {
        if loop.shared.mintsInFlight.isFull { return shed("max_in_flight") }
        if loop.shared.load.decide(deadline: deadline, now: loop.loop.now) == .refuse { return shed("no_time_left") }
        return .next
    }

    func enterLoad() -> Bool {
        guard loop.shared.load.enter(deadline: deadline, now: loop.loop.now) != .refuse else { return false }
        place = .waiting
        return true
    }

    /// Right before the first byte. False: its turn came too late.
    func sendInTime() -> Bool {
        switch place {
        case .outside: return false
        // With the other key: the same mint goes on.
        case .sent: return true
        case .waiting:
            let now = loop.loop.now
            guard loop.shared.load.send(deadline: deadline, now: now) else {
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
            loop.shared.load.end(sentAt: sentAt, now: loop.loop.now, isMeasurement: answer?.tookItsTime ?? false)
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
    /// Its end says how long January takes: there was an answer, or none until the budget was over.
    fileprivate var tookItsTime: Bool {
        switch (second ?? first)?.error {
        case nil, .timedOut(sent: true): true
        case .timedOut(sent: false), .notSent, .broken: false
        }
    }
}
