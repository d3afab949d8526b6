import CSystem
import Glibc
import Primitives

/// One named thread for a library that blocks (SQLite), and the bounded queue in front of it. The thread takes everything that waits
/// at once, so that jobs can share what is dear (one `fsync` for many writes).
///
/// Life: ``start(_:)`` once, then ``submit(_:)`` from any thread until ``stop(then:)``. Jobs that were accepted are run even when a
/// stop comes in between.
package final class SerialThread<Job: Sendable>: Sendable {
    private struct State {
        var queue: [Job] = []
        var isStopping = false
        var isRunning = false
        var stopped: [@Sendable () -> Void] = []
    }

    private let name: String
    private let capacity: Int
    private let state = Lock(State())
    private let work = Semaphore()

    /// - Parameters:
    ///   - name: at most 15 characters, as `top` shows it.
    ///   - capacity: jobs that wait; one more is refused.
    package init(name: String, capacity: Int) {
        self.name = name
        self.capacity = capacity
    }

    /// - Parameter body: called on the thread with one or more jobs, in the order in which they came. May block.
    package func start(_ body: @escaping @Sendable ([Job]) -> Void) throws(SystemError) {
        let run = Unmanaged.passRetained(ThreadBody { [self] in self.run(body) })
        var all = sigset_t()
        var before = sigset_t()
        // Signals belong to others.
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        var thread = pthread_t()
        state.withLock { $0.isRunning = true }
        let status = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().work()
                return nil
            }, run.toOpaque())
        guard status == 0 else {
            run.release()
            state.withLock { $0.isRunning = false }
            errno = status
            throw SystemError("pthread_create")
        }
        pthread_detach(thread)
    }

    /// - Returns: false when the queue is full or the thread stops: the job will not run.
    package func submit(_ job: Job) -> Bool {
        let (isAccepted, wakes) = state.withLock { state -> (Bool, Bool) in
            guard !state.isStopping, state.queue.count < capacity else { return (false, false) }
            state.queue.append(job)
            return (true, state.queue.count == 1)
        }
        if wakes { work.signal() }
        return isAccepted
    }

    package var waitingCount: Int { state.withLock { $0.queue.count } }

    /// Runs what waits, then ends the thread. `then` is called on it, or here when it has ended already.
    package func stop(then: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state -> Bool in
            state.isStopping = true
            guard state.isRunning else { return true }
            state.stopped.append(then)
            return false
        }
        if isOver { return then() }
        work.signal()
    }

    private func run(_ body: @Sendable ([Job]) -> Void) {
        if let file = fopen("/proc/thread-self/comm", "we") {
            fputs(name, file)
            fclose(file)
        }
        while true {
            work.wait()
            let (jobs, stopped) = state.withLock { state -> ([Job], [@Sendable () -> Void]?) in
                defer { state.queue = [] }
                guard state.queue.isEmpty, state.isStopping else { return (state.queue, nil) }
                state.isRunning = false
                defer { state.stopped = [] }
                return ([], state.stopped)
            }
            if let stopped {
                for callback in stopped { callback() }
                return
            }
            if jobs.isEmpty { continue }
            body(jobs)
            // Whoever stopped meanwhile has signalled; a signal that was taken with a full queue is made up for here.
            if state.withLock({ $0.isStopping }) { work.signal() }
        }
    }
}

private final class ThreadBody: Sendable {
    let work: @Sendable () -> Void
    init(_ work: @escaping @Sendable () -> Void) { self.work = work }
}
