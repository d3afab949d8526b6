import Glibc
import Primitives

/// Opened once, by any thread; the main thread waits for it.
final class Latch: @unchecked Sendable {
    // Sendable: a POSIX semaphore is made for several threads; the pointer is constant and freed by the last owner.
    private let semaphore: UnsafeMutablePointer<sem_t>

    init() {
        semaphore = .allocate(capacity: 1)
        semaphore.initialize(to: sem_t())
        sem_init(semaphore, 0, 0)
    }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func open() { sem_post(semaphore) }

    func wait() {
        while sem_wait(semaphore) != 0 && errno == EINTR {}
    }
}

/// One value, set once by any thread and awaited by one.
final class Outcome<Value: Sendable>: Sendable {
    private let value = Lock<Value?>(nil)
    private let latch = Latch()

    /// The first value counts.
    /// - Returns: whether this was it.
    @discardableResult
    func set(_ value: Value) -> Bool {
        let isFirst = self.value.withLock { current in
            guard current == nil else { return false }
            current = value
            return true
        }
        if isFirst { latch.open() }
        return isFirst
    }

    /// Blocks until there is one.
    func wait() -> Value {
        while true {
            latch.wait()
            if let value = value.withLock({ $0 }) { return value }
        }
    }
}
