import Glibc

/// The bytes of a file, read whole and bounded. The only place of this target that talks to the system.
package enum FileBytes {
    package enum Failure: Error, Equatable {
        /// The system's own words, "No such file or directory".
        case system(String)
        case notRegular
        case tooLarge(maxBytes: Int)
        case timedOut
        case nameWithNUL

        package var message: String {
            switch self {
            case .system(let text): text
            case .notRegular: "it is neither a regular file nor a pipe"
            case .tooLarge(let maxBytes): "it has more than \(maxBytes) bytes"
            case .timedOut: "nothing came through the pipe for 5 seconds"
            case .nameWithNUL: "its name holds a NUL character"
            }
        }
    }

    package struct Content {
        package let bytes: [UInt8]
        /// Permission bits of a regular file; 0 for a pipe.
        package let mode: UInt32

        package var isReadableByOthers: Bool { mode & 0o004 != 0 }
    }

    /// Regular files and pipes (`<(command)`). May block: on a slow disk, and up to 5 s for each piece of a pipe.
    package static func read(_ path: String, maxBytes: Int) throws(Failure) -> Content {
        if path.utf8.contains(0) { throw .nameWithNUL }
        // Non-blocking, so that a pipe without a writer or a device is looked at instead of waited for.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw systemFailure() }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw systemFailure() }
        let type = status.st_mode & S_IFMT
        guard type == S_IFREG || type == S_IFIFO else { throw .notRegular }
        let bytes = try readAll(descriptor, maxBytes: maxBytes)
        return Content(bytes: bytes, mode: type == S_IFREG ? status.st_mode & 0o777 : 0)
    }

    private static func readAll(_ descriptor: Int32, maxBytes: Int) throws(Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16_384)
        defer {
            chunk.withUnsafeMutableBytes { buffer in
                if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
            }
        }
        while true {
            let count = chunk.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                guard bytes.count + count <= maxBytes else { throw .tooLarge(maxBytes: maxBytes) }
                bytes.append(contentsOf: chunk[..<count])
            } else if count == 0 {
                return bytes
            } else if errno == EAGAIN {
                try waitForPipe(descriptor)
            } else if errno != EINTR {
                throw systemFailure()
            }
        }
    }

    private static func waitForPipe(_ descriptor: Int32) throws(Failure) {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let count = poll(&entry, 1, 5_000)
        if count == 0 { throw .timedOut }
        if count < 0 && errno != EINTR { throw systemFailure() }
    }

    private static func systemFailure() -> Failure {
        .system(String(cString: strerror(errno)))
    }

    /// The working directory without a slash at the end; empty when there is none any more.
    static func workingDirectory() -> String {
        guard let pointer = getcwd(nil, 0) else { return "" }
        defer { free(pointer) }
        let path = String(cString: pointer)
        return path == "/" ? "" : path
    }

    /// The process's environment. Call before other threads start: the C library's table is not locked.
    package static func processEnvironment() -> [String: String] {
        var variables: [String: String] = [:]
        var entry = environ
        while let pointer = entry.pointee {
            let text = String(cString: pointer)
            if let equals = text.firstIndex(of: "=") {
                variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            entry += 1
        }
        return variables
    }
}
