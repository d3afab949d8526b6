import Primitives

/// Both times a change of the state needs.
package struct StateTime: Sendable, Hashable {
    /// For what people read, and for comparing with the beginning of sessions. May jump.
    package var wall: WallInstant
    /// For what is to be done when: the wall clock as it was when the process started, carried on by the monotonic one. A step of the wall
    /// clock moves no sweep; a restart takes the wall clock up again.
    package var steady: WallInstant

    package init(wall: WallInstant, steady: WallInstant) {
        self.wall = wall
        self.steady = steady
    }
}

/// One revocation as it is kept. Pure data; ``UserState`` has the rules.
package struct RevocationRecord: Sendable, Hashable {
    package enum Phase: UInt8, Sendable {
        /// Nothing has been promised as done yet.
        case pending = 0
        /// Complete; one more sweep is to come at `lateAt`, for tokens whose answer never reached us.
        case late = 1
        case over = 2
    }

    package var id: RevocationID
    package var key: EndUserKey
    /// January's ID, as long as there is something to ask January.
    package var endUserID: String?
    package var phase: Phase
    package var block: RevocationBlock
    package var requestedAt: WallInstant
    /// The latest request that joined; sweeps that began before it do not count.
    package var fencedAt: WallInstant
    /// Rises with every request that joins.
    package var generation: Int
    package var completedAt: WallInstant?
    package var revokedCount = 0
    /// Calls to January that failed, or never came to an end.
    package var attempts = 0
    package var lastError: String?
    /// The fence goes when the work is complete.
    package var lifts = false
    /// The late sweep, ``lateDelay`` after the latest request. On ``StateTime/steady``, as `nextAt`.
    package var lateAt: WallInstant
    /// Not worked on before.
    package var nextAt: WallInstant

    package init(
        id: RevocationID, key: EndUserKey, endUserID: String?, phase: Phase = .pending, block: RevocationBlock,
        requestedAt: WallInstant, fencedAt: WallInstant, generation: Int = 1, lateAt: WallInstant, nextAt: WallInstant
    ) {
        self.id = id
        self.key = key
        self.endUserID = endUserID
        self.phase = phase
        self.block = block
        self.requestedAt = requestedAt
        self.fencedAt = fencedAt
        self.generation = generation
        self.lateAt = lateAt
        self.nextAt = nextAt
    }

    /// So long after a fence January may still commit a mint whose answer never came.
    package static let lateDelay = Duration.seconds(75)

    package func status(scope: FenceScope, showing endUserID: String? = nil) -> RevocationStatus {
        RevocationStatus(
            id: id.text, endUserID: endUserID ?? (phase == .pending ? self.endUserID : nil) ?? key.text,
            isComplete: phase != .pending, revokedCount: revokedCount, block: block, fenceScope: scope, requestedAt: requestedAt,
            completedAt: completedAt, attempts: attempts, lastError: lastError, refusesUnknownSessions: block == .sessions,
            liftsWhenComplete: lifts)
    }
}

/// All that is kept of one end user, changed as one: the fence and the work that is not over. The rules of revoking, joining, completing and
/// lifting are the methods here, and nowhere else; a store applies one of them and makes the result durable, or nothing.
package struct UserState: Sendable, Hashable {
    package var fence: Fence?
    /// Pending or late; never over.
    package var work: RevocationRecord?
    /// What came to its end with this change, to be kept without the ID.
    package var ended: [RevocationRecord] = []

    package init(fence: Fence? = nil, work: RevocationRecord? = nil) {
        self.fence = fence
        self.work = work
    }

    package var isPending: Bool { work?.phase == .pending }

    package func decide(sessionStartedAt startedAt: Double?) -> FenceDecision {
        Fence.decide(fence, isPending: isPending, sessionStartedAt: startedAt)
    }

    /// A revocation is asked for. A repeat joins what is pending: the stricter block, the later time, the same ID.
    ///
    /// - Parameters:
    ///   - newID: used when there is nothing to join.
    ///   - now: a wall clock that has stepped back never makes a fence older.
    package mutating func revoke(
        _ key: EndUserKey, endUserID: String, block requested: RevocationBlock, newID: RevocationID, now time: StateTime
    ) {
        let now = time.wall
        let lateAt = time.steady + RevocationRecord.lateDelay
        // Only a lift weakens a block.
        let block = max(requested, fence?.block ?? .none)
        if var work, work.phase == .pending {
            // A sweep for the one that joins begins at once. What January has refused meanwhile keeps its pause.
            if work.lastError == nil || work.nextAt == work.lateAt { work.nextAt = min(work.nextAt, time.steady) }
            work.block = max(work.block, block)
            work.fencedAt = max(work.fencedAt, now)
            work.lateAt = max(work.lateAt, lateAt)
            work.generation += 1
            // Asked for after the lift: it is wanted again.
            if requested != .none { work.lifts = false }
            if work.block != .none { fence = Fence(block: work.block, since: max(fence?.since ?? now, work.fencedAt)) }
            self.work = work
            return
        }
        // A late sweep that is still to come is taken over: this one's will be later and do what it would have done. There is one,
        // because it comes with a block `user`, which is still there.
        end()
        if requested != .none { fence = Fence(block: block, since: max(fence?.since ?? now, now)) }
        work = RevocationRecord(
            id: newID, key: key, endUserID: endUserID, block: block, requestedAt: now, fencedAt: now, lateAt: lateAt,
            nextAt: time.steady)
    }

    /// - Returns: whether the fence is gone now; if not, it goes when the work is complete.
    /// - Parameter isSweeping: a call to January may be under way, which must not meet tokens minted after the lift.
    @discardableResult
    package mutating func lift(isSweeping: Bool) -> Bool {
        guard let work, work.phase == .pending || isSweeping else {
            end()
            fence = nil
            return true
        }
        self.work?.lifts = true
        return false
    }

    /// Everything the 200 promises has been done for this generation.
    ///
    /// - Parameter isLate: the sweep that proves it began after `lateAt`, so that none is left to do.
    /// - Returns: false when a request has joined meanwhile: nothing is changed.
    @discardableResult
    package mutating func complete(generation: Int, revokedCount: Int, isLate: Bool, now: WallInstant) -> Bool {
        guard var work, work.generation == generation else { return false }
        work.revokedCount += revokedCount
        if work.phase == .pending {
            work.completedAt = now
            work.lastError = nil
        }
        if work.lifts { fence = nil }
        let needsLate = work.block == .user && !work.lifts && !isLate
        work.phase = .late
        work.nextAt = work.lateAt
        self.work = work
        if !needsLate { end() }
        return true
    }

    /// The work rests; what was found out meanwhile is kept.
    package mutating func rest(revokedCount: Int, failure: String?, until next: WallInstant) {
        guard work != nil else { return }
        work?.revokedCount += revokedCount
        if let failure {
            work?.attempts += 1
            work?.lastError = failure
        }
        work?.nextAt = next
    }

    private mutating func end() {
        guard var work else { return }
        work.phase = .over
        work.endUserID = nil
        ended.append(work)
        self.work = nil
    }
}
