import Glibc
import Primitives
import TestSupport
import Testing

@testable import EventLoop

struct EventLoopTests {
    @Test
    func workFromManyThreadsRunsOnceEachAndInOrder() async throws {
        try await withLoop { loop in
            let seen = Lock([Int: [Int]]())
            await withTaskGroup(of: Void.self) { group in
                for thread in 0..<8 {
                    group.addTask {
                        for number in 0..<500 { loop.execute { seen.withLock { $0[thread, default: []].append(number) } } }
                    }
                }
            }
            _ = await loop.run { true }
            for thread in 0..<8 { #expect(seen.withLock { $0[thread] } == Array(0..<500)) }
        }
    }

    @Test
    func timersFireInOrderAndNotEarly() async throws {
        try await withLoop { loop in
            let done = Promise<[Int]>("timers")
            loop.execute {
                let began = loop.time.monotonic()
                var order: [Int] = []
                for (index, delay) in [30, 10, 20].enumerated() {
                    let timer = LoopTimer {
                        #expect(loop.time.monotonic() - began >= .milliseconds(delay))
                        order.append(index)
                        if order.count == 3 { done.fulfil(order) }
                    }
                    loop.schedule(timer, after: .milliseconds(delay))
                }
            }
            let value1 = try await done.value()
            #expect(value1 == [1, 2, 0])
        }
    }

    /// Hundreds are ready at once, the urgent one last: it waits for some of them and not for all.
    @Test(arguments: [true, false])
    func whatIsUrgentDoesNotWaitBehindAllTheOthers(isUrgent: Bool) async throws {
        final class Noted: ReadinessHandler {
            let note: () -> Void
            init(_ note: @escaping () -> Void) { self.note = note }
            func ready(_ readiness: Readiness) { if readiness.readable { note() } }
        }
        final class Order {
            var seen: [Int] = []
            var registrations: [(Int32, Registration)] = []
        }
        try await withLoop { loop in
            let count = 200
            let pairs = try (0..<count).map { _ in try SocketPair() }
            let done = Promise<[Int]>("all were ready")
            loop.execute {
                let order = Order()
                for (number, pair) in pairs.enumerated() {
                    let handler = Noted {
                        if !order.seen.contains(number) { order.seen.append(number) }
                        guard order.seen.count == count else { return }
                        done.fulfil(order.seen)
                        for (fd, registration) in order.registrations { loop.unregister(registration, fd) }
                        order.registrations = []
                    }
                    guard
                        let registration = try? loop.register(
                            pair.ours, isUrgent: isUrgent && number == count - 1, handler: handler)
                    else { return Issue.record("not registered") }
                    order.registrations.append((pair.ours, registration))
                }
                for pair in pairs { pair.makeReadable() }
            }
            let order = try await done.value()
            let place = try #require(order.firstIndex(of: count - 1))
            #expect(isUrgent ? place <= 64 : place > 64)
            withExtendedLifetime(pairs) {}
        }
    }

    /// An idle loop has gone back to Dispatch: its timer descriptor has to wake it.
    @Test
    func aTimerWakesAnIdleLoop() async throws {
        try await withLoop { loop in
            let done = Promise<Bool>("timer of an idle loop")
            loop.execute { loop.schedule(LoopTimer { done.fulfil(true) }, after: .milliseconds(120)) }
            let value2 = try await done.value()
            #expect(value2)
        }
    }

    @Test
    func aStoppedLoopRunsItsContinuationAndNothingElse() async throws {
        let loop = try EventLoop(name: "stopped")
        loop.start()
        let stopped = Promise<Bool>("stop")
        loop.stop { stopped.fulfil(true) }
        let value3 = try await stopped.value()
        #expect(value3)
        let again = Promise<Bool>("second stop")
        loop.stop { again.fulfil(true) }
        let value4 = try await again.value()
        #expect(value4)
    }

    /// Both are due in the same turn; whichever comes first silences the other.
    @Test
    func aTimerThatAnotherOneOfTheSameTurnCancelsStaysQuiet() async throws {
        try await withLoop { loop in
            let fired = Lock<[Int]>([])
            let done = Promise<Bool>("a later timer")
            loop.execute {
                final class Pair { var timers: [LoopTimer] = [] }
                let pair = Pair()
                pair.timers = (0..<2).map { number in
                    LoopTimer {
                        fired.withLock { $0.append(number) }
                        loop.cancel(pair.timers[1 - number])
                        pair.timers[1 - number] = LoopTimer {}
                    }
                }
                for timer in pair.timers { loop.schedule(timer, after: .milliseconds(20)) }
                loop.schedule(LoopTimer { done.fulfil(true) }, after: .milliseconds(60))
            }
            _ = try await done.value()
            #expect(fired.withLock { $0.count } == 1)
        }
    }

    /// More than are fired in one turn, and nothing else that would wake the loop.
    @Test
    func thousandsOfTimersThatAreDueAtOnceAllFire() async throws {
        try await withLoop { loop in
            let done = Promise<Bool>("the last timer")
            loop.execute {
                var left = 5000
                let deadline = loop.now + .milliseconds(20)
                for _ in 0..<5000 {
                    loop.schedule(
                        LoopTimer {
                            left -= 1
                            if left == 0 { done.fulfil(true) }
                        }, at: deadline)
                }
            }
            _ = try await done.value()
        }
    }

    /// More turns than one drain has, without any event: a busy stream that is read bit by bit.
    @Test
    func workThatIsPutOffAgainAndAgainIsDone() async throws {
        try await withLoop { loop in
            let done = Promise<Bool>("the last turn")
            @Sendable func putOff(_ left: Int) {
                if left == 0 { return done.fulfil(true) }
                loop.deferWork { putOff(left - 1) }
            }
            loop.execute { putOff(5000) }
            _ = try await done.value()
        }
    }

    @Test
    func aStoppedLoopKeepsNothingOfWhatWasLeft() async throws {
        final class Owner: Sendable {}
        let loop = try EventLoop(name: "left")
        weak var owner: Owner?
        do {
            let strong = Owner()
            owner = strong
            loop.start()
            await loop.run { [strong] in
                loop.schedule(LoopTimer { [strong] in _ = strong }, after: .seconds(100))
            }
            let stopped = Promise<Bool>("stop")
            loop.stop { stopped.fulfil(true) }
            loop.execute { [strong] in _ = strong }
            _ = try await stopped.value()
            loop.execute { [strong] in _ = strong }
        }
        #expect(owner == nil)
    }

    @Test(arguments: [
        ("127.0.0.1:8787", "127.0.0.1:8787"), ("[::1]:1", "[::1]:1"), ("[::]:65535", "[::]:65535"), ("0.0.0.0:0", "0.0.0.0:0"),
        ("unix:/run/x.sock", "unix:/run/x.sock"), ("[::ffff:1.2.3.4]:5", "[::ffff:1.2.3.4]:5"),
    ])
    func anAddressIsReadAndWritten(text: String, expected: String) {
        #expect(SocketAddress(text)?.description == expected)
    }

    @Test(arguments: [
        "", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:8a", "::1:80",
        "[127.0.0.1]:80",
        "[::1]", "unix:", "unix:" + String(repeating: "x", count: 108), "1.2.3:4", "127.0.0.1\0:80", "[::1\0]:80", "unix:a\0b",
        "[::1]:00000080",
    ])
    func anAddressThatIsNotOneIsRefused(text: String) { #expect(SocketAddress(text) == nil) }

    @Test(arguments: [
        ("127.0.0.1", true), ("127.255.0.2", true), ("::1", true), ("::ffff:127.0.0.1", true), ("128.0.0.1", false),
        ("::2", false),
        ("::", false),
    ])
    func loopbackIsRecognised(text: String, expected: Bool) { #expect(IPAddress(text)?.isLoopback == expected) }
}

/// Two connected sockets, closed with it.
private final class SocketPair: Sendable {
    let ours: Int32
    private let other: Int32

    init() throws {
        var pair: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0, &pair) == 0
        else { throw SystemError("socketpair") }
        (ours, other) = (pair[0], pair[1])
    }

    deinit {
        close(ours)
        close(other)
    }

    func makeReadable() {
        var byte: UInt8 = 1
        _ = write(other, &byte, 1)
    }
}
