import GCRA

/// One shard of the memory store: cells in buckets of eight, each key in one of two buckets. Pure: the lock is around it.
///
/// A cell whose theoretical arrival has passed says nothing, so its place is free: nothing has to be swept. The table doubles up to its
/// bound; then a new key takes the place of the cell that matters least of the sixteen it could have: one that was used once before one
/// that was used again, and among these the one that becomes idle first. So one-time keys push out each other, whatever their number,
/// and neither a blocked key nor one that is in use.
struct LimitTable {
    static let bucketSize = 8

    /// 24 bytes.
    struct Slot {
        var high: UInt64 = 0
        var low: UInt64 = 0
        /// The theoretical arrival, shifted by one bit; the lowest bit: used again since it was last idle.
        var state: UInt64 = 0

        @inline(__always)
        func isIdle(_ now: Int64) -> Bool { Int64(bitPattern: state >> 1) <= now }

        /// Less means less is lost.
        @inline(__always)
        var weight: UInt64 { (state & 1) << 63 | state >> 1 }
    }

    private(set) var slots: [Slot]
    private var bucketCount: Int
    private let maxBuckets: Int
    /// Cells in use that had to make room for another.
    private(set) var evictions: UInt64 = 0

    init(maxCells: Int) {
        maxBuckets = max(1, maxCells / Self.bucketSize)
        bucketCount = min(2, maxBuckets)
        slots = Array(repeating: Slot(), count: bucketCount * Self.bucketSize)
    }

    mutating func charge(_ charge: Charge, now: Int64) -> GCRACell.Decision {
        update(charge.cell, now: now) { $0.charge(cost: charge.cost, now: now, rule: charge.rule) }
    }

    mutating func penalize(_ charge: Charge, now: Int64) {
        _ = update(charge.cell, now: now) { cell in
            cell.penalize(cost: charge.cost, now: now, rule: charge.rule)
            return .allowed
        }
    }

    /// What a key has used; a key that is not there has used nothing.
    func cell(_ key: LimitKey) -> GCRACell {
        guard let index = index(of: key) else { return GCRACell() }
        return GCRACell(theoreticalArrival: Int64(bitPattern: slots[index].state >> 1))
    }

    @inline(__always)
    private mutating func update(
        _ key: LimitKey, now: Int64, _ body: (inout GCRACell) -> GCRACell.Decision
    ) -> GCRACell.Decision {
        if let index = index(of: key) { return update(index, now: now, body) }
        var cell = GCRACell()
        let decision = body(&cell)
        // Refused though nothing was used: a cost beyond the burst. There is nothing to remember.
        guard case .allowed = decision else { return decision }
        var place = place(for: key, now: now)
        while !place.isFree, bucketCount < maxBuckets {
            grow(now: now)
            place = self.place(for: key, now: now)
        }
        put(Slot(high: key.high, low: key.low, state: UInt64(bitPattern: cell.theoreticalArrival) << 1), at: place)
        return decision
    }

    @inline(__always)
    private mutating func update(
        _ index: Int, now: Int64, _ body: (inout GCRACell) -> GCRACell.Decision
    ) -> GCRACell.Decision {
        let again: UInt64 = slots[index].isIdle(now) ? 0 : 1
        var cell = GCRACell(theoreticalArrival: Int64(bitPattern: slots[index].state >> 1))
        let decision = body(&cell)
        // A refused request is a use too: a key that is blocked and tries on is the last that may be forgotten.
        slots[index].state = UInt64(bitPattern: cell.theoreticalArrival) << 1 | again
        return decision
    }

    @inline(__always)
    private func index(of key: LimitKey) -> Int? {
        let buckets = buckets(of: key)
        return slots.withUnsafeBufferPointer { slots in
            for side in 0..<2 {
                for index in buckets[side]..<buckets[side] &+ Self.bucketSize
                where slots[index].high == key.high && slots[index].low == key.low { return index }
            }
            return nil
        }
    }

    /// For a new key: a free place in the emptier of its two buckets, else that of the least of the sixteen cells.
    private func place(for key: LimitKey, now: Int64) -> (index: Int, isFree: Bool) {
        let buckets = buckets(of: key)
        return slots.withUnsafeBufferPointer { slots in
            var free = 0
            var freeCount = 0
            var victim = 0
            var least = UInt64.max
            for side in 0..<2 {
                var last = 0
                var count = 0
                for index in buckets[side]..<buckets[side] &+ Self.bucketSize {
                    let slot = slots[index]
                    if slot.isIdle(now) {
                        last = index
                        count &+= 1
                    } else if slot.weight < least {
                        least = slot.weight
                        victim = index
                    }
                }
                if count > freeCount {
                    free = last
                    freeCount = count
                }
            }
            return freeCount > 0 ? (free, true) : (victim, false)
        }
    }

    private mutating func put(_ slot: Slot, at place: (index: Int, isFree: Bool)) {
        if !place.isFree { evictions &+= 1 }
        slots[place.index] = slot
    }

    /// Where the two buckets of a key begin.
    @inline(__always)
    private func buckets(of key: LimitKey) -> InlineArray<2, Int> {
        let count = UInt64(bucketCount)
        let first = ((key.low & 0xffff_ffff) &* count) >> 32
        let second = ((key.low >> 32) &* count) >> 32
        return [Int(first) &* Self.bucketSize, Int(second) &* Self.bucketSize]
    }

    private mutating func grow(now: Int64) {
        let old = slots
        bucketCount = min(bucketCount * 2, maxBuckets)
        slots = Array(repeating: Slot(), count: bucketCount * Self.bucketSize)
        for slot in old where !slot.isIdle(now) {
            // Not free hardly ever: sixteen cells of the old table that all land in two buckets of the new one.
            put(slot, at: place(for: LimitKey(high: slot.high, low: slot.low), now: now))
        }
    }
}

extension Charge {
    /// The key of its cell. Shared keys are the same for every limit of a person (a store elsewhere puts the limit's name in front), and
    /// cells of two limits must not be one.
    var cell: LimitKey { LimitKey(high: key.high, low: key.low ^ (limit.ordinal &* 0x9e37_79b9_7f4a_7c15)) }
}
