import Glibc
import Primitives

/// The file of `audit.file`: only ever appended to, opened again when it has been moved away.
///
/// ``write(_:)`` is called by the writer's thread alone; ``reopen()`` by anybody. A line of which a part was written when the disk was
/// full is finished where it was begun, or written whole into the file that took its place: no file gets the tail of a line only.
package final class AuditFile: LogSink {
    /// The system's own words.
    package struct OpenError: Error, Equatable {
        package let text: String
    }

    /// The group may read: whoever ships logs. Nobody else.
    private static let mode: mode_t = 0o640

    private struct State {
        var descriptor: Int32
        /// Opened by ``reopen()``, not yet in use.
        var next: Int32?
        /// Octets of the first line in the rest of the last write that are in the file already.
        var tornBytes = 0
    }

    private let path: String
    private let state: Lock<State>

    /// Opens or creates the file. Its folder must be there.
    package init(path: String) throws(OpenError) {
        self.path = path
        state = Lock(State(descriptor: try Self.open(path)))
    }

    deinit {
        state.withLock { state in
            close(state.descriptor)
            if let next = state.next { close(next) }
        }
    }

    private static func open(_ path: String) throws(OpenError) -> Int32 {
        guard !path.utf8.contains(0) else { throw OpenError(text: "its name holds a NUL character") }
        // Non-blocking only for the opening: a pipe without a reader is an error and not a wait for ever.
        let descriptor = Glibc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode)
        guard descriptor >= 0 else { throw OpenError(text: String(cString: strerror(errno))) }
        return descriptor
    }

    /// Whether the file could be opened now, found out without making or opening it. A pipe without a reader is not noticed.
    package static func check(_ path: String) throws(OpenError) {
        guard !path.utf8.contains(0) else { throw OpenError(text: "its name holds a NUL character") }
        var status = stat()
        if stat(path, &status) == 0 {
            if status.st_mode & S_IFMT == S_IFDIR { throw OpenError(text: String(cString: strerror(EISDIR))) }
            return try access(path, W_OK)
        }
        guard errno == ENOENT else { throw OpenError(text: String(cString: strerror(errno))) }
        // It will be made: in a folder that is there.
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        try access(folder, W_OK | X_OK)
    }

    /// With the rights the process has, not with those of who started it.
    private static func access(_ path: String, _ mode: Int32) throws(OpenError) {
        guard faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 else { throw OpenError(text: String(cString: strerror(errno))) }
    }

    /// Opens the path again, at once; the next write goes there. What is in use stays in use when that fails.
    package func reopen() throws(OpenError) {
        let descriptor = try Self.open(path)
        let superseded = state.withLock { state -> Int32? in
            defer { state.next = descriptor }
            return state.next
        }
        if let superseded { close(superseded) }
    }

    package func write(_ lines: UnsafeRawBufferPointer) -> Int {
        let (descriptor, old, torn) = state.withLock { state -> (Int32, Int32?, Int) in
            guard let next = state.next else { return (state.descriptor, nil, state.tornBytes) }
            let old = state.descriptor
            state.descriptor = next
            state.next = nil
            return (next, old, 0)
        }
        if let old { close(old) }
        var done = min(torn, lines.count)
        while done < lines.count, let base = lines.baseAddress {
            let count = Glibc.write(descriptor, base + done, lines.count - done)
            if count > 0 {
                done += count
            } else if count < 0 && errno == EAGAIN {
                var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&request, 1, -1)
            } else if count == 0 || errno != EINTR {
                break
            }
        }
        let whole = done == lines.count ? done : (lines[..<done].lastIndex(of: ASCII.lineFeed).map { $0 + 1 } ?? 0)
        state.withLock { $0.tornBytes = done - whole }
        return whole
    }
}
