import Primitives
import Synchronization

/// Where the process is between its start and its end. One writer, read from every loop at each request.
package final class Lifecycle: Sendable {
    private let drainEnds = Atomic<Int64>(.max)

    package init() {}

    /// From the signal on. - Parameter end: when what is still open is cut.
    func beginDraining(until end: MonotonicInstant) { drainEnds.store(end.nanoseconds, ordering: .relaxed) }

    package var isDraining: Bool { drainEnds.load(ordering: .relaxed) != .max }

    /// When what is still open is cut; `nil`: the process does not drain.
    var drainEnd: MonotonicInstant? {
        let nanoseconds = drainEnds.load(ordering: .relaxed)
        return nanoseconds == .max ? nil : MonotonicInstant(nanoseconds: nanoseconds)
    }

    /// Whether a request that may take until `deadline` can still be answered.
    func canServe(until deadline: MonotonicInstant) -> Bool { deadline.nanoseconds <= drainEnds.load(ordering: .relaxed) }
}
