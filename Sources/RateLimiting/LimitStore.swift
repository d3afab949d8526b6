import GCRA
import Primitives

/// One cell of a store: 128 bits of a keyed digest over the limit's name and the value, so a store never sees an address, a session
/// or an end-user ID. Made by ``LimitKeyMaker``.
package struct LimitKey: Sendable, Hashable {
    package let high: UInt64
    package let low: UInt64

    @inlinable
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

/// A question to one cell: may this request pass?
package struct Charge: Sendable, Hashable {
    package let limit: LimitName
    package let key: LimitKey
    package let rule: GCRARule
    /// Requests, 1 or more.
    package let cost: Int

    @inlinable
    package init(_ limit: LimitName, key: LimitKey, rule: GCRARule, cost: Int = 1) {
        self.limit = limit
        self.key = key
        self.rule = rule
        self.cost = cost
    }
}

/// Up to four charges, in the order in which they are asked. No allocation.
package struct Charges: Sendable {
    package static let maxCount = 4

    private var storage: InlineArray<4, Charge?> = .init(repeating: nil)
    package private(set) var count = 0

    package init() {}

    package init(_ charge: Charge) { append(charge) }

    package var isEmpty: Bool { count == 0 }

    /// One too many is dropped; there are four limits.
    package mutating func append(_ charge: Charge) {
        guard count < Self.maxCount else { return assertionFailure("more charges than limits") }
        storage[count] = charge
        count += 1
    }

    /// `nil` behind the last one.
    package subscript(index: Int) -> Charge? { index < count ? storage[index] : nil }
}

package enum LimitDecision: Sendable, Hashable {
    case allowed
    /// By this limit. Nanoseconds, 1 or more: whoever waits so long is let through by it, unless others used it meanwhile.
    case limited(LimitName, retryAfter: Int64)
}

/// Where cells are kept. One per loop: every call and every completion runs on that loop.
package protocol LimitStore: AnyObject {
    /// Charges in order. Nothing is charged behind the first refusal; what was charged before it stays charged.
    ///
    /// - Parameters:
    ///   - now: the loop's time.
    ///   - deadline: of the request. A store that asks elsewhere has a shorter wait of its own (50 ms), then its fallback decides.
    ///   - completion: called later, exactly once, and only if this call returns `nil`.
    /// - Returns: the decision if it is known at once (memory, or a fallback without asking).
    func charge(
        _ charges: Charges, now: MonotonicInstant, deadline: MonotonicInstant,
        completion: @escaping (LimitDecision) -> Void
    ) -> LimitDecision?

    /// Charges without asking and without an answer: what a refused session costs its address beyond the request itself
    /// (``GCRACell/penalize(cost:now:rule:)``).
    func penalize(_ charge: Charge, now: MonotonicInstant)

    /// January has answered 429 to this process. A store that others share tells them.
    func hold(for duration: Duration)
}

extension LimitStore {
    package func hold(for duration: Duration) {}
}
