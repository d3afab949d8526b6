import Primitives
import Synchronization

/// The one count of upstream connections over all loops.
///
/// A pool takes a place before it dials and gives it back when the connection is closed. A pool that finds no place waits in line: the
/// other pools are asked to close an idle connection, and whoever gives back a place wakes the first in line.
package final class ConnectionBudget: Sendable {
    /// One pool that may wait for a place. Both closures are called from any thread and must only post to the pool's loop.
    package final class Member: Sendable {
        fileprivate let wake: @Sendable () -> Void
        fileprivate let shed: @Sendable () -> Void

        /// - Parameters:
        ///   - wake: a place may be free; try again.
        ///   - shed: another pool waits; close an idle connection if there is one.
        package init(wake: @escaping @Sendable () -> Void, shed: @escaping @Sendable () -> Void) {
            self.wake = wake
            self.shed = shed
        }
    }

    private struct Line {
        var members: [Member] = []
        var waiting: [Member] = []
    }

    /// The most connections open or being opened at any moment.
    package let limit: Int
    private let used = Atomic<Int>(0)
    private let waitingCount = Atomic<Int>(0)
    private let line = Lock(Line())

    package init(limit: Int = 256) { self.limit = limit }

    package var usedCount: Int { used.load(ordering: .relaxed) }

    /// Some pool waits for a place: a connection that has nothing to do should be closed, not kept.
    package var isWanted: Bool { waitingCount.load(ordering: .sequentiallyConsistent) > 0 }

    package func tryAcquire() -> Bool {
        // Optimistic add, taken back when it went over: the count is never below the number of open connections.
        if used.add(1, ordering: .sequentiallyConsistent).oldValue < limit { return true }
        used.subtract(1, ordering: .sequentiallyConsistent)
        // Whoever waits may have failed because of the place taken for a moment just now.
        wakeFirst()
        return false
    }

    package func release() {
        used.subtract(1, ordering: .sequentiallyConsistent)
        wakeFirst()
    }

    package func join(_ member: Member) { line.withLock { $0.members.append(member) } }

    package func leave(_ member: Member) {
        line.withLock { line in
            line.members.removeAll { $0 === member }
            line.waiting.removeAll { $0 === member }
            waitingCount.store(line.waiting.count, ordering: .sequentiallyConsistent)
        }
        wakeFirst()
    }

    /// Puts `member` in line, once, and asks the others for an idle connection. The caller tries again afterwards: a place given back
    /// between its failure and this call woke nobody.
    package func wait(_ member: Member) {
        let others = line.withLock { line -> [Member] in
            guard !line.waiting.contains(where: { $0 === member }) else { return [] }
            line.waiting.append(member)
            waitingCount.store(line.waiting.count, ordering: .sequentiallyConsistent)
            return line.members.filter { $0 !== member }
        }
        for other in others { other.shed() }
    }

    /// `member` no longer needs a place.
    package func stopWaiting(_ member: Member) {
        line.withLock { line in
            line.waiting.removeAll { $0 === member }
            waitingCount.store(line.waiting.count, ordering: .sequentiallyConsistent)
        }
    }

    /// Whoever was woken and did not need the place says so: the next in line may.
    package func passOn() { wakeFirst() }

    private func wakeFirst() {
        guard isWanted, used.load(ordering: .sequentiallyConsistent) < limit else { return }
        let first = line.withLock { line -> Member? in
            guard !line.waiting.isEmpty else { return nil }
            let first = line.waiting.removeFirst()
            waitingCount.store(line.waiting.count, ordering: .sequentiallyConsistent)
            return first
        }
        first?.wake()
    }
}
