import RateLimiting
import Synchronization
import Telemetry

/// What the rate limits did.
final class LimitMetrics: Sendable {
    private let limited: [LimitName: Counter]
    private let unconfiguredProxy: Counter
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
        unconfiguredProxy = metrics.counter(
            "unconfigured_proxy_total",
            help: "Requests of peers that send the field of a proxy and are not in trusted_proxies: not limited by address.")
        metrics.gauge(
            "limiter_degraded", help: "1 while the rate limits are counted by this process alone because Redis fails."
        ).set(0)
        metrics.gauges("limiter_cells", help: "Places for cells of rate limits that memory is held for.") {
            [([], Double(store.usage.cells))]
        }
        metrics.counters("limiter_evictions_total", help: "Cells in use that had to make room for others.") {
            [([], Double(store.usage.evictions))]
        }
    }

    func countLimited(by limit: LimitName) { limited[limit]?.add() }

    /// - Returns: true the first time.
    func countsFirstUnconfiguredProxy() -> Bool {
        unconfiguredProxy.add()
        // Looked at before it is written: the line of the cache stays with whoever has it.
        return !hasWarned.load(ordering: .relaxed) && !hasWarned.exchange(true, ordering: .relaxed)
    }
}
