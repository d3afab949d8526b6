import CSystem
import Glibc
import Primitives

/// What a file that holds state needs of the kernel: a folder and a file nobody else can read, and the proof that this process alone
/// uses them. Blocks; for the start of the process and for threads that may block.
package enum StateFile {
    package struct Info: Sendable, Equatable {
        package let byteCount: Int64
        /// The permission bits.
        package let mode: UInt32
        package let isFolder: Bool
    }

    /// `nil` when there is nothing of that name.
    package static func info(_ path: String) throws(SystemError) -> Info? {
        var status = stat()
        guard stat(path, &status) == 0 else {
            if errno == ENOENT { return nil }
            throw SystemError("stat")
        }
        return Info(
            byteCount: Int64(status.st_size), mode: UInt32(status.st_mode) & 0o777,
            isFolder: status.st_mode & S_IFMT == S_IFDIR)
    }

    /// Makes the folder, and what is missing above it, for the owner alone. One that is there stays as it is.
    package static func makeFolder(_ path: String) throws(SystemError) {
        guard try info(path) == nil, !path.isEmpty else { return }
        let parent = folder(of: path)
        if parent != path { try makeFolder(parent) }
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw SystemError("mkdir") }
    }

    /// The folder of a file's path, `.` for a bare name.
    package static func folder(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// An empty file that only its owner can read, whatever the umask is. What was there is gone.
    package static func create(_ path: String) throws(SystemError) {
        let fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard fd >= 0 else { throw SystemError("open") }
        defer { System.close(fd) }
        guard fchmod(fd, 0o600) == 0 else { throw SystemError("fchmod") }
    }

    /// Takes everybody else's permissions away.
    package static func makePrivate(_ path: String) throws(SystemError) {
        guard chmod(path, 0o600) == 0 else { throw SystemError("chmod") }
    }

    /// Puts a finished file in its place: after a crash there is the whole of it or nothing.
    package static func publish(_ temporary: String, as path: String) throws(SystemError) {
        guard rename(temporary, path) == 0 else { throw SystemError("rename") }
        try sync(folder: folder(of: path))
    }

    package static func remove(_ path: String) throws(SystemError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw SystemError("unlink") }
    }

    private static func sync(folder: String) throws(SystemError) {
        let fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard fd >= 0 else { throw SystemError("open") }
        defer { System.close(fd) }
        // Some file systems cannot sync a folder and say EINVAL; they have nothing to sync.
        guard fsync(fd) == 0 || errno == EINVAL else { throw SystemError("fsync") }
    }
}

/// The right to use some file, held by at most one process at a time. It ends with ``release()``, with this value, or with the process,
/// however that ends.
package final class FileLock: Sendable {
    /// `nil` once it is released.
    private let descriptor: Lock<Int32?>

    private init(_ raw: Int32) { descriptor = Lock(raw) }

    deinit { release() }

    package func release() {
        let raw = descriptor.withLock { $0.take() }
        if let raw { System.close(raw) }
    }

    /// - Returns: `nil` while another process has it.
    package static func acquire(_ path: String) throws(SystemError) -> FileLock? {
        let fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard fd >= 0 else { throw SystemError("open") }
        let result = System.retrying { Int(flock(fd, LOCK_EX | LOCK_NB)) }
        if result == 0 { return FileLock(fd) }
        let error = SystemError("flock")
        System.close(fd)
        if error.number == EWOULDBLOCK { return nil }
        throw error
    }

    /// Tries until it has the lock, `limit` has passed or `givesUp` says so. Blocks the thread.
    ///
    /// - Parameter waits: called once, when another process has it and there is time to wait.
    /// - Returns: `nil` when another process kept it.
    package static func acquire(
        _ path: String, within limit: Duration, time: any TimeSource, givesUp: () -> Bool = { false }, waits: () -> Void = {}
    ) throws(SystemError) -> FileLock? {
        let end = time.monotonic() + limit
        var hasSaidSo = false
        while true {
            if let lock = try acquire(path) { return lock }
            if time.monotonic() >= end || givesUp() { return nil }
            if !hasSaidSo { waits() }
            hasSaidSo = true
            usleep(50_000)
        }
    }
}

/// For the thread that starts the process, while loops work for it.
package enum Waiting {
    /// - Returns: whether the condition held within the limit.
    package static func until(_ limit: Duration, time: any TimeSource, _ condition: () -> Bool) -> Bool {
        let end = time.monotonic() + limit
        while !condition() {
            if time.monotonic() >= end { return false }
            usleep(2_000)
        }
        return true
    }
}
