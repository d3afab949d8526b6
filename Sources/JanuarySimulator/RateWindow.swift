import Primitives

/// Requests counted in a window that opens with the first one. January says only that there are limits and that `Retry-After` names
/// the end of the window; this is the simplest shape that does so.
struct RateWindow: Sendable {
    private var opened: WallInstant?
    private var count = 0

    /// Counts one request. `nil`: admitted. Otherwise the time until the window ends; a refused request is not counted.
    mutating func charge(_ limit: RateLimit?, now: WallInstant) -> Duration? {
        guard let limit else { return nil }
        if let start = opened, start <= now, now < start + limit.window {
            guard count >= limit.count else {
                count += 1
                return nil
            }
            return .nanoseconds((start + limit.window).nanosecondsSinceEpoch - now.nanosecondsSinceEpoch)
        }
        guard limit.count > 0 else { return limit.window }
        opened = now
        count = 1
        return nil
    }
}
