import Glibc

/// State that several threads share, behind a mutex. Hold it for a few instructions: no I/O, no callback, no second lock inside.
///
/// A `pthread_mutex_t` and not `Synchronization.Mutex`, which is a bare futex on Linux: the thread sanitizer cannot see it and reports
/// correct programs.
package final class Lock<State>: @unchecked Sendable {
    // Sendable: `state` is touched only between lock and unlock of `mutex`; both live at fixed addresses until `deinit`.
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var state: State

    package init(_ state: sending State) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        self.state = state
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deinitialize(count: 1)
        mutex.deallocate()
    }

    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout sending State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&state)
    }
}
