import Primitives

/// Something that fires once at a time of its own. Belongs to one loop; a base class, so that an owner can be its own timer and a
/// connection needs no second object.
open class TimerNode {
    // `open`, the only public thing here: a package class cannot be inherited from in another target.
    /// When it is to fire; read by the wheel when its slot comes up, so that a later deadline needs no relinking.
    fileprivate var deadline = MonotonicInstant.distantFuture
    /// The tick of its slot, or one of the two marks below.
    fileprivate var slotTick = TimerNode.free
    fileprivate var next: TimerNode?
    // Weak in meaning: the neighbour that owns this node through `next` lives at least as long as the link.
    fileprivate unowned(unsafe) var previous: TimerNode?

    public init() {}

    fileprivate static let free: Int64 = -1
    /// Taken out of the wheel and about to be fired.
    fileprivate static let due: Int64 = -2

    package final var isScheduled: Bool { slotTick >= 0 }

    /// - Returns: whether it is still to be fired: not when it was cancelled or scheduled anew since its time came.
    final func takeDue() -> Bool {
        guard slotTick == TimerNode.due else { return false }
        slotTick = TimerNode.free
        return true
    }

    /// Called on the loop, never before the deadline. The node is no longer scheduled then.
    open func fire() {}
}

/// A timer with a closure. The loop keeps it alive while it is scheduled: capture its owner weakly.
package final class LoopTimer: TimerNode {
    private let action: () -> Void
    package init(_ action: @escaping () -> Void) { self.action = action }
    override package func fire() { action() }
}

/// Hashed timing wheel: 4,096 slots of about 4.2 ms (one turn 17 s). Scheduling, cancelling and moving are O(1); what lies more than one
/// turn ahead is looked at once a turn. Pure: the time is passed in.
struct TimerWheel {
    private static let tickShift: Int64 = 22
    private static let slotCount = 4096
    private var slots: [TimerNode?] = Array(repeating: nil, count: slotCount)
    private var occupied: [UInt64] = Array(repeating: 0, count: slotCount / 64)
    /// Everything up to and including this tick has been looked at.
    private var doneTick: Int64
    private(set) var count = 0

    init(now: MonotonicInstant) { doneTick = now.nanoseconds >> Self.tickShift }

    /// The first tick that begins at or after the deadline: never early, at most one tick late.
    private func tick(of deadline: MonotonicInstant) -> Int64 {
        let tick = (deadline.nanoseconds >> Self.tickShift) + 1
        return max(tick, doneTick + 1)
    }

    /// - Returns: when the loop has to wake up for it.
    mutating func schedule(_ node: TimerNode, at deadline: MonotonicInstant) -> MonotonicInstant {
        node.deadline = deadline
        let tick = tick(of: deadline)
        if node.isScheduled {
            // It lies in an earlier slot: found there, not yet due, put on.
            if node.slotTick <= tick { return Self.start(of: node.slotTick) }
            unlink(node)
        }
        link(node, tick)
        return Self.start(of: tick)
    }

    mutating func cancel(_ node: TimerNode) {
        if node.isScheduled { unlink(node) }
        node.slotTick = TimerNode.free
    }

    /// Takes everything out, one by one: a chain that goes at once would go as deep into the stack as it is long.
    mutating func removeAll() -> [TimerNode] {
        var nodes: [TimerNode] = []
        for slot in slots.indices {
            while let node = slots[slot] {
                unlink(node)
                nodes.append(node)
            }
        }
        return nodes
    }

    /// Takes out what is due. What is taken is to be fired if its ``TimerNode/takeDue()`` says so.
    mutating func takeDue(now: MonotonicInstant, into due: inout [TimerNode]) {
        let current = now.nanoseconds >> Self.tickShift
        guard current > doneTick else { return }
        let steps = min(current - doneTick, Int64(Self.slotCount))
        let first = current - steps + 1
        doneTick = current
        for tick in first...current {
            let slot = Int(tick) & (Self.slotCount - 1)
            guard occupied[slot >> 6] & (1 << UInt64(slot & 63)) != 0 else { continue }
            var node = slots[slot]
            while let candidate = node {
                node = candidate.next
                if candidate.slotTick <= current {
                    unlink(candidate)
                    if candidate.deadline <= now {
                        candidate.slotTick = TimerNode.due
                        due.append(candidate)
                    } else {
                        link(candidate, self.tick(of: candidate.deadline))
                    }
                }
            }
        }
    }

    /// When the next occupied slot comes up; `nil` when nothing is scheduled. May be early by whole turns, never late.
    func nextWake() -> MonotonicInstant? {
        guard count > 0 else { return nil }
        let start = doneTick + 1
        var offset: Int64 = 0
        while offset < Int64(Self.slotCount) {
            let slot = Int(start + offset) & (Self.slotCount - 1)
            let word = occupied[slot >> 6] >> UInt64(slot & 63)
            if word != 0 { return Self.start(of: start + offset + Int64(word.trailingZeroBitCount)) }
            offset += Int64(64 - slot & 63)
        }
        return Self.start(of: start + Int64(Self.slotCount) - 1)
    }

    private static func start(of tick: Int64) -> MonotonicInstant {
        let (product, overflow) = tick.multipliedReportingOverflow(by: 1 << tickShift)
        return overflow ? .distantFuture : MonotonicInstant(nanoseconds: product)
    }

    private mutating func link(_ node: TimerNode, _ tick: Int64) {
        let slot = Int(tick) & (Self.slotCount - 1)
        node.slotTick = tick
        node.previous = nil
        node.next = slots[slot]
        node.next?.previous = node
        slots[slot] = node
        occupied[slot >> 6] |= 1 << UInt64(slot & 63)
        count += 1
    }

    private mutating func unlink(_ node: TimerNode) {
        let slot = Int(node.slotTick) & (Self.slotCount - 1)
        let next = node.next
        next?.previous = node.previous
        if let previous = node.previous {
            previous.next = next
        } else {
            slots[slot] = next
            if next == nil { occupied[slot >> 6] &= ~(1 << UInt64(slot & 63)) }
        }
        node.next = nil
        node.previous = nil
        node.slotTick = TimerNode.free
        count -= 1
    }
}
