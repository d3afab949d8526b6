/// What a line of production code must not hold, and where. Pure: text in, faults out.
struct SourceRules {
    /// Modules of the system that a target may import, besides the targets it depends on, and why.
    static let systemModules: [String: Set<String>] = [
        // Mutexes, semaphores, threads with a name, the erasing of secrets.
        "Primitives": ["Glibc", "Synchronization"],
        // The one place for sockets, epoll, timers, threads and queues.
        "EventLoop": ["Glibc", "Dispatch", "Synchronization"],
        // Reads the bytes of files.
        "Configuration": ["Glibc", "Synchronization"],
        // The thread of the log, `write` to standard output, `/proc/self`.
        "Telemetry": ["Glibc", "Synchronization"],
        // Exit codes, the environment, standard input and output.
        "CommandLineTool": ["Glibc", "Synchronization"],
        // A client that waits, the process of the simulator.
        "JanuarySimulator": ["Glibc", "Dispatch", "Synchronization"],
        "january-token-endpoint": ["Glibc"],
        "january-simulator": ["Glibc"],
    ]

    /// For every target that is not named above.
    static let commonModules: Set<String> = ["Synchronization"]

    /// Calls that make or use sockets, event queues and descriptors: in `EventLoop` alone.
    static let kernelCalls: Set<String> = [
        "socket", "bind", "listen", "accept", "accept4", "connect", "send", "sendmsg", "sendto", "recv", "recvmsg", "recvfrom",
        "setsockopt", "getsockopt", "shutdown", "socketpair", "epoll_create1", "epoll_ctl", "epoll_wait", "eventfd",
        "timerfd_create", "getaddrinfo", "dup", "dup2", "pipe", "pipe2", "fcntl", "ioctl",
    ]

    /// Calls that hold their thread until something else happens. A loop that makes one serves nobody meanwhile.
    static let waitingCalls: Set<String> = [
        "sleep", "usleep", "nanosleep", "clock_nanosleep", "sem_wait", "sem_timedwait", "pthread_cond_wait",
        "pthread_cond_timedwait", "pthread_join", "poll", "ppoll", "select", "pselect", "waitpid", "wait4", "flock", "fsync",
        "fdatasync", "getaddrinfo", "epoll_wait", "popen",
    ]
    /// The same as methods, of semaphores and queues.
    static let waitingMethods = [".wait()", ".sync {", ".sync("]

    /// Where waiting is right, and whose thread it is. No file of a part that lives on a loop is among them, but for the loop itself.
    static let waitingFiles: [String: String] = [
        "EventLoop/EventLoop.swift": "the one wait of a loop: for its own descriptors",
        "EventLoop/Resolver.swift": "the resolver's own threads",
        "EventLoop/SerialThread.swift": "the thread of the state file",
        "EventLoop/StateFile.swift": "at the start, before there is a loop",
        "Primitives/Threads.swift": "what others wait with",
        "Telemetry/AuditFile.swift": "the audit file's own thread",
        "Telemetry/StandardOutput.swift": "the log's own thread",
        "Telemetry/LogWriter.swift": "the log's own thread, and the main thread at the end",
        "EventLoop/FileWatcher.swift": "the watcher's own thread",
        "TokenEndpoint/Reload.swift": "the thread of reloads",
        "Configuration/FileBytes.swift": "files of the configuration, read at the start by the main thread",
        "CommandLineTool/Outcome.swift": "the main thread of a command",
        "CommandLineTool/ServerQuestion.swift": "the main thread of a command",
        "CommandLineTool/DoctorCommand.swift": "the main thread of a command",
        "CommandLineTool/DoctorChecks.swift": "the main thread of a command",
        "CommandLineTool/WayClient.swift": "the main thread of a command",
        "CommandLineTool/SessionLookUp.swift": "the main thread of a command",
        "CommandLineTool/ServeCommand.swift": "the main thread, for the end of the server",
        "CommandLineTool/ServerLife.swift": "the main thread, for the end of the server",
    ]

    static let maxLines = 500
    /// How far from `@unchecked Sendable` its argument may stand.
    static let argumentDistance = 4

    let target: String
    let dependencies: Set<String>

    func faults(file: String, text: String) -> [String] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        var faults: [String] = []
        // A file ends in a line feed, so the last element is empty.
        if lines.count - 1 > Self.maxLines { faults.append("\(file): \(lines.count - 1) lines, at most \(Self.maxLines)") }
        for (index, line) in lines.enumerated() {
            for fault in self.faults(code: Self.code(line)) { faults.append("\(file):\(index + 1): \(fault)") }
            for call in waits(Self.code(line), file: file) {
                faults.append("\(file):\(index + 1): \(call) holds its thread; say whose thread that is in waitingFiles")
            }
            for word in Self.wordsThatNeedAnArgument where Self.code(line).contains(word) && !Self.hasArgument(lines, at: index) {
                faults.append("\(file):\(index + 1): \(word) without the argument why it is right")
            }
        }
        return faults
    }

    private static let wordsThatNeedAnArgument = ["@unchecked Sendable", "nonisolated(unsafe)", "fatalError(", "unowned(unsafe)"]

    private func faults(code: String) -> [String] {
        var faults: [String] = []
        let words = code.split { !($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-") }.map(String.init)
        if let position = words.firstIndex(of: "import"), position + 1 < words.count, Self.isImport(code) {
            let module = words.last { $0 != "import" } ?? ""
            let allowed = dependencies.union(Self.systemModules[target] ?? Self.commonModules)
            if !allowed.contains(module) { faults.append("import \(module) in \(target)") }
        }
        if code.contains("try!") { faults.append("try!") }
        if code.contains(" as! ") { faults.append("as!") }
        if Self.isPublicDeclaration(words) && !(target == "EventLoop" && code.contains("public init() {}")) {
            faults.append("public")
        }
        if words.contains("Mutex") { faults.append("Mutex: the thread sanitizer cannot see it, use Lock") }
        // The simulator has methods of its own with these names, and is no part of the product.
        let mayCallKernel = target == "EventLoop" || target == "JanuarySimulator"
        if !mayCallKernel && (Self.systemModules[target]?.contains("Glibc") == true || dependencies.contains("CSystem")) {
            for call in Self.calls(code) where Self.kernelCalls.contains(call) { faults.append("\(call)() outside of EventLoop") }
        }
        return faults
    }

    /// The simulator is no part of the product.
    private func waits(_ code: String, file: String) -> [String] {
        let name = file.split(separator: "/").last.map(String.init) ?? file
        guard target != "JanuarySimulator", Self.waitingFiles["\(target)/\(name)"] == nil else { return [] }
        return Self.calls(code).filter(Self.waitingCalls.contains) + Self.waitingMethods.filter(code.contains)
    }

    private static let declarations: Set<String> = [
        "actor", "class", "enum", "extension", "final", "func", "init", "let", "protocol", "static", "struct", "subscript",
        "typealias",
        "var",
    ]

    /// `public` in front of a declaration; in a text or as the name of a case it is a word like any other. The initializer of
    /// `TimerNode` is the one exception: a base class that another target inherits from cannot be less than open.
    private static func isPublicDeclaration(_ words: [String]) -> Bool {
        zip(words, words.dropFirst()).contains { $0 == "public" && declarations.contains($1) }
    }

    /// `import X`, also with attributes and access (`@preconcurrency package import X`).
    private static func isImport(_ code: String) -> Bool {
        let words = code.split(separator: " ")
        guard let position = words.firstIndex(of: "import") else { return false }
        return words[..<position].allSatisfy {
            $0.hasPrefix("@") || ["package", "private", "internal", "fileprivate"].contains($0)
        }
    }

    /// Names that are called as free functions: followed by `(`, not after a point (unless that of `Glibc.`) and not being declared.
    private static func calls(_ code: String) -> [String] {
        var calls: [String] = []
        var word = ""
        var before = ""
        for character in code {
            if character.isLetter || character.isNumber || character == "_" {
                word.append(character)
                continue
            }
            let isMember = before.hasSuffix(".") && !before.hasSuffix("Glibc.")
            if character == "(" && !word.isEmpty && !isMember && !before.hasSuffix("func ") { calls.append(word) }
            before += word + String(character)
            word = ""
        }
        return calls
    }

    /// The line without its comment. Two slashes in a string (a URL) are not one: they come after a colon.
    private static func code(_ line: String) -> String {
        var previous: Character = " "
        var beforePrevious: Character = " "
        for (index, character) in zip(line.indices, line) {
            if character == "/" && previous == "/" && beforePrevious != ":" {
                return String(line[..<line.index(before: index)])
            }
            beforePrevious = previous
            previous = character
        }
        return line
    }

    private static func hasArgument(_ lines: [String], at index: Int) -> Bool {
        let near = lines[max(0, index - argumentDistance)...min(lines.count - 1, index + argumentDistance)]
        return near.contains { $0.contains("//") }
    }
}
