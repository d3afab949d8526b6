import Primitives

/// What can still be answered in time. Pure: events and the time in, a decision out; no clock, no lock, no connection.
///
/// A mint enters, waits until one of the connections to January is free, is sent, and ends. What is measured is how long January takes: a
/// running mean and mean deviation over what was sent and ended, taken together as TCP does for its time-out (RFC 6298 section 2). From these, the number
/// of connections and the number of those in front follows when a mint that enters now would be answered.
///
/// | Situation | Decision |
/// | --- | --- |
/// | a connection is free, or may be opened | send: somebody has to measure, and a January that does not answer is the breaker's affair |
/// | every connection is taken, and what is in front plus the mint itself fits into what is left of the budget | wait |
/// | it does not fit | refuse |
///
/// Two things make the estimate careful. Answers may come all at once, so whoever waits is taken to wait for whole rounds of all
/// connections. And while nothing ends, the time since the last end is the least that January takes now: a January that hangs is noticed
/// as it hangs, not when the budget is over.
package struct LoadMachine: Sendable {
    package enum Decision: Sendable, Equatable {
        case send
        /// Behind others, for so long by what is known.
        case wait(Duration)
        case refuse
    }

    package enum End: Sendable {
        /// Whatever the answer.
        case answered
        /// The budget was over: January takes so long or longer.
        case givenUp
        /// The connection broke, which says nothing about how long January takes.
        case broken
    }

    /// Before anything was measured January is taken to need so much of the budget: then one mint may wait for each connection.
    static let unmeasuredShare: Int64 = 3
    static let unmeasuredOf: Int64 = 8
    /// So long after the last end, with nobody under way, what was measured says nothing any more: the next measurement counts alone.
    static let staleAfter: Int64 = 1_000_000_000
    /// With fewer measurements nobody who has waited is turned away at the last moment.
    static let enoughMeasurements = 8
    /// No mint is sent with less than this left.
    static let leastToSend = JanuaryClient.minimumToSend.wholeNanoseconds
    /// Seconds. `Retry-After` of a refused mint is at most so long,
    static let longestWait: Int64 = 30
    /// and differs by so many values even if a few were refused.
    static let scatter: Int64 = 3
    /// For so many that are told to come back there is room for so many.
    static let booked: Int64 = 5
    static let bookedOf: Int64 = 4
    private static let second: Int64 = 1_000_000_000
    private static let longest: Int64 = 600 * second

    /// Mints that have entered and were not sent yet.
    package private(set) var waiting = 0
    /// Mints that were sent and have not ended.
    package private(set) var serving = 0
    private(set) var measurements = 0
    private var connections: Int64
    private var budget: Int64
    /// Nanoseconds.
    private var mean: Int64 = 0
    private var deviation: Int64 = 0
    /// The last end; while something is under way, when it began to be if that was later.
    private var quietSince: Int64 = 0
    private var lastEnd: Int64 = .min
    /// Nobody was under way for a while: the next measurement replaces what is known.
    private var isStale = false
    /// How many were refused and would not have had their turn yet, one after the other; as of `refusedAsOf`. Counted in mints and not in
    /// seconds: when January is quick again after a while of being slow, they are no longer in the way.
    private var refused: Int64 = 0
    private var refusedAsOf: Int64 = 0

    package init(connections: Int, budget: Duration) {
        self.connections = Int64(max(1, connections))
        self.budget = max(1, budget.wholeNanoseconds)
    }

    /// For a reload.
    package mutating func setBounds(connections: Int, budget: Duration) {
        self.connections = Int64(max(1, connections))
        self.budget = max(1, budget.wholeNanoseconds)
    }

    // MARK: Events

    /// What ``enter(left:now:)`` would say. Changes nothing.
    ///
    /// - Parameter left: of the mint's budget.
    package func decide(left: Duration, now: MonotonicInstant) -> Decision {
        // Those before us, less those who have a connection or will get one of the free ones.
        let inFront = Int64(waiting + serving) - connections
        if inFront < 0 { return .send }
        let round = takes(now: now.nanoseconds)
        let wait = (inFront / connections + 1) * round
        let itself = max(Self.leastToSend, measurements == 0 ? round : min(mean + 4 * deviation, Self.longest))
        return wait + itself <= left.wholeNanoseconds ? .wait(.nanoseconds(wait)) : .refuse
    }

    /// A mint that is not refused has entered: then exactly one of ``leave()`` and ``send(now:)`` must follow.
    package mutating func enter(left: Duration, now: MonotonicInstant) -> Decision {
        let decision = decide(left: left, now: now)
        if decision != .refuse { waiting += 1 }
        return decision
    }

    /// It was not sent.
    package mutating func leave() {
        guard waiting > 0 else { return }
        waiting -= 1
    }

    /// Asked right before ``send(now:)`` for who had to wait. False: January takes longer than is left, as was just seen; it would be minted for
    /// nobody.
    package func isWorthSending(left: Duration, now: MonotonicInstant) -> Bool {
        guard measurements >= Self.enoughMeasurements, !isStale, lastEnd + Self.staleAfter > now.nanoseconds else { return true }
        return mean + deviation <= left.wholeNanoseconds
    }

    /// The first byte goes out. ``end(sentAt:now:_:)`` must follow.
    package mutating func send(now: MonotonicInstant) {
        guard waiting > 0 else { return }
        waiting -= 1
        if serving == 0 {
            if measurements > 0, lastEnd + Self.staleAfter <= now.nanoseconds { isStale = true }
            quietSince = max(quietSince, now.nanoseconds)
        }
        serving += 1
    }

    package mutating func end(sentAt: MonotonicInstant, now: MonotonicInstant, _ end: End = .answered) {
        guard serving > 0 else { return }
        serving -= 1
        quietSince = max(quietSince, now.nanoseconds)
        lastEnd = max(lastEnd, now.nanoseconds)
        // Loops read their clocks one after the other.
        let took = min(max(0, now.nanoseconds - sentAt.nanoseconds), Self.longest)
        switch end {
        case .answered: break
        case .givenUp: if took <= mean { return }
        case .broken: return
        }
        if measurements == 0 || isStale {
            mean = took
            deviation = 0
            measurements = 1
            isStale = false
        } else {
            // Rounded so that it ends at nothing where nothing deviates.
            let quick = min(weight, 8)
            deviation += abs(took - mean) / quick - (deviation + quick - 1) / quick
            mean += (took - mean) / weight
            measurements += 1
        }
    }

    /// Seconds after which a mint that was refused may come back: when it would have its turn if all who were refused came one after the
    /// other, a quarter faster than they can be served, give or take. So many come back as fast as they can be served and a few not in one
    /// instant. The quarter is for those who come later than they were told, because their own schedule says so: without it January is
    /// idle now and then while thousands wait. Farther ahead than `longestWait` they are spread over its later half.
    ///
    /// - Parameter random: any number, a new one each time.
    package mutating func retryAfter(now: MonotonicInstant, random: UInt64) -> Int {
        let each = max(1, takes(now: now.nanoseconds) / connections * Self.bookedOf / Self.booked)
        let turns = max(0, now.nanoseconds - refusedAsOf) / each
        if turns < refused {
            refused -= turns
            refusedAsOf += turns * each
        } else {
            refused = 0
            refusedAsOf = now.nanoseconds
        }
        refused = min(refused + 1, max(1, Self.longestWait * Self.second / each))
        let turn = (refused * each + Self.second - 1) / Self.second
        let half = Self.longestWait / 2
        return turn < Self.longestWait
            ? Int(min(turn + Int64(random % UInt64(Self.scatter)), Self.longestWait))
            : Int(half + Int64(random % UInt64(half + 1)))
    }

    // MARK: What is known

    /// A new measurement counts for one of so many: as many as come in one round, so that a change is seen within a round or two whatever the
    /// number of connections, and bad luck of a few is not taken for one.
    private var weight: Int64 { min(max(connections, 4), 32) }

    /// How long January takes; `nil` before it was measured.
    package var serviceTime: Duration? { measurements == 0 ? nil : .nanoseconds(mean) }

    private var unmeasured: Int64 { budget / Self.unmeasuredOf * Self.unmeasuredShare }

    /// The mean, or the time in which nothing has ended although every connection is taken.
    private func takes(now: Int64) -> Int64 {
        let quiet = serving > 0 ? max(0, now - quietSince) : 0
        return min(max(measurements == 0 ? unmeasured : mean, quiet), Self.longest)
    }
}
