import CSystem
import Glibc
import Primitives
import Synchronization

/// What systemd, or another manager with its protocol, has given this process: a socket for messages (sd_notify(3)), a watchdog
/// (sd_watchdog_enabled(3)) and listening sockets (sd_listen_fds(3)). Any thread.
package final class ServiceManager: Sendable {
    /// Ping at least twice in this time; `nil`: nobody watches.
    package let watchdogInterval: Duration?
    /// `nil`: there is no manager. Open as long as this object.
    private let socket: Int32?
    private let address: [UInt8]
    private let isStopping = Atomic<Bool>(false)

    /// - Parameter environment: `NOTIFY_SOCKET`, a path or `@` and an abstract name; `WATCHDOG_USEC`; `WATCHDOG_PID`.
    package init(environment: [String: String]) {
        let name = environment["NOTIFY_SOCKET"] ?? ""
        let isName = name.hasPrefix("/") || name.hasPrefix("@")
        if isName, name.utf8.count < 108 {
            let raw = Glibc.socket(
                AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
            socket = raw >= 0 ? raw : nil
            address = Array(name.utf8)
        } else {
            socket = nil
            address = []
        }
        let pid = environment["WATCHDOG_PID"].map { Int32($0) == getpid() } ?? true
        let isPresent = socket != nil
        let microseconds = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        watchdogInterval = pid && microseconds > 0 && isPresent ? .microseconds(microseconds) : nil
    }

    deinit { if let socket { System.close(socket) } }

    package var isPresent: Bool { socket != nil }

    // MARK: Messages

    package func ready(_ status: String) { if !isStopping.load(ordering: .relaxed) { send("READY=1\nSTATUS=\(status)\n") } }

    /// The last word: a reload that is under way says no more that it is over.
    package func stopping() {
        isStopping.store(true, ordering: .relaxed)
        send("STOPPING=1\nSTATUS=draining\n")
    }

    package func alive() { send("WATCHDOG=1\n") }

    /// Followed by ``ready(_:)`` whatever the reload comes to: the manager waits for it.
    package func reloading(now: MonotonicInstant) {
        // Nothing would end it.
        if isStopping.load(ordering: .relaxed) { return }
        send("RELOADING=1\nMONOTONIC_USEC=\(now.nanoseconds / 1000)\n")
    }

    /// Never blocks: a manager that does not read loses messages.
    private func send(_ text: String) {
        guard let raw = socket else { return }
        var destination = sockaddr_un()
        destination.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &destination.sun_path) { field in
            for (index, byte) in address.enumerated() { field[index] = byte }
            // The name of an abstract socket begins with a zero byte.
            if address.first == UInt8(ascii: "@") { field[0] = 0 }
        }
        // An abstract name ends with the address, a path with a zero byte.
        let length = MemoryLayout<sa_family_t>.size + address.count + (address.first == UInt8(ascii: "@") ? 0 : 1)
        let bytes = Array(text.utf8)
        _ = withUnsafePointer(to: &destination) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                System.retrying { sendto(raw, bytes, bytes.count, Int32(MSG_NOSIGNAL), pointer, socklen_t(length)) }
            }
        }
    }
}

/// Tells the manager that the process is alive, as long as every loop answers: half a watchdog's time apart.
package final class LoopWatchdog: Sendable {
    private let manager: ServiceManager
    private let loops: [EventLoop]
    private let interval: Duration
    private let round = Lock((number: 0, missing: 0))

    /// - Returns: `nil` where nobody watches.
    package init?(_ manager: ServiceManager, loops: [EventLoop]) {
        guard let interval = manager.watchdogInterval, !loops.isEmpty else { return nil }
        self.manager = manager
        self.loops = loops
        self.interval = .nanoseconds(max(1_000_000, interval.wholeNanoseconds / 2))
    }

    /// Goes on until the first loop stops.
    package func start() { loops[0].execute { [self] in ask() } }

    /// On the first loop. A round that is not complete is given up: nothing was said for it.
    private func ask() {
        let number = round.withLock { round in
            round.number += 1
            round.missing = loops.count
            return round.number
        }
        for loop in loops { loop.execute { [self] in answered(number) } }
        loops[0].schedule(LoopTimer { [self] in ask() }, after: interval)
    }

    private func answered(_ number: Int) {
        let isWhole = round.withLock { round in
            guard round.number == number else { return false }
            round.missing -= 1
            return round.missing == 0
        }
        if isWhole { manager.alive() }
    }
}
