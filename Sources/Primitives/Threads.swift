import Glibc

/// Threads of our own, for what blocks: the few that are not a loop. They end when their work returns.
package enum NamedThread {
    /// Starts a thread under a name that `ps -T` and debuggers show, with every signal blocked: signals belong to others.
    ///
    /// - Parameter name: 15 bytes are shown.
    /// - Returns: the error number; 0 when it runs.
    package static func start(_ name: StaticString, _ work: @escaping @Sendable () -> Void) -> Int32 {
        let body = Unmanaged.passRetained(ThreadBody(name: name, work: work))
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        var thread = pthread_t()
        let result = pthread_create(&thread, nil, runThread, body.toOpaque())
        pthread_sigmask(SIG_SETMASK, &before, nil)
        if result == 0 { pthread_detach(thread) } else { body.release() }
        return result
    }

    /// `pthread_setname_np` is not visible to Swift; this file is what it writes to. Without `/proc` the thread has no name of its own.
    fileprivate static func setName(_ name: StaticString) {
        guard let file = fopen("/proc/thread-self/comm", "we") else { return }
        fputs(name.description, file)
        fclose(file)
    }
}

private final class ThreadBody: Sendable {
    let name: StaticString
    let work: @Sendable () -> Void

    init(name: StaticString, work: @escaping @Sendable () -> Void) {
        self.name = name
        self.work = work
    }
}

private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    let body = Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue()
    NamedThread.setName(body.name)
    body.work()
    return nil
}

/// A counting semaphore, for threads that may block.
package final class Semaphore: @unchecked Sendable {
    // Sendable: a POSIX semaphore is made for several threads; it stays at a fixed address until `deinit`.
    private let raw: UnsafeMutablePointer<sem_t>

    package init() {
        raw = .allocate(capacity: 1)
        raw.initialize(to: sem_t())
        sem_init(raw, 0, 0)
    }

    deinit {
        sem_destroy(raw)
        raw.deallocate()
    }

    package func signal() { sem_post(raw) }

    package func wait() {
        while sem_wait(raw) != 0 && errno == EINTR {}
    }
}
