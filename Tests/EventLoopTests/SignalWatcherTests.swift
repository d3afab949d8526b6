import EventLoop
import Glibc
import Primitives
import TestSupport
import Testing

struct SignalWatcherTests {
    /// Again and again at the earliest moment: Dispatch may not have seen the source yet.
    @Test
    func aSignalThatComesAtOnceIsNotLost() async throws {
        for number in [SIGWINCH, SIGURG, SIGIO] {
            let seen = Promise<Int32>("the signal")
            let watcher = SignalWatcher([number]) { seen.fulfil($0) }
            kill(getpid(), number)
            #expect(try await seen.value() == number)
            withExtendedLifetime(watcher) {}
        }
    }
}
