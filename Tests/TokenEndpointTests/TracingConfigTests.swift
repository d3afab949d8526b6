import Configuration
import Foundation
import Testing

@testable import TokenEndpoint

@Suite struct TracingConfigTests {
    private static func read(_ text: String, folder: String = "") -> (TracingConfig, problems: [String], warnings: [String]) {
        let reader = ConfigReader.parse(text, name: "config.yaml", folder: folder)
        let config = TracingConfig.read(reader.root.section("tracing"))
        return (config, reader.problems.map(\.description), reader.warnings.map(\.description))
    }

    @Test func withoutAURLNothingIsTraced() {
        for text in ["{}", "tracing: {}", "tracing: { otlp_url: \"\" }", "tracing: { otlp_url: \"\", sample_ratio: 0.5 }"] {
            let (config, problems, warnings) = Self.read(text)
            #expect(problems == [] && warnings == [])
            #expect(config.collector == nil)
        }
        #expect(Self.read("{}").0.sampleRatio == 1)
    }

    /// The base URL as OTLP exporters take it, or the whole one.
    @Test(arguments: [
        ("http://127.0.0.1:4318", "/v1/traces"), ("http://127.0.0.1:4318/", "/v1/traces"),
        ("http://127.0.0.1:4318/v1/traces", "/v1/traces"), ("http://127.0.0.1:4318/v1/traces/", "/v1/traces"),
        ("https://otlp.example/otlp", "/otlp/v1/traces"), ("https://otlp.example/otlp//", "/otlp/v1/traces"),
        ("https://otlp.example/v1", "/v1/v1/traces"), ("https://otlp.example?key=x", "/v1/traces?key=x"),
        ("https://otlp.example/a/v1/traces?key=x/", "/a/v1/traces?key=x/"),
    ])
    func theURLIsABaseOrTheWhole(url: String, target: String) throws {
        let (config, problems, _) = Self.read("tracing: { otlp_url: \"\(url)\" }")
        #expect(problems == [])
        #expect(try #require(config.collector).target == target)
    }

    @Test(arguments: [
        ("tracing: { otlp_url: \"collector:4318\" }", "tracing.otlp_url: must be an http or https URL"),
        ("tracing: { otlp_url: \"grpc://collector\" }", "tracing.otlp_url: must be an http or https URL"),
        ("tracing: { otlp_url: \"http://:1\" }", "tracing.otlp_url: must have a host name or address"),
        (
            "tracing: { otlp_url: \"https://user:leak@otlp.example\" }",
            "tracing.otlp_url: must not hold a user name or password; use username and password_file beside it"
        ),
        ("tracing: { sample_ratio: 1.1 }", "tracing.sample_ratio: must be from 0 to 1 (got 1.1)"),
        ("tracing: { sample_ratio: -0.1 }", "tracing.sample_ratio: must be from 0 to 1 (got -0.1)"),
        ("tracing: { sample_ratio: all }", "tracing.sample_ratio: must be a number (got \"all\")"),
        ("tracing: { otlp_urls: x }", "tracing.otlp_urls: unknown key; did you mean \"otlp_url\"?"),
        ("tracing: { username: u }", "tracing.username: needs password_file beside it"),
        ("tracing: { otlp_url: \"https://a.example\", username: u }", "tracing.username: needs password_file beside it"),
        ("tracing: on", "tracing: must be a mapping"),
    ])
    func whatIsWrongIsNamed(text: String, expected: String) {
        let (_, problems, _) = Self.read(text)
        #expect(problems.contains { $0.contains(expected) }, "\(problems)")
        #expect(!problems.joined().contains("leak"))
    }

    @Test func aPasswordIsReadAndGoesOverTLSOnly() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tracing-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        #expect(
            FileManager.default.createFile(
                atPath: folder + "password", contents: Data("secret\n".utf8), attributes: [.posixPermissions: 0o600]))
        func text(_ url: String) -> String { "tracing: { otlp_url: \"\(url)\", username: u, password_file: password }" }
        for url in ["https://otlp.example", "http://localhost:4318", "http://127.0.0.1:4318"] {
            let (config, problems, _) = Self.read(text(url), folder: folder)
            #expect(problems == [])
            let login = try #require(config.collector?.login)
            #expect(login.username == "u" && login.password.copyBytes() == Array("secret".utf8))
        }
        let (_, problems, _) = Self.read(text("http://collector:4318"), folder: folder)
        #expect(problems.map { $0.contains("tracing.otlp_url: must be https where a password is sent") } == [true])
    }

    @Test(arguments: [
        ("http://collector:4318", nil), ("http://10.0.0.7:4318", nil), ("http://otel.monitoring.svc.cluster.local:4318", nil),
        ("https://otlp.example", nil),
        ("http://otlp.example", "is plain http to a public address: spans are sent unencrypted"),
        ("http://127.0.0.1:4317", "4317 is the port of OTLP over gRPC; spans are sent over HTTP, most often to 4318"),
    ])
    func whatIsAllowedAndProbablyMeantOtherwiseIsAWarning(url: String, expected: String?) {
        let (config, problems, warnings) = Self.read("tracing: { otlp_url: \"\(url)\" }")
        #expect(problems == [] && config.collector != nil)
        #expect(warnings.map { $0.contains(expected ?? "?") } == (expected == nil ? [] : [true]), "\(warnings)")
    }

    /// What spans and lines may show of a URL.
    @Test func queriesAreHidden() throws {
        let (config, _, _) = Self.read("tracing: { otlp_url: \"https://otlp.example/x?key=leak\" }")
        #expect(try #require(config.collector).redacted == "https://otlp.example/x/v1/traces?REDACTED")
    }
}
