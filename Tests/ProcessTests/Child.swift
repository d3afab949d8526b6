import Foundation
import Glibc
import TestSupport

/// The real program as a child process. Its output goes to files, so that it never waits for us. Ended, by its ID, with its owner.
final class Child: @unchecked Sendable {
    // Sendable: used by one test thread at a time; everything but `ending` is constant.
    struct Failure: Error { let what: String }

    let id: pid_t
    private let folder: URL
    private var ending: Int32?

    /// Beside the test bundle.
    static let program: String = {
        let bundle = URL(filePath: (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "/")
        let beside = bundle.deletingLastPathComponent().appending(path: "january-token-endpoint")
        if FileManager.default.isExecutableFile(atPath: beside.path) { return beside.path }
        return URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: ".build/debug/january-token-endpoint").path
    }()

    /// - Parameters:
    ///   - environment: all of it, but for what every child gets.
    ///   - blocked: signals that the child finds blocked; none is otherwise, whatever is blocked in this process.
    ///   - shell: a command line that ends in `exec "$@"`, run before the program.
    ///   - program: another one than ours.
    ///   - inherited: descriptors that the child gets as 3, 4, …
    init(
        _ arguments: [String], environment: [String: String] = [:], input: String = "", blocked: [Int32] = [],
        shell: String? = nil, program: String = Child.program, inherited: [Int32] = []
    ) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "january-child-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data(input.utf8).write(to: folder.appending(path: "input"))
        var words = [program] + arguments
        if let shell { words = ["/bin/sh", "-c", shell, "sh"] + words }
        // A crash must not hold the port for minutes, nor print memory.
        let variables = environment.merging(["SWIFT_BACKTRACE": "enable=no", "PATH": "/usr/bin:/bin"]) { first, _ in first }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        let create = O_WRONLY | O_CREAT | O_APPEND
        posix_spawn_file_actions_addopen(&actions, 0, folder.appending(path: "input").path, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, folder.appending(path: "output").path, create, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, folder.appending(path: "errors").path, create, 0o600)
        for (index, descriptor) in inherited.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(3 + index))
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var mask = sigset_t()
        sigemptyset(&mask)
        for signal in blocked { sigaddset(&mask, signal) }
        posix_spawnattr_setsigmask(&attributes, &mask)
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGPIPE] { sigaddset(&defaults, signal) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var child = pid_t()
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        var environmentPointers: [UnsafeMutablePointer<CChar>?] = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in pointers + environmentPointers { free(pointer) } }
        let result = posix_spawn(&child, words[0], &actions, &attributes, &pointers, &environmentPointers)
        guard result == 0 else { throw Failure(what: "posix_spawn \(words[0]): \(String(cString: strerror(result)))") }
        id = child
    }

    deinit {
        if ending == nil {
            kill(id, SIGKILL)
            var status: Int32 = 0
            waitpid(id, &status, 0)
        }
        try? FileManager.default.removeItem(at: folder)
    }

    var output: String { text("output") }
    var errors: String { text("errors") }

    private func text(_ name: String) -> String {
        String(decoding: (try? Data(contentsOf: folder.appending(path: name))) ?? Data(), as: UTF8.self)
    }

    func send(_ signal: Int32) { kill(id, signal) }

    /// Blocks until the child has ended.
    /// - Returns: its exit code; a signal's number, negative, when one ended it.
    func wait(within seconds: Double = 30) throws -> Int32 {
        if let ending { return ending }
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            var status: Int32 = 0
            if waitpid(id, &status, WNOHANG) == id {
                let signal = status & 0x7F
                let code = signal == 0 ? status >> 8 & 0xFF : -signal
                ending = code
                return code
            }
            usleepMilliseconds(5)
        }
        throw Failure(what: "still running: \(output)\(errors)")
    }

    /// One line of its log, as soon as it is there.
    func logLine(_ message: String, within seconds: Double = 20) throws -> [String: Any] {
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            if let line = logLines(message).first { return line }
            usleepMilliseconds(5)
        }
        throw Failure(what: "no line \"\(message)\": \(output)\(errors)")
    }

    func logLines(_ message: String) -> [[String: Any]] {
        output.split(separator: "\n").compactMap { line in
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            return object?["message"] as? String == message ? object : nil
        }
    }
}

/// A command that ends by itself.
struct Finished {
    let code: Int32
    let output: String
    let errors: String

    init(
        _ arguments: [String], environment: [String: String] = [:], input: String = "", shell: String? = nil,
        program: String = Child.program
    ) throws {
        let child = try Child(arguments, environment: environment, input: input, shell: shell, program: program)
        code = try child.wait()
        output = child.output
        errors = child.errors
    }
}
