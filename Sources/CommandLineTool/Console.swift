import Glibc

/// The three standard streams. Used by one thread.
package protocol Console: AnyObject {
    /// A result, to standard output. A line feed is added.
    func print(_ text: String)
    /// A problem, to standard error. A line feed is added.
    func complain(_ text: String)
    /// Standard input to its end; `nil` when it has more than `maxBytes` or cannot be read.
    func readInput(maxBytes: Int) -> [UInt8]?
    /// Something could not be written to standard output.
    var hasFailed: Bool { get }
}

/// The process's own streams, unbuffered: nothing has to be flushed however the process ends.
final class SystemConsole: Console {
    private(set) var hasFailed = false

    /// A parent may have closed one of the three. The next descriptor that is opened would take its number, and the log would be written
    /// to somebody's connection. What stands in its place cannot be written to, or read from.
    static func occupyStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO {
            var status = stat()
            if fstat(descriptor, &status) != 0 {
                // The lowest free number, so it is this one: those below are taken.
                _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
            }
        }
    }

    func print(_ text: String) {
        if !write(text + "\n", to: STDOUT_FILENO) { hasFailed = true }
    }

    func complain(_ text: String) { _ = write(text + "\n", to: STDERR_FILENO) }

    func readInput(maxBytes: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = chunk.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
            if count == 0 { return bytes }
            if count < 0 && errno == EINTR { continue }
            guard count > 0, bytes.count + count <= maxBytes else { return nil }
            bytes.append(contentsOf: chunk[..<count])
        }
    }

    private func write(_ text: String, to descriptor: Int32) -> Bool {
        Array(text.utf8).withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count > 0 {
                    rest = rest.dropFirst(count)
                } else if count == 0 || errno != EINTR {
                    return false
                }
            }
            return true
        }
    }
}

/// Keeps what is written, for tests.
package final class MemoryConsole: Console {
    package private(set) var output = ""
    package private(set) var errors = ""
    private let input: [UInt8]
    package let hasFailed = false

    package init(input: [UInt8] = []) { self.input = input }

    package func print(_ text: String) { output += text + "\n" }
    package func complain(_ text: String) { errors += text + "\n" }
    package func readInput(maxBytes: Int) -> [UInt8]? { input.count > maxBytes ? nil : input }
}
