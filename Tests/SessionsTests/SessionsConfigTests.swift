import HTTPMessage
import JOSE
import Primitives
import StrictJSON
import Testing

@testable import Sessions

/// What the configuration may say, and the exact words where it may not.
struct SessionsConfigTests {
    private static let base = "type: jwt, issuer: \"https://i.example\", audience: api"

    /// `prefix` is the place every problem of the first verifier starts with.
    private static func problems(_ verifier: String, folder: String = "") -> [String] {
        let prefix = "c.yaml:3: sessions.verifiers[0]."
        return ReadSessions(verifiers: [verifier], folder: folder).problems
            .map { $0.hasPrefix(prefix) ? String($0.dropFirst(prefix.count)) : $0 }
    }

    @Test func aVerifierHasTheseDefaults() throws {
        let read = ReadSessions(verifiers: ["{ \(Self.base), algorithms: [RS256, ES256], jwks_url: \"https://i.example/k\" }"])
        #expect(read.problems == [])
        #expect(read.warnings == [])
        #expect(read.config.from == [.bearer])
        let verifier = try #require(read.config.verifiers.first)
        #expect(verifier.name == "jwt")
        #expect(verifier.namespace == "https://i.example")
        #expect(verifier.rules == JWTRules(issuers: ["https://i.example"], audience: ["api"], algorithms: [.rs256, .es256]))
        #expect(verifier.rules.clockSkew == .seconds(60))
        #expect(verifier.requiredClaims == [])
        #expect(verifier.sessionIDClaims == [.claim("sid"), .claim("session_id"), .claim("origin_jti")])
        #expect(verifier.startedAt == [.claim("auth_time"), .claim("iat")])
        #expect(verifier.personRules == [])
        #expect(!verifier.allowMachines && !verifier.allowAnonymous)
        #expect(verifier.keys.local == nil)
        #expect(
            verifier.keys.remote == RemoteKeySetConfig(location: .keySet(try HTTPURL.parse("https://i.example/k"))))
    }

    @Test func everyKeyIsRead() throws {
        let folder = try TestFolder()
        try folder.write("password", "secret\n")
        try folder.write("ca.pem", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
        let read = ReadSessions(
            verifiers: [
                """
                { type: jwt, name: acme, namespace: people, issuer: [a, b], audience: [x, y], algorithms: [PS512],
                      jwks_url: "https://i.example/k", username: u, password_file: password, ca_file: ca.pem, allow_http: true,
                      clock_skew_seconds: 0, max_lifetime_seconds: 3600, types: [at+jwt], session_id_claim: /deep/id,
                      started_at: began, allow_bound_tokens: true, allow_machines: true, allow_anonymous: true,
                      required_claims: { azp: [web, "2"], n: 2, /x/y: true }, refresh_seconds: 30, max_stale_seconds: 60 }
                """
            ], folder: folder.path)
        #expect(read.problems == [])
        let verifier = try #require(read.config.verifiers.first)
        var rules = JWTRules(issuers: ["a", "b"], audience: ["x", "y"], algorithms: [.ps512])
        rules.clockSkew = .zero
        rules.maxLifetime = .seconds(3600)
        rules.types = ["at+jwt"]
        rules.allowBoundTokens = true
        #expect(verifier.rules == rules)
        #expect(verifier.name == "acme")
        #expect(verifier.namespace == "people")
        #expect(
            verifier.requiredClaims == [
                RequiredClaim(path: .claim("azp"), allowed: ["web", "2"]), RequiredClaim(path: .claim("n"), allowed: [2]),
                RequiredClaim(path: try #require(ClaimPath("/x/y")), allowed: [true]),
            ])
        #expect(verifier.sessionIDClaims == [try #require(ClaimPath("/deep/id"))])
        #expect(verifier.startedAt == [.claim("began")])
        #expect(verifier.allowMachines && verifier.allowAnonymous)
        let remote = try #require(verifier.keys.remote)
        #expect(remote.login == .init(username: "u", password: Secret("secret")))
        #expect(remote.certificateAuthority?.path == folder.path + "ca.pem")
        #expect(remote.refreshInterval == .seconds(30))
        #expect(remote.maxStale == .seconds(60))
        #expect(read.warnings.count == 1)
    }

    @Test(arguments: [
        ("{ issuer: x }", ["type: required: jwt or the name of an identity provider"]),
        ("{ type: redis, url: x }", ["type: redis is not available in this version"]),
        ("{ type: introspection }", ["type: introspection is not available in this version"]),
        ("{ type: callout }", ["type: callout is not available in this version"]),
        ("{ type: sql }", ["type: sql is not available in this version"]),
        ("{ type: static }", ["type: static is not available in this version"]),
        (
            "{ type: auth1 }",
            [
                "type: must be one of jwt, firebase, auth0, clerk, supabase, cognito, okta, apple, google, oidc (got \"auth1\"); did you mean \"auth0\"?"
            ]
        ),
        (
            "{ type: jwt, jwks_url: \"https://x/k\", algorithms: [RS256] }",
            ["issuer: required unless allow_any_issuer is true", "audience: required unless allow_any_audience is true"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], allow_any_issuer: true, allow_any_audience: true }",
            [
                "allow_any_issuer: must not be true where issuer is given",
                "allow_any_audience: must not be true where audience is given",
            ]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\" }",
            ["algorithms: required: the algorithms the issuer signs with, for example [RS256]"]
        ),
        ("{ \(base), jwks_url: \"https://x/k\", algorithms: [] }", ["algorithms: must not be empty"]),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256, HS256] }",
            ["algorithms: HS256 must not be mixed with RS256: a public key would become a secret"]
        ),
        ("{ \(base), jwks_url: \"https://x/k\", algorithms: [HS256] }", ["algorithms: HS256 needs hmac_secret_file"]),
        (
            "{ type: jwt, issuer: [\"https://a\", \"https://b\"], audience: api, algorithms: [RS256] }",
            [
                "jwks_url: a key source is required: jwks_url, jwks_file, public_key_files or hmac_secret_file (discovery needs exactly one issuer)"
            ]
        ),
        (
            "{ type: jwt, allow_any_issuer: true, audience: api, algorithms: [RS256] }",
            [
                "jwks_url: a key source is required: jwks_url, jwks_file, public_key_files or hmac_secret_file (discovery needs exactly one issuer)"
            ]
        ),
        (
            "{ type: jwt, issuer: acme, audience: api, algorithms: [RS256] }",
            ["issuer: must be an https URL (got \"acme\")"]
        ),
        (
            "{ \(base), jwks_url: \"http://10.0.0.1/k\", algorithms: [RS256] }",
            [
                "jwks_url: must be https; allow_http: true on this verifier permits http to a private address (got \"http://10.0.0.1/k\")"
            ]
        ),
        (
            "{ \(base), jwks_url: \"http://8.8.8.8/k\", algorithms: [RS256], allow_http: true }",
            ["jwks_url: must be https; http is for loopback and private addresses only (got \"http://8.8.8.8/k\")"]
        ),
        (
            "{ \(base), jwks_url: \"https://u:hunter2@x/k\", algorithms: [RS256] }",
            ["jwks_url: must not hold a user name or password; use username and password_file beside it"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], username: u }",
            ["username: needs password_file beside it"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", jwks_file: nowhere, algorithms: [RS256] }",
            ["jwks_file: only one key source is allowed, and jwks_url is given too"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], hmac_secret_encoding: hex }",
            ["hmac_secret_encoding: is for hmac_secret_file, which is not given"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], clock_skew_seconds: 301 }",
            ["clock_skew_seconds: must be from 0 to 300 seconds (got 301)"]
        ),
        ("{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], namespace: \"\" }", ["namespace: must not be empty"]),
        ("{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], types: [] }", ["types: must not be empty"]),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], started_at: \"/~9\" }",
            ["started_at: must be the name of a claim or a JSON pointer (got \"/~9\")"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], required_claims: { a: [] } }",
            ["required_claims.a: must name at least one value"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], isuer: x }",
            ["isuer: unknown key; did you mean \"issuer\"?"]
        ),
        (
            "{ \(base), jwks_url: \"https://x/k\", algorithms: [RS256], name: \"a b\" }",
            ["name: must be 1 to 64 letters, digits, dots, hyphens and underscores (got \"a b\")"]
        ),
    ])
    func aWrongVerifierIsNamedWithItsKey(verifier: String, expected: [String]) {
        #expect(Self.problems(verifier) == expected)
    }

    @Test(arguments: [
        ("{ type: firebase }", ["project_id: required"]), ("{ type: auth0 }", ["domain: required"]),
        ("{ type: auth0, domain: acme.eu.auth0.com }", ["audience: required unless allow_any_audience is true"]),
        (
            "{ type: auth0, domain: \"https://acme.eu.auth0.com\", audience: a }",
            [
                "domain: must be a host name like acme.eu.auth0.com, without https:// and without a path (got \"https://acme.eu.auth0.com\")"
            ]
        ),
        ("{ type: clerk }", ["authorized_parties: required unless allow_any_audience is true", "issuer: required"]),
        ("{ type: supabase }", ["url: required"]),
        (
            "{ type: supabase, url: \"http://db.example\" }",
            ["url: must be https; http is for loopback and private addresses only (got \"http://db.example\")"]
        ),
        ("{ type: cognito }", ["region: required", "user_pool_id: required", "client_ids: required"]),
        (
            "{ type: cognito, region: \"a/b\", user_pool_id: p, client_ids: [c] }",
            ["region: must be letters, digits, hyphens and underscores (got \"a/b\")"]
        ),
        ("{ type: okta, audience: a }", ["issuer: required"]), ("{ type: oidc, audience: a }", ["issuer: required"]),
        ("{ type: apple }", ["client_ids: required"]), ("{ type: google, client_ids: [] }", ["client_ids: must not be empty"]),
        (
            "{ type: auth0, domain: a.example, audience: a, algorithms: [HS256] }", ["algorithms: HS256 needs hmac_secret_file"]
        ),
    ])
    func aPresetNamesItsOwnMissingKeys(verifier: String, expected: [String]) {
        #expect(Self.problems(verifier) == expected)
    }

    @Test func sessionsNeedAVerifier() {
        #expect(
            ReadSessions(text: "sessions: {}").problems == [
                "c.yaml:1: sessions.verifiers: at least one verifier is required (or set AUTH_PROVIDER, or SESSION_ISSUER and what belongs to it)"
            ])
    }

    @Test(
        arguments: [
            ("[bearer, { header: X-Session }]", [.bearer, .header(FieldName("x-session"))], []),
            ("[{ header: x }]", [.header(FieldName("x"))], []),
            ("[]", [], ["from: must name at least one place"]),
            ("[bearer, bearer]", [.bearer], ["from[1]: is in the list already"]),
            ("[query]", [], ["from[0]: must be bearer or {header: \"X-Session\"} (got \"query\")"]),
            ("[{ cookie: sid }]", [], ["from[0].cookie: sessions in cookies are not available in this version"]),
            ("[{ query: t }]", [], ["from[0]: must be bearer or {header: \"X-Session\"}"]),
            ("[{ header: \"a b\" }]", [], ["from[0].header: must be a field name (got \"a b\")"]),
            ("[{ header: Authorization }]", [], ["from[0].header: use bearer for the Authorization field"]),
            ("[{ header: Host }]", [], ["from[0].header: is not a field for sessions"]),
        ] as [(String, [CredentialPlace], [String])])
    func placesAreReadInOrder(from: String, places: [CredentialPlace], expected: [String]) {
        let read = ReadSessions(
            text: """
                sessions:
                  from: \(from)
                  verifiers: [{ \(Self.base), algorithms: [RS256], jwks_url: "https://i.example/k" }]
                """)
        #expect(read.config.from == places)
        #expect(read.problems == expected.map { "c.yaml:2: sessions.\($0)" })
    }

    @Test func namesAreMadeUpAroundThoseThatAreGiven() {
        let firebase = "{ type: firebase, project_id: p"
        let read = ReadSessions(verifiers: [
            "\(firebase) }", "\(firebase), name: firebase-2 }", "\(firebase) }", "\(firebase), name: firebase-2 }",
            "{ \(Self.base), algorithms: [RS256], jwks_url: \"https://i.example/k\" }",
        ])
        #expect(read.config.verifiers.map(\.name) == ["firebase", "firebase-2", "firebase-3", "firebase-2", "jwt"])
        #expect(read.problems == ["c.yaml:6: sessions.verifiers[3].name: is the name of sessions.verifiers[1] too"])
    }

    @Test func onlyOneVerifierTakesAnyIssuer() {
        let any = "{ type: jwt, allow_any_issuer: true, audience: a, algorithms: [RS256], jwks_url: \"https://i.example/k\" }"
        let read = ReadSessions(verifiers: [any, any])
        #expect(
            read.problems == [
                "c.yaml:4: sessions.verifiers[1].allow_any_issuer: sessions.verifiers[0] accepts any issuer already, so no token would reach this verifier"
            ])
        #expect(read.config.verifiers.map(\.namespace) == [nil, nil])
    }

    @Test(
        arguments: [(nil, true), ("subject", true), ("sub", true), ("/sub", true), ("uid", false), ("/user/id", false)]
            as [(String?, Bool)])
    func aSubjectIsRequiredUnlessAnotherClaimNamesTheEndUser(claim: String?, expected: Bool) throws {
        let verifier = "{ \(Self.base), algorithms: [RS256], jwks_url: \"https://i.example/k\" }"
        let config = ReadSessions(verifiers: [verifier], endUserClaim: claim).config
        #expect(try #require(config.verifiers.first).rules.requiresSubject == expected)
        let okta = ReadSessions(verifiers: ["{ type: okta, issuer: \"https://o.example\", audience: a }"], endUserClaim: claim)
            .config
        #expect(try #require(okta.verifiers.first).rules.requiresSubject == (claim == nil ? false : expected))
    }

    // MARK: Keys from files

    @Test func keysThatFixTheirAlgorithmNeedNoList() throws {
        let folder = try TestFolder()
        for (name, algorithm) in [
            ("p256", JWSAlgorithm.es256), ("p384", .es384), ("p521", .es512), ("ed", .edDSA), ("rsa", .rs256),
        ] {
            try folder.write(name, try #require(SigningKey.generate(algorithm).publicPEM))
        }
        try folder.write("set", [SigningKey.generate(.rs256, keyID: "1"), .generate(.es256, keyID: "2")].keySet)
        let algorithms = { (source: String) in
            try #require(ReadSessions(verifiers: ["{ \(Self.base), \(source) }"], folder: folder.path).config.verifiers.first)
                .rules.algorithms
        }
        #expect(try algorithms("public_key_files: [p256, ed]") == [.es256, .edDSA])
        #expect(try algorithms("public_key_files: [p384, p521]") == [.es384, .es512])
        #expect(try algorithms("jwks_file: set") == [.rs256, .es256])
        #expect(
            Self.problems("{ \(Self.base), public_key_files: [p256, rsa] }", folder: folder.path)
                == ["algorithms: required: the algorithms the issuer signs with, for example [RS256]"])
        #expect(
            Self.problems("{ \(Self.base), public_key_files: [p256], algorithms: [RS256, ES384] }", folder: folder.path)
                == ["algorithms: no key of public_key_files fits RS256 or ES384"])
    }

    @Test func keyFilesThatCannotBeUsedAreNamed() throws {
        let folder = try TestFolder()
        try folder.write("garbage", "hello")
        try folder.write("none", "{\"keys\":[]}")
        try folder.write("short", "0123456789")
        try folder.write("base64", "!!!")
        try folder.write("empty", "\n")
        let problems = { (source: String) in Self.problems("{ \(Self.base), \(source) }", folder: folder.path) }
        #expect(
            problems("public_key_files: [garbage], algorithms: [ES256]")
                == ["public_key_files: \(folder.path)garbage \(KeyError.notPEM)"])
        #expect(problems("public_key_files: [], algorithms: [ES256]") == ["public_key_files: must name at least one file"])
        #expect(
            problems("jwks_file: garbage, algorithms: [ES256]") == ["jwks_file: \(folder.path)garbage is no JWK set (not_json)"])
        #expect(
            problems("jwks_file: none, algorithms: [ES256]") == ["jwks_file: \(folder.path)none holds no key that can be used"])
        #expect(
            problems("hmac_secret_file: short, algorithms: [HS256]")
                == ["hmac_secret_file: has 10 bytes; this algorithm needs at least 32"])
        #expect(
            problems("hmac_secret_file: base64, hmac_secret_encoding: base64, algorithms: [HS256]")
                == ["hmac_secret_file: does not hold base64, as hmac_secret_encoding says"])
        #expect(
            problems("hmac_secret_file: short, algorithms: [RS256]")
                == ["algorithms: RS256 cannot be verified with hmac_secret_file"])
        #expect(
            problems("hmac_secret_file: short")
                == ["algorithms: required: the algorithms the issuer signs with, for example [HS256]"])
        #expect(problems("hmac_secret_file: empty, algorithms: [HS256]").count == 1)
    }

    // MARK: Environment

    @Test func theEnvironmentMakesOneVerifier() throws {
        let read = ReadSessions(
            verifiers: [],
            environment: [
                "SESSION_ISSUER": "https://i.example", "SESSION_AUDIENCE": "web,app", "SESSION_ALGORITHMS": "RS256,ES256",
                "SESSION_JWKS_URL": "https://user:pass@i.example/k",
            ])
        #expect(read.problems == [])
        let verifier = try #require(read.config.verifiers.first)
        #expect(verifier.rules.audience == ["web", "app"])
        #expect(verifier.rules.algorithms == [.rs256, .es256])
        #expect(verifier.keys.remote?.login == .init(username: "user", password: Secret("pass")))
        #expect(!read.printed.contains("pass"))

        let secret = ReadSessions(
            verifiers: [],
            environment: [
                "SESSION_ISSUER": "i", "SESSION_AUDIENCE": "a", "SESSION_ALGORITHMS": "HS256",
                "SESSION_HMAC_SECRET": String(repeating: "s", count: 32),
            ])
        #expect(secret.problems == [])
        #expect(secret.config.verifiers.first?.keys.local?.origin == .hmacSecret)

        let firebase = ReadSessions(verifiers: [], environment: ["AUTH_PROVIDER": "firebase", "FIREBASE_PROJECT_ID": "acme"])
        #expect(firebase.problems == [])
        #expect(firebase.config.verifiers.first?.rules.audience == ["acme"])

        #expect(
            ReadSessions(verifiers: [], environment: ["AUTH_PROVIDER": "firebase"]).problems
                == ["environment: FIREBASE_PROJECT_ID: required"])
    }
}
