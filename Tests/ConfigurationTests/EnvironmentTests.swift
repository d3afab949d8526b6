import StrictJSON
import Testing

@testable import Configuration

@Suite struct EnvironmentTests {
    private func load(_ environment: [String: String], _ text: String? = nil) -> ConfigReader {
        text.map { ConfigReader.parse($0, environment: environment) } ?? ConfigReader.load(file: nil, environment: environment)
    }

    /// Each variable and the key it sets, as its owner reads it.
    @Test(arguments: [
        ("JANUARY_BASE_URL", ["january", "base_url"]), ("LISTEN", ["listen"]), ("MANAGEMENT_LISTEN", ["management", "listen"]),
        ("TOKEN_TTL_SECONDS", ["token", "ttl_seconds"]), ("STATE", ["state"]), ("REDIS_URL", ["rate_limits", "store"]),
        ("LOG_LEVEL", ["log", "level"]),
    ])
    func aVariableSetsItsKeyAndWinsOverTheFile(variable: String, path: [String]) {
        let file = path.count == 1 ? "\(path[0]): from-file" : "\(path[0]): {\(path[1]): from-file}"
        for (value, expected) in [("from-variable", "from-variable"), ("", "from-file")] {
            let reader = load([variable: value], file)
            let section = path.count == 1 ? reader.root : reader.root.section(path[0])
            #expect(section.string(path.last ?? "") == expected)
            #expect(section.source(path.last ?? "") == (value.isEmpty ? .file(line: 1) : .environment(variable: variable)))
            #expect(reader.problems == [])
        }
    }

    /// A misspelt variable would be ignored, and the default would be in force.
    @Test(arguments: [
        ("JANUARY_API_KEYS", "; did you mean JANUARY_API_KEY?"), ("JANUARY_BASEURL", "; did you mean JANUARY_BASE_URL?"),
        ("SESSION_ISUER", "; did you mean SESSION_ISSUER?"), ("MANAGEMENT_TOKENS", "; did you mean MANAGEMENT_TOKEN?"),
        ("JANUARY_FAVOURITE_COLOUR", ""),
    ])
    func anUnknownVariableOfOursIsAWarning(variable: String, hint: String) {
        let reader = load([variable: "MARKER"])
        #expect(
            reader.warnings.map(\.description) == ["environment: \(variable): unknown variable; it changes nothing\(hint)"])
        #expect(reader.problems == [])
        #expect(load([variable: ""]).warnings == [])
    }

    /// Kubernetes describes every service of the namespace to every container, a service named `january…` too.
    @Test(arguments: [
        "JANUARY_TOKEN_ENDPOINT_SERVICE_HOST", "JANUARY_TOKEN_ENDPOINT_SERVICE_PORT", "JANUARY_TOKEN_ENDPOINT_SERVICE_PORT_HTTP",
        "JANUARY_TOKEN_ENDPOINT_PORT", "JANUARY_TOKEN_ENDPOINT_PORT_8787_TCP", "JANUARY_TOKEN_ENDPOINT_PORT_8787_TCP_ADDR",
        "SESSION_MANAGER", "HOME", "JANUARYX",
    ])
    func variablesOfOthersAreNoWarning(variable: String) {
        #expect(load([variable: "x"]).warnings == [])
    }

    @Test func everyVariableOfOursIsKnown() {
        for variable in EnvironmentTable.variables {
            #expect(!load([variable: "x"]).warnings.contains { $0.message.hasPrefix("unknown variable") }, "\(variable)")
        }
    }

    @Test(arguments: [
        ("FEATURES", ["features"]), ("ALLOWED_ORIGINS", ["cors", "allowed_origins"]), ("TRUSTED_PROXIES", ["trusted_proxies"]),
    ])
    func listsAreCommaSeparated(variable: String, path: [String]) {
        let rows: [(String, [String])] = [
            ("a", ["a"]), ("a,b", ["a", "b"]), (" a , b,, ", ["a", "b"]), (",", []), ("no,8", ["no", "8"]),
        ]
        for (value, expected) in rows {
            let reader = load([variable: value])
            let section = path.count == 1 ? reader.root : reader.root.section(path[0])
            #expect(section.strings(path.last ?? "") == expected)
            #expect(reader.problems == [])
        }
    }

    @Test func numbersInVariablesAreNumbersAndProblemsNameTheVariable() {
        for (value, expected) in [
            ("600", []), ("299", ["environment: TOKEN_TTL_SECONDS: must be from 300 to 7200 (got 299)"]),
            ("x", ["environment: TOKEN_TTL_SECONDS: must be a whole number (got \"x\")"]),
            ("\"600\"", ["environment: TOKEN_TTL_SECONDS: must be a whole number (got \"\\\"600\\\"\")"]),
        ] {
            let reader = load(["TOKEN_TTL_SECONDS": value])
            let seconds = reader.root.section("token").integer("ttl_seconds", default: 1800, in: 300...7200)
            #expect(seconds == (expected.isEmpty ? 600 : 1800))
            #expect(reader.problems.map(\.description) == expected)
        }
    }

    @Test(arguments: [
        (["PORT": "8080"], "0.0.0.0:8080", []), (["PORT": "0"], "0.0.0.0:0", []), (["PORT": "65535"], "0.0.0.0:65535", []),
        (["PORT": "8080", "LISTEN": "[::]:1"], "[::]:1", []),
        (["PORT": "65536"], "default", ["environment: PORT: must be a port number from 0 to 65535 (got \"65536\")"]),
        (["PORT": "-1"], "default", ["environment: PORT: must be a port number from 0 to 65535 (got \"-1\")"]),
        (
            ["PORT": "tcp://10.0.0.1:80"], "default",
            ["environment: PORT: must be a port number from 0 to 65535 (got \"tcp://10.0.0.1:80\")"]
        ),
        (["PORT": ""], "default", []),
    ])
    func portMeansEveryAddressUnlessListenIsSet(environment: [String: String], listen: String, expected: [String]) {
        let reader = load(environment)
        #expect(reader.root.string("listen", default: "default") == listen)
        #expect(reader.problems.map(\.description) == expected)
        // A variable wins over the file, this one too.
        let withFile = load(environment, "listen: file")
        #expect(withFile.root.string("listen") == (listen == "default" ? (expected.isEmpty ? "file" : nil) : listen))
    }

    @Test func theStateDirectoryIsADefaultAndWeakerThanTheFile() {
        #expect(load(["STATE_DIRECTORY": "/var/lib/a:/var/lib/b"]).root.string("state") == "sqlite:/var/lib/a/state.db")
        #expect(load(["STATE_DIRECTORY": "/var/lib/a"], "state: none").root.string("state") == "none")
        #expect(load(["STATE_DIRECTORY": "/var/lib/a", "STATE": "none"]).root.string("state") == "none")
    }

    // MARK: - Secrets

    @Test func aSecretInAVariableReachesItsReaderAsASecret() throws {
        let reader = load(["JANUARY_API_KEY": "sk-live\n", "MANAGEMENT_TOKEN": "token"], "january: {api_key_file: /nowhere/key}")
        let key = try #require(reader.root.section("january").secretFile("api_key_file"))
        #expect(key.path == nil)
        #expect(key.secret.copyBytes() == Array("sk-live".utf8))
        let tokens = reader.root.section("management").secretFiles("token_files")
        #expect(tokens.map { $0.secret.copyBytes() } == [Array("token".utf8)])
        reader.root.finish()
        #expect(reader.problems == [])
        #expect(!"\(reader.printed()) \(key) \(tokens)".contains("sk-live"))
    }

    @Test func twoFormsOfOneSecretAreAProblemAndOneOnly() {
        let reader = load([
            "JANUARY_API_KEY": "sk-x", "JANUARY_API_KEY_FILE": "/x", "MANAGEMENT_TOKEN": "y", "MANAGEMENT_TOKEN_FILE": "/y",
        ])
        #expect(reader.root.section("january").requiredSecretFile("api_key_file") == nil)
        if reader.root.section("management").secretFiles("token_files").isEmpty {
            reader.root.section("management").problem("token_files", "is required")
        }
        reader.root.finish()
        #expect(
            reader.problems.map(\.description) == [
                "environment: JANUARY_API_KEY: may not be set together with JANUARY_API_KEY_FILE",
                "environment: MANAGEMENT_TOKEN: may not be set together with MANAGEMENT_TOKEN_FILE",
            ])
        // Empty counts as unset.
        let one = load(["JANUARY_API_KEY": "sk-x", "JANUARY_API_KEY_FILE": ""])
        #expect(one.root.section("january").requiredSecretFile("api_key_file") != nil)
    }

    @Test func aMissingSecretNamesTheVariable() {
        let none = load([:])
        #expect(none.root.section("january").requiredSecretFile("api_key_file") == nil)
        #expect(none.problems.map(\.description) == ["environment: JANUARY_API_KEY: required"])
        let file = load([:], "\njanuary:\n  base_url: x\n")
        #expect(file.root.section("january").requiredSecretFile("api_key_file") == nil)
        #expect(file.problems.map(\.description) == ["config.yaml:2: january.api_key_file: required (or set JANUARY_API_KEY)"])
        // That a variable made the section is no reason to blame that variable.
        let mixed = load(["JANUARY_BASE_URL": "x"], "a: 1")
        #expect(mixed.root.section("january").requiredSecretFile("api_key_file") == nil)
        #expect(mixed.problems.map(\.description) == ["config.yaml:1: january.api_key_file: required (or set JANUARY_API_KEY)"])
    }

    @Test(arguments: [(65_536, []), (65_537, ["environment: JANUARY_API_KEY: has more than 65536 bytes"])])
    func aSecretInAVariableHasALimit(count: Int, expected: [String]) {
        let reader = load(["JANUARY_API_KEY": String(repeating: "x", count: count)])
        _ = reader.root.section("january").requiredSecretFile("api_key_file")
        #expect(reader.problems.map(\.description) == expected)
        let newline = load(["JANUARY_API_KEY": "\n"])
        _ = newline.root.section("january").requiredSecretFile("api_key_file")
        #expect(newline.problems.map(\.description) == ["environment: JANUARY_API_KEY: is empty"])
    }

    // MARK: - The one verifier

    /// Every preset with its variables, as the verifier's reader finds them.
    @Test(arguments: [
        (["AUTH_PROVIDER": "firebase", "FIREBASE_PROJECT_ID": "p"], ["type": "firebase", "project_id": "p"]),
        (
            ["AUTH_PROVIDER": "auth0", "AUTH0_DOMAIN": "d", "AUTH0_AUDIENCE": "a"],
            ["type": "auth0", "domain": "d", "audience": "a"]
        ),
        (
            ["AUTH_PROVIDER": "clerk", "CLERK_ISSUER": "i", "CLERK_AUTHORIZED_PARTIES": "a"],
            ["type": "clerk", "issuer": "i", "authorized_parties": "a"]
        ),
        (["AUTH_PROVIDER": "supabase", "SUPABASE_URL": "u"], ["type": "supabase", "url": "u"]),
        (
            [
                "AUTH_PROVIDER": "cognito", "COGNITO_REGION": "r", "COGNITO_USER_POOL_ID": "p", "COGNITO_CLIENT_IDS": "c",
                "COGNITO_TOKEN_USE": "id",
            ],
            ["type": "cognito", "region": "r", "user_pool_id": "p", "client_ids": "c", "token_use": "id"]
        ),
        (["AUTH_PROVIDER": "okta", "OKTA_ISSUER": "i", "OKTA_AUDIENCE": "a"], ["type": "okta", "issuer": "i", "audience": "a"]),
        (["AUTH_PROVIDER": "apple", "APPLE_CLIENT_IDS": "c"], ["type": "apple", "client_ids": "c"]),
        (["AUTH_PROVIDER": "google", "GOOGLE_CLIENT_IDS": "c"], ["type": "google", "client_ids": "c"]),
        (["AUTH_PROVIDER": "oidc", "OIDC_ISSUER": "i", "OIDC_AUDIENCE": "a"], ["type": "oidc", "issuer": "i", "audience": "a"]),
        (
            ["SESSION_ISSUER": "i", "SESSION_AUDIENCE": "a", "SESSION_JWKS_URL": "j", "SESSION_ALGORITHMS": "ES256"],
            ["type": "jwt", "issuer": "i", "audience": "a", "jwks_url": "j", "algorithms": "ES256"]
        ),
    ])
    func theEnvironmentMakesOneVerifierThatReplacesThoseOfTheFile(environment: [String: String], expected: [String: String])
        throws
    {
        for text in [nil, "sessions: {from: [bearer], verifiers: [{type: jwt}, {type: static}]}", "a: 1", "sessions:\n"] {
            let reader = load(environment, text)
            let verifiers = reader.root.section("sessions").sections("verifiers")
            let verifier = try #require(verifiers.first)
            #expect(verifiers.count == 1)
            #expect(Set(verifier.keys) == Set(expected.keys))
            for (key, value) in expected { #expect(verifier.stringOrStrings(key) == [value]) }
            #expect(reader.problems == [])
        }
    }

    @Test func listsInVerifierVariablesAreLists() throws {
        let reader = load(["AUTH_PROVIDER": "cognito", "COGNITO_CLIENT_IDS": "a,b"])
        let verifier = try #require(reader.root.section("sessions").sections("verifiers").first)
        #expect(verifier.strings("client_ids") == ["a", "b"])
        #expect(verifier.requiredString("region") == nil)
        verifier.problem("user_pool_id", "is required for cognito")
        verifier.problem(nil, "is odd")
        #expect(
            reader.problems.map(\.description) == [
                "environment: COGNITO_REGION: required", "environment: COGNITO_USER_POOL_ID: is required for cognito",
                "environment: AUTH_PROVIDER: sessions.verifiers[0]: is odd",
            ])
    }

    @Test func secretsOfTheVerifierAreSecrets() throws {
        let session = load(["SESSION_ISSUER": "i", "SESSION_HMAC_SECRET": "hush"])
        let verifier = try #require(session.root.section("sessions").sections("verifiers").first)
        #expect(verifier.secretFile("hmac_secret_file")?.secret.copyBytes() == Array("hush".utf8))
        let supabase = load(["AUTH_PROVIDER": "supabase", "SUPABASE_JWT_SECRET": "hush"])
        let preset = try #require(supabase.root.section("sessions").sections("verifiers").first)
        #expect(preset.secretFile("hmac_secret_file")?.secret.copyBytes() == Array("hush".utf8))
        #expect(session.problems + supabase.problems == [])
    }

    @Test(arguments: [
        (
            ["AUTH_PROVIDER": "firebase", "SESSION_ISSUER": "i", "SESSION_HMAC_SECRET_FILE": "/x"],
            "environment: AUTH_PROVIDER: may not be set together with SESSION_ISSUER, SESSION_HMAC_SECRET_FILE"
        ),
        (
            ["AUTH_PROVIDER": "firebas"],
            "environment: AUTH_PROVIDER: must be one of firebase, auth0, clerk, supabase, cognito, okta, apple, google, oidc "
                + "(got \"firebas\"); did you mean \"firebase\"?"
        ),
        (
            ["SESSION_ISSUER": "i", "SESSION_HMAC_SECRET": "x", "SESSION_HMAC_SECRET_FILE": "/x"],
            "environment: SESSION_HMAC_SECRET: may not be set together with SESSION_HMAC_SECRET_FILE"
        ),
    ])
    func contradictionsAreOneProblemEach(environment: [String: String], expected: String) {
        let reader = load(environment)
        let sessions = reader.root.section("sessions")
        let verifiers = sessions.sections("verifiers")
        if verifiers.isEmpty { sessions.problem("verifiers", "needs at least one") }
        for verifier in verifiers {
            _ = verifier.string("type")
            _ = verifier.string("issuer")
            if verifier.secretFile("hmac_secret_file") == nil { verifier.problem("hmac_secret_file", "is required") }
        }
        reader.root.finish()
        #expect(reader.problems.map(\.description) == [expected])
    }

    @Test func unknownVariablesAreIgnoredAndKnownOnesWithoutAReaderAreNot() {
        let reader = load(["PATH": "/bin", "JANUARY_API_KEYS": "x", "ALLOWED_ORIGINS": "https://a", "REDIS_URL": "redis://u:p@h"])
        reader.root.finish()
        #expect(
            reader.problems.map(\.description) == [
                "environment: ALLOWED_ORIGINS: sets cors, which this version does not know",
                "environment: REDIS_URL: sets rate_limits, which this version does not know",
            ])
    }

    @Test func aWrongSectionInTheFileIsStillNamed() {
        let reader = load(["JANUARY_BASE_URL": "x"], "january: 5")
        _ = reader.root.section("january").string("base_url")
        #expect(reader.problems.map(\.description) == ["config.yaml:1: january: must be a mapping (got 5)"])
    }

    @Test func everyVariableIsListedOnce() {
        #expect(Set(EnvironmentTable.variables).count == EnvironmentTable.variables.count)
        #expect(EnvironmentTable.variables.contains("SUPABASE_JWT_SECRET_FILE"))
    }
}
