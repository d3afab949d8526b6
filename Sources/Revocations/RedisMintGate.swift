import EventLoop
import Primitives
import Redis

/// A mint's gate where replicas share the state: one loop's. Each look is one script, so that a mint is in flight in the step that finds no fence.
package final class RedisMintGate {
    /// A mint that was not sent so long after it was let in asks again.
    package static let freshFor = Duration.seconds(1)
    private static let callTimeout = Duration.seconds(1)
    private static let shortestLook = Duration.milliseconds(100)

    package struct Ticket {
        let endUserID: String
        /// `nil`: the state had never been read.
        let key: EndUserKey?
        let name: [UInt8]
        let sessionStartedAt: [UInt8]
        let deadline: MonotonicInstant
        /// When the last look began that found nothing.
        package var lookedAt: MonotonicInstant
        /// The state could not be read and is not needed for minting.
        let isUnchecked: Bool
    }

    package enum After: String { case keep, leave, unanswered }

    private let loop: EventLoop
    private let client: RedisClient
    private let state: SharedState

    package init(loop: EventLoop, client: RedisClient, state: SharedState) {
        self.loop = loop
        self.client = client
        self.state = state
    }

    /// `completion`: on the loop, perhaps before this returns. Without a ticket the mint was refused.
    package func enter(
        _ endUserID: String, sessionStartedAt: Double?, deadline: MonotonicInstant,
        completion: @escaping (FenceDecision, Ticket?) -> Void
    ) {
        let started = sessionStartedAt.map { $0.isFinite ? Array(String($0).utf8) : [] } ?? []
        guard let known = state.current, let key = EndUserKey(endUserID, under: known.hash) else {
            return unreadable(endUserID, started, deadline, completion)
        }
        let name = state.nextMint()
        let left = max(0, (deadline - loop.now).wholeNanoseconds / 1_000_000)
        let asked = loop.now
        client.run(
            RedisStateScripts.enter,
            keys: [RedisStateScripts.store, RedisStateScripts.user(key), RedisStateScripts.flight(key)],
            arguments: [known.storeID, started, Array(String(left).utf8), name],
            deadline: min(deadline, asked + Self.callTimeout)
        ) { [self] result in
            let ticket = Ticket(
                endUserID: endUserID, key: key, name: name, sessionStartedAt: started, deadline: deadline, lookedAt: asked,
                isUnchecked: false)
            switch decision(result) {
            case .unavailable:
                // It may be in flight all the same, and would be waited for.
                if case .failure(let error) = result, error.mayHaveRun { look(ticket, then: .leave) { _ in } }
                unreadable(endUserID, started, deadline, completion)
            case .free: completion(.free, ticket)
            case let decision: completion(decision, nil)
            }
        }
    }

    private func unreadable(
        _ endUserID: String, _ started: [UInt8], _ deadline: MonotonicInstant, _ completion: (FenceDecision, Ticket?) -> Void
    ) {
        guard state.options.allowsWhenUnreadable else { return completion(.unavailable, nil) }
        completion(
            .free,
            Ticket(
                endUserID: endUserID, key: state.key(of: endUserID), name: state.nextMint(), sessionStartedAt: started,
                deadline: deadline, lookedAt: loop.now, isUnchecked: true))
    }

    /// Looks again and, unless the mint goes on, takes it out.
    package func look(_ ticket: Ticket, then after: After, completion: @escaping (FenceDecision) -> Void) {
        if ticket.isUnchecked { return lookUnchecked(ticket, then: after, completion) }
        guard let known = state.remembered, let key = ticket.key else { return completion(.unavailable) }
        run(
            RedisStateScripts.look,
            [RedisStateScripts.store, RedisStateScripts.user(key), RedisStateScripts.flight(key)],
            [known.storeID, ticket.sessionStartedAt, ticket.name, Array(after.rawValue.utf8)], of: ticket, completion)
    }

    /// It was never in flight, so a revocation has not waited for it; but a fence that is there now counts, once the state can be read again.
    /// Nobody waits for the state meanwhile.
    private func lookUnchecked(_ ticket: Ticket, then after: After, _ completion: @escaping (FenceDecision) -> Void) {
        guard let known = state.current, let key = ticket.key ?? EndUserKey(ticket.endUserID, under: known.hash) else {
            return completion(.free)
        }
        let user = [RedisStateScripts.store, RedisStateScripts.user(key)]
        if after == .unanswered {
            // January may still commit it: from here on revocations know of it.
            run(
                RedisStateScripts.look, user + [RedisStateScripts.flight(key)],
                [known.storeID, ticket.sessionStartedAt, ticket.name, Array(after.rawValue.utf8)], of: ticket, completion)
        } else {
            run(RedisStateScripts.decide, user, [known.storeID, ticket.sessionStartedAt], of: ticket, completion)
        }
    }

    private func run(
        _ script: RedisScript, _ keys: [[UInt8]], _ arguments: [[UInt8]], of ticket: Ticket,
        _ completion: @escaping (FenceDecision) -> Void
    ) {
        // Within the budget, but an answer that came at its end has its look all the same.
        let deadline = max(min(ticket.deadline, loop.now + Self.callTimeout), loop.now + Self.shortestLook)
        client.run(script, keys: keys, arguments: arguments, deadline: deadline) { [self] result in
            let decision = decision(result)
            completion(decision == .unavailable && state.options.allowsWhenUnreadable ? .free : decision)
        }
    }

    private func decision(_ result: Result<RedisReply, RedisError>) -> FenceDecision {
        let reply: RedisReply
        switch result {
        case .success(let given): reply = given
        case .failure(let error):
            state.doubt(after: error)
            return .unavailable
        }
        switch reply.array?.first?.integer {
        case 0: return .free
        case 1: return .revoked
        case 2: return .inProgress
        case -1:
            state.lose()
            return .unavailable
        default: return .unavailable
        }
    }
}
