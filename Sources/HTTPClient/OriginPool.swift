import HTTPMessage
import Primitives

/// The connections of one loop to one origin: the pure machine and the objects behind its IDs.
final class OriginPool {
    let origin: Origin
    /// The `Host` line, the same for every request.
    let hostLine: [UInt8]
    var machine: PoolStateMachine<Exchange>
    var connections: [ClientConnection?] = []
    /// Keeps a connection that fails at once from starting the next one inside its own start.
    var isFilling = false
    private var reported = HTTPClientCounters.Share()

    init(origin: Origin, limits: PoolLimits, budget: ConnectionBudget, member: ConnectionBudget.Member?) {
        self.origin = origin
        var line: [UInt8] = []
        HeadEncoder.host(origin, to: &line)
        hostLine = line
        machine = PoolStateMachine(limits: limits, budget: budget, member: member)
    }

    var isUnused: Bool { machine.openCount == 0 && machine.waitingCount == 0 }

    func connection(_ id: PoolStateMachine<Exchange>.ConnectionID) -> ClientConnection? {
        id.index < connections.count ? connections[id.index] : nil
    }

    func put(_ connection: ClientConnection?, at id: PoolStateMachine<Exchange>.ConnectionID) {
        while connections.count <= id.index { connections.append(nil) }
        connections[id.index] = connection
    }

    /// Brings the counters up to date.
    func report(to counters: HTTPClientCounters) {
        let share = HTTPClientCounters.Share(
            connecting: machine.connectingCount, idle: machine.idleCount, leased: machine.leasedCount,
            waiting: machine.waitingCount)
        if share == reported { return }
        counters.move(from: reported, to: share)
        reported = share
    }
}
