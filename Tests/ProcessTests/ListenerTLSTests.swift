import Foundation
import Glibc
import JanuarySimulator
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
            let plain = try? scenario.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(plain?.hasPrefix("HTTP/1.1") != true)
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
            // Plain text is no handshake.
            let plain = try RawClient(port: scenario.port)
            try plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
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
