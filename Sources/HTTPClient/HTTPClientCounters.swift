import Synchronization

/// What is open and what was done, over all loops that share this object. Read from any thread.
package final class HTTPClientCounters: Sendable {
    private let connectingCount = Atomic<Int>(0)
    private let idleCount = Atomic<Int>(0)
    private let leasedCount = Atomic<Int>(0)
    private let waitingCount = Atomic<Int>(0)
    private let openedCount = Atomic<Int>(0)
    private let reusedCount = Atomic<Int>(0)
    private let resumedCount = Atomic<Int>(0)

    package init() {}

    // Gauges.
    package var connecting: Int { connectingCount.load(ordering: .relaxed) }
    package var idle: Int { idleCount.load(ordering: .relaxed) }
    package var leased: Int { leasedCount.load(ordering: .relaxed) }
    /// Requests that wait for a connection.
    package var waiting: Int { waitingCount.load(ordering: .relaxed) }

    // Totals.
    /// Connections that were opened, with their handshakes.
    package var opened: Int { openedCount.load(ordering: .relaxed) }
    /// Requests that were sent on a connection that had served another one before.
    package var reused: Int { reusedCount.load(ordering: .relaxed) }
    /// TLS handshakes that resumed a session.
    package var resumed: Int { resumedCount.load(ordering: .relaxed) }

    /// One pool's share of the gauges.
    struct Share: Equatable {
        var connecting = 0
        var idle = 0
        var leased = 0
        var waiting = 0
    }

    func move(from old: Share, to new: Share) {
        if new.connecting != old.connecting { connectingCount.add(new.connecting - old.connecting, ordering: .relaxed) }
        if new.idle != old.idle { idleCount.add(new.idle - old.idle, ordering: .relaxed) }
        if new.leased != old.leased { leasedCount.add(new.leased - old.leased, ordering: .relaxed) }
        if new.waiting != old.waiting { waitingCount.add(new.waiting - old.waiting, ordering: .relaxed) }
    }

    func countOpened(resumed: Bool) {
        openedCount.add(1, ordering: .relaxed)
        if resumed { resumedCount.add(1, ordering: .relaxed) }
    }

    func countReused() { reusedCount.add(1, ordering: .relaxed) }
}
