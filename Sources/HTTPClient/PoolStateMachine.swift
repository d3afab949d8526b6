import Primitives

/// The bounds of one loop's pool of one origin.
package struct PoolLimits: Sendable, Equatable {
    /// Requests that wait for a connection; one more is refused.
    package var waitingCount = 1024
    /// An idle connection is closed after this.
    package var idleTimeout: Duration = .seconds(50)
    /// No connection is used for longer, so that a change in DNS is noticed.
    package var maxAge: Duration = .seconds(300)

    package init() {}
}

/// The connections of one origin and the requests that wait for one. Pure: it opens and closes nothing, it says what to do.
///
/// Every connection is in one state; an event that does not fit the state is answered with `.none` and changes nothing. A connection
/// keeps its place in the budget from `.connect` until the shell reports ``closed(_:)``.
///
/// `Request` is the caller's handle; only its equality is used.
package struct PoolStateMachine<Request: Equatable> {
    /// A place in the table of connections. Given out again after ``closed(_:)``.
    package struct ConnectionID: Hashable, Sendable {
        package let index: Int
    }

    package enum State: Equatable, Sendable {
        case closed
        case connecting
        case leased(opened: MonotonicInstant)
        case idle(opened: MonotonicInstant, since: MonotonicInstant)
        /// The shell was told to close it and has not yet said that it did.
        case closing
    }

    package enum RequestAction: Equatable {
        case lease(ConnectionID)
        /// It waits. Call ``nextConnection()`` until `nil`.
        case wait
        case refuse(Refusal)
    }

    package enum Refusal: Equatable, Sendable { case tooManyWaiting, tooLate, draining }

    /// What a connection does that has become free.
    package enum FreeAction: Equatable {
        case none
        case serve(Request)
        case keepIdle
        /// Close it, then report ``closed(_:)``.
        case close
    }

    private struct Waiter {
        let request: Request
        let deadline: MonotonicInstant
        /// The second attempt of a request: only a connection made for it will do.
        let needsFresh: Bool
    }

    private let limits: PoolLimits
    private let budget: ConnectionBudget
    private let member: ConnectionBudget.Member?
    private var states: [State] = []
    private var free: [Int] = []
    /// Most recently used last: the last one is taken first, so that the others grow old and are closed.
    private var idle: [Int] = []
    private var waiting: [Waiter] = []
    private var waitingHead = 0
    private var stale: [ConnectionID] = []
    private var isDraining = false
    package private(set) var connectingCount = 0
    package private(set) var leasedCount = 0

    /// - Parameter member: in whose name the pool takes places; without it, it gives none up while its own requests wait.
    package init(limits: PoolLimits, budget: ConnectionBudget, member: ConnectionBudget.Member? = nil) {
        self.limits = limits
        self.budget = budget
        self.member = member
    }

    package var idleCount: Int { idle.count }
    package var waitingCount: Int { waiting.count - waitingHead }
    package var openCount: Int { states.count - free.count }
    /// A connection has to be opened for somebody who waits, and none is on its way.
    package var needsConnection: Bool { waitingCount > connectingCount }
    package func state(of connection: ConnectionID) -> State {
        connection.index < states.count ? states[connection.index] : .closed
    }

    // MARK: Events

    /// A request wants a connection: the most recently used idle one, or it waits in line.
    package mutating func request(
        _ request: Request, deadline: MonotonicInstant, needsFresh: Bool, now: MonotonicInstant
    ) -> RequestAction {
        if isDraining { return .refuse(.draining) }
        if deadline <= now { return .refuse(.tooLate) }
        // Nobody overtakes the line; with an idle connection there is none, except requests that need a fresh one.
        if !needsFresh {
            while let index = idle.popLast() {
                guard case .idle(let opened, let since) = states[index] else { continue }
                if isStale(opened: opened, since: since, now: now) {
                    retire(index)
                    continue
                }
                states[index] = .leased(opened: opened)
                leasedCount += 1
                return .lease(ConnectionID(index: index))
            }
        }
        guard waitingCount < limits.waitingCount else { return .refuse(.tooManyWaiting) }
        waiting.append(Waiter(request: request, deadline: deadline, needsFresh: needsFresh))
        return .wait
    }

    /// The next connection to open, `nil` when enough are on their way or the budget has no place (then ``needsConnection`` stays true).
    package mutating func nextConnection() -> ConnectionID? {
        guard needsConnection, budget.tryAcquire() else { return nil }
        let index: Int
        if let reused = free.popLast() {
            index = reused
        } else {
            index = states.count
            states.append(.closed)
        }
        states[index] = .connecting
        connectingCount += 1
        return ConnectionID(index: index)
    }

    /// The connection is open, with its TLS handshake done.
    package mutating func connected(_ connection: ConnectionID, now: MonotonicInstant) -> FreeAction {
        guard case .connecting = state(of: connection) else { return .none }
        connectingCount -= 1
        return settle(connection.index, opened: now, isFresh: true, now: now)
    }

    /// The connection could not be opened; its place is given back. The first in line has used up one attempt: it is taken out of the
    /// line and returned.
    package mutating func connectFailed(_ connection: ConnectionID, now: MonotonicInstant) -> Request? {
        guard case .connecting = state(of: connection) else { return nil }
        connectingCount -= 1
        release(connection.index)
        // Whatever its deadline: one that stayed in line would have another connection opened for it at once, and so on without end.
        return popWaiter(isFresh: true, now: nil)
    }

    /// The exchange on the connection is over. `isReusable` false: it must be closed (RFC 9112 section 9.6, or anything unexpected on it).
    package mutating func released(_ connection: ConnectionID, isReusable: Bool, now: MonotonicInstant) -> FreeAction {
        guard case .leased(let opened) = state(of: connection) else { return .none }
        leasedCount -= 1
        let isUnfair = member.map { budget.isUnfair($0, openCount: openCount) } ?? false
        if !isReusable || isUnfair || opened + limits.maxAge <= now {
            states[connection.index] = .closing
            return .close
        }
        return settle(connection.index, opened: opened, isFresh: false, now: now)
    }

    /// The connection is closed: by the other side while idle or leased, or by us. Its place is given back.
    package mutating func closed(_ connection: ConnectionID) {
        switch state(of: connection) {
        case .closed: return
        case .connecting: connectingCount -= 1
        case .leased: leasedCount -= 1
        case .idle: idle.removeAll { $0 == connection.index }
        case .closing: break
        }
        release(connection.index)
    }

    /// The request's deadline has passed or its caller has gone. False when it was not waiting.
    package mutating func withdraw(_ request: Request) -> Bool {
        guard let position = waiting[waitingHead...].firstIndex(where: { $0.request == request }) else { return false }
        waiting.remove(at: position)
        return true
    }

    /// Idle connections whose time is over, for the shell to close. Also those that ``request(_:deadline:needsFresh:now:)`` passed over.
    package mutating func takeStale(now: MonotonicInstant) -> [ConnectionID] {
        for index in idle {
            guard case .idle(let opened, let since) = states[index] else { continue }
            if isStale(opened: opened, since: since, now: now) { retire(index) }
        }
        idle.removeAll { states[$0] == .closing }
        defer { stale = [] }
        return stale
    }

    package var hasStale: Bool { !stale.isEmpty }

    /// When ``takeStale(now:)`` has something to do next.
    package var nextExpiry: MonotonicInstant? {
        var next: MonotonicInstant?
        for index in idle {
            guard let expiry = expiry(of: ConnectionID(index: index)) else { continue }
            next = min(next ?? expiry, expiry)
        }
        return next
    }

    /// When the time of one idle connection is over.
    package func expiry(of connection: ConnectionID) -> MonotonicInstant? {
        guard case .idle(let opened, let since) = state(of: connection) else { return nil }
        return min(opened + limits.maxAge, since + limits.idleTimeout)
    }

    /// Another pool needs the place: the idle connection that was not used for the longest time.
    package mutating func shed() -> ConnectionID? {
        guard let index = idle.first else { return nil }
        idle.removeFirst()
        states[index] = .closing
        return ConnectionID(index: index)
    }

    /// No new requests, no idle connections: those returned are closed now. What is leased or waits is finished.
    package mutating func drain() -> [ConnectionID] {
        isDraining = true
        for index in idle { retire(index) }
        idle = []
        defer { stale = [] }
        return stale
    }

    /// Somebody here or on another loop gets the connection, or its place, as soon as it is free.
    package var isWaitedFor: Bool { waitingCount > 0 || budget.isWanted }

    /// Everybody who waits, taken out of the line.
    package mutating func takeWaiting() -> [Request] {
        defer {
            waiting = []
            waitingHead = 0
        }
        return waiting[waitingHead...].map(\.request)
    }

    // MARK: Parts

    private mutating func settle(
        _ index: Int, opened: MonotonicInstant, isFresh: Bool, now: MonotonicInstant
    ) -> FreeAction {
        if let request = popWaiter(isFresh: isFresh, now: now) {
            states[index] = .leased(opened: opened)
            leasedCount += 1
            return .serve(request)
        }
        if isDraining || budget.isWanted {
            states[index] = .closing
            return .close
        }
        states[index] = .idle(opened: opened, since: now)
        idle.append(index)
        return .keepIdle
    }

    /// The first in line whom this connection may serve. One whose deadline has passed stays for its own timer to fail it; without `now`
    /// nobody is passed over for that.
    private mutating func popWaiter(isFresh: Bool, now: MonotonicInstant?) -> Request? {
        for position in waitingHead..<waiting.count {
            let waiter = waiting[position]
            if let now, waiter.deadline <= now { continue }
            if waiter.needsFresh && !isFresh { continue }
            if position == waitingHead {
                waitingHead += 1
                if waitingHead == waiting.count {
                    waiting.removeAll(keepingCapacity: true)
                    waitingHead = 0
                } else if waitingHead >= 64, waitingHead * 2 >= waiting.count {
                    waiting.removeFirst(waitingHead)
                    waitingHead = 0
                }
            } else {
                waiting.remove(at: position)
            }
            return waiter.request
        }
        return nil
    }

    private func isStale(opened: MonotonicInstant, since: MonotonicInstant, now: MonotonicInstant) -> Bool {
        since + limits.idleTimeout <= now || opened + limits.maxAge <= now
    }

    /// Out of use; the caller takes it out of `idle`.
    private mutating func retire(_ index: Int) {
        states[index] = .closing
        stale.append(ConnectionID(index: index))
    }

    private mutating func release(_ index: Int) {
        states[index] = .closed
        free.append(index)
        budget.release()
    }
}
