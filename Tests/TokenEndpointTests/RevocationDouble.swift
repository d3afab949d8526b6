import Dispatch
import Primitives
import Revocations

/// The revocations as a table in memory, with answers that a test can change. Completes on a thread of its own, as the real ones do.
final class RevocationDouble: RevocationControl {
    struct State {
        var requests: [RevocationRequest] = []
        var lifts: [(endUserID: String, requestedBy: String)] = []
        var entries: [RevocationStatus] = []
        var people: [String: EndUserStatus] = [:]
        /// What the next calls come to instead.
        var error: RevocationError?
        var isPending = false
        var lastError: String?
        var refusesUnknownSessions = false
    }

    let state = Lock(State())
    private let queue = DispatchQueue(label: "revocations")
    static let began = WallInstant(secondsSinceEpoch: 1_800_000_000)

    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }
    var requests: [RevocationRequest] { state.withLock { $0.requests } }
    var lifts: [(endUserID: String, requestedBy: String)] { state.withLock { $0.lifts } }

    static func id(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return "rv_" + String(repeating: "0", count: 32 - digits.count) + digits
    }

    private func answer<Value: Sendable>(
        _ completion: @escaping @Sendable (Result<Value, RevocationError>) -> Void,
        _ body: @escaping @Sendable (inout State) -> Result<Value, RevocationError>
    ) {
        queue.async { [self] in
            completion(
                state.withLock { state in
                    if let error = state.error { return .failure(error) }
                    return body(&state)
                })
        }
    }

    func revoke(
        _ request: RevocationRequest, completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void
    ) {
        answer(completion) { state in
            state.requests.append(request)
            let status = RevocationStatus(
                id: Self.id(state.entries.count + 1), endUserID: "hash-of-\(request.endUserID)", isComplete: !state.isPending,
                revokedCount: state.isPending ? 0 : 2, block: request.block, fenceScope: .process, requestedAt: Self.began,
                completedAt: state.isPending ? nil : Self.began + .milliseconds(1_500), attempts: state.isPending ? 3 : 0,
                lastError: state.lastError, refusesUnknownSessions: state.refusesUnknownSessions)
            state.entries.append(status)
            if request.block != .none {
                state.people[request.endUserID] = EndUserStatus(
                    endUserID: request.endUserID, blocked: request.block, blockedSince: Self.began, isPending: state.isPending)
            }
            return .success(status)
        }
    }

    func list(
        pendingOnly: Bool, limit: Int, after: String?,
        completion: @escaping @Sendable (Result<RevocationPage, RevocationError>) -> Void
    ) {
        answer(completion) { state in
            var items = state.entries.filter { !pendingOnly || !$0.isComplete }
            if let after {
                guard let index = items.firstIndex(where: { $0.id == after }) else { return .failure(.notFound) }
                items = Array(items[(index + 1)...])
            }
            let page = Array(items.prefix(limit))
            return .success(RevocationPage(items: page, next: items.count > limit ? page.last?.id : nil))
        }
    }

    func show(id: String, completion: @escaping @Sendable (Result<RevocationStatus, RevocationError>) -> Void) {
        answer(completion) { state in state.entries.first { $0.id == id }.map(Result.success) ?? .failure(.notFound) }
    }

    func endUser(_ endUserID: String, completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void) {
        answer(completion) { .success($0.people[endUserID] ?? EndUserStatus(endUserID: endUserID)) }
    }

    func lift(
        _ endUserID: String, requestedBy: String, requestID: String?,
        completion: @escaping @Sendable (Result<EndUserStatus, RevocationError>) -> Void
    ) {
        answer(completion) { state in
            state.lifts.append((endUserID, requestedBy))
            if state.people[endUserID]?.isPending != true { state.people[endUserID] = nil }
            return .success(state.people[endUserID] ?? EndUserStatus(endUserID: endUserID))
        }
    }
}
