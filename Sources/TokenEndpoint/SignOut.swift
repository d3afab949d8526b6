import EventLoop
import Primitives
import RateLimiting
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
        if decision != nil { return charge(Charges()) }
        guard let endUserID else { return .refused(Problem(.internalError)) }
        let key = loop.limitKeys.endUser(endUserID.text, limit: .selfService)
        return charge(Charges(Charge(.selfService, key: key, rule: RateLimits.selfService)))
    }

    /// Whoever is blocked has nothing left to revoke, and must not learn how far somebody else's revocation of them is.
    private func lookForBlock() -> Progress {
        guard let endUserID, let session else { return .refused(Problem(.internalError)) }
        guard let control = loop.revocations else { return .refused(Problem(.stateUnavailable, retryAfter: 1)) }
        switch blockAnswer {
        case nil:
            control.endUser(endUserID.text, completion: onLoop { $0.blockAnswer = $1 })
            return .wait
        case .failure(let error)?: return .refused(Problem(revocation: error))
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
        case .failure(let error)?: return .refused(Problem(revocation: error))
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
