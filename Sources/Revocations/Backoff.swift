import Primitives

/// How long a call that failed is left alone: 1 s, doubling to 60 s, less up to a quarter at random, so that what failed together does not come
/// back together. January's `Retry-After` is a lower bound.
package enum Backoff {
    package static let first = Duration.seconds(1)
    package static let longest = Duration.seconds(60)
    /// The longest `Retry-After` that is believed: a window of a day would leave tokens alive for a day after it was set by mistake.
    package static let longestAsked = Duration.seconds(3600)

    /// - Parameters:
    ///   - attempts: failures so far, 1 or more.
    ///   - fraction: random, 0 to 1.
    package static func delay(attempts: Int, retryAfter: Duration?, fraction: Double) -> Duration {
        let doublings = min(max(0, attempts - 1), 6)
        let full = min(first * (1 << doublings), longest)
        let jittered = full - full * (min(max(fraction, 0), 1) / 4)
        return max(jittered, min(retryAfter ?? .zero, longestAsked))
    }
}
