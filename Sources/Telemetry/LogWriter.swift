import Glibc
import Primitives

/// What ``LogWriter`` writes to. Called only by its thread, so it may block.
package protocol LogSink: Sendable {
    /// Writes whole lines.
    ///
    /// - Returns: false when they could not be written; they are counted as dropped.
    func write(_ lines: UnsafeRawBufferPointer) -> Bool
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

    /// Starts the thread, named `log`.
    package static func start(sink: any LogSink, limits: Limits = Limits()) throws(StartError) -> LogWriter {
        let writer = LogWriter(sink: sink, limits: limits)
        let result = NamedThread.start("log") { writer.run() }
        guard result == 0 else { throw .thread(errno: result) }
        return writer
    }

    package func append(_ line: [UInt8]) {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        guard state == .running, queuedLines < limits.lineCount, queue.count + line.count <= limits.bytes else {
            dropped += 1
            return
        }
        queue += line
        queuedLines += 1
        acceptedLines += 1
        if isIdle {
            isIdle = false
            pthread_cond_signal(work)
        }
    }

    /// Lines lost so far: the queue was full or closed, or the sink failed.
    package var droppedCount: Int {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return dropped
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
            queuedLines = 0
            pthread_mutex_unlock(mutex)
            let isWritten = batch.withUnsafeBytes { sink.write($0) }
            batch.removeAll(keepingCapacity: batch.capacity <= Self.keptBytes)
            pthread_mutex_lock(mutex)
            finishedLines += lineCount
            if !isWritten { dropped += lineCount }
            if waiters > 0 { pthread_cond_broadcast(progress) }
            gather()
        }
        state = .closed
        pthread_cond_broadcast(progress)
        pthread_mutex_unlock(mutex)
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

/// Standard output, or another descriptor that stays open as long as the process.
package struct StandardOutput: LogSink {
    private let descriptor: Int32

    package init(descriptor: Int32 = STDOUT_FILENO) { self.descriptor = descriptor }

    /// For the default of `log.format`: people read text, machines read JSON.
    package var isTerminal: Bool { isatty(descriptor) == 1 }

    package func write(_ lines: UnsafeRawBufferPointer) -> Bool {
        var rest = lines
        while let base = rest.baseAddress, !rest.isEmpty {
            let count = Glibc.write(descriptor, base, rest.count)
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            } else if count < 0 && errno == EAGAIN {
                // Somebody else who holds the same pipe may have made it non-blocking.
                var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&request, 1, -1)
            } else if count == 0 || errno != EINTR {
                return false
            }
        }
        return true
    }
}
