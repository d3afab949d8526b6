import Configuration
import Foundation
import StrictJSON
import Testing
import TokenEndpoint

/// `config/`: what operators copy from and editors read must say what the readers do.
@Suite struct ConfigurationFilesTests {
    @Test(arguments: ["example.yaml", "minimal.yaml"])
    func theFileLoadsWithoutAProblem(name: String) throws {
        let secrets = try SecretsFolder()
        let text = try ConfigurationFolder.text(name).replacingOccurrences(of: "/run/secrets/", with: secrets.path)
        let reader = ConfigReader.parse(text, name: name)
        let config = RootConfig.read(reader)
        #expect(reader.problems.map(\.description) == [])
        #expect(reader.warnings.map(\.description) == [])
        #expect(config != nil)
    }

    @Test func theExampleHoldsEveryKeyThatTheReadersAskFor() throws {
        let reader = try ConfigurationFolder.wholeExample()
        let asked = Set(reader.keyRecords.map { Self.outermost($0.path) })
        let given = Set(reader.givenKeys.map(Self.outermost))
        #expect(asked.subtracting(given).sorted() == [])
        #expect(given.subtracting(asked).sorted() == [])
    }

    /// Conditions hold conditions: a key is the same at every depth.
    private static func outermost(_ path: String) -> String {
        var path = path
        while let inner = path.firstMatch(of: /when\.(not|all\[\]|any\[\])\./) {
            path.replaceSubrange(inner.range, with: "when.")
        }
        return path
    }

    @Test func theExampleShowsEveryKindOfVerifier() throws {
        let reader = try ConfigurationFolder.wholeExample()
        let words = reader.keyRecords.first { $0.path == "sessions.verifiers[].type" }?.words ?? []
        let text = try ConfigurationFolder.text("example.yaml")
        #expect(words.count == 10)
        #expect(words.filter { !text.contains("type: \($0)") } == [])
    }

    /// A key with a default stands there with it; all other keys are commented out, or hold something that has to be chosen.
    @Test func theExampleShowsDefaults() throws {
        let secrets = try SecretsFolder()
        let text = try ConfigurationFolder.text("example.yaml").replacingOccurrences(of: "/run/secrets/", with: secrets.path)
        let example = ConfigReader.parse(text, name: "example.yaml")
        _ = RootConfig.read(example)
        let required = """
            january: { api_key_file: \(secrets.path)january_api_key }
            sessions:
              verifiers:
                - { type: jwt, name: login, issuer: "https://login.acme.example", audience: acme-api, algorithms: [ES256], namespace: acme, jwks_url: "https://login.acme.example/jwks.json" }
            features: [food_search, food_diary]
            """
        let plain = ConfigReader.parse(required, name: "plain.yaml")
        _ = RootConfig.read(plain)
        func values(_ reader: ConfigReader) -> Set<String> {
            // `types` is a set, printed as it was written.
            Set(
                reader.printed().split(separator: "\n").compactMap { line in
                    line.range(of: "  # ").map { String(line[..<$0.lowerBound]).trimmingCharacters(in: ["-", " "]) }
                }
            ).filter { !$0.hasPrefix("types:") }
        }
        #expect(values(plain).subtracting(values(example)).sorted() == [])
        #expect(values(example).subtracting(values(plain)).sorted() == [])
    }

    /// Made anew with `UPDATE_SCHEMA=1 swift test --filter theSchemaIsUpToDate`.
    @Test func theSchemaIsUpToDate() throws {
        let schema = try ConfigurationFolder.schema()
        if ProcessInfo.processInfo.environment["UPDATE_SCHEMA"] == "1" {
            try schema.write(to: ConfigurationFolder.folder.appending(path: "schema.json"), atomically: true, encoding: .utf8)
        }
        #expect(try ConfigurationFolder.text("schema.json") == schema)
        let document = try JSONValue.parse(Array(schema.utf8).span.bytes)
        #expect(document["properties"]?["listen"]?["description"]?.string?.hasPrefix("Where apps") == true)
        #expect(document["properties"]?["january"]?["properties"]?["budget_seconds"]?["default"]?.number?.integer == 8)
    }

    @Test func theSchemaNamesEveryRecord() throws {
        let document = try JSONValue.parse(Array(try ConfigurationFolder.text("schema.json").utf8).span.bytes)
        let records = try ConfigurationFolder.wholeExample().keyRecords.map(\.path)
        // What is below a recursive key is behind its reference.
        let own = records.filter { path in
            !["grants[].when.not.", "grants[].when.all[].", "grants[].when.any[]."].contains { path.hasPrefix($0) }
        }
        #expect(Set(own) == Self.paths(in: document, at: ""))
    }

    private static func paths(in schema: JSONValue, at path: String) -> Set<String> {
        var found: Set<String> = []
        for shape in [schema] + (schema["anyOf"]?.array ?? []) {
            for member in shape["properties"]?.object?.members ?? [] {
                let below = path.isEmpty ? member.name : "\(path).\(member.name)"
                found.insert(below)
                found.formUnion(paths(in: member.value, at: below))
            }
            if let others = shape["additionalProperties"], others.object != nil {
                found.insert("\(path).*")
                found.formUnion(paths(in: others, at: "\(path).*"))
            }
            if let items = shape["items"] { found.formUnion(paths(in: items, at: "\(path)[]")) }
        }
        return found
    }
}

extension JSONValue {
    subscript(name: String) -> JSONValue? { object?[name] }
}
