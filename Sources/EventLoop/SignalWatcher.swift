import Dispatch
import Glibc
import Synchronization

/// Turns signals of the process into calls on a Dispatch queue. One per process and signal.
package final class SignalWatcher: @unchecked Sendable {
    // Sendable: the sources are made in `init` and only cancelled in `deinit`; Dispatch objects are thread-safe.
    private let sources: [any DispatchSourceSignal]

    /// A bit for each signal that came before its source was there to see it.
    private static let early = Atomic<UInt64>(0)

    /// - Parameter handler: called on a queue of its own, once for one or more signals of the same number that came close together.
    ///   Once this has returned no signal is lost and none ends the process.
    package init(_ signals: [Int32], handler: @escaping @Sendable (Int32) -> Void) {
        let queue = DispatchQueue(label: "january.signals")
        // Made before the first signal can come: a handler must not be the one to do it.
        _ = Self.early.load(ordering: .relaxed)
        sources = signals.map { number in
            // The default action would end the process before the source sees the signal, and one that is ignored meanwhile would be
            // lost: it is remembered until Dispatch has put a handler of its own in the place of this one.
            signal(number) { number in
                _ = SignalWatcher.early.bitwiseOr(1 << UInt64(number), ordering: .relaxed)
            }
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            let action: @Sendable () -> Void = { handler(number) }
            let registered: @Sendable () -> Void = {
                let bit: UInt64 = 1 << UInt64(number)
                if Self.early.bitwiseAnd(~bit, ordering: .relaxed).oldValue & bit != 0 { handler(number) }
            }
            source.setEventHandler(handler: action)
            source.setRegistrationHandler(handler: registered)
            source.activate()
            // A mask inherited from the parent would keep it from ever arriving.
            var set = sigset_t()
            sigemptyset(&set)
            sigaddset(&set, number)
            pthread_sigmask(SIG_UNBLOCK, &set, nil)
            return source
        }
    }

    deinit { for source in sources { source.cancel() } }
}
