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
        let key: EndUserKey
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
        guard let known = state.current, let key = EndUserKey(endUserID, under: known.hash) else {
            return unreadable(completion)
        }
        let name = state.nextMint()
        let started = sessionStartedAt.map { $0.isFinite ? Array(String($0).utf8) : [] } ?? []
        let left = max(0, (deadline - loop.now).wholeNanoseconds / 1_000_000)
        let asked = loop.now
        client.run(
            RedisStateScripts.enter,
            keys: [RedisStateScripts.store, RedisStateScripts.user(key), RedisStateScripts.flight(key)],
            arguments: [known.storeID, started, Array(String(left).utf8), name],
            deadline: min(deadline, asked + Self.callTimeout)
        ) { [self] result in
            let ticket = Ticket(
                key: key, name: name, sessionStartedAt: started, deadline: deadline, lookedAt: asked, isUnchecked: false)
            switch decision(result) {
            case .unavailable:
                // It may be in flight all the same, and would be waited for.
                if case .failure(let error) = result, error.mayHaveRun { look(ticket, then: .leave) { _ in } }
                unreadable(completion)
            case .free: completion(.free, ticket)
            case let decision: completion(decision, nil)
            }
        }
    }

    private func unreadable(_ completion: (FenceDecision, Ticket?) -> Void) {
        guard state.options.allowsWhenUnreadable, let key = EndUserKey([UInt8](repeating: 0, count: 16)) else {
            return completion(.unavailable, nil)
        }
        completion(
            .free,
            Ticket(
                key: key, name: [], sessionStartedAt: [], deadline: loop.now, lookedAt: loop.now, isUnchecked: true))
    }

    /// Looks again and, unless the mint goes on, takes it out.
    package func look(_ ticket: Ticket, then after: After, completion: @escaping (FenceDecision) -> Void) {
        if ticket.isUnchecked { return completion(.free) }
        guard let known = state.remembered else { return completion(.unavailable) }
        // Within the budget, but an answer that came at its end has its look all the same.
        let deadline = max(min(ticket.deadline, loop.now + Self.callTimeout), loop.now + Self.shortestLook)
        client.run(
            RedisStateScripts.look,
            keys: [RedisStateScripts.store, RedisStateScripts.user(ticket.key), RedisStateScripts.flight(ticket.key)],
            arguments: [known.storeID, ticket.sessionStartedAt, ticket.name, Array(after.rawValue.utf8)],
            deadline: deadline
        ) { [self] result in
            let decision = decision(result)
            completion(decision == .unavailable && state.options.allowsWhenUnreadable ? .free : decision)
        }
    }

    private func decision(_ result: Result<RedisReply, RedisError>) -> FenceDecision {
        guard case .success(let reply) = result else { return .unavailable }
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
