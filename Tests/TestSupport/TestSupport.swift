import Primitives

/// What the tests of every target share: a clock that is moved by hand, seeded random numbers, helpers around real sockets.
/// A clock that stands still until a test moves it.
package final class TestTime: TimeSource {
    private let clocks: Lock<(monotonic: MonotonicInstant, wall: WallInstant)>

    /// Starts at 2026-11-30T00:00:00Z on the wall and at 1,000 s on the monotonic clock.
    package init(wall: WallInstant = WallInstant(secondsSinceEpoch: 1_795_996_800)) {
        clocks = Lock((MonotonicInstant(nanoseconds: 1_000_000_000_000), wall))
    }

    package func monotonic() -> MonotonicInstant { clocks.withLock { $0.monotonic } }
    package func wall() -> WallInstant { clocks.withLock { $0.wall } }

    /// Both clocks go on by `duration`.
    package func advance(by duration: Duration) {
        clocks.withLock { $0 = ($0.monotonic + duration, $0.wall + duration) }
    }

    /// The wall clock alone is set, as by an operator or NTP.
    package func setWall(_ wall: WallInstant) { clocks.withLock { $0.wall = wall } }
}

/// splitmix64: the same numbers for the same seed, everywhere.
package struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64
    package init(seed: UInt64) { state = seed }
    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
