import Primitives

/// What is known about the mints of one end user that were let through before the fence.
package struct OlderMints: Sendable, Hashable {
    /// Some await January's answer.
    package var areAwaiting: Bool
    /// Some were sent and will never get an answer, or may have been (a process that died): January may still commit them.
    package var areUnanswered: Bool

    package init(areAwaiting: Bool = false, areUnanswered: Bool = false) {
        self.areAwaiting = areAwaiting
        self.areUnanswered = areUnanswered
    }
}

/// What has to be done for one revocation until its promise holds. Pure: one owner, events and the time in, one step out.
///
/// A call to January that reports 0 proves that no token of the user was alive when January handled it. What counts is therefore only
/// what was true when the **proving call was sent**: that the last request had joined, that no older mint awaited its answer, that
/// none could still be committed.
package struct SweepMachine: Sendable, Hashable {
    package enum Step: Sendable, Hashable {
        /// Call January's revocation, and say `callBegins` first.
        case call
        /// Nothing can be proven before older mints have their answers.
        case awaitMints
        /// Keep the record and come back.
        case rest(until: WallInstant)
        /// January reports tokens call after call: others have their turn, and this one comes back as after a call that failed.
        case giveWay
        /// All is proven. `isLate`: by a sweep after `lateAt`.
        case complete(isLate: Bool)
    }

    /// What was true when a call was sent.
    private struct Proof: Sendable, Hashable {
        let generation: Int
        let mints: OlderMints
        let isLate: Bool
    }

    private enum State: Sendable, Hashable {
        case ready
        case calling(Proof)
    }

    package private(set) var record: RevocationRecord
    /// Since the record was last kept.
    package private(set) var revokedCount = 0
    private var state = State.ready
    private var proof: Proof?
    /// Calls in a row that revoked something: somebody mints elsewhere with the same account, or January counts wrongly.
    private var run = 0

    /// 20 times 500 tokens, more than one person's app ever has; then others have their turn.
    package static let maxRun = 20

    package init(_ record: RevocationRecord) { self.record = record }

    package var isCalling: Bool { state != .ready }

    /// - Parameter mints: as they are at this moment.
    package func step(mints: OlderMints, now: WallInstant) -> Step {
        guard state == .ready else { return .awaitMints }
        let isDue = now >= record.lateAt
        switch record.phase {
        case .over: return .complete(isLate: true)
        case .late:
            // Lifted while a sweep was under way: that is over now.
            if record.lifts || proof?.isLate == true { return .complete(isLate: true) }
            return isDue ? .call : .rest(until: record.lateAt)
        case .pending:
            if run >= Self.maxRun { return .giveWay }
            guard let proof, proof.generation == record.generation else { return .call }
            if proof.isLate { return .complete(isLate: true) }
            if proof.mints.areAwaiting { return mints.areAwaiting && !isDue ? .awaitMints : .call }
            // For `user` nothing is minted any more: it can be told now, and swept once more later.
            if record.block == .user || !proof.mints.areUnanswered { return .complete(isLate: false) }
            return isDue ? .call : .rest(until: record.lateAt)
        }
    }

    package mutating func callBegins(mints: OlderMints, now: WallInstant) {
        state = .calling(Proof(generation: record.generation, mints: mints, isLate: now >= record.lateAt))
    }

    /// January revoked `count` tokens.
    package mutating func answered(count: Int) {
        guard case .calling(let sent) = state else { return }
        state = .ready
        revokedCount += count
        if count == 0 {
            proof = sent
            run = 0
        } else {
            run += 1
        }
    }

    /// Whether it was sent or not: nothing is proven by it.
    package mutating func failed() { state = .ready }

    /// The record has changed in the state: a request has joined, or the fence is to be lifted.
    package mutating func changed(_ record: RevocationRecord) { self.record = record }

    /// The counts are kept from here on.
    package mutating func kept(_ record: RevocationRecord) {
        self.record = record
        revokedCount = 0
        run = 0
    }
}
