import Primitives

/// What a revocation does about tokens that are asked for afterwards. Each is stricter than the one below it.
package enum RevocationBlock: String, Sendable, CaseIterable, Comparable {
    /// No token until the block is lifted.
    case user
    /// No token for a session that began at or before the revocation.
    case sessions
    /// No fence: only what is out is revoked.
    case none

    private var strictness: Int {
        switch self {
        case .user: 2
        case .sessions: 1
        case .none: 0
        }
    }

    package static func < (left: Self, right: Self) -> Bool { left.strictness < right.strictness }
}

/// For how many processes a fence holds.
package enum FenceScope: String, Sendable {
    /// One process owns the state.
    case process
    /// Every replica that uses the same state.
    case shared
}

/// Who asked for what. The end-user ID is January's, after the mapping, and must be one that January would accept.
package struct RevocationRequest: Sendable {
    package var endUserID: String
    package var block: RevocationBlock
    /// At most 200 characters, for the audit record only; not kept in the state.
    package var reason: String?
    /// Bounded: `token-1`, `token-2`, …, `self_service`.
    package var requestedBy: String
    /// Of the request that asked, for the audit record.
    package var requestID: String?

    package init(endUserID: String, block: RevocationBlock, reason: String?, requestedBy: String, requestID: String? = nil) {
        self.endUserID = endUserID
        self.block = block
        self.reason = reason
        self.requestedBy = requestedBy
        self.requestID = requestID
    }
}

/// One revocation as the management API shows it.
package struct RevocationStatus: Sendable, Equatable {
    /// `rv_` and 32 hex digits.
    package var id: String
    /// January's ID while the work is unfinished and for whoever asked for this revocation; its keyed hash afterwards.
    package var endUserID: String
    package var isComplete: Bool
    /// Tokens stopped so far, by January's count.
    package var revokedCount: Int
    package var block: RevocationBlock
    package var fenceScope: FenceScope
    package var requestedAt: WallInstant
    package var completedAt: WallInstant?
    /// Calls to January that failed.
    package var attempts: Int
    /// Bounded: a code of January's or a reason of ours; `nil` while nothing has failed.
    package var lastError: String?
    /// `block` is `sessions` and a session whose beginning is unknown is refused until the block is lifted.
    package var refusesUnknownSessions: Bool
    /// A lift has been asked for and takes effect with completion.
    package var liftsWhenComplete: Bool

    package init(
        id: String, endUserID: String, isComplete: Bool, revokedCount: Int, block: RevocationBlock, fenceScope: FenceScope,
        requestedAt: WallInstant, completedAt: WallInstant? = nil, attempts: Int = 0, lastError: String? = nil,
        refusesUnknownSessions: Bool = false, liftsWhenComplete: Bool = false
    ) {
        self.id = id
        self.endUserID = endUserID
        self.isComplete = isComplete
        self.revokedCount = revokedCount
        self.block = block
        self.fenceScope = fenceScope
        self.requestedAt = requestedAt
        self.completedAt = completedAt
        self.attempts = attempts
        self.lastError = lastError
        self.refusesUnknownSessions = refusesUnknownSessions
        self.liftsWhenComplete = liftsWhenComplete
    }
}

/// What the state knows about one end user; all empty for somebody it has never heard of.
package struct EndUserStatus: Sendable, Equatable {
    package var endUserID: String
    /// `none` where there is no fence.
    package var blocked: RevocationBlock
    package var blockedSince: WallInstant?
    /// Work is unfinished.
    package var isPending: Bool
    /// Mints under way, and sent ones whose answer never came (75 s).
    package var inFlightCount: Int
    package var isBlocked: Bool { blocked != .none }

    package init(
        endUserID: String, blocked: RevocationBlock = .none, blockedSince: WallInstant? = nil, isPending: Bool = false,
        inFlightCount: Int = 0
    ) {
        self.endUserID = endUserID
        self.blocked = blocked
        self.blockedSince = blockedSince
        self.isPending = isPending
        self.inFlightCount = inFlightCount
    }
}

package enum RevocationError: Error, Equatable, Sendable {
    /// The state cannot be read or written: nothing was promised. Seconds for `Retry-After`.
    case stateUnavailable(retryAfter: Int)
    case notFound

    /// Bounded: metric label and log field.
    package var reason: StaticString {
        switch self {
        case .stateUnavailable: "state_unavailable"
        case .notFound: "not_found"
        }
    }
}

/// One page of a list, oldest first.
package struct RevocationPage: Sendable {
    package var items: [RevocationStatus]
    /// The ID to pass as `after` for what follows; `nil` at the end.
    package var next: String?

    package init(items: [RevocationStatus], next: String?) {
        self.items = items
        self.next = next
    }
}

/// What management, self-service and commands may ask of the revocations.
///
/// Any thread. Every completion runs exactly once, on a thread of the implementation's choosing; it must not block there.
package protocol RevocationControl: Sendable {
    /// The fence and the work are durable before the first token is revoked. Completes with a complete revocation, or after 10 s at
    /// most with a pending one; an error means that nothing was promised. A repeat joins what is pending and gets its ID.
    func revoke(
        _ request: RevocationRequest, completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void)

    /// * `limit`: 1 to 200.
    /// * `after`: the `next` of the page before. One that is unknown is `.notFound`.
    func list(
        pendingOnly: Bool, limit: Int, after: String?,
        completion: @escaping @Sendable (Result<RevocationPage, RevocationError>) -> Void)

    func show(id: String, completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void)

    /// Succeeds for unknown end users, too.
    func endUser(_ endUserID: String, completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void)

    /// Takes the fence away, durably. While work is pending the result says so (`isPending`) and the lift takes effect with completion.
    ///
    /// `requestID`: of the request that asked, for the audit record.
    func lift(
        _ endUserID: String, requestedBy: String, requestID: String?,
        completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void)
}
