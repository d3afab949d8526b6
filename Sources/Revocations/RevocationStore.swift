import Primitives

/// The state cannot be read or written now. Bounded: `reason` is a log field.
package struct StateError: Error, Sendable, Equatable {
    package let reason: String
    package init(reason: String) { self.reason = reason }

    /// Another replica works on it, or it is no longer the same work: whoever hears this lets go of it.
    package static let taken = StateError(reason: "taken")
}

/// Work that is due, and when more will be.
package struct DueWork: Sendable {
    package var records: [RevocationRecord]
    /// On ``StateTime/steady``; `nil` where nothing waits.
    package var next: WallInstant?

    package init(records: [RevocationRecord], next: WallInstant?) {
        self.records = records
        self.next = next
    }
}

package struct StateCounts: Sendable, Equatable {
    package var pending = 0
    package var fences = 0
    package var oldestPending: WallInstant?
    package init(pending: Int = 0, fences: Int = 0, oldestPending: WallInstant? = nil) {
        self.pending = pending
        self.fences = fences
        self.oldestPending = oldestPending
    }
}

/// Where fences and revocations are kept. Any thread; completions run exactly once, on a thread of the store's, and must not block there.
///
/// One user's state is changed as a whole: `update` reads it, lets a pure function change it and makes the result durable before it completes.
/// The function may run more than once (where replicas compete), so it has no effect but its result.
package protocol RevocationStore: Sendable {
    typealias Completion<Value> = @Sendable (Result<Value, StateError>) -> Void

    var scope: FenceScope { get }

    /// - Parameter change: `isTaken`: another replica works on it right now.
    func update(
        _ key: EndUserKey, _ change: @escaping @Sendable (_ state: inout UserState, _ isTaken: Bool) -> Void,
        completion: @escaping Completion<UserState>)
    func read(_ key: EndUserKey, completion: @escaping Completion<UserState>)

    /// Takes work that is due, oldest first: no other replica gets it until it is released or, without `renew`, 15 s have passed.
    /// - Parameter except: what this process works on already.
    func claim(limit: Int, now: WallInstant, except: Set<EndUserKey>, completion: @escaping Completion<DueWork>)
    /// The same for one user's work, due or not. False when another replica has it.
    func claim(_ key: EndUserKey, completion: @escaping Completion<Bool>)
    /// Said at least every 5 s for everything this process works on.
    func renew(_ keys: [EndUserKey], now: WallInstant)
    func release(_ key: EndUserKey)

    /// Mints let through before the fence, those that may enter later left out. Read after the fence is durable, and right before each call to
    /// January: ``StateError/taken`` where this process may not make it.
    func olderMints(of record: RevocationRecord, completion: @escaping Completion<OlderMints>)
    /// Mints under way and unanswered ones.
    func mintCount(of endUserID: String, key: EndUserKey, completion: @escaping Completion<Int>)

    func find(_ id: RevocationID, completion: @escaping Completion<RevocationRecord?>)
    /// - Returns: `nil` where `after` is unknown. One more than `limit` when there is more.
    func page(
        pendingOnly: Bool, limit: Int, after: RevocationID?, completion: @escaping Completion<[RevocationRecord]?>)
    func counts(completion: @escaping Completion<StateCounts>)
    /// Finds out whether the state can be written, by writing.
    func probe(completion: @escaping Completion<Void>)
    /// Complete revocations and fences older than this go.
    func forget(olderThan limit: WallInstant, completion: @escaping Completion<Void>)
}
