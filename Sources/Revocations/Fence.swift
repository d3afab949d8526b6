import Primitives

/// Why a mint may not go on, or that it may.
package enum FenceDecision: Sendable, Equatable {
    case free
    /// A fence forbids it until it is lifted.
    case revoked
    /// Nothing forbids it, but a revocation of this end user is unfinished: its sweep would hit a token minted now.
    case inProgress
    /// Nobody can say.
    case unavailable
}

/// The record that stops minting for one end user.
package struct Fence: Sendable, Hashable {
    /// `user` or `sessions`.
    package var block: RevocationBlock
    /// The revocation's time on the wall clock; sessions that began at or before it are refused.
    package var since: WallInstant

    package init(block: RevocationBlock, since: WallInstant) {
        self.block = block
        self.since = since
    }

    /// - Parameter startedAt: when the session began, in seconds since 1970; `nil` where it does not say, which is refused: a session
    ///   that may be old is not let in.
    package func forbids(sessionStartedAt startedAt: Double?) -> Bool {
        switch block {
        case .user: return true
        case .none: return false
        case .sessions:
            guard let startedAt, startedAt.isFinite else { return true }
            return startedAt <= since.fractionalSeconds
        }
    }

    /// What a mint comes to. `isPending`: a revocation of this end user is unfinished.
    package static func decide(_ fence: Fence?, isPending: Bool, sessionStartedAt startedAt: Double?) -> FenceDecision {
        if let fence, fence.forbids(sessionStartedAt: startedAt) { return .revoked }
        return isPending ? .inProgress : .free
    }
}
