import Dispatch
import EventLoop
import Glibc
import Primitives

/// A loop that runs until the test is over.
package func withLoop<Result>(
    _ name: String = "test", _ body: (EventLoop) async throws -> Result
) async throws -> Result {
    let loop = try EventLoop(name: name)
    loop.start()
    defer { loop.stop() }
    return try await body(loop)
}

extension EventLoop {
    /// Runs `work` on the loop and answers with what it returned.
    package func run<Result: Sendable>(_ work: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            execute { continuation.resume(returning: work()) }
        }
    }
}

package struct TimedOut: Error {
    package let what: String
    package init(what: String) { self.what = what }
}

/// Something that happens once, on any thread, and is waited for with a bound.
package final class Promise<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiter: CheckedContinuation<Value?, Never>?
    }

    private let state = Lock(State())
    private let what: String

    package init(_ what: String) { self.what = what }

    /// The first value counts.
    package func fulfil(_ value: Value) {
        let waiter: CheckedContinuation<Value?, Never>? = state.withLock { state in
            guard state.value == nil else { return nil }
            state.value = value
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: value)
    }

    package var isFulfilled: Bool { state.withLock { $0.value != nil } }

    /// - Parameter seconds: a generous bound: what is waited for comes much sooner unless it never comes.
    package func value(within seconds: Double = 20) async throws -> Value {
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds) { [state] in
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(returning: nil)
        }
        let value: Value? = await withCheckedContinuation { continuation in
            let ready: Value? = state.withLock { state in
                if state.value == nil { state.waiter = continuation }
                return state.value
            }
            if let ready { continuation.resume(returning: ready) }
        }
        guard let value else { throw TimedOut(what: what) }
        return value
    }
}

/// Runs blocking code on a thread of its own: the cooperative pool has as many threads as the machine has processors.
package func onOwnThread<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        let queue = DispatchQueue(label: "january.test.blocking")
        queue.async { continuation.resume(with: Swift.Result { try work() }) }
    }
}

/// Waits until `condition` holds, looking every few milliseconds, for at most `seconds`.
package func eventually(_ what: String, within seconds: Double = 20, _ condition: () async -> Bool) async throws {
    let end = ContinuousClock.now + .seconds(seconds)
    while ContinuousClock.now < end {
        if await condition() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    throw TimedOut(what: what)
}

/// For a test that plays a slow peer on a thread of its own.
package func usleepMilliseconds(_ count: UInt32) { usleep(count * 1000) }
