import Glibc
import Primitives

/// What ``LogWriter`` writes to. Called only by its thread, so it may block.
package protocol LogSink: Sendable {
    /// Writes whole lines.
    ///
    /// - Returns: how many of the octets are done with. The lines in the rest could not be written.
    func write(_ lines: UnsafeRawBufferPointer) -> Int
}

/// A bounded queue of lines and the one thread that writes them.
///
/// Life cycle: running from ``start(sink:limits:)`` until ``close(within:)``. A line that finds the queue full or closed is dropped and
/// counted: a log that cannot be written must never hold a request. After a write the thread lets lines gather for ``gathering``, so
/// a busy server wakes it at most 200 times a second and the first line after a quiet time goes out at once.
package final class LogWriter: LogOutput, @unchecked Sendable {
    // Sendable: everything mutable is read and written between lock and unlock of `mutex`; `sink` is Sendable and used by one thread.
    package struct Limits: Sendable {
        /// Lines that wait at once.
        package var lineCount = 16_384
        /// Octets that wait at once. The same amount may be on its way to the sink.
        package var bytes = 4 << 20
        /// What the sink did not take is tried again after this, and meanwhile further lines wait; `nil`: it is dropped.
        package var retryInterval: Duration?
        package init() {}
    }

    package enum StartError: Error, Equatable { case thread(errno: Int32) }

    private enum State { case running, closing, closed }

    /// How long the thread waits after a write for more lines to come.
    private static let gathering = Duration.milliseconds(5)
    /// A buffer that had to grow over this is given back after the burst.
    private static let keptBytes = 256 << 10

    private let sink: any LogSink
    private let limits: Limits
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    /// For the thread: a line came while it was idle, or there is a flush or a close.
    private let work: UnsafeMutablePointer<pthread_cond_t>
    /// For those who wait in ``flush(within:)`` and ``close(within:)``.
    private let progress: UnsafeMutablePointer<pthread_cond_t>

    private var state = State.running
    private var isIdle = false
    private var waiters = 0
    private var queue: [UInt8] = []
    private var queuedLines = 0
    private var acceptedLines = 0
    private var finishedLines = 0
    private var dropped = 0
    /// Of the lines in `queue`, and of those dropped, those of type `audit`.
    private var queuedAuditLines = 0
    private var droppedAudit = 0
    /// The sink did not take all of what it was given last.
    private var sinkFails = false

    private init(sink: any LogSink, limits: Limits) {
        self.sink = sink
        self.limits = limits
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        work = Self.condition()
        progress = Self.condition()
    }

    deinit {
        pthread_cond_destroy(progress)
        pthread_cond_destroy(work)
        pthread_mutex_destroy(mutex)
        progress.deallocate()
        work.deallocate()
        mutex.deallocate()
    }

    /// Starts the thread.
    package static func start(
        sink: any LogSink, limits: Limits = Limits(), threadName: StaticString = "log"
    ) throws(StartError) -> LogWriter {
        let writer = LogWriter(sink: sink, limits: limits)
        let result = NamedThread.start(threadName) { writer.run() }
        guard result == 0 else { throw .thread(errno: result) }
        return writer
    }

    @discardableResult
    package func append(_ line: [UInt8], type: LogType) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        guard state == .running, queuedLines < limits.lineCount, queue.count + line.count <= limits.bytes else {
            dropped += 1
            if type == .audit { droppedAudit += 1 }
            return false
        }
        queue += line
        queuedLines += 1
        acceptedLines += 1
        if type == .audit { queuedAuditLines += 1 }
        if isIdle {
            isIdle = false
            pthread_cond_signal(work)
        }
        return true
    }

    /// Lines lost so far: the queue was full or closed, or the sink failed.
    package var droppedCount: Int {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return dropped
    }

    /// Those of type `audit` among them. Where lines of other types were in the same write that failed, at most so many.
    package var droppedAuditCount: Int {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return droppedAudit
    }

    /// A line given now would be dropped, or the last ones could not be written.
    package var isBlocked: Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return sinkFails || state != .running || queuedLines >= limits.lineCount || queue.count >= limits.bytes
    }

    /// Waits until every line accepted so far has gone to the sink. Blocks: never on a loop.
    ///
    /// - Returns: false when that took longer than `limit`.
    @discardableResult
    package func flush(within limit: Duration) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        let target = acceptedLines
        return wait(until: Self.deadline(limit)) { finishedLines >= target }
    }

    /// Refuses further lines, writes those that wait, ends the thread. Blocks at most `limit`: never on a loop.
    ///
    /// - Returns: false when the sink was too slow; the thread then goes on by itself, and its lines may be lost with the process.
    @discardableResult
    package func close(within limit: Duration) -> Bool {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        if state == .running { state = .closing }
        return wait(until: Self.deadline(limit)) { state == .closed }
    }

    /// Called and returns with `mutex` locked.
    private func wait(until deadline: timespec, for isDone: () -> Bool) -> Bool {
        waiters += 1
        defer { waiters -= 1 }
        isIdle = false
        pthread_cond_signal(work)
        var deadline = deadline
        while !isDone() {
            if pthread_cond_timedwait(progress, mutex, &deadline) == ETIMEDOUT { return isDone() }
        }
        return true
    }

    /// The thread.
    private func run() {
        var batch: [UInt8] = []
        pthread_mutex_lock(mutex)
        while true {
            while queue.isEmpty && state == .running {
                isIdle = true
                pthread_cond_wait(work, mutex)
            }
            isIdle = false
            if queue.isEmpty { break }
            swap(&batch, &queue)
            let lineCount = queuedLines
            let auditLines = queuedAuditLines
            queuedLines = 0
            queuedAuditLines = 0
            let lost = write(batch)
            batch.removeAll(keepingCapacity: batch.capacity <= Self.keptBytes)
            finishedLines += lineCount
            dropped += lost
            droppedAudit += min(lost, auditLines)
            if waiters > 0 { pthread_cond_broadcast(progress) }
            gather()
        }
        state = .closed
        pthread_cond_broadcast(progress)
        pthread_mutex_unlock(mutex)
    }

    /// Gives the lines to the sink, again and again where they are to be kept. Called and returns with `mutex` locked.
    ///
    /// - Returns: how many lines are lost.
    private func write(_ batch: [UInt8]) -> Int {
        var done = 0
        while true {
            pthread_mutex_unlock(mutex)
            done += batch.withUnsafeBytes { sink.write(UnsafeRawBufferPointer(rebasing: $0[done...])) }
            pthread_mutex_lock(mutex)
            sinkFails = done < batch.count
            guard sinkFails else { return 0 }
            // Whoever closes waits for one more attempt, not for the sink to recover.
            guard let interval = limits.retryInterval, state == .running else { break }
            var deadline = Self.deadline(interval)
            let waitersBefore = waiters
            while state == .running && waiters <= waitersBefore {
                if pthread_cond_timedwait(work, mutex, &deadline) == ETIMEDOUT { break }
            }
        }
        return batch[done...].count { $0 == ASCII.lineFeed }
    }

    /// Called and returns with `mutex` locked. Somebody who waits ends it early.
    private func gather() {
        var deadline = Self.deadline(Self.gathering)
        while waiters == 0 && state == .running {
            if pthread_cond_timedwait(work, mutex, &deadline) == ETIMEDOUT { return }
        }
    }

    private static func condition() -> UnsafeMutablePointer<pthread_cond_t> {
        let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
        return condition
    }

    /// These waits are for another thread of this process and use the kernel's clock: no test moves them.
    private static func deadline(_ limit: Duration) -> timespec {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let nanoseconds = now.tv_nsec + Int(limit.wholeNanoseconds % 1_000_000_000)
        return timespec(
            tv_sec: now.tv_sec + Int(limit.wholeNanoseconds / 1_000_000_000) + nanoseconds / 1_000_000_000,
            tv_nsec: nanoseconds % 1_000_000_000)
    }
}
