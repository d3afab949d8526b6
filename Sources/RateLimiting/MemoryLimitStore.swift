import Primitives

/// Cells of this process, shared by all loops: 256 shards, each behind its own short lock. Decides at once, without an allocation.
///
/// Key: ``LimitKey``. TTL: until a cell is idle, which its own value says. Bound: `maxCells`, 24 bytes each; ``LimitTable`` says which
/// cell makes room. Never stale.
package final class MemoryLimitStore: LimitStore, Sendable {
    package static let maxCells = 1_000_000
    package static let bytesPerCell = MemoryLayout<LimitTable.Slot>.stride
    static let shardCount = 256

    private let shards: [Lock<LimitTable>]

    package init(maxCells: Int = MemoryLimitStore.maxCells) {
        shards = (0..<Self.shardCount).map { _ in Lock(LimitTable(maxCells: maxCells / Self.shardCount)) }
    }

    /// The same without a completion: this store never asks anybody.
    package func charge(_ charges: Charges, now: MonotonicInstant) -> LimitDecision {
        for index in 0..<charges.count {
            guard let charge = charges[index] else { break }
            let decision = shard(charge.key).withLock { $0.charge(charge, now: now.nanoseconds) }
            if case .limited(let retryAfter) = decision { return .limited(charge.limit, retryAfter: retryAfter) }
        }
        return .allowed
    }

    package func charge(
        _ charges: Charges, now: MonotonicInstant, deadline: MonotonicInstant,
        completion: @escaping (LimitDecision) -> Void
    ) -> LimitDecision? {
        charge(charges, now: now)
    }

    package func penalize(_ charge: Charge, now: MonotonicInstant) {
        shard(charge.key).withLock { $0.penalize(charge, now: now.nanoseconds) }
    }

    /// Requests this key could make back to back now.
    package func remaining(_ charge: Charge, now: MonotonicInstant) -> Int {
        shard(charge.key).withLock { $0.cell(charge.cell) }.remaining(now: now.nanoseconds, rule: charge.rule)
    }

    /// Places for cells that memory is held for, and cells in use that had to make room. For metrics: takes every lock once.
    package var usage: (cells: Int, evictions: UInt64) {
        shards.reduce(into: (0, 0)) { sum, shard in
            let (cells, evictions) = shard.withLock { ($0.slots.count, $0.evictions) }
            sum.0 += cells
            sum.1 += evictions
        }
    }

    @inline(__always)
    private func shard(_ key: LimitKey) -> Lock<LimitTable> { shards[Int(key.high >> 56)] }
}
