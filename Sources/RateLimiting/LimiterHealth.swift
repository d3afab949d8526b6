import Primitives
import Redis
import Telemetry

/// What the process says about its shared limits: one gauge, and a line when Redis is left and once a minute while it is. Any thread.
package final class LimiterHealth: Sendable {
    static let lineInterval = Duration.seconds(60)

    private struct State {
        var failingLoops = 0
        var lastLine: MonotonicInstant?
        var hasSaidFailing = false
    }

    private let state = Lock(State())
    private let log: Log
    private let time: any TimeSource
    private let address: String
    private let degraded: Gauge
    private let localDecisions: Counter

    /// - Parameter address: of Redis, for the log.
    package init(address: String, log: Log, metrics: Metrics, time: any TimeSource) {
        self.address = address
        self.log = log
        self.time = time
        degraded = metrics.gauge(
            "limiter_degraded", help: "1 while the rate limits are counted by this process alone because Redis fails.")
        localDecisions = metrics.counter(
            "limiter_local_decisions_total", help: "Decisions of rate limits made by this process alone because Redis failed.")
    }

    func decidedAlone() { localDecisions.add() }

    /// A loop decides by itself from now on.
    func began(_ error: RedisError) {
        state.withLock { state in
            state.failingLoops += 1
            degraded.set(1)
        }
        goesOn(error)
    }

    /// A probe has failed, too.
    func goesOn(_ error: RedisError) {
        let now = time.monotonic()
        let isDue = state.withLock { state in
            if let last = state.lastLine, now - last < Self.lineInterval { return false }
            state.lastLine = now
            state.hasSaidFailing = true
            return true
        }
        guard isDue else { return }
        log.write(
            .warning, "Redis does not answer as it should; this process counts its rate limits alone",
            [LogField("reason", error.reason.description), LogField("redis", address)])
    }

    /// A loop asks Redis again.
    func ended() {
        let isSaid = state.withLock { state in
            state.failingLoops -= 1
            guard state.failingLoops == 0 else { return false }
            degraded.set(0)
            defer { state.hasSaidFailing = false }
            return state.hasSaidFailing
        }
        if isSaid { log.write(.info, "Redis answers again; the rate limits are shared", [LogField("redis", address)]) }
    }

    package var isDegraded: Bool { state.withLock { $0.failingLoops > 0 } }
}
