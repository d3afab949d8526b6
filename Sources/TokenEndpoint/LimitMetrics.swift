import GCRA
import Primitives
import RateLimiting
import Synchronization
import Telemetry

/// What the rate limits did.
final class LimitMetrics: Sendable {
    /// The last request a limit refused, as far as it says nothing about whose it was.
    struct Refusal: Sendable, Equatable {
        let at: MonotonicInstant
        /// Of its cell, nanoseconds.
        let theoreticalArrival: Int64
    }

    private let limited: [LimitName: Counter]
    private let last: [LimitName: Lock<Refusal?>]
    private let unconfiguredProxy: Counter
    private let degraded: Gauge
    private let hasWarned = Atomic(false)

    init(_ metrics: Metrics, store: MemoryLimitStore) {
        // Every series from the start, so that an alert on its increase sees the first one.
        limited = Dictionary(
            uniqueKeysWithValues: LimitName.allCases.map {
                (
                    $0,
                    metrics.counter(
                        "rate_limited_total", help: "Requests over a rate limit; in shadow mode they were served all the same.",
                        labels: [("limit", $0.rawValue)])
                )
            })
        last = Dictionary(uniqueKeysWithValues: LimitName.allCases.map { ($0, Lock(nil)) })
        unconfiguredProxy = metrics.counter(
            "unconfigured_proxy_total",
            help: "Requests of peers that send the field of a proxy and are not in trusted_proxies: not limited by address.")
        degraded = metrics.gauge(
            "limiter_degraded", help: "1 while the rate limits are counted by this process alone because Redis fails.")
        degraded.set(0)
        metrics.gauges("limiter_cells", help: "Places for cells of rate limits that memory is held for.") {
            [([], Double(store.usage.cells))]
        }
        metrics.counters("limiter_evictions_total", help: "Cells in use that had to make room for others.") {
            [([], Double(store.usage.evictions))]
        }
    }

    /// Another store has taken the place of the one before, whose last word the gauge may still say.
    func sharedLimitsChanged(isDegraded: Bool) { degraded.set(isDegraded ? 1 : 0) }

    /// - Parameter wait: nanoseconds until the same request would be let through.
    func countLimited(by limit: LimitName, rule: GCRARule, wait: Int64, now: MonotonicInstant) {
        limited[limit]?.add()
        // So much is used that one request more is over what the limit tolerates by `wait`.
        let refusal = Refusal(at: now, theoreticalArrival: now.nanoseconds + wait + rule.tolerance - rule.emissionInterval)
        last[limit]?.withLock { $0 = refusal }
    }

    func refusals(by limit: LimitName) -> (count: UInt64, last: Refusal?) {
        (limited[limit]?.value ?? 0, last[limit]?.withLock { $0 })
    }

    /// - Returns: true the first time.
    func countsFirstUnconfiguredProxy() -> Bool {
        unconfiguredProxy.add()
        // Looked at before it is written: the line of the cache stays with whoever has it.
        return !hasWarned.load(ordering: .relaxed) && !hasWarned.exchange(true, ordering: .relaxed)
    }
}
