import StrictJSON
import Testing

@testable import Configuration

private enum Mode: String, CaseIterable { case enforce, shadow }

/// A small application: every kind of key, read the way the owners of sections read theirs.
private func readEverything(_ root: ConfigSection) {
    _ = root.string("listen", default: "127.0.0.1:8787")
    _ = root.strings("trusted_proxies")
    let january = root.section("january")
    _ = january.requiredSecretFile("api_key_file")
    _ = january.string("base_url", default: "https://partners.january.ai")
    _ = january.seconds("budget_seconds", default: .seconds(8), in: .seconds(1) ... .seconds(60))
    _ = january.filePath("ca_file")
    let sessions = root.section("sessions")
    for item in sessions.items("from", default: ["bearer"]) { _ = item.section?.requiredString("cookie") }
    for verifier in sessions.sections("verifiers") {
        if verifier.string("type") == "auth0" {
            verifier.setDefault("issuer", .text("https://\(verifier.requiredString("domain") ?? "")/"))
            verifier.setDefault("algorithms", ["RS256"])
        }
        _ = verifier.stringOrStrings("issuer")
        _ = verifier.stringOrStrings("audience")
        _ = verifier.string("jwks_url")
        _ = verifier.strings("algorithms")
        _ = verifier.value("required_claims")
        _ = verifier.secretFile("hmac_secret_file")
        _ = verifier.integer("clock_skew_seconds", default: 60, in: 0...300)
    }
    _ = root.strings("features")
    let scopes = root.section("feature_scopes")
    for name in scopes.names { _ = scopes.strings(name) }
    for grant in root.sections("grants") {
        let condition = grant.section("when")
        _ = condition.string("claim")
        _ = condition.value("equals")
        _ = grant.strings("features")
    }
    let limits = root.section("rate_limits")
    _ = limits.string("store", default: "memory")
    _ = limits.choice("mode", default: Mode.enforce)
    if case .section(let limit) = limits.sectionUnlessFalse("per_session") {
        _ = limit.integer("requests", default: 6, in: 1...1000)
    }
    _ = root.section("management").secretFiles("token_files")
    _ = root.section("compat").boolean("expires_in_alias", default: false)
    root.finish()
}

@Suite struct ConfigPrinterTests {
    private func print(_ text: String, _ environment: [String: String]) -> (text: String, problems: [String]) {
        let reader = ConfigReader.parse(text, environment: environment)
        readEverything(reader.root)
        return (reader.printed(), reader.problems.map(\.description))
    }

    private static let file = """
        # an example
        listen: "[::]:8787"
        january: { base_url: "https://january.example/v1?key=secret", budget_seconds: 8.50, ca_file: /etc/ca.pem }
        sessions:
          from: [bearer, { cookie: "app session" }]
          verifiers:
            - { type: auth0, domain: acme.example, audience: "https://api.example", required_claims: {azp: ["web", 1, yes, ~]} }
            - type: jwt
              issuer: [a, b]
              algorithms: [ES256]
        features: [no, "true", food_search]
        feature_scopes: { "odd name: x": ["foods:read"], coach: [] }
        grants:
          - when: { claim: plan, equals: pro }
            features: [coach]
        rate_limits: { per_session: false }
        """

    @Test func everyLineEndsWithItsSource() {
        let printed = print(Self.file, ["JANUARY_API_KEY": "sk-x", "REDIS_URL": "redis://u:p@h/1", "MANAGEMENT_TOKEN": "t"])
        #expect(printed.problems == [])
        let expected = """
            listen: "[::]:8787"  # file:2
            trusted_proxies: []  # default
            january:  # file:3
              # january.api_key: <redacted>  # environment
              base_url: "https://january.example/v1?<redacted>"  # file:3
              budget_seconds: 8.5  # file:3
              ca_file: /etc/ca.pem  # file:3
            sessions:  # file:4
              from:  # file:5
                - bearer  # file:5
                - cookie: "app session"  # file:5
              verifiers:  # file:6
                - type: auth0  # file:7
                  domain: acme.example  # file:7
                  issuer: "https://acme.example/"  # default
                  audience: "https://api.example"  # file:7
                  algorithms: [RS256]  # default
                  required_claims: {"azp": ["web", 1, "yes", null]}  # file:7
                  clock_skew_seconds: 60  # default
                - type: jwt  # file:8
                  issuer: [a, b]  # file:9
                  algorithms: [ES256]  # file:10
                  clock_skew_seconds: 60  # default
            features: ["no", "true", food_search]  # file:11
            feature_scopes:  # file:12
              "odd name: x": ["foods:read"]  # file:12
              coach: []  # file:12
            grants:  # file:13
              - when:  # file:14
                  claim: plan  # file:14
                  equals: "pro"  # file:14
                features: [coach]  # file:15
            rate_limits:  # file:16
              # store: "redis://<redacted>@h/1"  # environment
              mode: enforce  # default
              per_session: false  # file:16
            management:  # environment
              # management.token: <redacted>  # environment
            compat:  # default
              expires_in_alias: false  # default

            """.replacing("management:  # environment", with: "management: {}  # environment")
        #expect(printed.text == expected)
    }

    /// What was printed loads, prints the same values, and from then on the very same text.
    @Test(arguments: [
        (file, ["JANUARY_API_KEY": "sk-x", "REDIS_URL": "redis://u:p@h/1", "MANAGEMENT_TOKEN": "t"]),
        (
            "",
            [
                "JANUARY_API_KEY": "sk-x", "AUTH_PROVIDER": "auth0", "AUTH0_DOMAIN": "a.example", "AUTH0_AUDIENCE": "x,y",
                "PORT": "80",
            ]
        ),
        (
            "",
            [
                "JANUARY_API_KEY": "sk-x", "SESSION_ISSUER": "i", "SESSION_HMAC_SECRET": "s", "FEATURES": "a,b",
                "REDIS_URL": "redis://h",
            ]
        ),
        (
            "sessions: {verifiers: [], from: []}\ngrants: []\nrate_limits: {per_session: {}}\nmanagement:\n",
            ["JANUARY_API_KEY": "sk-x"]
        ),
    ])
    func printedTextIsAFixedPoint(text: String, environment: [String: String]) {
        func values(_ text: String) -> [Substring] {
            text.split(separator: "\n").map { line in line.firstRange(of: "  # ").map { line[..<$0.lowerBound] } ?? line }
        }
        let first = print(text, environment)
        let second = print(first.text, environment)
        let third = print(second.text, environment)
        #expect(first.problems + second.problems + third.problems == [])
        #expect(values(second.text) == values(first.text))
        #expect(third.text == second.text)
        #expect(
            first.text.split(separator: "\n").allSatisfy {
                $0.contains("  # file:") || $0.hasSuffix("  # environment") || $0.hasSuffix("  # default")
            })
        for secret in ["sk-x", "u:p", "key=secret"] { #expect(!first.text.contains(secret)) }
    }

    @Test func recordsOfPresetsAreDefaults() {
        let reader = ConfigReader.parse("a: 1")
        reader.root.record("b", ["x", "y z"])
        reader.root.record("c", 5)
        reader.root.record("d", true)
        reader.root.record("e", .json(["f": .null]))
        reader.root.record("a", .number("1"))
        reader.root.finish()
        #expect(reader.problems == [])
        #expect(
            reader.printed() == """
                b: [x, "y z"]  # default
                c: 5  # default
                d: true  # default
                e: {"f": null}  # default
                a: 1  # file:1

                """)
    }

    // MARK: - Records and schema

    @Test func everyKeyAskedForIsRecorded() {
        let reader = ConfigReader.parse(Self.file)
        readEverything(reader.root)
        let records = Dictionary(uniqueKeysWithValues: reader.keyRecords.map { ($0.path, $0) })
        #expect(
            records["january.budget_seconds"]
                == .init("january.budget_seconds", .seconds, default: "8", minimum: "1", maximum: "60"))
        #expect(
            records["rate_limits.mode"] == .init("rate_limits.mode", .choice, default: "enforce", words: ["enforce", "shadow"]))
        #expect(records["sessions.verifiers[].issuer"] == .init("sessions.verifiers[].issuer", .textOrTexts))
        #expect(records["sessions.from[].cookie"]?.kinds == [.text])
        #expect(records["feature_scopes.*"]?.kinds == [.texts])
        #expect(records["rate_limits.per_session"]?.kinds == [.off, .section])
        #expect(records["grants[].when.claim"]?.kinds == [.text])
        // Every given key was asked for, so it has a record.
        #expect(reader.givenKeys.subtracting(records.keys) == [])
        #expect(reader.givenKeys.contains("sessions.verifiers[].required_claims"))
    }

    @Test func theSchemaSaysWhatTheReadersAskFor() throws {
        var records = ConfigKeyRecords()
        for text in [Self.file, "rate_limits: {per_session: {requests: 5}}"] {
            let reader = ConfigReader.parse(text)
            readEverything(reader.root)
            records.add(reader.keyRecords)
        }
        let schema = ConfigSchema(
            records.all, recursive: ["grants[].when": "feature_scopes"], descriptions: ["listen": "Address and port."])
        let document = schema.document(title: "Test")
        func at(_ pointer: String) throws -> JSONValue? { document[try #require(JSONPointer(pointer))] }
        #expect(try at("/additionalProperties") == false)
        #expect(
            try at("/properties/listen") == ["type": "string", "description": "Address and port.", "default": "127.0.0.1:8787"])
        #expect(
            try at("/properties/january/properties/budget_seconds") == [
                "type": "number", "minimum": 1, "maximum": 60, "default": 8,
            ])
        #expect(try at("/properties/feature_scopes/additionalProperties/items/type") == "string")
        #expect(try at("/properties/sessions/properties/verifiers/items/properties/algorithms/type") == "array")
        #expect(try at("/properties/sessions/properties/from/items/anyOf/1/properties/cookie/type") == "string")
        #expect(try at("/properties/rate_limits/properties/mode/enum") == ["enforce", "shadow"])
        #expect(try at("/properties/rate_limits/properties/per_session/anyOf/0") == ["const": false])
        #expect(try at("/properties/rate_limits/properties/per_session/anyOf/1/properties/requests/maximum") == 1000)
        #expect(try at("/properties/grants/items/properties/when") == ["$ref": "#/properties/feature_scopes"])
        #expect(try JSONValue.parse(schema.text(title: "Test")) == document)
    }
}
