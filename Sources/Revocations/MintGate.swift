import Primitives
import Telemetry

/// What a mint passes before it is sent and after it was answered. Any thread.
///
/// The order is what counts: a mint is in ``MintsInFlight`` before it looks for a fence, and a revocation looks for mints after its fence is in
/// ``FenceTable``; so either the mint sees the fence or the revocation sees the mint.
package final class MintGate: Sendable {
    /// So long a mint that got no answer may still be committed at January.
    package static let unansweredFor = RevocationRecord.lateDelay

    package struct Ticket: Sendable {
        package let entry: MintsInFlight.Entry
        /// What the table was when nothing was found in it; unchanged, nothing is there now.
        fileprivate let version: UInt64
        fileprivate let sessionStartedAt: Double?
    }

    package enum Entrance: Sendable {
        case entered(Ticket)
        /// As many mints are under way as may be.
        case full
        case refused(FenceDecision)
    }

    package let mints: MintsInFlight
    /// `nil`: there is no state, so there are no fences.
    private let fences: FenceTable?
    private let hash: EndUserHash

    package init(mints: MintsInFlight, fences: FenceTable?, hash: EndUserHash) {
        self.mints = mints
        self.fences = fences
        self.hash = hash
    }

    /// Without a state, or while nobody has a fence, this costs what entering costs.
    ///
    /// - Parameter sessionStartedAt: in seconds since 1970; `nil` where the session does not say.
    package func enter(_ endUserID: String, sessionStartedAt: Double?, deadline: MonotonicInstant) -> Entrance {
        guard let entry = mints.enter(endUserID, deadline: deadline) else { return .full }
        guard let fences else { return .entered(Ticket(entry: entry, version: 0, sessionStartedAt: nil)) }
        // Read first: what changes from here on is seen at the next look.
        let version = fences.version
        let decision = decide(endUserID, sessionStartedAt, fences)
        guard decision == .free else {
            mints.leave(entry)
            return .refused(decision)
        }
        return .entered(Ticket(entry: entry, version: version, sessionStartedAt: sessionStartedAt))
    }

    /// Asked again right before the mint is sent and when its answer is there.
    package func look(_ ticket: Ticket) -> FenceDecision {
        guard let fences, fences.version != ticket.version else { return .free }
        return decide(ticket.entry.endUserID, ticket.sessionStartedAt, fences)
    }

    private func decide(_ endUserID: String, _ sessionStartedAt: Double?, _ fences: FenceTable) -> FenceDecision {
        if fences.isEmpty { return .free }
        guard let key = EndUserKey(endUserID, under: hash) else { return .unavailable }
        return fences.decide(key, sessionStartedAt: sessionStartedAt)
    }

    package func leave(_ ticket: Ticket) { mints.leave(ticket.entry) }

    /// Sent, and there will be no answer.
    package func leaveUnanswered(_ ticket: Ticket, now: MonotonicInstant) {
        mints.leaveUnanswered(ticket.entry, until: now + Self.unansweredFor, now: now)
    }
}
