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
        /// Others in line, this one left out.
        fileprivate let rivals = Atomic<Int>(0)

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
    package var limit: Int { bound.load(ordering: .relaxed) }
    private let bound: Atomic<Int>
    private let used = Atomic<Int>(0)
    private let waitingCount = Atomic<Int>(0)
    private let memberCount = Atomic<Int>(0)
    private let line = Lock(Line())

    package init(limit: Int = 256) { bound = Atomic(limit) }

    /// For a reload. With fewer places than connections nothing is cut: no new one is opened until enough are gone.
    package func setLimit(_ limit: Int) {
        bound.store(limit, ordering: .relaxed)
        wakeFirst()
    }

    package var usedCount: Int { used.load(ordering: .relaxed) }

    /// Some pool waits for a place: a connection that has nothing to do should be closed, not kept.
    package var isWanted: Bool { waitingCount.load(ordering: .sequentiallyConsistent) > 0 }

    /// Somebody else waits while `member` has `openCount` connections, more than an even share of all places: the next one it has no
    /// immediate need of is to be given up, although its own requests wait, too. Without this a busy loop would keep all places for ever.
    package func isUnfair(_ member: Member, openCount: Int) -> Bool {
        member.rivals.load(ordering: .relaxed) > 0
            && openCount > limit / max(1, memberCount.load(ordering: .relaxed))
    }

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

    package func join(_ member: Member) {
        line.withLock { line in
            line.members.append(member)
            update(line)
        }
    }

    package func leave(_ member: Member) {
        line.withLock { line in
            line.members.removeAll { $0 === member }
            line.waiting.removeAll { $0 === member }
            update(line)
        }
        member.rivals.store(0, ordering: .relaxed)
        wakeFirst()
    }

    /// Puts `member` in line, once, and asks the others for an idle connection. The caller tries again afterwards: a place given back
    /// between its failure and this call woke nobody.
    package func wait(_ member: Member) {
        let others = line.withLock { line -> [Member] in
            guard !line.waiting.contains(where: { $0 === member }) else { return [] }
            line.waiting.append(member)
            update(line)
            return line.members.filter { $0 !== member }
        }
        for other in others { other.shed() }
    }

    /// `member` no longer needs a place.
    package func stopWaiting(_ member: Member) {
        line.withLock { line in
            line.waiting.removeAll { $0 === member }
            update(line)
        }
    }

    /// Whoever was woken and did not need the place says so: the next in line may.
    package func passOn() { wakeFirst() }

    private func wakeFirst() {
        guard isWanted, used.load(ordering: .sequentiallyConsistent) < limit else { return }
        let first = line.withLock { line -> Member? in
            guard !line.waiting.isEmpty else { return nil }
            let first = line.waiting.removeFirst()
            update(line)
            return first
        }
        first?.wake()
    }

    /// What is read without the lock, after every change under it.
    private func update(_ line: Line) {
        waitingCount.store(line.waiting.count, ordering: .sequentiallyConsistent)
        memberCount.store(line.members.count, ordering: .relaxed)
        for member in line.members {
            let isWaiting = line.waiting.contains { $0 === member }
            member.rivals.store(line.waiting.count - (isWaiting ? 1 : 0), ordering: .relaxed)
        }
    }
}
