/// A point on a clock that never jumps, for deadlines and ages. Nanoseconds since an arbitrary start of this boot.
package struct MonotonicInstant: Sendable, Hashable, Comparable {
    package var nanoseconds: Int64

    @inlinable
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    package static let distantFuture = MonotonicInstant(nanoseconds: .max)

    // All of them by hand: those that the compiler or the protocol adds are called through tables from other targets.
    @inlinable
    package static func == (left: Self, right: Self) -> Bool { left.nanoseconds == right.nanoseconds }
    @inlinable
    package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }
    @inlinable
    package static func <= (left: Self, right: Self) -> Bool { left.nanoseconds <= right.nanoseconds }
    @inlinable
    package static func > (left: Self, right: Self) -> Bool { left.nanoseconds > right.nanoseconds }
    @inlinable
    package static func >= (left: Self, right: Self) -> Bool { left.nanoseconds >= right.nanoseconds }

    /// Saturates instead of overflowing, so that no configured duration can trap.
    @inlinable
    package static func + (instant: Self, duration: Duration) -> Self {
        instant.advanced(byNanoseconds: duration.wholeNanoseconds)
    }

    @inlinable
    package static func - (left: Self, right: Self) -> Duration {
        .nanoseconds(left.nanoseconds.subtractingReportingOverflow(right.nanoseconds).partialValue)
    }

    @inlinable
    package func advanced(byNanoseconds count: Int64) -> Self {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(count)
        return overflow ? .distantFuture : Self(nanoseconds: sum)
    }
}

/// A point on the clock on the wall (UTC), for `exp`, `nbf`, `iat`, `Date` and records, and for nothing else: it may jump.
package struct WallInstant: Sendable, Hashable, Comparable {
    /// Nanoseconds since 1970-01-01T00:00:00Z; reaches to the year 2262.
    package var nanosecondsSinceEpoch: Int64

    @inlinable
    package init(nanosecondsSinceEpoch: Int64) { self.nanosecondsSinceEpoch = nanosecondsSinceEpoch }
    package init(secondsSinceEpoch: Int64) {
        let (product, overflow) = secondsSinceEpoch.multipliedReportingOverflow(by: 1_000_000_000)
        nanosecondsSinceEpoch = overflow ? (secondsSinceEpoch < 0 ? .min : .max) : product
    }

    package var secondsSinceEpoch: Int64 {
        let (quotient, remainder) = nanosecondsSinceEpoch.quotientAndRemainder(dividingBy: 1_000_000_000)
        return remainder < 0 ? quotient - 1 : quotient
    }
    /// Exact to about a microsecond at today's dates.
    package var fractionalSeconds: Double { Double(nanosecondsSinceEpoch) / 1e9 }

    @inlinable
    package static func < (left: Self, right: Self) -> Bool { left.nanosecondsSinceEpoch < right.nanosecondsSinceEpoch }

    @inlinable
    package static func + (instant: Self, duration: Duration) -> Self {
        let (sum, overflow) = instant.nanosecondsSinceEpoch.addingReportingOverflow(duration.wholeNanoseconds)
        return Self(nanosecondsSinceEpoch: overflow ? .max : sum)
    }
}

extension Duration {
    /// Rounded towards zero; saturates at about 292 years.
    @inlinable
    package var wholeNanoseconds: Int64 {
        // One division of a machine word where `components` takes two of 128 bits; every bound here is below these 230 years.
        let high = UInt64(truncatingIfNeeded: attoseconds >> 64)
        if high < 400_000_000 {
            let parts = (high: high, low: UInt64(truncatingIfNeeded: attoseconds))
            return Int64(truncatingIfNeeded: (1_000_000_000 as UInt64).dividingFullWidth(parts).quotient)
        }
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds < 0 ? .min : .max }
        let (sum, overflow2) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflow2 ? (seconds < 0 ? .min : .max) : sum
    }

    package var fractionalSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}

/// Both clocks, as a parameter. Called from any thread.
package protocol TimeSource: Sendable {
    func monotonic() -> MonotonicInstant
    func wall() -> WallInstant
}
