import EventLoop
import Foundation
import Glibc
import Primitives
import TestSupport
import Testing

/// What a service manager is told, over real sockets.
@Suite(.serialized) struct ServiceManagerTests {
    /// What was passed, which listeners take such sockets, and whose socket is left over.
    @Test(
        arguments: [
            (["LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a:management"], false, false, ["a", "management"]),
            (["LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a:management"], true, false, ["management"]),
            (["LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a:management"], false, true, ["a"]),
            (["LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a:management"], true, true, []),
            (["LISTEN_FDS": "1", "LISTEN_PID": "7"], false, true, [""]),
            (["LISTEN_FDS": "1", "LISTEN_PID": "7"], true, false, []),
            (["LISTEN_FDS": "1", "LISTEN_PID": "8"], false, false, []),
            (["LISTEN_FDS": "x", "LISTEN_PID": "7"], false, false, []),
            (["LISTEN_FDS": "0", "LISTEN_PID": "7"], false, false, []),
            (["LISTEN_FDS": "65", "LISTEN_PID": "7"], false, false, []),
            ([:], false, false, []),
        ] as [([String: String], Bool, Bool, [String])])
    func socketsThatNobodyTakesAreNamed(
        environment: [String: String], takesPublic: Bool, takesManagement: Bool, names: [String]
    ) {
        #expect(
            InheritedSockets.unclaimed(
                environment: environment, takesPublic: takesPublic, takesManagement: takesManagement, process: 7) == names)
    }

    @Test(arguments: [false, true])
    func messagesArriveAtAPathAndAtAnAbstractName(isAbstract: Bool) async throws {
        try await onOwnThread {
            let socket = try NotifySocket(isAbstract: isAbstract)
            let manager = ServiceManager(environment: ["NOTIFY_SOCKET": socket.name])
            #expect(manager.isPresent)
            manager.ready("serving")
            manager.reloading(now: MonotonicInstant(nanoseconds: 12_345_678))
            manager.alive()
            manager.stopping()
            // A reload that was under way says no more that it is over.
            manager.ready("serving")
            manager.alive()
            let messages = try (0..<5).map { _ in try socket.receive() }
            #expect(
                messages == [
                    "READY=1\nSTATUS=serving\n", "RELOADING=1\nMONOTONIC_USEC=12345\n", "WATCHDOG=1\n",
                    "STOPPING=1\nSTATUS=draining\n", "WATCHDOG=1\n",
                ])
        }
    }

    @Test(arguments: ["", "relative/path", "@", "/nobody/listens/there", "/" + String(repeating: "x", count: 200)])
    func nobodyToTellIsNoError(name: String) {
        let manager = ServiceManager(environment: ["NOTIFY_SOCKET": name])
        manager.ready("serving")
        manager.alive()
    }

    /// `WATCHDOG_USEC`, `WATCHDOG_PID` (`nil`: unset, `true`: ours) and the interval.
    @Test(arguments: [
        ("2000000", Bool?.none, Duration?.some(.seconds(2))), ("2000000", true, .seconds(2)), ("2000000", false, nil),
        ("0", nil, nil), ("x", nil, nil), ("-5", nil, nil), ("", nil, nil),
    ])
    func theWatchdogIsForThisProcessOnly(microseconds: String, isOurs: Bool?, interval: Duration?) {
        var environment = ["NOTIFY_SOCKET": "@january-test-\(getpid())", "WATCHDOG_USEC": microseconds]
        if let isOurs { environment["WATCHDOG_PID"] = isOurs ? "\(getpid())" : "1" }
        #expect(ServiceManager(environment: environment).watchdogInterval == interval)
    }

    @Test func aLoopThatDoesNotAnswerEndsTheSignsOfLife() async throws {
        let socket = try NotifySocket(isAbstract: true)
        let manager = ServiceManager(environment: ["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "20000"])
        let loops = try [EventLoop(name: "a"), EventLoop(name: "b")]
        for loop in loops { loop.start() }
        defer { for loop in loops { loop.stop() } }
        let watchdog = try #require(LoopWatchdog(manager, loops: loops))
        watchdog.start()
        for _ in 0..<3 { #expect(try await onOwnThread { try socket.receive() } == "WATCHDOG=1\n") }
        let (isStuck, release) = (Semaphore(), Semaphore())
        loops[1].execute {
            isStuck.signal()
            release.wait()
        }
        try await onOwnThread { isStuck.wait() }
        // What was on its way, then nothing: ten times the interval.
        try await onOwnThread {
            while (try? socket.receive(within: 100)) != nil {}
            #expect(throws: NotifySocket.Failure.self) { try socket.receive(within: 200) }
        }
        release.signal()
        #expect(try await onOwnThread { try socket.receive() } == "WATCHDOG=1\n")
    }
}
