import EventLoop
import Primitives
import Telemetry

/// Whether the wall clock has gone on as far as the monotonic one. Pure.
struct ClockComparison {
    /// What NTP corrects by slewing is far below; sessions are allowed 60 s of skew.
    static let tolerance = Duration.seconds(2)

    private var last: (monotonic: MonotonicInstant, wall: WallInstant)

    init(monotonic: MonotonicInstant, wall: WallInstant) { last = (monotonic, wall) }

    /// The jump since the last look, negative for one back; `nil` within the tolerance.
    mutating func look(monotonic: MonotonicInstant, wall: WallInstant) -> Duration? {
        let passed = (monotonic - last.monotonic).wholeNanoseconds
        let shown = wall.nanosecondsSinceEpoch.subtractingReportingOverflow(last.wall.nanosecondsSinceEpoch).partialValue
        last = (monotonic, wall)
        let jump = Duration.nanoseconds(shown.subtractingReportingOverflow(passed).partialValue)
        return jump > Self.tolerance || jump < .zero - Self.tolerance ? jump : nil
    }
}

/// Compares the clocks once a second and says so when the wall clock has jumped: sessions may seem expired, or not yet valid. No timer is
/// moved by it. Belongs to one loop.
final class ClockWatch {
    static let interval = Duration.seconds(1)

    private let loop: EventLoop
    private let log: Log
    private var comparison: ClockComparison
    private lazy var timer = LoopTimer { [weak self] in self?.look() }

    init(loop: EventLoop, log: Log) {
        self.loop = loop
        self.log = log
        comparison = ClockComparison(monotonic: loop.time.monotonic(), wall: loop.time.wall())
    }

    func start() { loop.schedule(timer, after: Self.interval) }

    private func look() {
        // Read together: the time of this turn may be some way behind.
        if let jump = comparison.look(monotonic: loop.time.monotonic(), wall: loop.time.wall()) {
            log.write(
                .warning, "the wall clock has jumped; sessions are checked against the new time",
                [LogField("jump_ms", .milliseconds(jump))])
        }
        start()
    }
}
