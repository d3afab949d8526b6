import Primitives
import Synchronization

/// How much is under way at January and how long it takes, over all loops: ``LoadMachine`` behind a short lock, four times on the way of a
/// mint and without a hop. Any thread.
package final class MintLoad: Sendable {
    package typealias Decision = LoadMachine.Decision

    private let machine: Lock<LoadMachine>
    /// State of SplitMix64: who is told which time has to be scattered, not secret.
    private let random: Atomic<UInt64>

    package init(connections: Int, budget: Duration, seed: UInt64 = .random(in: .min ... .max)) {
        machine = Lock(LoadMachine(connections: connections, budget: budget))
        random = Atomic(seed)
    }

    /// For a reload.
    package func setBounds(connections: Int, budget: Duration) {
        machine.withLock { $0.setBounds(connections: connections, budget: budget) }
    }

    package func decide(deadline: MonotonicInstant, now: MonotonicInstant) -> Decision {
        machine.withLock { $0.decide(left: deadline - now, now: now) }
    }

    package func enter(deadline: MonotonicInstant, now: MonotonicInstant) -> Decision {
        machine.withLock { $0.enter(left: deadline - now, now: now) }
    }

    package func leave() { machine.withLock { $0.leave() } }

    /// False: it is not sent after all, and ``leave()`` must follow.
    package func send(deadline: MonotonicInstant, now: MonotonicInstant) -> Bool {
        machine.withLock { machine in
            guard machine.isWorthSending(left: deadline - now, now: now) else { return false }
            machine.send(now: now)
            return true
        }
    }

    package func end(sentAt: MonotonicInstant, now: MonotonicInstant, isMeasurement: Bool) {
        machine.withLock { $0.end(sentAt: sentAt, now: now, isMeasurement: isMeasurement) }
    }

    /// Whole seconds for `Retry-After`.
    package func retryAfter(now: MonotonicInstant) -> Int {
        let number = Self.mixed(random.wrappingAdd(0x9e37_79b9_7f4a_7c15, ordering: .relaxed).newValue)
        return machine.withLock { $0.retryAfter(now: now, random: number) }
    }

    private static func mixed(_ state: UInt64) -> UInt64 {
        var word = state
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
        return word ^ word >> 31
    }

    // MARK: For who looks

    package struct Snapshot: Sendable, Equatable {
        package let waiting: Int
        package let serving: Int
        package let serviceTime: Duration?
    }

    package var snapshot: Snapshot {
        machine.withLock { Snapshot(waiting: $0.waiting, serving: $0.serving, serviceTime: $0.serviceTime) }
    }
}
