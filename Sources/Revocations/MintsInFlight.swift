import Primitives
import StrictJSON
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
        fileprivate let key: Key

        package static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    /// An end-user ID as a key: compared byte for byte, its bytes hashed once.
    fileprivate struct Key: Hashable, Sendable {
        let text: String
        let hash: Int

        init(_ text: String) {
            var hasher = Hasher()
            var text = text
            text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
            hash = hasher.finalize()
            self.text = text
        }

        static func == (left: Key, right: Key) -> Bool { left.hash == right.hash && left.text.hasSameBytes(as: right.text) }
        func hash(into hasher: inout Hasher) { hasher.combine(hash) }
    }

    /// Nearly everybody has one mint under way, which needs no array.
    private enum Present: Sendable {
        case one(Entry)
        case several([Entry])

        var entries: [Entry] {
            switch self {
            case .one(let entry): [entry]
            case .several(let entries): entries
            }
        }
    }

    /// Mints that were sent and got no answer, by end user: January may commit them for a while yet.
    private struct Unanswered: Sendable {
        var users: [Key: (until: MonotonicInstant, count: Int)] = [:]
        /// When what does not fit in the table ends: until then everybody may have one.
        var everybodyUntil: MonotonicInstant?
    }

    /// End users with unanswered mints that are known one by one.
    package static let maxUnanswered = 100_000

    private let shards: [Lock<[Key: Present]>]
    private let unanswered = Lock(Unanswered())
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
        let entry = Entry(endUserID: endUserID, number: number, deadline: deadline, key: Key(endUserID))
        shard(entry.key).withLock { mints in
            if let others = mints.updateValue(.one(entry), forKey: entry.key) {
                mints[entry.key] = .several(others.entries + [entry])
            }
        }
        return entry
    }

    /// Once for each entry; a second time does nothing.
    package func leave(_ entry: Entry) {
        let wasIn = shard(entry.key).withLock { mints -> Bool in
            guard let present = mints.removeValue(forKey: entry.key) else { return false }
            if case .one(entry) = present { return true }
            let rest = present.entries.filter { $0 != entry }
            if rest.count == 1 { mints[entry.key] = .one(rest[0]) } else { mints[entry.key] = .several(rest) }
            return rest.count < present.entries.count
        }
        if wasIn { total.subtract(1, ordering: .relaxed) }
    }

    /// It was sent, and there will be no answer: it is under way no longer, but January may commit it until then.
    package func leaveUnanswered(_ entry: Entry, until: MonotonicInstant, now: MonotonicInstant) {
        unanswered.withLock { unanswered in
            if unanswered.users.count >= Self.maxUnanswered {
                unanswered.users = unanswered.users.filter { $0.value.until > now }
            }
            if unanswered.users.count >= Self.maxUnanswered && unanswered.users[entry.key] == nil {
                unanswered.everybodyUntil = max(unanswered.everybodyUntil ?? until, until)
            } else {
                let known = unanswered.users[entry.key].flatMap { $0.until > now ? $0 : nil }
                unanswered.users[entry.key] = (max(known?.until ?? until, until), (known?.count ?? 0) + 1)
            }
        }
        leave(entry)
    }

    /// Unanswered mints of one end user; at least 1 for everybody while there were too many to tell apart.
    package func unansweredCount(of endUserID: String, now: MonotonicInstant) -> Int {
        let key = Key(endUserID)
        return unanswered.withLock { unanswered in
            if let user = unanswered.users[key] {
                if user.until > now { return user.count }
                unanswered.users[key] = nil
            }
            return unanswered.everybodyUntil.map { $0 > now ? 1 : 0 } ?? 0
        }
    }

    /// Nobody has an unanswered mint.
    package func hasNoUnanswered(now: MonotonicInstant) -> Bool {
        unanswered.withLock { unanswered in
            (unanswered.everybodyUntil ?? now) <= now && !unanswered.users.values.contains { $0.until > now }
        }
    }

    /// The number of the last entry: whoever enters later has a greater one.
    package var latestNumber: UInt64 { lastNumber.load(ordering: .sequentiallyConsistent) }

    /// Somebody of this end user entered at or before `number` and is still in.
    package func hasEntries(of endUserID: String, through number: UInt64) -> Bool {
        let key = Key(endUserID)
        return shard(key).withLock { $0[key]?.entries.contains { $0.number <= number } ?? false }
    }

    /// Those of one end user, oldest first.
    package func entries(of endUserID: String) -> [Entry] {
        let key = Key(endUserID)
        return shard(key).withLock { $0[key]?.entries ?? [] }.sorted { $0.number < $1.number }
    }

    package func count(of endUserID: String) -> Int { entries(of: endUserID).count }

    package var count: Int { total.load(ordering: .relaxed) }

    /// One more would be too many, as it looks.
    package var isFull: Bool { count >= maxCount.load(ordering: .relaxed) }

    private func shard(_ key: Key) -> Lock<[Key: Present]> { shards[key.hash & (shards.count - 1)] }
}
