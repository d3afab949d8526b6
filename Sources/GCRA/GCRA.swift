/// The generic cell rate algorithm (ITU-T I.371, virtual scheduling): the arithmetic of a limit, and nothing else. No clock, no table,
/// no lock, no allocation.
///
/// Shapes: a ``GCRARule`` is what a limit allows, a ``GCRACell`` is what one key has used of it: one number, its theoretical arrival.
/// Units: integer nanoseconds of a clock that never jumps. Errors: none; everything saturates. A cell whose theoretical arrival has
/// passed says nothing and may be forgotten.
package struct GCRARule: Sendable, Hashable {
    /// 1/day … 1,000,000/s, as requests per period.
    package static let requestRange = 1...1_000_000
    package static let burstRange = 1...1_000_000
    package static let maxRequestsPerSecond = 1_000_000
    package static let maxPeriodPerRequest: Int64 = 86_400_000_000_000
    /// A burst worth more than 73 years of its rate counts as 73 years, so that no sum of two times can overflow.
    package static let maxTolerance: Int64 = 1 << 61
    /// How far penalties may push a cell beyond its burst, in requests.
    package static let maxPenalty = 2

    package let requests: Int
    /// Nanoseconds in which so many `requests` are emitted.
    package let period: Int64
    /// Requests admitted back to back.
    package let burst: Int
    /// Nanoseconds between two requests at the full rate, rounded up: never faster than configured, slower by less than a nanosecond.
    package let emissionInterval: Int64
    /// How far the theoretical arrival may lie ahead: `burst` emission intervals.
    package let tolerance: Int64

    /// Values outside the ranges above are moved to their nearest end.
    package init(requests: Int, periodNanoseconds: Int64, burst: Int) {
        self.requests = min(max(requests, Self.requestRange.lowerBound), Self.requestRange.upperBound)
        period = max(periodNanoseconds, 1)
        self.burst = min(max(burst, Self.burstRange.lowerBound), Self.burstRange.upperBound)
        let (quotient, remainder) = period.quotientAndRemainder(dividingBy: Int64(self.requests))
        let shortest = 1_000_000_000 / Int64(Self.maxRequestsPerSecond)
        emissionInterval = min(max(quotient + (remainder > 0 ? 1 : 0), shortest), Self.maxPeriodPerRequest)
        let (product, overflow) = emissionInterval.multipliedReportingOverflow(by: Int64(self.burst))
        tolerance = overflow ? Self.maxTolerance : min(product, Self.maxTolerance)
    }

    /// Nanoseconds that `cost` requests take, at most ``maxTolerance``.
    @inlinable
    package func increment(of cost: Int) -> Int64 {
        if cost == 1 { return emissionInterval }
        let (product, overflow) = emissionInterval.multipliedReportingOverflow(by: Int64(max(cost, 0)))
        return overflow ? Self.maxTolerance : min(product, Self.maxTolerance)
    }
}

/// What one key has used of a limit.
package struct GCRACell: Sendable, Hashable {
    package enum Decision: Sendable, Hashable {
        case allowed
        /// Nanoseconds, 1 or more: then the same request is allowed, unless the cell is charged meanwhile; one nanosecond sooner it is not.
        case limited(retryAfter: Int64)
    }

    /// When the next request would come at the full rate; not after now: nothing is used.
    package var theoreticalArrival: Int64

    /// A cell nothing was charged to.
    @inlinable
    package init(theoreticalArrival: Int64 = 0) { self.theoreticalArrival = theoreticalArrival }

    @inlinable
    package func isIdle(now: Int64) -> Bool { theoreticalArrival <= now }

    /// Never before now, and never farther ahead than the rule can bring it: a limit that was made smaller does not keep anybody waiting
    /// for the old one.
    @inlinable
    func start(now: Int64, rule: GCRARule) -> Int64 {
        min(max(theoreticalArrival, now), now + rule.tolerance + rule.increment(of: GCRARule.maxPenalty))
    }

    /// Charges `cost` requests, or refuses them and leaves the cell as it is; only what lies farther ahead than the rule can bring it is
    /// taken back to there, so that the wait that was told is over once.
    ///
    /// - Parameters:
    ///   - cost: requests, 1 or more. More than the burst are never allowed.
    ///   - now: nanoseconds of a clock that never jumps, below 2^61. Loops may differ by their own delays.
    /// - Complexity: O(1), no allocation.
    @inlinable
    package mutating func charge(cost: Int = 1, now: Int64, rule: GCRARule) -> Decision {
        let start = start(now: now, rule: rule)
        let arrival = start + rule.increment(of: cost)
        let wait = arrival - rule.tolerance - now
        if wait > 0 {
            theoreticalArrival = min(theoreticalArrival, start)
            return .limited(retryAfter: wait)
        }
        theoreticalArrival = arrival
        return .allowed
    }

    /// Charges without asking, at most ``GCRARule/maxPenalty`` requests beyond the burst.
    @inlinable
    package mutating func penalize(cost: Int, now: Int64, rule: GCRARule) {
        let arrival = start(now: now, rule: rule) + rule.increment(of: cost)
        theoreticalArrival = min(arrival, now + rule.tolerance + rule.increment(of: GCRARule.maxPenalty))
    }

    /// Requests that would be allowed back to back now.
    package func remaining(now: Int64, rule: GCRARule) -> Int {
        let room = now + rule.tolerance - start(now: now, rule: rule)
        return max(0, Int(room / rule.emissionInterval))
    }
}
