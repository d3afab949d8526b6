import Primitives
import Synchronization

/// A number that only grows. Any thread; an addition is one relaxed atomic instruction.
package final class Counter: Sendable {
    private let total = Atomic<UInt64>(0)

    init() {}

    package func add(_ count: UInt64 = 1) { total.wrappingAdd(count, ordering: .relaxed) }

    package var value: UInt64 { total.load(ordering: .relaxed) }
}

/// A whole number that goes up and down. Any thread. Fractions come from a callback (``Metrics/gauges(_:help:labels:read:)``).
package final class Gauge: Sendable {
    private let current = Atomic<Int64>(0)

    init() {}

    package func set(_ value: Int) { current.store(Int64(value), ordering: .relaxed) }
    package func add(_ count: Int = 1) { current.wrappingAdd(Int64(count), ordering: .relaxed) }
    package func subtract(_ count: Int = 1) { current.wrappingSubtract(Int64(count), ordering: .relaxed) }

    package var value: Int { Int(current.load(ordering: .relaxed)) }
}

/// Durations by size. Any thread, no lock: an observation is two relaxed atomic additions.
package final class Histogram: Sendable {
    /// Upper bounds in nanoseconds, inclusive: 0.001 … 10 s.
    package static let bounds: [Int64] = [
        1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000,
        2_500_000_000, 5_000_000_000, 10_000_000_000,
    ]

    /// One cell per bound and one above them all.
    private let cells: [Counter] = (0...bounds.count).map { _ in Counter() }
    private let sum = Counter()

    init() {}

    /// Negative durations count as zero.
    package func observe(_ duration: Duration) { observe(nanoseconds: duration.wholeNanoseconds) }

    package func observe(nanoseconds: Int64) {
        let nanoseconds = max(0, nanoseconds)
        var index = 0
        // Most requests end within a few milliseconds: the first bounds decide.
        while index < Self.bounds.count && nanoseconds > Self.bounds[index] { index += 1 }
        cells[index].add()
        sum.add(UInt64(nanoseconds))
    }

    /// Counts per cell, not cumulated, and the sum. Read one after the other: an observation in between may be in one and not yet in
    /// the other; the total is the sum of the cells, so buckets and count always agree.
    package var snapshot: (cells: [UInt64], nanoseconds: UInt64) { (cells.map(\.value), sum.value) }
}
