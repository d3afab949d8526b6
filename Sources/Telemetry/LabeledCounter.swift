import Primitives
import Synchronization

/// The labels of one series as a small value, for ``LabeledCounter``.
package protocol MetricLabels: Sendable {
    static var names: [StaticString] { get }
    /// A number that no other combination of values has (enum ordinals and a status side by side), below `UInt64.max`.
    var identity: UInt64 { get }
    /// In the order of `names`. Looked at once per series.
    var values: [String] { get }
}

/// A counter whose series is found by its labels, without a lock: for what every request does.
package final class LabeledCounter<Labels: MetricLabels>: Sendable {
    /// The table that readers use. It is retained by `tables`.
    private let current: Atomic<Unmanaged<SeriesTable>>
    /// All tables so far, the last one being `current`. Replaced ones are kept, because a reader may still be in one: sizes double, so
    /// all of them together are smaller than the last.
    private let tables: Lock<[SeriesTable]>
    private let make: @Sendable (Labels) -> Counter

    init(make: @escaping @Sendable (Labels) -> Counter) {
        let first = SeriesTable(slotCount: 64)
        current = Atomic(Unmanaged.passUnretained(first))
        tables = Lock([first])
        self.make = make
    }

    package func add(_ labels: Labels, _ count: UInt64 = 1) { counter(labels).add(count) }

    package func counter(_ labels: Labels) -> Counter {
        let identity = labels.identity
        let found = current.load(ordering: .acquiring)._withUnsafeGuaranteedRef { $0.find(identity) }
        return found ?? insert(labels, identity)
    }

    private func insert(_ labels: Labels, _ identity: UInt64) -> Counter {
        let counter = make(labels)
        tables.withLock { tables in
            guard let last = tables.last, last.find(identity) == nil else { return }
            // Beyond the bound every further series is the family's one for `other`: found the slow way, and not worth a slot.
            guard last.count < Metrics.maxSeries else { return }
            if !last.isFull { return last.insert(identity, counter) }
            let next = SeriesTable(doubling: last)
            next.insert(identity, counter)
            tables.append(next)
            current.store(Unmanaged.passUnretained(next), ordering: .releasing)
        }
        return counter
    }
}

/// Open addressing from identity to counter. Any number of readers; one writer at a time, under the owner's lock.
private final class SeriesTable: @unchecked Sendable {
    // Sendable: a slot is written once, its counter before its identity (release); readers look at the counter only after they have
    // seen the identity (acquire). `count` belongs to the writer.
    private struct Slot: ~Copyable {
        let identity = Atomic<UInt64>(.max)
        var counter: Counter?
    }

    private let slots: UnsafeMutablePointer<Slot>
    private let mask: Int
    private(set) var count = 0

    /// - Parameter slotCount: a power of two.
    init(slotCount: Int) {
        slots = .allocate(capacity: slotCount)
        mask = slotCount - 1
        for index in 0..<slotCount { (slots + index).initialize(to: Slot()) }
    }

    convenience init(doubling other: SeriesTable) {
        self.init(slotCount: (other.mask + 1) * 2)
        for index in 0...other.mask {
            guard let counter = other.slots[index].counter else { continue }
            insert(other.slots[index].identity.load(ordering: .relaxed), counter)
        }
    }

    deinit {
        slots.deinitialize(count: mask + 1)
        slots.deallocate()
    }

    /// Half of the slots stay empty, so a search ends after a step or two.
    var isFull: Bool { count * 2 > mask }

    func find(_ identity: UInt64) -> Counter? {
        var index = Self.hash(identity) & mask
        while true {
            switch slots[index].identity.load(ordering: .acquiring) {
            case identity: return slots[index].counter
            case .max: return nil
            default: index = (index + 1) & mask
            }
        }
    }

    func insert(_ identity: UInt64, _ counter: Counter) {
        precondition(identity != .max)
        var index = Self.hash(identity) & mask
        while slots[index].counter != nil { index = (index + 1) & mask }
        slots[index].counter = counter
        slots[index].identity.store(identity, ordering: .releasing)
        count += 1
    }

    /// Fibonacci hashing: the high bits of the product depend on all bits of the identity.
    private static func hash(_ identity: UInt64) -> Int { Int(truncatingIfNeeded: (identity &* 0x9E37_79B9_7F4A_7C15) >> 32) }
}
