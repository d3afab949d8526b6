import EventLoop
import GCRA
import Primitives
import Revocations

/// Self-service sign-out: revokes the caller's own tokens on all their devices. Session, origin and address rules are those of a mint,
/// because its first steps are the mint's own; it never weakens a block.
extension MintHandler {
    static let signOutSteps: [Step] =
        opening + [
            Step(name: "sign_out_limit") { $0.chargeSignOut() },
            Step(name: "fence") { $0.lookForBlock() },
            Step(name: "sign_out") { $0.signOut() },
        ]

    private func chargeSignOut() -> Progress {
        guard let endUserID else { return .refused(Problem(.internalError)) }
        guard let seconds = loop.shared.signOutLimit.charge(endUserID.text, now: loop.loop.now) else { return .next }
        return .refused(Problem(.rateLimited, reason: "self_service", retryAfter: seconds))
    }

    /// Whoever is blocked has nothing left to revoke, and must not learn how far somebody else's revocation of them is.
    private func lookForBlock() -> Progress {
        guard let endUserID, let session else { return .refused(Problem(.internalError)) }
        guard let control = loop.revocations else { return .refused(Problem(.stateUnavailable, retryAfter: 1)) }
        switch blockAnswer {
        case nil:
            control.endUser(endUserID.text, completion: onLoop { $0.blockAnswer = $1 })
            return .wait
        case .failure(let error)?: return .refused(Problem(error))
        case .success(let status)?:
            guard Self.isFenced(startedAt: session.startedAt, status) else { return .next }
            let now = loop.loop.time.wall()
            let nothing = RevocationStatus(
                // Names the request: there is no revocation behind it.
                id: "rv_\(requestID.text)", endUserID: endUserID.text, isComplete: true, revokedCount: 0, block: status.blocked,
                fenceScope: generation.shared.config.state.fenceScope, requestedAt: now, completedAt: now)
            answerSignOut(nothing)
            return .finished
        }
    }

    /// As the gate of a mint sees it: a `sessions` fence is for sessions that began at or before it, or nobody knows when.
    static func isFenced(startedAt: Double?, _ status: EndUserStatus) -> Bool {
        switch status.blocked {
        case .user: return true
        case .none: return false
        case .sessions:
            guard let startedAt, let since = status.blockedSince else { return true }
            return startedAt <= since.fractionalSeconds
        }
    }

    private func signOut() -> Progress {
        guard let endUserID, let control = loop.revocations else { return .refused(Problem(.internalError)) }
        switch signOutAnswer {
        case nil:
            let request = RevocationRequest(
                endUserID: endUserID.text, block: generation.shared.config.selfService.block, reason: nil,
                requestedBy: "self_service",
                requestID: requestID.text)
            control.revoke(request, completion: onLoop { $0.signOutAnswer = $1 })
            return .wait
        case .failure(let error)?: return .refused(Problem(error))
        case .success(let status)?:
            answerSignOut(status)
            return .finished
        }
    }

    /// Without `Location`: the revocation is shown on the management listener only, which apps do not reach.
    private func answerSignOut(_ status: RevocationStatus) {
        let code = status.isComplete ? 200 : 202
        let body = RevocationAnswers.object(status, endUserID: endUserID?.text).encoded()
        exchange.respond(loop.responder.json(status: code, body, id: requestID))
        finish(status: code, problem: nil, isUndelivered: false)
    }

    /// A completion for any thread: keeps the result and goes on with the step, on the loop.
    private func onLoop<Value: Sendable>(
        _ keep: @escaping @Sendable (MintHandler, Value) -> Void
    ) -> @Sendable (Value) -> Void {
        let eventLoop = loop.loop
        let bound = LoopBound(self, on: eventLoop)
        return { value in
            eventLoop.execute {
                keep(bound.value, value)
                bound.value.resume()
            }
        }
    }
}

/// Six sign-outs an hour for one person, over all loops. Bounded: when the table is full, whoever has least to wait for is forgotten.
final class SignOutLimit: Sendable {
    static let rule = GCRARule(requests: 6, periodNanoseconds: 3_600_000_000_000, burst: 6)
    static let maxPeople = 65_536

    private let cells = Lock<[String: GCRACell]>([:])

    /// - Returns: `nil`: allowed; else whole seconds until it is.
    func charge(_ endUserID: String, now: MonotonicInstant) -> Int? {
        cells.withLock { cells in
            if cells.count >= Self.maxPeople, cells[endUserID] == nil { Self.makeRoom(&cells, now: now.nanoseconds) }
            switch cells[endUserID, default: GCRACell()].charge(now: now.nanoseconds, rule: Self.rule) {
            case .allowed: return nil
            case .limited(let nanoseconds): return Int((nanoseconds + 999_999_999) / 1_000_000_000)
            }
        }
    }

    /// An eighth at once, so that a full table is not gone through for every request.
    private static func makeRoom(_ cells: inout [String: GCRACell], now: Int64) {
        cells = cells.filter { !$0.value.isIdle(now: now) }
        guard cells.count >= maxPeople else { return }
        let arrivals = cells.values.map(\.theoreticalArrival).sorted()
        let line = arrivals[maxPeople / 8]
        cells = cells.filter { $0.value.theoreticalArrival > line }
    }
}
