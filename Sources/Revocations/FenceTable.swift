import Primitives
import Synchronization

/// Every fence and every unfinished revocation, in the memory of the process that owns the state: what a mint asks, without the state's
/// thread. Filled at the start, then changed behind each durable change. Any thread.
///
/// Memory: 32 bytes in a table that is at least half full, so at most about 70 bytes for each end user with a fence.
package final class FenceTable: Sendable {
    private struct Entry: Sendable {
        var since: WallInstant
        var block: RevocationBlock
        var isPending: Bool
    }

    private let shards: [Lock<[EndUserKey: Entry]>]
    private let entryCount = Atomic<Int>(0)
    private let fences = Atomic<Int>(0)
    private let pending = Atomic<Int>(0)
    private let changes = Atomic<UInt64>(0)

    package init(shardCount: Int = 64) {
        shards = (0..<max(1, shardCount)).map { _ in Lock([:]) }
    }

    /// Nothing is there, so nobody has to be looked up.
    package var isEmpty: Bool { entryCount.load(ordering: .sequentiallyConsistent) == 0 }
    package var fenceCount: Int { fences.load(ordering: .relaxed) }
    package var pendingCount: Int { pending.load(ordering: .relaxed) }
    /// Another number after each change: what was looked up under the same number is still so.
    package var version: UInt64 { changes.load(ordering: .sequentiallyConsistent) }

    package func set(_ key: EndUserKey, fence: Fence?, isPending: Bool) {
        let entry =
            fence == nil && !isPending
            ? nil
            : Entry(since: fence?.since ?? .init(nanosecondsSinceEpoch: 0), block: fence?.block ?? .none, isPending: isPending)
        let before = shard(key).withLock { entries -> Entry? in
            guard let entry else { return entries.removeValue(forKey: key) }
            return entries.updateValue(entry, forKey: key)
        }
        func count(_ counter: borrowing Atomic<Int>, _ was: Bool, _ is: Bool) {
            if `is` && !was { counter.add(1, ordering: .sequentiallyConsistent) }
            if was && !`is` { counter.subtract(1, ordering: .sequentiallyConsistent) }
        }
        count(entryCount, before != nil, entry != nil)
        count(fences, before.map { $0.block != .none } ?? false, fence != nil)
        count(pending, before?.isPending ?? false, isPending)
        changes.add(1, ordering: .sequentiallyConsistent)
    }

    package func decide(_ key: EndUserKey, sessionStartedAt startedAt: Double?) -> FenceDecision {
        guard let entry = shard(key).withLock({ $0[key] }) else { return .free }
        let fence = entry.block == .none ? nil : Fence(block: entry.block, since: entry.since)
        return Fence.decide(fence, isPending: entry.isPending, sessionStartedAt: startedAt)
    }

    private func shard(_ key: EndUserKey) -> Lock<[EndUserKey: Entry]> {
        shards[Int(truncatingIfNeeded: key.high % UInt64(shards.count))]
    }
}
