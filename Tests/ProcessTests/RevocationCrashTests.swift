import Dispatch
import Foundation

import Glibc
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// The real program is killed where it hurts, started again, and must have kept every promise it made.
@Suite(.serialized) struct RevocationCrashTests {
    static let token = "management-token-of-at-least-32-characters"

    /// January and the folder outlive the server.
    final class Scene {
        let simulator: Simulator
        let folder: String
        private(set) var server: Child?
        private(set) var port: UInt16 = 0
        private(set) var managementPort: UInt16 = 0

        init(_ more: String = "") throws {
            var configuration = Simulator.Configuration()
            configuration.algorithms = [.es256]
            simulator = try Simulator(configuration)
            try simulator.start()
            folder = FileManager.default.temporaryDirectory.appending(path: "january-crash-\(UUID().uuidString)").path + "/"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try ServerScenario.write(folder + "api_key", SimulatorSettings.developmentKey)
            try ServerScenario.write(folder + "token", RevocationCrashTests.token)
            let text = ServerScenario.configuration(simulator)
                .replacingOccurrences(
                    of: "management: { listen: \"127.0.0.1:0\" }",
                    with:
                        "management: { listen: \"127.0.0.1:0\", token_files: [token] }\nstate: \"sqlite:state/state.db\"\n\(more)"
                )
            try ServerScenario.write(folder + "config.yaml", text)
        }

        deinit {
            simulator.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }

        func start(crashAt: String? = nil, shell: String? = nil) throws {
            let server = try Child(
                ["serve", "--config", folder + "config.yaml"], environment: crashAt.map { ["CRASH_AT": $0] } ?? [:], shell: shell)
            self.server = server
            let line = try server.logLine("listening")
            port = try Self.port(line["listen"])
            managementPort = try Self.port(line["management"])
            try eventually("ready") { ((try? ask("GET", "/readyz"))?.hasPrefix("HTTP/1.1 200 ")) == true }
        }

        private static func port(_ address: Any?) throws -> UInt16 {
            guard let text = address as? String, let port = UInt16(text.split(separator: ":").last ?? "") else {
                throw Child.Failure(what: "no port")
            }
            return port
        }

        func kill() throws {
            server?.send(SIGKILL)
            _ = try server?.wait()
        }

        /// What came back; empty when the server died meanwhile.
        func ask(_ method: String, _ path: String, _ body: String = "") throws -> String {
            let client = try RawClient(port: managementPort, receiveTimeoutSeconds: 20)
            try client.send(
                "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(RevocationCrashTests.token)\r\n"
                    + "Content-Type: application/json\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            return (try? String(decoding: client.receiveAll(), as: UTF8.self)) ?? ""
        }

        func revoke(_ user: String, block: String = "user") throws -> String {
            try ask("POST", "/january/client-token-revocations", #"{"end_user_id":"\#(user)","block":"\#(block)"}"#)
        }

        func mint(_ user: String) throws -> String {
            let session = try simulator.session(SessionOrder(subject: user, audience: ["app"]))
            let client = try RawClient(port: port, receiveTimeoutSeconds: 20)
            try client.send(ServerScenario.mint(session))
            return (try? client.receiveResponses().joined()) ?? ""
        }

        func eventually(_ what: String, within seconds: Double = 30, _ condition: () throws -> Bool) throws {
            let end = ContinuousClock.now + .seconds(seconds)
            while ContinuousClock.now < end {
                if try condition() { return }
                usleepMilliseconds(10)
            }
            throw Child.Failure(what: "\(what): \(server?.output ?? "")\(server?.errors ?? "")")
        }

        func pendingIsOver() throws {
            try eventually("nothing is pending") {
                (try? ask("GET", "/january/client-token-revocations?status=pending"))?.contains(#""items":[]"#) == true
            }
        }

        func isBlocked(_ user: String) throws -> Bool { try mint(user).contains("access_revoked") }
        func hasLiveToken(_ user: String) -> Bool { simulator.tokens(of: user).contains { $0.revoked == nil } }
    }

    @Test(arguments: [
        "before_write", "before_commit", "after_commit", "before_sweep", "after_sweep", "before_sweep:2", "after_sweep:2",
        "before_completion", "after_completion",
    ])
    func aCrashAtANamedPointLosesNothingThatWasDurable(_ point: String) async throws {
        try await onOwnThread {
            let scene = try Scene()
            // The first writes of a process are its probe; this one must not die at them.
            try scene.start()
            #expect(try scene.mint("u1").hasPrefix("HTTP/1.1 201 "))
            try scene.kill()
            let isOfAnyWrite = point.hasPrefix("before_write") || point.contains("commit")
            if isOfAnyWrite {
                // Dies at the probe or at the revocation: either way nothing may be promised and lost.
                try? scene.start(crashAt: point + ":2")
            } else {
                try scene.start(crashAt: point)
            }
            let answer = (try? scene.revoke("u1")) ?? ""
            #expect(!answer.hasPrefix("HTTP/1.1 200 ") || point == "after_completion")
            _ = try scene.server?.wait(within: 60)
            try scene.start()
            try scene.pendingIsOver()
            // Without an answer nothing was promised; what was durable is carried out all the same.
            if point != "before_write" && point != "before_commit" && point != "after_commit" {
                #expect(try scene.isBlocked("u1"))
                #expect(!scene.hasLiveToken("u1"))
            } else if try scene.isBlocked("u1") {
                #expect(!scene.hasLiveToken("u1"))
            }
            // Asked again it is done.
            #expect(try scene.revoke("u1").hasPrefix("HTTP/1.1 200 "))
            #expect(try scene.isBlocked("u1") && !scene.hasLiveToken("u1"))
        }
    }

    @Test(arguments: ["before_lift", "after_lift"])
    func aCrashAtALiftLeavesItDoneOrNot(_ point: String) async throws {
        try await onOwnThread {
            let scene = try Scene()
            try scene.start(crashAt: point)
            #expect(try scene.revoke("u1").hasPrefix("HTTP/1.1 200 "))
            _ = try? scene.ask("DELETE", "/january/end-users/u1/block")
            _ = try scene.server?.wait(within: 60)
            try scene.start()
            #expect(try scene.isBlocked("u1") == (point == "before_lift"))
            #expect(try scene.ask("DELETE", "/january/end-users/u1/block").hasPrefix("HTTP/1.1 200 "))
            #expect(try scene.mint("u1").hasPrefix("HTTP/1.1 201 "))
        }
    }

    /// At random instants while revocations and mints are under way; `JANUARY_PROVE` makes it 200.
    @Test func aCrashAtAnyInstantBreaksNoPromise() async throws {
        let rounds = ProcessInfo.processInfo.environment["JANUARY_PROVE"] == nil ? 12 : 200
        try await onOwnThread {
            var random = SeededRandom(seed: 20_261_130)
            let scene = try Scene()
            var promised: Set<String> = []
            var number = 0
            for _ in 0..<rounds {
                try scene.start()
                let end = Lock(false)
                let acknowledged = Lock<[String]>([])
                let first = number
                let port = scene.managementPort
                let group = DispatchGroup()
                for worker in 0..<4 {
                    DispatchQueue.global().async(group: group) { [first] in
                        var next = first + worker
                        while !end.withLock({ $0 }) {
                            let user = "user-\(next)"
                            next += 4
                            guard let client = try? RawClient(port: port, receiveTimeoutSeconds: 20) else { return }
                            let body = #"{"end_user_id":"\#(user)"}"#
                            try? client.send(
                                "POST /january/client-token-revocations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                                    + "\(RevocationCrashTests.token)\r\nContent-Type: application/json\r\nConnection: close\r\n"
                                    + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
                            let answer = (try? client.receiveAll()).map { String(decoding: $0, as: UTF8.self) } ?? ""
                            if answer.hasPrefix("HTTP/1.1 200 ") || answer.hasPrefix("HTTP/1.1 202 ") {
                                acknowledged.withLock { $0.append(user) }
                            }
                        }
                    }
                }
                usleepMilliseconds(UInt32(Int.random(in: 1...120, using: &random)))
                try scene.kill()
                end.withLock { $0 = true }
                group.wait()
                number += 100_000
                promised.formUnion(acknowledged.withLock { $0 })
            }
            try scene.start()
            try scene.pendingIsOver()
            #expect(!promised.isEmpty)
            for user in promised.sorted().prefix(300) { #expect(try scene.isBlocked(user), "\(user) was acknowledged and lost") }
        }
    }

    @Test func aSecondProcessOnOneFileIs69AndTheFirstGoesOn() async throws {
        try await onOwnThread {
            let scene = try Scene()
            try scene.start()
            let text = try String(contentsOfFile: scene.folder + "config.yaml", encoding: .utf8)
            try ServerScenario.write(
                scene.folder + "second.yaml",
                text.replacingOccurrences(of: "timeout_seconds: 20", with: "timeout_seconds: 0"))
            // Waits five seconds longer than a drain.
            let second = try Child(["serve", "--config", scene.folder + "second.yaml"])
            #expect(try second.wait(within: 30) == 69)
            #expect(second.errors.contains("is used by another process"))
            #expect(try scene.revoke("u1").hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func whileAnotherProcessHasTheFileProbesAreAnsweredAndTheWaitIsLoggedOnce() async throws {
        try await onOwnThread {
            let scene = try Scene()
            try scene.start()
            let port = try LoopbackListener.freePort()
            let text = try String(contentsOfFile: scene.folder + "config.yaml", encoding: .utf8)
            try ServerScenario.write(
                scene.folder + "second.yaml",
                text.replacingOccurrences(
                    of: "management: { listen: \"127.0.0.1:0\"", with: "management: { listen: \"127.0.0.1:\(port)\""))
            let second = try Child(["serve", "--config", scene.folder + "second.yaml"])
            let message = "another process has the state file; waiting for it to end"
            let line = try second.logLine(message)
            #expect(line["path"] as? String == scene.folder + "state/state.db" && line["limit_seconds"] as? Int == 25)
            func ask(_ line: String, token: String = Self.token) throws -> String {
                let client = try RawClient(port: port, receiveTimeoutSeconds: 20)
                try client.send(
                    "\(line) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\nConnection: close\r\n\r\n")
                return String(decoding: try client.receiveAll(), as: UTF8.self)
            }
            #expect(try ask("GET /healthz").hasPrefix("HTTP/1.1 200 "))
            let probe = try ask("GET /readyz")
            #expect(probe.hasPrefix("HTTP/1.1 503 ") && probe.hasSuffix(#"{"status":"starting","waiting_for":["state"]}"#))
            #expect(try ask("GET /metrics").contains("january_endpoint_build_info"))
            for line in ["GET /status.json", "GET /january/end-users/u1", "DELETE /january/end-users/u1/block"] {
                let answer = try ask(line)
                #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("state_unavailable"), "\(line)")
            }
            // Who may do what is decided as ever.
            #expect(try ask("GET /january/end-users/u1", token: "wrong").hasPrefix("HTTP/1.1 401 "))
            try scene.kill()
            try scene.eventually("ready") { try ask("GET /readyz").hasPrefix("HTTP/1.1 200 ") }
            #expect(try ask("GET /january/end-users/u1").hasPrefix("HTTP/1.1 200 "))
            #expect(try ask("GET /status.json").hasPrefix("HTTP/1.1 200 "))
            #expect(second.logLines(message).count == 1)
            second.send(SIGTERM)
            #expect(try second.wait() == 0)
        }
    }

    @Test func anotherMappingIs78AndNamesTheKey() async throws {
        try await onOwnThread {
            let scene = try Scene()
            try scene.start()
            try scene.kill()
            let path = scene.folder + "config.yaml"
            let text = try String(contentsOfFile: path, encoding: .utf8)
            try ServerScenario.write(path, text + "end_user_id: { prefix: other- }\n")
            let child = try Child(["serve", "--config", path])
            #expect(try child.wait() == 78)
            #expect(child.errors.contains("end_user_id.prefix"))
        }
    }

    /// A limit of the file's size stands for a full disk: both are errors of the write.
    @Test func onAFullDiskNothingIsPromisedAndItRecovers() async throws {
        try await onOwnThread {
            let folder = FileManager.default.temporaryDirectory.appending(path: "january-disk-\(UUID().uuidString)").path
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            guard mount("tmpfs", folder, "tmpfs", 0, "size=1m,mode=0700") == 0 else { return }
            defer { umount(folder) }
            let scene = try Scene()
            let path = scene.folder + "config.yaml"
            let text = try String(contentsOfFile: path, encoding: .utf8)
            try ServerScenario.write(
                path, text.replacingOccurrences(of: "sqlite:state/state.db", with: "sqlite:\(folder)/state.db"))
            try scene.start()
            #expect(try scene.revoke("u1").hasPrefix("HTTP/1.1 200 "))
            let ballast = folder + "/ballast"
            try ServerScenario.write(ballast, "")
            let handle = try #require(FileHandle(forWritingAtPath: ballast))
            while (try? handle.write(contentsOf: Data(repeating: 1, count: 4096))) != nil {}
            try? handle.close()
            var refused = 0
            for number in 0..<200 {
                let answer = try scene.revoke("full-\(number)")
                if answer.contains("state_unavailable") { refused += 1 }
                if refused > 3 { break }
            }
            #expect(refused > 3)
            try scene.eventually("not ready") { try scene.ask("GET", "/readyz").hasPrefix("HTTP/1.1 503 ") }
            // Fences are in memory: they hold, and others mint.
            #expect(try scene.isBlocked("u1"))
            #expect(try scene.mint("u2").hasPrefix("HTTP/1.1 201 "))
            try FileManager.default.removeItem(atPath: ballast)
            try scene.eventually("recovers") { try scene.revoke("u3").hasPrefix("HTTP/1.1 200 ") }
            try scene.eventually("ready again") { try scene.ask("GET", "/readyz").hasPrefix("HTTP/1.1 200 ") }
        }
    }

    /// A file system of its own that the kernel makes read-only when it finds an error, as one on a failing disk does.
    @Test(.enabled(if: ReadOnlyVolume.isPossible, "needs root, mkfs.ext4 and a loop device"))
    func whereTheFileSystemBecomesReadOnlyNothingIsPromisedAndBlocksHold() async throws {
        try await onOwnThread {
            let volume = try ReadOnlyVolume()
            let scene = try Scene()
            let path = scene.folder + "config.yaml"
            let text = try String(contentsOfFile: path, encoding: .utf8)
            try ServerScenario.write(
                path, text.replacingOccurrences(of: "sqlite:state/state.db", with: "sqlite:\(volume.folder)/state/state.db"))
            try scene.start()
            #expect(try scene.revoke("u1").hasPrefix("HTTP/1.1 200 "))
            try volume.becomeReadOnly()
            let answer = try scene.revoke("u2")
            #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("state_unavailable"))
            #expect(try scene.ask("DELETE", "/january/end-users/u1/block").contains("state_unavailable"))
            try scene.eventually("not ready") { try scene.ask("GET", "/readyz").hasPrefix("HTTP/1.1 503 ") }
            #expect(try scene.isBlocked("u1"))
            #expect(try scene.mint("u2").hasPrefix("HTTP/1.1 201 "))
            try scene.kill()
            // Repaired and mounted again, everything that was acknowledged is there.
            try volume.remount()
            try scene.start()
            #expect(try scene.isBlocked("u1"))
            #expect(try scene.revoke("u2").hasPrefix("HTTP/1.1 200 "))
            try scene.kill()
        }
    }
}

/// 16 MB of ext4 in a file, mounted with `errors=remount-ro`.
private final class ReadOnlyVolume {
    static let isPossible =
        geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/sbin/mkfs.ext4")
        && FileManager.default.fileExists(atPath: "/dev/loop-control") && (try? ReadOnlyVolume()) != nil

    let folder: String
    private let image: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "january-volume-\(UUID().uuidString)").path
        image = folder + ".image"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Self.run("truncate -s 16M '\(image)' && mkfs.ext4 -q -O ^has_journal '\(image)'")
        try mount()
    }

    deinit {
        try? Self.run("umount '\(folder)'")
        try? FileManager.default.removeItem(atPath: folder)
        try? FileManager.default.removeItem(atPath: image)
    }

    private func mount() throws { try Self.run("mount -o loop,errors=remount-ro '\(image)' '\(folder)'") }

    func becomeReadOnly() throws {
        try Self.run("echo 1 >/sys/fs/ext4/$(basename $(findmnt -no SOURCE '\(folder)'))/trigger_fs_error")
    }

    func remount() throws {
        try Self.run("umount '\(folder)'; e2fsck -fy '\(image)' >/dev/null 2>&1; true")
        try mount()
    }

    private static func run(_ command: String) throws {
        let finished = try Finished([], shell: "PATH=/usr/sbin:/sbin:/usr/bin:/bin; " + command)
        guard finished.code == 0 else { throw Child.Failure(what: "\(command): \(finished.errors)") }
    }
}
