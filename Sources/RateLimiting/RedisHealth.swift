import Primitives
import Redis

/// Whether Redis is asked for decisions. Pure: the time is passed in.
///
/// One failure is enough to stop asking, so that no later request waits for what the first has found out. From then on a probe a second,
/// which does what a decision does, finds out when Redis answers again; after a time-out the first goes at once: most are a moment's.
struct RedisHealth: Equatable {
    static let probeInterval = Duration.seconds(1)
    /// Redis answers well when it answers within this.
    let goodAnswer: Duration

    private enum State: Equatable {
        case answering
        case failing
    }

    enum Action: Equatable {
        case none
        case probe(at: MonotonicInstant)
        case recovered
    }

    private var state = State.answering

    init(goodAnswer: Duration) { self.goodAnswer = goodAnswer }

    var isAnswering: Bool { state == .answering }

    mutating func failed(_ error: RedisError, now: MonotonicInstant) -> Action {
        guard case .answering = state else { return .none }
        state = .failing
        if case .timedOut = error { return .probe(at: now) }
        return .probe(at: now + Self.probeInterval)
    }

    /// - Parameter began: when the probe was sent.
    mutating func probed(_ error: RedisError?, began: MonotonicInstant, now: MonotonicInstant) -> Action {
        guard case .failing = state else {
            // The first probe of all, or one that was sent because a connection ended.
            return error.map { failed($0, now: now) } ?? .none
        }
        if error == nil && now - began <= goodAnswer {
            state = .answering
            return .recovered
        }
        return .probe(at: max(now, began + Self.probeInterval))
    }
}
