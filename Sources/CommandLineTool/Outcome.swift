import Primitives

/// One value, set once by any thread and awaited by one.
final class Outcome<Value: Sendable>: Sendable {
    private let value = Lock<Value?>(nil)
    private let isSet = Semaphore()

    /// The first value counts.
    /// - Returns: whether this was it.
    @discardableResult
    func set(_ value: Value) -> Bool {
        let isFirst = self.value.withLock { current in
            guard current == nil else { return false }
            current = value
            return true
        }
        if isFirst { isSet.signal() }
        return isFirst
    }

    /// Blocks until there is one.
    func wait() -> Value {
        while true {
            isSet.wait()
            if let value = value.withLock({ $0 }) { return value }
        }
    }
}
