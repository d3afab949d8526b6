import Primitives
import Synchronization

/// The mints that are under way, by end user: every loop enters and leaves, every thread may look. Also the bound on how many there
/// may be, those that wait for a connection included.
///
/// Bounded by `maxCount` entries. Enter and leave are O(1) plus the entries of that one end user; locks are sharded by end user and held
/// for a dictionary access.
package final class MintsInFlight: Sendable {
    package struct Entry: Sendable, Equatable {
        package let endUserID: String
        /// Rises from entry to entry: of two entries the one with the smaller number came first.
        package let number: UInt64
        package let deadline: MonotonicInstant

        package static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    /// An end-user ID as a key: compared byte for byte.
    private struct Key: Hashable, Sendable {
        let text: String
        static func == (left: Key, right: Key) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }
        func hash(into hasher: inout Hasher) {
            var text = text
            text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    private let shards: [Lock<[Key: [Entry]]>]
    private let total = Atomic<Int>(0)
    private let maxCount: Atomic<Int>
    private let lastNumber = Atomic<UInt64>(0)

    /// `shardCount`: rounded up to a power of two.
    package init(maxCount: Int, shardCount: Int = 64) {
        self.maxCount = Atomic(maxCount)
        var count = 1
        while count < shardCount { count *= 2 }
        shards = (0..<count).map { _ in Lock([:]) }
    }

    /// For a reload. Mints that are in stay in.
    package func setMaxCount(_ count: Int) { maxCount.store(count, ordering: .relaxed) }

    /// `nil` when as many are in as may be.
    package func enter(_ endUserID: String, deadline: MonotonicInstant) -> Entry? {
        guard total.add(1, ordering: .relaxed).newValue <= maxCount.load(ordering: .relaxed) else {
            total.subtract(1, ordering: .relaxed)
            return nil
        }
        let number = lastNumber.add(1, ordering: .relaxed).newValue
        let entry = Entry(endUserID: endUserID, number: number, deadline: deadline)
        let key = Key(text: endUserID)
        shard(key).withLock { $0[key, default: []].append(entry) }
        return entry
    }

    /// Once for each entry; a second time does nothing.
    package func leave(_ entry: Entry) {
        let key = Key(text: entry.endUserID)
        let wasIn = shard(key).withLock { entries -> Bool in
            guard let index = entries[key]?.firstIndex(of: entry) else { return false }
            if entries[key]?.count == 1 { entries[key] = nil } else { entries[key]?.remove(at: index) }
            return true
        }
        if wasIn { total.subtract(1, ordering: .relaxed) }
    }

    /// Those of one end user, oldest first.
    package func entries(of endUserID: String) -> [Entry] {
        let key = Key(text: endUserID)
        return shard(key).withLock { $0[key] ?? [] }.sorted { $0.number < $1.number }
    }

    package func count(of endUserID: String) -> Int { entries(of: endUserID).count }

    package var count: Int { total.load(ordering: .relaxed) }

    private func shard(_ key: Key) -> Lock<[Key: [Entry]]> { shards[key.hashValue & (shards.count - 1)] }
}
