import CSystem
import Dispatch
import Glibc
import Primitives
import Synchronization

/// The loop behind a few methods, and the only target that touches sockets, `epoll` and Dispatch.
///
/// Dispatch is the scheduler. Each ``EventLoop`` is one serial queue with one epoll set behind **one** dispatch source; it drains its set in
/// batches, waits a few milliseconds for more, and returns to Dispatch. Everything registered with a loop belongs to it: sockets, timers,
/// streams are touched on the loop only and need no locks. From other threads there is one way in, ``EventLoop/execute(_:)``.
///
/// Descriptors are registered once, edge-triggered, for reading and writing: no `epoll_ctl` on the way of a request.
package final class EventLoop: @unchecked Sendable {
    // Sendable: `mailbox`, `owner` and the constants are safe from any thread; every other stored property is touched on `queue`
    // only, between the start and the end of a drain, which `assertCurrent` checks.

    /// Events taken from the kernel at once.
    private static let batch: Int32 = 256
    /// Where so many events wait in a turn that others would wait long behind them, urgent ones are looked for after so many.
    private static let urgentEvery = 32
    /// The wait for more before going back to Dispatch.
    private static let lingerMilliseconds: Int32 = 5
    /// Turns in one drain: other blocks on the queue (start, stop) run at the latest after this many.
    private static let maxTurns = 512
    /// Timers fired in one turn: when thousands of connections time out at once, those that are served get their turns in between.
    private static let maxTimersPerTurn = 256
    /// The scratch buffer that all streams of the loop read into.
    package static let readBufferBytes = 64 * 1024

    package let name: String
    package let time: any TimeSource
    private let queue: DispatchQueue
    private let life = Lock(Life.created)
    private let isStopping = Atomic<Bool>(false)
    private let epoll: FileDescriptor
    /// Urgent descriptors once more: looked at only in turns with many events.
    private let urgent: FileDescriptor
    private let wakeup: FileDescriptor
    private let alarm: FileDescriptor
    /// `nil` once the loop has stopped: what comes then is dropped.
    private let mailbox = Lock<[@Sendable () -> Void]?>([])
    private let owner = Atomic<UInt>(0)

    // Touched on the loop only.
    /// The time at the start of this turn.
    package private(set) var now: MonotonicInstant
    /// Counts the turns, and starts over: tells what happened in this one.
    package private(set) var turn: UInt32 = 0
    let readBuffer: UnsafeMutableRawBufferPointer
    private let events: UnsafeMutablePointer<epoll_event>
    private let urgentEvents: UnsafeMutablePointer<epoll_event>
    private var slots: [Slot] = []
    private var freeSlots: [UInt32] = []
    private var wheel: TimerWheel
    private var armedFor = MonotonicInstant.distantFuture
    /// Timers whose time has come, from `nextDue` on not fired yet.
    private var dueTimers: [TimerNode] = []
    private var nextDue = 0
    private var deferred: [() -> Void] = []

    private struct Slot {
        var handler: (any ReadinessHandler)?
        var generation: UInt32 = 0
    }

    private enum Life {
        // The source is made at the start: Dispatch does not allow one that was never activated to go.
        case created
        case running(any DispatchSourceRead)
        case stopped
    }

    private enum Token {
        static let wakeup = UInt64.max
        static let alarm = UInt64.max - 1
    }

    package init(name: String, time: any TimeSource = SystemTime()) throws(SystemError) {
        self.name = name
        self.time = time
        queue = DispatchQueue(label: "january.loop.\(name)", qos: .userInitiated)
        epoll = FileDescriptor(adopting: try Self.check("epoll_create1", epoll_create1(Int32(EPOLL_CLOEXEC))))
        urgent = FileDescriptor(adopting: try Self.check("epoll_create1", epoll_create1(Int32(EPOLL_CLOEXEC))))
        wakeup = FileDescriptor(
            adopting: try Self.check("eventfd", eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))))
        alarm = FileDescriptor(
            adopting: try Self.check(
                "timerfd_create", timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK))))
        now = time.monotonic()
        wheel = TimerWheel(now: now)
        readBuffer = .allocate(byteCount: Self.readBufferBytes, alignment: 64)
        events = .allocate(capacity: Int(Self.batch))
        urgentEvents = .allocate(capacity: Int(Self.batch))
        _ = try Self.check(
            "epoll_ctl", january_epoll_control(epoll.raw, EPOLL_CTL_ADD, wakeup.raw, january_epoll_in, Token.wakeup))
        _ = try Self.check("epoll_ctl", january_epoll_control(epoll.raw, EPOLL_CTL_ADD, alarm.raw, january_epoll_in, Token.alarm))
    }

    deinit {
        readBuffer.deallocate()
        events.deallocate()
        urgentEvents.deallocate()
    }

    private static func check(_ call: StaticString, _ result: Int32) throws(SystemError) -> Int32 {
        if result < 0 { throw SystemError(call) }
        return result
    }

    // MARK: Life

    /// Starts draining. The loop lives until ``stop(then:)``.
    package func start() {
        life.withLock { life in
            guard case .created = life else { return }
            let source = DispatchSource.makeReadSource(fileDescriptor: epoll.raw, queue: queue)
            let handler: @Sendable () -> Void = { self.drain() }
            source.setEventHandler(handler: handler)
            source.activate()
            life = .running(source)
        }
    }

    /// Ends the loop after the turn that is under way; `then` runs when nothing of it runs any more. What is still registered,
    /// scheduled or in the mailbox is dropped without a callback, and its descriptors are closed.
    package func stop(then: @escaping @Sendable () -> Void = {}) {
        let source: (any DispatchSourceRead)? = life.withLock { life in
            defer { life = .stopped }
            if case .running(let source) = life { return source }
            return nil
        }
        isStopping.store(true, ordering: .relaxed)
        guard let source else { return then() }
        let cancelled: @Sendable () -> Void = {
            self.dropEverything()
            then()
        }
        source.setCancelHandler(handler: cancelled)
        source.cancel()
    }

    private func dropEverything() {
        owner.store(UInt(bitPattern: Int(pthread_self())), ordering: .relaxed)
        defer { owner.store(0, ordering: .relaxed) }
        let mail = mailbox.withLock { $0.take() }
        // Taken out first: what goes here may come back to the loop while it goes.
        let handlers = slots.compactMap(\.handler)
        slots = []
        freeSlots = []
        for handler in handlers { handler.loopStopped() }
        let work = deferred
        deferred = []
        let due = dueTimers
        dueTimers = []
        nextDue = 0
        let timers = wheel.removeAll()
        withExtendedLifetime((mail, work, due, timers)) {}
    }

    // MARK: From any thread

    /// Runs `work` on the loop, in the order of the calls. Dropped once the loop has stopped.
    package func execute(_ work: @escaping @Sendable () -> Void) {
        let first = mailbox.withLock { box in
            box?.append(work)
            return box?.count == 1
        }
        if first { wakeUp() }
    }

    private func wakeUp() {
        var one: UInt64 = 1
        _ = System.retrying { write(wakeup.raw, &one, 8) }
    }

    package var isCurrent: Bool { owner.load(ordering: .relaxed) == UInt(bitPattern: Int(pthread_self())) }

    /// Stops the process when something that belongs to this loop is touched elsewhere: a data race is worse.
    package func assertCurrent() { precondition(isCurrent, "touched off its event loop") }

    // MARK: On the loop

    /// Runs `work` later in this turn, after the events that are already there: lets a busy connection give way to the others.
    package func deferWork(_ work: @escaping () -> Void) {
        assert(isCurrent)
        deferred.append(work)
    }

    package func schedule(_ timer: TimerNode, at deadline: MonotonicInstant) {
        assert(isCurrent)
        let wake = wheel.schedule(timer, at: deadline)
        if wake < armedFor { arm(wake) }
    }

    package func schedule(_ timer: TimerNode, after delay: Duration) { schedule(timer, at: now + delay) }

    package func cancel(_ timer: TimerNode) { wheel.cancel(timer) }

    /// Watches a descriptor for reading and writing, edge-triggered: each change is reported once.
    ///
    /// - Parameter isUrgent: what can be read from it does not wait behind all the others when thousands are ready at once; it may then be
    ///   reported once more than it changes. For connections that requests wait for: a server whose clients keep it busy would otherwise hear
    ///   an upstream's answers ever later, and answer fewer and fewer.
    package func register(
        _ fd: Int32, isUrgent: Bool = false, handler: any ReadinessHandler
    ) throws(SystemError) -> Registration {
        let registration = try add(
            fd, january_epoll_in | january_epoll_out | january_epoll_read_hangup | january_epoll_edge, handler)
        if isUrgent {
            let interest = january_epoll_in | january_epoll_read_hangup | january_epoll_edge
            let token = UInt64(registration.generation) << 32 | UInt64(registration.index)
            // Where this fails it is watched all the same, and waits its turn.
            _ = january_epoll_control(urgent.raw, EPOLL_CTL_ADD, fd, interest, token)
        }
        return registration
    }

    /// Watches a listening socket that several loops share: one loop is woken for one connection.
    func registerListener(_ fd: Int32, handler: any ReadinessHandler) throws(SystemError) -> Registration {
        try add(fd, january_epoll_in | january_epoll_exclusive, handler)
    }

    /// To be called before the descriptor is closed or given away.
    /// - Parameter closes: it is closed right after this call, which takes it out of the epoll set by itself; should a copy in a
    ///   process that is just being started keep it there for a moment, its events find no handler.
    package func unregister(_ registration: Registration, _ fd: Int32, closes: Bool = false) {
        let index = Int(registration.index)
        guard index < slots.count, slots[index].generation == registration.generation, slots[index].handler != nil else { return }
        slots[index].handler = nil
        slots[index].generation &+= 1
        freeSlots.append(registration.index)
        if !closes {
            _ = january_epoll_control(epoll.raw, EPOLL_CTL_DEL, fd, 0, 0)
            _ = january_epoll_control(urgent.raw, EPOLL_CTL_DEL, fd, 0, 0)
        }
    }

    private func add(_ fd: Int32, _ interest: UInt32, _ handler: any ReadinessHandler) throws(SystemError) -> Registration {
        assertCurrent()
        let index: UInt32
        if let free = freeSlots.popLast() {
            index = free
        } else {
            index = UInt32(slots.count)
            slots.append(Slot())
        }
        let generation = slots[Int(index)].generation
        let token = UInt64(generation) << 32 | UInt64(index)
        if january_epoll_control(epoll.raw, EPOLL_CTL_ADD, fd, interest, token) < 0 {
            let error = SystemError("epoll_ctl")
            freeSlots.append(index)
            throw error
        }
        slots[Int(index)].handler = handler
        return Registration(index: index, generation: generation)
    }

    // MARK: Draining

    private func drain() {
        owner.store(UInt(bitPattern: Int(pthread_self())), ordering: .relaxed)
        defer { owner.store(0, ordering: .relaxed) }
        var timeout: Int32 = 0
        for _ in 0..<Self.maxTurns where !isStopping.load(ordering: .relaxed) {
            let count = System.retrying { Int(epoll_wait(epoll.raw, events, Self.batch, timeout)) }
            now = time.monotonic()
            turn &+= 1
            if count <= 0 {
                precondition(count == 0, "epoll_wait: \(String(cString: strerror(errno)))")
                if timeout != 0 { return }
            }
            dispatch(count)
            runTimers()
            runDeferred()
            timeout = hasWork ? 0 : Self.lingerMilliseconds
        }
        // Dispatch comes back only for an event, and work that was put off causes none.
        if hasWork { wakeUp() }
    }

    private var hasWork: Bool { !deferred.isEmpty || nextDue < dueTimers.count }

    private func dispatch(_ count: Int) {
        for index in 0..<count {
            let token = january_epoll_token(events + index)
            switch token {
            case Token.wakeup: runMailbox()
            case Token.alarm: clearAlarm()
            default: deliver(events + index)
            }
            if index % Self.urgentEvery == Self.urgentEvery - 1 { dispatchUrgent() }
        }
    }

    private func dispatchUrgent() {
        let count = System.retrying { Int(epoll_wait(urgent.raw, urgentEvents, Self.batch, 0)) }
        guard count > 0 else { return }
        now = time.monotonic()
        for index in 0..<count { deliver(urgentEvents + index) }
    }

    private func deliver(_ event: UnsafeMutablePointer<epoll_event>) {
        let token = january_epoll_token(event)
        let slot = Int(token & 0xFFFF_FFFF)
        // A handler that was unregistered earlier in this turn, its slot perhaps used again, must not see the old event.
        guard slot < slots.count, slots[slot].generation == UInt32(token >> 32), let handler = slots[slot].handler else { return }
        handler.ready(Readiness(bits: january_epoll_events(event)))
    }

    private func runMailbox() {
        var counter: UInt64 = 0
        _ = System.retrying { read(wakeup.raw, &counter, 8) }
        let work = mailbox.withLock { box in
            defer { if box != nil { box = [] } }
            return box
        }
        for job in work ?? [] { job() }
    }

    private func runDeferred() {
        guard !deferred.isEmpty else { return }
        let work = deferred
        deferred.removeAll(keepingCapacity: true)
        for job in work { job() }
    }

    private func runTimers() {
        wheel.takeDue(now: now, into: &dueTimers)
        if nextDue < dueTimers.count {
            let end = min(dueTimers.count, nextDue + Self.maxTimersPerTurn)
            while nextDue < end {
                let timer = dueTimers[nextDue]
                nextDue += 1
                // One that an earlier one of this turn has cancelled stays quiet, one that it has put off keeps its new time.
                if timer.takeDue() { timer.fire() }
            }
            if nextDue == dueTimers.count {
                dueTimers.removeAll(keepingCapacity: true)
                nextDue = 0
            }
        }
        if armedFor <= now {
            armedFor = .distantFuture
            if let wake = wheel.nextWake() { arm(wake) }
        }
    }

    private func arm(_ instant: MonotonicInstant) {
        armedFor = instant
        let nanoseconds = max(1, (instant - now).wholeNanoseconds)
        var setting = itimerspec()
        setting.it_value.tv_sec = Int(nanoseconds / 1_000_000_000)
        setting.it_value.tv_nsec = Int(nanoseconds % 1_000_000_000)
        _ = timerfd_settime(alarm.raw, 0, &setting, nil)
    }

    private func clearAlarm() {
        var expirations: UInt64 = 0
        _ = System.retrying { read(alarm.raw, &expirations, 8) }
        // `runTimers` arms it again for what is left.
        armedFor = MonotonicInstant(nanoseconds: .min)
    }
}

/// Called on the loop when a registered descriptor may be read or written.
package protocol ReadinessHandler: AnyObject {
    func ready(_ readiness: Readiness)
    /// The loop has stopped and has forgotten the descriptor: whoever owns it closes it. No callbacks to others.
    func loopStopped()
}

extension ReadinessHandler {
    package func loopStopped() {}
}

package struct Readiness: Sendable {
    fileprivate let bits: UInt32
    package var readable: Bool { bits & (january_epoll_in | january_epoll_read_hangup | hangup) != 0 }
    package var writable: Bool { bits & (january_epoll_out | hangup) != 0 }
    /// The peer has finished sending, or the connection is broken: a read will say which.
    package var ended: Bool { bits & (january_epoll_read_hangup | hangup) != 0 }
    /// Both directions are over: nothing that is written can arrive any more.
    package var broken: Bool { bits & hangup != 0 }
    private var hangup: UInt32 { january_epoll_hangup | january_epoll_error }
}

/// The place of a descriptor in its loop's table.
package struct Registration: Sendable {
    fileprivate let index: UInt32
    fileprivate let generation: UInt32
}

/// A value that belongs to one loop, carried through a `@Sendable` closure to the loop it belongs to.
package struct LoopBound<Value>: @unchecked Sendable {
    // Sendable: the value is reached on its loop only, which is checked at each access; the last copy may go on another thread, so
    // `Value` must be safe to release anywhere.
    private let stored: Value
    private let loop: EventLoop

    package init(_ value: Value, on loop: EventLoop) {
        stored = value
        self.loop = loop
    }

    package var value: Value {
        loop.assertCurrent()
        return stored
    }
}
