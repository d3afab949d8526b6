import Dispatch
import Glibc

/// Turns signals of the process into calls on a Dispatch queue. One per process and signal.
package final class SignalWatcher: @unchecked Sendable {
    // Sendable: the sources are made in `init` and only cancelled in `deinit`; Dispatch objects are thread-safe.
    private let sources: [any DispatchSourceSignal]

    /// - Parameter handler: called on a queue of its own, once for one or more signals of the same number that came close together.
    package init(_ signals: [Int32], handler: @escaping @Sendable (Int32) -> Void) {
        let queue = DispatchQueue(label: "january.signals")
        sources = signals.map { number in
            // The default action would end the process before the source sees the signal. A mask inherited from the parent would keep it
            // from ever arriving.
            signal(number, SIG_IGN)
            var set = sigset_t()
            sigemptyset(&set)
            sigaddset(&set, number)
            pthread_sigmask(SIG_UNBLOCK, &set, nil)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            let action: @Sendable () -> Void = { handler(number) }
            source.setEventHandler(handler: action)
            source.activate()
            return source
        }
    }

    deinit { for source in sources { source.cancel() } }
}
