import Foundation
import Glibc
import JanuarySimulator
import Primitives
import TestSupport
import Testing

private let curl: String? = ["/usr/bin/curl", "/bin/curl"].first { FileManager.default.isExecutableFile(atPath: $0) }

/// The public listener speaks HTTPS itself, asked with curl.
@Suite(.serialized, .enabled(if: curl != nil, "curl is not installed")) struct ListenerTLSTests {
    private static func configure(_ text: inout String) {
        text += "tls: { certificate_file: cert.pem, private_key_file: key.pem, handshake_seconds: 0.5 }\n"
    }

    private static func files(_ identity: TestCertificates.Identity) -> [String: String] {
        [
            "cert.pem": String(decoding: identity.certificate, as: UTF8.self),
            "key.pem": String(decoding: identity.privateKey, as: UTF8.self),
        ]
    }

    private static func identity(_ name: String) throws -> TestCertificates.Identity {
        try TestCertificates.shared.get().issue("DNS:localhost", commonName: name)
    }

    private struct Answer {
        let status: String
        let log: String
        /// The common name of the server's certificate.
        var name: String { log.firstMatch(of: /subject: CN ?= ?([a-z]+)/).map { String($0.output.1) } ?? "" }
    }

    private static func ask(_ scenario: ServerScenario, _ arguments: [String] = [], path: String = "/healthz") throws -> Answer {
        let authority = scenario.folder + "authority.pem"
        try Data(TestCertificates.shared.get().authority).write(to: URL(filePath: authority))
        let process = Process()
        process.executableURL = URL(filePath: try #require(curl))
        process.arguments =
            ["-sv", "--max-time", "20", "--cacert", authority, "-o", "/dev/null", "-w", "%{http_code}"] + arguments
            + ["https://localhost:\(scenario.port)\(path)"]
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let log = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let status = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return Answer(status: status, log: log)
    }

    @Test func aMintOverHTTPS() async throws {
        try await ServerScenario.run(Self.configure, files: try Self.files(Self.identity("first"))) { scenario in
            try scenario.becomesReady()
            let answer = try Self.ask(
                scenario, ["-X", "POST", "-H", "Authorization: Bearer \(try scenario.session())"], path: "/january/client-token")
            #expect(answer.status == "201", "\(answer.log)")
            #expect(answer.name == "first")
            let expiry = try scenario.metric(#"certificate_expiry_timestamp_seconds{listener="public"}"#)
            #expect(abs(expiry - Date.now.timeIntervalSince1970 - 10 * 86_400) < 3_600)
            let plain = try scenario.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(plain.hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
            #expect(
                plain.contains(#"{"code":"bad_request","message":"This port speaks HTTPS. Ask again with https://.""#), "\(plain)"
            )
            #expect(try scenario.metric(#"http_errors_total{reason="plain_http"}"#) == 1)
            // Ten days are few.
            let line = try scenario.server.logLine("the configuration is accepted with a warning")
            #expect((line["warning"] as? String)?.contains("tls.certificate_file: expires in ") == true, "\(line)")
        }
    }

    @Test func anotherCertificateIsTakenWithItsKeyAndNotWithout() async throws {
        try await ServerScenario.run(Self.configure, files: try Self.files(Self.identity("first"))) { scenario in
            #expect(try Self.ask(scenario).name == "first")
            let files = Self.files(try Self.identity("second"))
            try scenario.write("cert.pem", files["cert.pem"] ?? "")
            let line = try scenario.server.logLine("a reload was refused; the old configuration stays")
            #expect(
                line["problem"] as? String
                    == "\(scenario.folder)config.yaml:10: tls.private_key_file: is not the key of the first certificate in certificate_file"
            )
            #expect(try Self.ask(scenario).name == "first")
            try scenario.write("key.pem", files["key.pem"] ?? "")
            _ = try scenario.server.logLine("the configuration was reloaded")
            let answer = try Self.ask(scenario)
            #expect(answer.name == "second" && answer.status == "200")
        }
    }

    /// A new certificate every now and then, while others mint with a handshake for each mint: every one of them gets a token, whichever
    /// certificate it was shown.
    @Test func anotherCertificateUnderLoadFailsNoMint() async throws {
        try await ServerScenario.run(Self.configure, files: try Self.files(Self.identity("first"))) { scenario in
            try scenario.becomesReady()
            let identities = try ["second", "first"].map { try Self.files(Self.identity($0)) }
            let load = try HandshakeLoad(scenario, clients: 3)
            for round in 1...10 {
                let before = load.counts.good
                try scenario.eventually("no mints: \(load.counts.bad)") { load.counts.good >= before + 20 }
                let files = identities[round % 2]
                // Both at once, as who rotates them does it: the pair is whole when it is looked at.
                for (name, text) in files { try scenario.write(name + ".new", text) }
                for name in files.keys { #expect(rename(scenario.folder + name + ".new", scenario.folder + name) == 0) }
                try scenario.eventually("not reloaded") {
                    scenario.server.logLines("the configuration was reloaded").count == round
                }
                #expect(try Self.ask(scenario).name == (round % 2 == 0 ? "second" : "first"))
            }
            #expect(load.stop().bad == [])
            #expect(try scenario.metric(#"connections_refused_total{reason="tls_handshake"}"#) == 0)
        }
    }

    /// Clients that mint with curl, twenty handshakes and mints a process.
    private final class HandshakeLoad: Sendable {
        private struct State {
            var counts = MintLoad.Counts()
            var isOver = false
            var running: Int
        }

        private let state: Lock<State>
        private let ended = Semaphore()

        init(_ scenario: ServerScenario, clients: Int) throws {
            state = Lock(State(running: clients))
            let (port, folder) = (scenario.port, scenario.folder)
            let authority = folder + "load.pem"
            try Data(TestCertificates.shared.get().authority).write(to: URL(filePath: authority))
            for index in 0..<clients {
                let session = try scenario.session("user-\(index)")
                Thread.detachNewThread { [self] in
                    while !state.withLock({ $0.isOver }) { run(port, authority, session) }
                    let isLast = state.withLock { state in
                        state.running -= 1
                        return state.running == 0
                    }
                    if isLast { ended.signal() }
                }
            }
        }

        var counts: MintLoad.Counts { state.withLock { $0.counts } }

        func stop() -> MintLoad.Counts {
            state.withLock { $0.isOver = true }
            ended.wait()
            return counts
        }

        private func run(_ port: UInt16, _ authority: String, _ session: String) {
            let process = Process()
            process.executableURL = curl.map { URL(filePath: $0) }
            let url = "https://localhost:\(port)/january/client-token"
            process.arguments =
                ["-sS", "--max-time", "20", "--cacert", authority, "-X", "POST", "-H", "Authorization: Bearer \(session)"]
                + ["-H", "Connection: close", "-w", "%{http_code}\\n"]
                + (0..<20).flatMap { _ in ["-o", "/dev/null", url] }
            let output = Pipe()
            process.standardOutput = output
            process.standardError = output
            let isStarted = (try? process.run()) != nil
            let text = isStarted ? String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self) : "no curl"
            if isStarted { process.waitUntilExit() }
            let lines = text.split(separator: "\n").map(String.init)
            state.withLock { state in
                state.counts.good += lines.count { $0 == "201" }
                state.counts.bad += lines.filter { $0 != "201" }
            }
        }
    }

    @Test func handshakesThatStallHoldNobodyUpAndAreCut() async throws {
        try await ServerScenario.run(Self.configure, files: try Self.files(Self.identity("first"))) { scenario in
            let stalled = try (0..<100).map { index in
                let client = try RawClient(port: scenario.port)
                if index % 2 == 0 { try client.send([0x16, 3, 1, 2, 0, 1]) }
                return client
            }
            #expect(try Self.ask(scenario).status == "200")
            for client in stalled { _ = try client.receiveAll(allowingReset: true) }
            #expect(try scenario.metric(#"connections_refused_total{reason="tls_handshake_timeout"}"#) == 100)
            #expect(try Self.ask(scenario).status == "200")
            // Neither a handshake nor a request in the clear.
            let plain = try RawClient(port: scenario.port)
            try plain.send("nonsense, and a little more of it\r\n\r\n")
            _ = try plain.receiveAll(allowingReset: true)
            try scenario.eventually("not counted") {
                try scenario.metric(#"connections_refused_total{reason="tls_handshake"}"#) == 1
            }
        }
    }

    /// What is wrong with the section, and what is said about it.
    @Test(arguments: [
        ("certificate_file: cert.pem", "tls.private_key_file: required beside certificate_file"),
        ("private_key_file: key.pem", "tls.certificate_file: required beside private_key_file"),
        (
            "certificate_file: key.pem, private_key_file: key.pem",
            "tls.certificate_file: holds no certificates that can be used (bad_certificate)"
        ),
        (
            "certificate_file: cert.pem, private_key_file: cert.pem",
            "tls.private_key_file: holds no private key in PEM that needs no password"
        ),
        (
            "certificate_file: cert.pem, private_key_file: other.pem",
            "tls.private_key_file: is not the key of the first certificate in certificate_file"
        ),
        ("certificate_file: cert.pem, private_key_file: key.pem, handshake_seconds: 0", "tls.handshake_seconds: "),
    ])
    func aWrongSectionIsNamed(section: String, problem: String) async throws {
        try await ServerScenario.run(
            files: try Self.files(Self.identity("first")).merging(
                ["other.pem": String(decoding: Self.identity("other").privateKey, as: UTF8.self)]) { first, _ in first }
        ) { scenario in
            try scenario.write("config.yaml", ServerScenario.configuration(scenario.simulator) + "tls: { \(section) }\n")
            let checked = try Finished(["check", "--config", scenario.folder + "config.yaml"])
            #expect(checked.code == 78)
            #expect(checked.errors.contains(problem), "\(checked.errors)")
            // The listener that is open does not change what it speaks.
            try scenario.write(
                "config.yaml",
                ServerScenario.configuration(scenario.simulator)
                    + "tls: { certificate_file: cert.pem, private_key_file: key.pem }\n")
            scenario.server.send(SIGHUP)
            let line = try scenario.server.logLine("a reload was refused; the old configuration stays")
            #expect(line["problem"] as? String == "tls: cannot change on reload; restart the server")
        }
    }
}
