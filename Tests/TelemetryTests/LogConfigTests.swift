import Configuration
import Foundation
import Primitives
import TestSupport
import Testing

@testable import Telemetry

@Suite struct LogConfigTests {
    private func read(_ text: String, environment: [String: String] = [:]) -> (
        config: LogConfig, problems: [String], warnings: [String]
    ) {
        let reader = ConfigReader.parse(text, environment: environment)
        let config = LogConfig.read(reader.root.section("log"))
        reader.root.finish()
        return (config, reader.problems.map(\.description), reader.warnings.map(\.description))
    }

    @Test func nothingGivenMeansTheDefaults() {
        let (config, problems, _) = read("{}")
        #expect(config == LogConfig())
        #expect(config.level == .info && config.format == nil && config.requests == .errors && config.endUserID == .hash)
        #expect(problems == [])
    }

    @Test func everyKeyIsRead() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("log-secret-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        #expect(
            FileManager.default.createFile(
                atPath: file.path, contents: Data("0123456789abcdef\n".utf8), attributes: [.posixPermissions: 0o600]))
        let (config, problems, warnings) = read(
            "log: { level: warning, format: text, requests: all, end_user_id: \"plain\", hash_secret_file: \(file.path) }")
        var expected = LogConfig()
        expected.level = .warning
        expected.format = .text
        expected.requests = .all
        expected.endUserID = .plain
        expected.hashSecret = SecretFile(path: file.path, secret: Secret("0123456789abcdef"))
        #expect(config == expected)
        #expect(problems == [])
        #expect(warnings == [])
        #expect(EndUserHash(config).hash("u1") == EndUserHash(secret: Secret("0123456789abcdef")).hash("u1"))
    }

    @Test func aShortHashSecretIsAWarning() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("log-secret-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        #expect(
            FileManager.default.createFile(
                atPath: file.path, contents: Data("0123456789abcde\n".utf8), attributes: [.posixPermissions: 0o600]))
        let (config, problems, warnings) = read("log:\n  hash_secret_file: \(file.path)\n")
        #expect(config.hashSecret?.secret.byteCount == 15)
        #expect(problems == [])
        #expect(
            warnings == ["config.yaml:2: log.hash_secret_file: has fewer than 16 bytes: the hashes can be guessed"])
    }

    @Test func theEnvironmentSetsTheLevel() {
        #expect(read("log: { level: error }", environment: ["LOG_LEVEL": "debug"]).config.level == .debug)
    }

    @Test func wrongWordsAndUnknownKeysAreNamed() {
        let (config, problems, _) = read(
            "log:\n  level: loud\n  format: xml\n  requests: some\n  end_user_id: raw\n  levle: info\n")
        #expect(config == LogConfig())
        #expect(
            problems.map { $0.split(separator: ":").prefix(3).joined(separator: ":") } == [
                "config.yaml:2: log.level", "config.yaml:3: log.format", "config.yaml:4: log.requests",
                "config.yaml:5: log.end_user_id", "config.yaml:6: log.levle",
            ])
    }

    @Test(arguments: [
        (LogFormat?.none, true, LogFormat.text), (nil, false, .json), (.json, true, .json), (.text, false, .text),
    ])
    func peopleReadTextAndMachinesJSON(format: LogFormat?, isTerminal: Bool, expected: LogFormat) {
        var config = LogConfig()
        config.format = format
        #expect(config.format(isTerminal: isTerminal) == expected)
    }

    @Test func anEndUserIsShownHashedOrPlain() {
        let hash = EndUserHash(secret: Secret("Jefe"))
        #expect(hash.field("what do ya want for nothing?", as: .hash) == LogField("end_user", "5bdcc146bf60754e6a042426089575c7"))
        #expect(hash.field("u1", as: .plain) == LogField("end_user", "u1"))
    }
}
