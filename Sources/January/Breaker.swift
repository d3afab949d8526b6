import Primitives
import Synchronization

/// One operation's breaker, shared by all loops: ``BreakerMachine`` behind a short lock, and nothing but one atomic load on the way of
/// a request while all is well.
package final class Breaker: Sendable {
    private static let closed: UInt8 = 0
    /// Failures have been counted, nothing is held back.
    private static let counting: UInt8 = 1
    private static let open: UInt8 = 2

    private let machine = Lock(BreakerMachine())
    private let mode = Atomic<UInt8>(Breaker.closed)
    private let generation = Atomic<Int>(0)

    package init() {}

    package func admit(now: MonotonicInstant) -> BreakerAdmission {
        if mode.load(ordering: .acquiring) != Self.open {
            return .send(BreakerTicket(generation: generation.load(ordering: .acquiring), probedAt: nil))
        }
        return update { $0.admit(now: now) }
    }

    /// Asked right before the first byte goes out; `nil` is yes.
    package func objection(to ticket: BreakerTicket, now: @autoclosure () -> MonotonicInstant) -> JanuaryFailure? {
        if mode.load(ordering: .acquiring) != Self.open { return nil }
        let now = now()
        return update { $0.objection(to: ticket, now: now) }
    }

    package func succeeded() {
        if mode.load(ordering: .acquiring) == Self.closed { return }
        update { $0.succeeded() }
    }

    package func failed(_ ticket: BreakerTicket, _ failure: JanuaryFailure, endUserID: String, now: MonotonicInstant) {
        update { $0.failed(ticket, failure, endUserID: endUserID, now: now) }
    }

    /// Another replica was told to send nothing for so long.
    package func hold(for duration: Duration, now: MonotonicInstant) { update { $0.hold(for: duration, now: now) } }

    /// Another key may be accepted where the last one was not. A rate limit belongs to the account and goes on.
    package func keyChanged() { update { $0.keyChanged() } }

    /// 1 for each reason in the result, 0 for every other.
    package func openReasons(now: MonotonicInstant) -> [BreakerReason] { machine.withLock { $0.openReasons(now: now) } }

    private func update<Result: Sendable>(_ body: (inout BreakerMachine) -> Result) -> Result {
        machine.withLock { machine in
            let result = body(&machine)
            generation.store(machine.generation, ordering: .releasing)
            mode.store(machine.isOpen ? Self.open : machine.isPristine ? Self.closed : Self.counting, ordering: .releasing)
            return result
        }
    }
}
