import Foundation
import TestSupport
import Testing

/// The files that operators copy: what they promise is what the program does.
@Suite struct DeploymentTests {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// Words between two marks, over continued lines.
    private static func words(in text: String, from start: String, to end: String) throws -> [String] {
        let first = try #require(text.range(of: start))
        let last = try #require(text.range(of: end, range: first.upperBound..<text.endIndex))
        return text[first.upperBound..<last.lowerBound].split { $0.isWhitespace || $0 == "\\" }.map(String.init)
    }

    // MARK: Packages

    /// The script, the image and the package description name the same libraries.
    @Test func oneListOfLibraries() throws {
        let script = try Self.words(in: Self.text("scripts/install-dependencies"), from: "build) packages=(", to: ")")
        let libraries = Set(script.filter { $0.hasSuffix("-dev") })
        #expect(libraries.count >= 5)

        let image = try Self.text("Dockerfile")
        let stages = image.components(separatedBy: "\nFROM ").dropFirst()
        #expect(stages.count == 2)
        let install = "apt-get install -y --no-install-recommends "
        let built = Set(try Self.words(in: try #require(stages.first), from: install, to: "&&"))
        #expect(built.filter { $0.hasSuffix("-dev") } == libraries)
        #expect(built.contains("pkg-config"))

        let package = try Self.text("Package.swift")
        let described = Set(package.matches(of: /apt: "([^"]+)"/).map { String($0.output.1) }).subtracting(["libc6-dev"])
        #expect(described == libraries)

        // Debian 12's names of what is linked at run time.
        let runtime = [
            "libssl-dev": "libssl3", "zlib1g-dev": "zlib1g", "libyaml-dev": "libyaml-0-2", "libsqlite3-dev": "libsqlite3-0",
            "libhiredis-dev": "libhiredis0.14",
        ]
        let run = Set(try Self.words(in: try #require(stages.last), from: install, to: "&&"))
        #expect(run == Set(libraries.map { runtime[$0] ?? "the runtime of \($0)" } + ["ca-certificates", "libstdc++6"]))
    }

    @Test func theImageRunsAsNobodyAndIsAskedForItsHealth() throws {
        let lines = try Self.text("Dockerfile").split(separator: "\n").map(String.init)
        #expect(lines.contains("USER 10001:10001"))
        #expect(
            lines.contains { $0.hasPrefix("HEALTHCHECK ") && $0.hasSuffix(#"CMD ["january-token-endpoint", "healthcheck"]"#) })
        #expect(lines.contains(#"ENTRYPOINT ["january-token-endpoint"]"#))
        #expect(lines.contains { $0.hasPrefix("ENV ") && $0.contains("SWIFT_BACKTRACE=enable=no") })
        // Where blocks are kept unless the configuration has a state: a variable STATE would win over the file's.
        #expect(lines.contains { $0.hasPrefix("ENV ") && $0.contains(" STATE_DIRECTORY=/var/lib/january-token-endpoint") })
        #expect(lines.contains("VOLUME /var/lib/january-token-endpoint"))
        #expect(!lines.contains { $0.contains(" STATE=") })
        // The toolchain's exact version; both images can be given by digest.
        #expect(lines.contains { $0.wholeMatch(of: /ARG SWIFT_IMAGE=swift:\d+\.\d+\.\d+-bookworm/) != nil })
    }

    // MARK: systemd

    @Test func theUnitLeavesRoomForTheDrainAndForConnections() throws {
        var section = ""
        var values: [String: [String]] = [:]
        for line in try Self.text("deploy/systemd/january-token-endpoint.service").split(separator: "\n") {
            if line.hasPrefix("#") { continue }
            if line.hasPrefix("[") {
                section = String(line)
            } else {
                let pair = line.split(separator: "=", maxSplits: 1).map(String.init)
                values["\(section).\(try #require(pair.first))", default: []].append(pair.count > 1 ? pair[1] : "")
            }
        }
        func number(_ key: String) -> Int? { values["[Service].\(key)"]?.first.flatMap { Int($0) } }
        // drain.timeout_seconds is 20.
        #expect(try #require(number("TimeoutStopSec")) > 20)
        // max_connections, january.max_connections and what else is open.
        #expect(try #require(number("LimitNOFILE")) >= 10_000 + 256 + 64)
        #expect(values["[Service].ExecStart"]?.first?.contains("/january-token-endpoint serve --config ") == true)
        #expect(values["[Service].Environment"]?.contains("SWIFT_BACKTRACE=enable=no") == true)
        // What a manager is told, and how often it has to be.
        #expect(values["[Service].Type"] == ["notify"])
        #expect(try #require(number("WatchdogSec")) >= 10)
        #expect(values["[Service].ExecReload"] == ["/bin/kill -HUP $MAINPID"])
        // Where fences are kept by default: a folder of the service's own.
        #expect(values["[Service].StateDirectory"] == ["january-token-endpoint"])
        #expect(values["[Service].StateDirectoryMode"] == ["0700"])
        #expect(values["[Service].RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"])
    }

    private static let analyzer: String? = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// systemd reads both units without a complaint about a directive, and rates the service as safe.
    @Test(.enabled(if: analyzer != nil, "systemd-analyze is not installed"))
    func systemdKnowsEveryDirectiveOfTheUnits() async throws {
        let analyzer = try #require(Self.analyzer)
        try await onOwnThread {
            let folder = FileManager.default.temporaryDirectory.appending(path: "january-units-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            var units: [String] = []
            for name in ["service", "socket"] {
                let unit = folder.appending(path: "january-token-endpoint.\(name)")
                let text = try Self.text("deploy/systemd/january-token-endpoint.\(name)")
                // The program is not installed here.
                try Data(text.replacing("/usr/local/bin/january-token-endpoint", with: "/bin/true").utf8).write(to: unit)
                units.append(unit.path)
            }
            func run(_ arguments: [String]) throws -> (code: Int32, said: String) {
                let process = Process()
                process.executableURL = URL(filePath: analyzer)
                process.arguments = arguments
                let output = Pipe()
                process.standardOutput = output
                process.standardError = output
                try process.run()
                let said = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                process.waitUntilExit()
                return (process.terminationStatus, said)
            }
            let verified = try run(["verify"] + units)
            #expect(!verified.said.contains("january-token-endpoint.s"), "\(verified.said)")
            // 2.0 of 10, where 10 is no protection at all.
            let rated = try run(["security", "--offline=true", "--threshold=20", units[0]])
            #expect(rated.code == 0, "\(rated.said)")
        }
    }

    @Test func theSocketUnitIsTheOneTheServiceIsFor() throws {
        let text = try Self.text("deploy/systemd/january-token-endpoint.socket")
        for line in ["ListenStream=127.0.0.1:8787", "FileDescriptorName=public", "WantedBy=sockets.target"] {
            #expect(text.contains("\n\(line)\n"))
        }
        // One connection a process would be another protocol.
        #expect(!text.contains("Accept=yes"))
    }

    // MARK: nginx

    private static let nginx: String? = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    @Test(.enabled(if: nginx != nil, "nginx is not installed"))
    func nginxAcceptsItsConfiguration() async throws {
        let program = try #require(Self.nginx)
        try await onOwnThread {
            let identity = try TestCertificates.shared.get().issue("DNS:api.acme.example")
            let folder = FileManager.default.temporaryDirectory.appending(path: "january-nginx-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try Data(identity.certificate).write(to: folder.appending(path: "acme.pem"))
            try Data(identity.privateKey).write(to: folder.appending(path: "acme.key"))
            var text = try Self.text("deploy/nginx/january.conf")
            // A test binds its sockets: on a path of ours instead of a port that needs rights.
            for (from, to) in [
                ("listen 443 ssl http2", "listen unix:\(folder.path)/x ssl http2"), ("/etc/ssl/acme", "\(folder.path)/acme"),
            ] {
                #expect(text.contains(from))
                text = text.replacing(from, with: to)
            }
            let whole = "pid \(folder.path)/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n\(text)\n}\n"
            try Data(whole.utf8).write(to: folder.appending(path: "nginx.conf"))
            let process = Process()
            process.executableURL = URL(filePath: program)
            process.arguments = ["-t", "-q", "-p", folder.path, "-c", folder.appending(path: "nginx.conf").path]
            let errors = Pipe()
            process.standardError = errors
            try process.run()
            let said = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationStatus == 0, "\(said)")
        }
    }

    /// A mint is never sent twice: nginx goes to another replica only when nothing was sent, unless "non_idempotent" says otherwise.
    @Test func nginxDoesWhatAMintNeeds() throws {
        let text = try Self.text("deploy/nginx/january.conf")
        #expect(text.contains("proxy_next_upstream error timeout;"))
        #expect(text.contains("proxy_http_version 1.1;"))
        #expect(text.contains(#"proxy_set_header Connection "";"#))
        #expect(text.contains("proxy_cache off;") && text.contains("proxy_max_temp_file_size 0;"))
    }
}
