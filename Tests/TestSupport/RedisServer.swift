import Foundation
import Glibc

/// A real `redis-server` of the test's own on a free port of the loopback, with its files in a folder of its own. Ended, by its ID, with its
/// owner. For one test thread at a time.
package final class RedisServer: @unchecked Sendable {
    // Sendable: used by one test thread at a time.
    package struct Failure: Error { package let what: String }

    /// Tests that need it are skipped by name where it is not installed: `.enabled(if: RedisServer.isInstalled)`.
    package static let isInstalled = program != nil
    /// `REDIS_SERVER` names another one than the system's: a later version, or Valkey.
    private static let program = [
        ProcessInfo.processInfo.environment["REDIS_SERVER"], "/usr/bin/redis-server", "/usr/local/bin/redis-server",
    ].compactMap { $0 }.first { FileManager.default.isExecutableFile(atPath: $0) }

    /// WAITAOF came with 7.2; every Valkey has it.
    package static let hasWaitAOF: Bool = {
        guard let program else { return false }
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: program)
        process.arguments = ["--version"]
        process.standardOutput = output
        guard (try? process.run()) != nil else { return false }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        // `Redis server v=7.0.15 sha=…`
        guard let start = text.range(of: "v=") else { return false }
        let numbers = text[start.upperBound...].prefix { $0 != " " }.split(separator: ".").compactMap { Int($0) }
        return numbers.count > 1 && (numbers[0], numbers[1]) >= (7, 2)
    }()

    package let port: UInt16
    package let folder: String
    private let arguments: [String]
    private let usesTLS: Bool
    /// Sent before every ``ask(_:)``, such as `AUTH secret`.
    package var login: String?
    private var child: pid_t?

    /// - Parameters:
    ///   - settings: as on the command line, such as `["--requirepass", "x"]`.
    ///   - tls: the only port speaks TLS with this certificate; clients need none of their own.
    package init(_ settings: [String] = [], tls: TestCertificates.Identity? = nil, login: String? = nil) throws {
        folder = NSTemporaryDirectory() + "/january-redis-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        port = try LoopbackListener.freePort()
        usesTLS = tls != nil
        self.login = login
        var arguments = ["--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no", "--daemonize", "no"]
        arguments += ["--logfile", "\(folder)/log", "--enable-debug-command", "yes"]
        if let tls {
            try Data(tls.certificate).write(to: URL(filePath: "\(folder)/cert.pem"))
            try Data(tls.privateKey).write(to: URL(filePath: "\(folder)/key.pem"))
            try Data(TestCertificates.shared.get().authority).write(to: URL(filePath: "\(folder)/ca.pem"))
            arguments += ["--port", "0", "--tls-port", "\(port)", "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"]
            arguments += ["--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no"]
        } else {
            arguments += ["--port", "\(port)"]
        }
        self.arguments = arguments + settings
        try start()
    }

    deinit {
        kill()
        try? FileManager.default.removeItem(atPath: folder)
    }

    package var url: String { "\(usesTLS ? "rediss" : "redis")://127.0.0.1:\(port)" }
    /// What it has written to its log, for the message of a test that failed.
    package var log: String { (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "" }

    /// Starts it (again, on the same port) and waits until it accepts connections.
    package func start() throws {
        guard child == nil, let program = Self.program else { throw Failure(what: "redis-server is not installed") }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var mask = sigset_t()
        sigemptyset(&mask)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "\(folder)/output", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, "\(folder)/output", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        var pointers: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) } + [nil]
        var environment: [UnsafeMutablePointer<CChar>?] = [strdup("PATH=/usr/bin:/bin"), nil]
        defer { for pointer in pointers + environment { free(pointer) } }
        var id = pid_t()
        let result = posix_spawn(&id, program, &actions, &attributes, &pointers, &environment)
        guard result == 0 else { throw Failure(what: "posix_spawn: \(String(cString: strerror(result)))") }
        child = id
        let end = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < end {
            if (try? RawClient(port: port)) != nil { return }
            var status: Int32 = 0
            if waitpid(id, &status, WNOHANG) == id {
                child = nil
                throw Failure(what: "redis-server ended: \(log)")
            }
            usleepMilliseconds(5)
        }
        throw Failure(what: "redis-server accepts no connection: \(log)")
    }

    /// Ends it at once, as a crash does.
    package func kill() {
        guard let child else { return }
        self.child = nil
        Glibc.kill(child, SIGKILL)
        var status: Int32 = 0
        waitpid(child, &status, 0)
    }

    /// It goes on accepting connections (the kernel does) and answers nothing.
    package func freeze() { if let child { Glibc.kill(child, SIGSTOP) } }
    package func thaw() { if let child { Glibc.kill(child, SIGCONT) } }

    /// One command, its words separated by single spaces, over a connection of its own without TLS.
    /// - Returns: the reply as it came.
    @discardableResult
    package func ask(_ command: String) throws -> String {
        let client = try RawClient(port: port)
        let lines = [login, command].compactMap { $0 }
        for line in lines {
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            try client.send("*\(words.count)\r\n" + words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined())
        }
        // The end of what is asked for is known by one more answer behind it.
        try client.send("ECHO january-end\r\n")
        let end = "$11\r\njanuary-end\r\n"
        var text = ""
        while !text.hasSuffix(end) {
            let some = try client.receive()
            if some.isEmpty { throw Failure(what: "end of stream: \(text)") }
            text += String(decoding: some, as: UTF8.self)
        }
        text = String(text.dropLast(end.count))
        if login != nil { text = String(text.drop { $0 != "\r\n" }.dropFirst()) }
        return text
    }

}
