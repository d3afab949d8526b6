import Glibc

/// Standard output, or another descriptor that stays open as long as the process.
package struct StandardOutput: LogSink {
    private let descriptor: Int32

    package init(descriptor: Int32 = STDOUT_FILENO) { self.descriptor = descriptor }

    /// For the default of `log.format`: people read text, machines read JSON.
    package var isTerminal: Bool { isatty(descriptor) == 1 }

    package func write(_ lines: UnsafeRawBufferPointer) -> Int {
        var rest = lines
        while let base = rest.baseAddress, !rest.isEmpty {
            let count = Glibc.write(descriptor, base, rest.count)
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            } else if count < 0 && errno == EAGAIN {
                // Somebody else who holds the same pipe may have made it non-blocking.
                var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&request, 1, -1)
            } else if count == 0 || errno != EINTR {
                break
            }
        }
        return lines.count - rest.count
    }
}
