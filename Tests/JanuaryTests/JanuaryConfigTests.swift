import Configuration
import Foundation
import Primitives
import Testing

@testable import January

private func read(_ yaml: String, _ environment: [String: String] = ["JANUARY_API_KEY": "sk-abc"]) -> (
    config: JanuaryConfig?, problems: [String], warnings: [String]
) {
    let reader = ConfigReader.parse(yaml, environment: environment)
    let config = JanuaryConfig.read(reader.root)
    return (config, reader.problems.map(\.description), reader.warnings.map(\.description))
}

private let noCredentials = "must not hold a user name or password; January takes the API key alone, from api_key_file"

@Suite struct JanuaryConfigTests {
    @Test func defaultsNeedNothingButAKey() throws {
        let (config, problems, warnings) = read("")
        #expect(problems == [])
        #expect(warnings == [])
        let read = try #require(config)
        #expect(read.origin.description == "https://partners.january.ai")
        #expect(read.pathPrefix == "")
        #expect(read.apiKey == (try APIKey(Secret("sk-abc"))))
        #expect(read.nextAPIKey == nil)
        #expect(read.budget == .seconds(8))
        #expect(read.connectTimeout == .seconds(2))
        #expect(read.maxConnections == 256)
        #expect(read.maxInFlight == 512)
        #expect(read.ttlSeconds == 1800)
        #expect(!read.insertsExpiresInAlias)
    }

    @Test(arguments: [
        ("https://partners.january.ai/", "https://partners.january.ai", ""),
        ("https://x.example/a/b//", "https://x.example", "/a/b"),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000", ""), ("http://localhost:1", "http://localhost:1", ""),
        ("http://[::1]:9/", "http://[::1]:9", ""),
    ])
    func baseURLLosesTheSlashAtItsEnd(url: String, origin: String, prefix: String) {
        let (config, problems, _) = read("january: {base_url: \"\(url)\"}")
        #expect(problems == [])
        #expect(config?.origin.description == origin)
        #expect(config?.pathPrefix == prefix)
    }

    @Test(arguments: [
        ("http://partners.january.ai", "must be https, or http to a loopback address (got \"http://partners.january.ai/\")"),
        ("http://10.0.0.1", "must be https, or http to a loopback address (got \"http://10.0.0.1/\")"),
        ("https://u:secret@x.example", noCredentials), ("https://secret@x.example/v1", noCredentials),
        ("http://u:secret@10.0.0.1/?a=b", noCredentials), ("https://u:secret/1@x.example", noCredentials),
        ("https://u:secret 1@x.example", noCredentials), ("https://u:secret%@x.example", noCredentials),
        ("https://u:secret#1@x.example", noCredentials), ("https://u:secret@", noCredentials),
        ("https://x.example/?a=b", "must not have a query"),
        ("ftp://x.example", "must be an http or https URL (got \"ftp://x.example\")"),
        ("https://x.example/#f", "must not have a fragment (got \"https://x.example/#<redacted>\")"),
        ("partners.january.ai", "must be an http or https URL (got \"partners.january.ai\")"),
    ])
    func baseURLIsRefused(url: String, message: String) {
        let problems = read("january:\n  base_url: \"\(url)\"").problems
        #expect(problems == ["config.yaml:2: january.base_url: \(message)"])
        #expect(!problems.joined().contains("secret"))
    }

    @Test func keyFromAFileIsTrimmedAndChecked() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "january-config-\(UInt64.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in [("good", "sk-one\n"), ("next", "sk-two"), ("bad", "ct-secret-token")] {
            let path = folder.appendingPathComponent(name).path
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        }
        let good = read("january: {api_key_file: \(folder.path)/good, next_api_key_file: \(folder.path)/next}", [:])
        #expect(good.problems == [])
        #expect(good.config?.apiKey == (try APIKey(Secret("sk-one"))))
        #expect(good.config?.apiKeyPath == "\(folder.path)/good")
        #expect(good.config?.nextAPIKey == (try APIKey(Secret("sk-two"))))
        let bad = read("january: {api_key_file: \(folder.path)/bad}", [:])
        #expect(bad.config == nil)
        #expect(
            bad.problems == [
                "config.yaml:1: january.api_key_file: the key is a client token (ct-…); an API key (sk-…) is needed"
            ])
    }

    @Test(arguments: [
        ("january: {budget_seconds: 0}", 1), ("january: {max_in_flight: 0}", 1), ("january: {budget: 1}", 1),
        ("token: {ttl_seconds: 299}", 1),
        ("token: {ttl_seconds: 300}", 0), ("token: {ttl_seconds: 7200}", 0), ("token: {ttl_seconds: 7201}", 1),
        ("compat: {expires_in_alias: yes}", 1), ("compat: {expires_in_alias: true}", 0), ("january: 7", 1),
    ])
    func limitsAndUnknownKeysAreProblems(yaml: String, count: Int) {
        #expect(read(yaml).problems.count == count, "\(read(yaml).problems)")
    }

    @Test func missingKeyIsNamed() {
        let (config, problems, _) = read("", [:])
        #expect(config == nil)
        #expect(problems.count == 1)
        #expect(problems.first?.contains("JANUARY_API_KEY") == true, "\(problems)")
    }
}
