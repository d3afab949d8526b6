import CSystem
import Glibc
import Primitives

/// The one door to the kernel for sockets: `EINTR` is retried, would-block is a value, and an error that can only be a bug of ours
/// (`EBADF`, `EFAULT`, `ENOTSOCK`) stops the process instead of corrupting somebody else's connection.
enum System {
    @inline(__always)
    static func retrying(_ call: () -> Int) -> Int {
        while true {
            let result = call()
            if result >= 0 || errno != EINTR { return result }
        }
    }

    static func stopOnOurBug(_ call: StaticString) {
        let number = errno
        precondition(
            number != EBADF && number != EFAULT && number != ENOTSOCK, "\(call) on a descriptor that is not ours")
        errno = number
    }

    static func close(_ fd: Int32) {
        // Linux closes the descriptor even when it answers EINTR: never repeated.
        _ = Glibc.close(fd)
    }

    static func receive(_ fd: Int32, into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let count = retrying { recv(fd, buffer.baseAddress, buffer.count, 0) }
        if count > 0 { return .bytes(count) }
        if count == 0 { return .end }
        if errno == EAGAIN { return .wouldBlock }
        stopOnOurBug("recv")
        return .failed(StreamError(errno: errno))
    }

    static func send(_ fd: Int32, _ bytes: UnsafeRawBufferPointer) -> IOResult {
        let count = retrying { Glibc.send(fd, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)) }
        if count >= 0 { return .bytes(count) }
        if errno == EAGAIN { return .wouldBlock }
        stopOnOurBug("send")
        return .failed(StreamError(errno: errno))
    }

    static func setOption(_ fd: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        // Options are hints for speed or tests: a family that does not know one (Unix sockets and TCP_NODELAY) is no error.
        var value = value
        _ = setsockopt(fd, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// The pending error of a socket (`SO_ERROR`), 0 when there is none.
    static func pendingError(_ fd: Int32) -> Int32 {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &length) == 0 ? value : errno
    }
}

/// Both clocks of the machine.
package struct SystemTime: TimeSource {
    package init() {}

    package func monotonic() -> MonotonicInstant { MonotonicInstant(nanoseconds: Self.read(CLOCK_MONOTONIC)) }
    package func wall() -> WallInstant { WallInstant(nanosecondsSinceEpoch: Self.read(CLOCK_REALTIME)) }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Random bytes of the kernel. `getrandom` cannot fail once the machine has booted; without it nothing here is safe, so a failure stops
/// the process.
package enum SystemRandom {
    package static func fill(_ buffer: UnsafeMutableRawBufferPointer) {
        var filled = 0
        while filled < buffer.count {
            let count = System.retrying { getrandom(buffer.baseAddress.map { $0 + filled }, buffer.count - filled, 0) }
            precondition(count > 0, "getrandom failed")
            filled += count
        }
    }

    package static func bytes(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        bytes.withUnsafeMutableBytes { fill($0) }
        return bytes
    }
}

/// Random identifiers for one loop: 4 KiB are asked of the kernel at a time, so that one costs no system call of its own.
package struct RandomPool {
    private static let capacity = 4096
    private var bytes: [UInt8] = []
    private var next = 0

    package init() {}

    /// 128 random bits.
    package mutating func next128() -> (UInt64, UInt64) {
        if next + 16 > bytes.count {
            bytes = SystemRandom.bytes(Self.capacity)
            next = 0
        }
        let (high, low) = bytes.withUnsafeBytes {
            ($0.loadUnaligned(fromByteOffset: next, as: UInt64.self), $0.loadUnaligned(fromByteOffset: next + 8, as: UInt64.self))
        }
        next += 16
        return (high, low)
    }
}

/// Process-wide settings, made once at start.
package enum ProcessSettings {
    /// Writing to a closed connection, or beyond the size a file may have (`ulimit -f`), is an error value here, never a signal.
    package static func ignoreBrokenPipes() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
    }

    /// Raises the soft limit of open files to the hard one and returns what is in force now.
    package static func raiseOpenFileLimit() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }

    #if DEBUG
        /// For tests that look at what a crash leaves behind.
        package static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
        package static func dieAtOnce() {
            kill(getpid(), SIGKILL)
            pause()
        }
    #endif

    /// Processors this process may run on.
    package static var processorCount: Int {
        let count = Int(january_processor_count())
        return count > 0 ? count : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    }
}
