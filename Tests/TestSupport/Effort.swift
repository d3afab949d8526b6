import Foundation

/// How much of a test that only computes is done. The sanitizers look at places in the code, ten to twenty times as slowly: a tenth of the rounds
/// reaches the same places.
package enum Effort {
    /// `scripts/sanitize` sets this for both.
    package static let isSanitized = ProcessInfo.processInfo.environment["ASAN_OPTIONS"] != nil

    package static func rounds(_ count: Int) -> Int { isSanitized ? max(1, count / 10) : count }
}
