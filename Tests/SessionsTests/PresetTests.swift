import JOSE
import Primitives
import StrictJSON
import Testing

@testable import Sessions

/// Every preset: what its table says is accepted, and each reason for which a token is not.
@Suite(.serialized)
struct PresetTests {
    private static let rsa = SigningKey.generate(.rs256, keyID: "r1")
    private static let ec = SigningKey.generate(.es256, keyID: "e1")
    private static let ed = SigningKey.generate(.edDSA, keyID: "d1")
    private static let ps = SigningKey.generate(.ps256, keyID: "p1")

    struct Preset: Sendable, CustomTestStringConvertible {
        let name: String
        let yaml: String
        /// Where the key set has to be asked for.
        let keySetURL: String
        let discovery: String?
        let issuer: String
        let audience: String
        /// What a good token has besides.
        let extra: [String: JSONValue]
        var testDescription: String { name }

        init(
            _ name: String, _ yaml: String, keySetURL: String, discovery: String? = nil, issuer: String, audience: String,
            extra: [String: JSONValue] = [:]
        ) {
            self.name = name
            self.yaml = yaml
            self.keySetURL = keySetURL
            self.discovery = discovery
            self.issuer = issuer
            self.audience = audience
            self.extra = extra
        }
    }

    private static let firebase = Preset(
        "firebase", "{ type: firebase, project_id: acme }",
        keySetURL: "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com",
        issuer: "https://securetoken.google.com/acme", audience: "acme",
        extra: ["firebase": ["sign_in_provider": "password"], "auth_time": 5])
    private static let auth0 = Preset(
        "auth0", "{ type: auth0, domain: acme.eu.auth0.com, audience: api }",
        keySetURL: "https://acme.eu.auth0.com/.well-known/jwks.json", issuer: "https://acme.eu.auth0.com/", audience: "api",
        extra: ["auth_time": 5])
    private static let clerk = Preset(
        "clerk", "{ type: clerk, issuer: \"https://clerk.acme.example\", authorized_parties: [\"https://acme.example\"] }",
        keySetURL: "https://clerk.acme.example/.well-known/jwks.json", issuer: "https://clerk.acme.example", audience: "anything",
        extra: ["azp": "https://acme.example", "auth_time": 5])
    private static let supabase = Preset(
        "supabase", "{ type: supabase, url: \"https://acme.supabase.co\" }",
        keySetURL: "https://acme.supabase.co/auth/v1/.well-known/jwks.json", issuer: "https://acme.supabase.co/auth/v1",
        audience: "authenticated", extra: ["is_anonymous": false, "amr": [["method": "otp", "timestamp": 5]]])
    private static let cognito = Preset(
        "cognito access", "{ type: cognito, region: eu-west-1, user_pool_id: eu-west-1_Ab, client_ids: [c1, c2] }",
        keySetURL: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab/.well-known/jwks.json",
        issuer: "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab", audience: "anything",
        extra: ["client_id": "c2", "token_use": "access", "auth_time": 5])
    private static let cognitoID = Preset(
        "cognito id", "{ type: cognito, region: eu-west-1, user_pool_id: eu-west-1_Ab, client_ids: c1, token_use: id }",
        keySetURL: cognito.keySetURL, issuer: cognito.issuer, audience: "c1", extra: ["token_use": "id", "auth_time": 5])
    private static let okta = Preset(
        "okta", "{ type: okta, issuer: \"https://acme.okta.com/oauth2/default\", audience: api }",
        keySetURL: "https://acme.okta.com/oauth2/default/v1/keys",
        discovery: "https://acme.okta.com/oauth2/default/.well-known/openid-configuration",
        issuer: "https://acme.okta.com/oauth2/default", audience: "api", extra: ["uid": "00u", "auth_time": 5])
    private static let apple = Preset(
        "apple", "{ type: apple, client_ids: [com.acme.app] }", keySetURL: "https://appleid.apple.com/auth/keys",
        issuer: "https://appleid.apple.com", audience: "com.acme.app", extra: ["auth_time": 5])
    private static let google = Preset(
        "google", "{ type: google, client_ids: [g1, g2] }", keySetURL: "https://www.googleapis.com/oauth2/v3/certs",
        issuer: "accounts.google.com", audience: "g2", extra: ["auth_time": 5])
    private static let oidc = Preset(
        "oidc", "{ type: oidc, issuer: \"https://kc.example/realms/acme/\", audience: api }",
        keySetURL: "https://kc.example/certs",
        discovery: "https://kc.example/realms/acme/.well-known/openid-configuration", issuer: "https://kc.example/realms/acme/",
        audience: "api", extra: ["auth_time": 5])
    private static let all = [
        firebase, auth0, clerk, supabase, cognito, cognitoID, okta, apple, google, oidc,
    ]

    private static func rig(_ preset: Preset, yaml: String? = nil, folder: String = "") async throws -> SessionRig {
        let read = ReadSessions(verifiers: [yaml ?? preset.yaml], folder: folder)
        #expect(read.problems == [])
        let rig = try SessionRig(read.config)
        if let discovery = preset.discovery {
            let body = "{\"issuer\":\"\(preset.issuer)\",\"jwks_uri\":\"\(preset.keySetURL)\"}"
            rig.provider.set(discovery, .page(body: body))
        }
        rig.provider.set(preset.keySetURL, .page(body: [rsa, ec, ed, ps].keySet))
        await rig.start()
        return rig
    }

    private static func claims(_ rig: SessionRig, _ preset: Preset, _ changes: [String: JSONValue?] = [:]) -> JSONObject {
        var all: [String: JSONValue?] = preset.extra.mapValues { $0 }
        for (name, value) in changes { all[name] = value }
        return rig.claims(all, issuer: preset.issuer, audience: preset.audience)
    }

    @Test(arguments: all)
    func aTokenOfTheProviderIsAccepted(preset: Preset) async throws {
        let rig = try await Self.rig(preset)
        #expect(rig.provider.requestedURLs == [preset.discovery, preset.keySetURL].compactMap { $0 })
        #expect(await rig.verify(Self.rsa.sign(claims: Self.claims(rig, preset))) == .accepted())
    }

    @Test(arguments: all)
    func aTokenOfAnotherIssuerOrTimeIsRefused(preset: Preset) async throws {
        let rig = try await Self.rig(preset)
        let now = rig.time.wall().secondsSinceEpoch
        let wrong: [([String: JSONValue?], SessionRefusal.Reason)] = [
            (["iss": "https://evil.example"], .noVerifierForIssuer), (["iss": nil], .noVerifierForIssuer),
            (["iss": .string(preset.issuer + "/x")], .noVerifierForIssuer), (["exp": .number(JSONNumber(now - 60))], .expired),
            (["exp": nil], .missingExpiration), (["nbf": .number(JSONNumber(now + 61))], .notYetValid),
            (["cnf": ["jkt": "x"]], .boundToken),
        ]
        for (changes, reason) in wrong {
            #expect(await rig.verify(Self.rsa.sign(claims: Self.claims(rig, preset, changes))) == .refused(reason), "\(changes)")
        }
        let stranger = SigningKey.generate(.rs256, keyID: "r1")
        #expect(await rig.verify(stranger.sign(claims: Self.claims(rig, preset))) == .refused(.signature))
    }

    @Test(
        arguments: [
            (firebase, ["aud": "other"], .refused(.audience)), (firebase, ["sub": nil], .refused(.missingSubject)),
            (firebase, ["firebase": ["sign_in_provider": "anonymous"]], .accepted(.anonymous)),
            (firebase, ["firebase": ["sign_in_provider": "custom"]], .accepted()),
            (auth0, ["aud": ["x", "api"]], .accepted()), (auth0, ["aud": "x"], .refused(.audience)),
            (auth0, ["gty": "client-credentials"], .accepted(.machine)), (auth0, ["sub": "abc@clients"], .accepted(.machine)),
            (auth0, ["gty": "password"], .accepted()), (clerk, ["azp": nil], .accepted()),
            (clerk, ["azp": "https://evil.example"], .refused(.requiredClaim)), (clerk, ["azp": 1], .refused(.requiredClaim)),
            (clerk, ["sts": "pending"], .accepted(.unfinished)), (clerk, ["sts": "active"], .accepted()),
            (supabase, ["aud": "anon"], .refused(.audience)), (supabase, ["is_anonymous": true], .accepted(.anonymous)),
            (supabase, ["is_anonymous": nil], .accepted()), (cognito, ["client_id": "c3"], .refused(.requiredClaim)),
            (cognito, ["client_id": nil], .refused(.requiredClaim)), (cognito, ["token_use": "id"], .refused(.requiredClaim)),
            (cognito, ["aud": nil], .accepted()), (cognito, ["sub": "c2"], .accepted(.machine)),
            (cognitoID, ["aud": "c2"], .refused(.audience)), (cognitoID, ["token_use": "access"], .refused(.requiredClaim)),
            (okta, ["uid": nil], .accepted(.machine)), (okta, ["aud": "x"], .refused(.audience)),
            (okta, ["sub": nil], .accepted()), (apple, ["aud": "com.other"], .refused(.audience)),
            (google, ["iss": "https://accounts.google.com"], .accepted()), (google, ["aud": "g3"], .refused(.audience)),
            (oidc, ["iss": "https://kc.example/realms/acme"], .refused(.noVerifierForIssuer)),
            (oidc, ["aud": "x"], .refused(.audience)),
        ] as [(Preset, [String: JSONValue?], Outcome)])
    func theTablesOwnRules(preset: Preset, changes: [String: JSONValue?], expected: Outcome) async throws {
        let rig = try await Self.rig(preset)
        #expect(await rig.verify(Self.rsa.sign(claims: Self.claims(rig, preset, changes))) == expected)
    }

    @Test func algorithmsAreThoseOfTheTable() async throws {
        for preset in Self.all {
            let rig = try await Self.rig(preset)
            let claims = Self.claims(rig, preset)
            let allowed: Set<JWSAlgorithm> =
                switch preset.name {
                case "supabase": [.rs256, .es256, .edDSA]
                case "oidc": PresetExpansion.asymmetric
                default: [.rs256]
                }
            for key in [Self.rsa, Self.ec, Self.ed, Self.ps] {
                let expected: Outcome = allowed.contains(key.algorithm) ? .accepted() : .refused(.algorithm)
                #expect(await rig.verify(key.sign(claims: claims)) == expected, "\(preset.name) \(key.algorithm)")
            }
        }
    }

    @Test(
        arguments: [
            (auth0, "allow_machines", ["gty": "client-credentials"]), (okta, "allow_machines", ["uid": nil]),
            (cognito, "allow_machines", ["sub": "c2"]),
            (firebase, "allow_anonymous", ["firebase": ["sign_in_provider": "anonymous"]]),
            (supabase, "allow_anonymous", ["is_anonymous": true]),
        ] as [(Preset, String, [String: JSONValue?])])
    func machinesAndAnonymousSignInsCanBeLetIn(preset: Preset, key: String, changes: [String: JSONValue?]) async throws {
        let yaml = String(preset.yaml.dropLast(2)) + ", \(key): true }"
        let rig = try await Self.rig(preset, yaml: yaml)
        #expect(await rig.verify(Self.rsa.sign(claims: Self.claims(rig, preset, changes))) == .accepted())
    }

    @Test func anUnfinishedSignInIsNeverLetIn() async throws {
        let yaml = String(Self.clerk.yaml.dropLast(2)) + ", allow_machines: true, allow_anonymous: true }"
        let rig = try await Self.rig(Self.clerk, yaml: yaml)
        #expect(
            await rig.verify(Self.rsa.sign(claims: Self.claims(rig, Self.clerk, ["sts": "pending"]))) == .accepted(.unfinished))
    }

    @Test func theBeginningOfASessionIsFoundWhereTheProviderPutsIt() throws {
        let expected: [String: [String]] = [
            "firebase": ["auth_time"], "auth0": [], "clerk": [], "supabase": ["/amr/0/timestamp"],
            "cognito access": ["auth_time"],
            "cognito id": ["auth_time"], "okta": ["auth_time"], "apple": ["auth_time"], "google": [], "oidc": ["auth_time"],
        ]
        for preset in Self.all {
            let verifier = try #require(ReadSessions(verifiers: [preset.yaml]).config.verifiers.first)
            #expect(verifier.startedAt.map(\.description) == expected[preset.name], "\(preset.name)")
            #expect(verifier.endUserClaim == (preset.name == "okta" ? "uid" : nil))
        }
        let google = try #require(ReadSessions(verifiers: [Self.google.yaml]).config.verifiers.first)
        #expect(google.namespace == "https://accounts.google.com")
    }

    // MARK: Supabase with a secret

    @Test func aSupabaseProjectCanMigrateFromItsSecret() async throws {
        let folder = try TestFolder()
        let secret = String(repeating: "s", count: 40)
        try folder.write("secret", secret + "\n")
        let yaml = String(Self.supabase.yaml.dropLast(2)) + ", hmac_secret_file: secret }"
        let rig = try await Self.rig(Self.supabase, yaml: yaml, folder: folder.path)
        let claims = Self.claims(rig, Self.supabase)
        let legacy = SigningKey.hmac(.hs256, secret: Secret(secret), keyID: "legacy")
        #expect(await rig.verify(legacy.sign(claims: claims)) == .accepted())
        #expect(await rig.verify(Self.ec.sign(claims: claims)) == .accepted())
        #expect(
            await rig.verify(SigningKey.hmac(.hs256, secret: Secret(String(repeating: "x", count: 40))).sign(claims: claims))
                == .refused(.signature))
        // An empty key set is fine beside a secret, but it does not take away keys that were there.
        rig.provider.set(Self.supabase.keySetURL, .page(body: "{\"keys\":[]}"))
        await rig.pass(.seconds(600))
        #expect(try #require(rig.shared.keySets.first).state.lastFailure == .empty)
        #expect(await rig.verify(Self.ec.sign(claims: Self.claims(rig, Self.supabase))) == .accepted())
        #expect(await rig.verify(legacy.sign(claims: Self.claims(rig, Self.supabase))) == .accepted())
        // Without the secret HS256 is no algorithm of the verifier.
        let without = try await Self.rig(Self.supabase)
        #expect(await without.verify(legacy.sign(claims: claims)) == .refused(.algorithm))
    }

    // MARK: What a preset expanded to

    @Test func theExpansionIsPrinted() {
        let printed = ReadSessions(verifiers: [Self.cognitoID.yaml]).printed
        for line in [
            "issuer: \"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab\"", "audience: c1",
            "jwks_url: \"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab/.well-known/jwks.json\"", "algorithms: [RS256]",
            "started_at: auth_time", "name: cognito",
        ] {
            #expect(printed.contains(line), "\(line) in\n\(printed)")
        }
    }

    @Test func givenKeysWinOverThePresets() async throws {
        let preset = Preset(
            "firebase",
            "{ type: firebase, project_id: acme, jwks_url: \"http://127.0.0.1:9/k\", audience: mine, algorithms: [ES256], namespace: n }",
            keySetURL: "http://127.0.0.1:9/k", issuer: "https://securetoken.google.com/acme", audience: "mine")
        let rig = try await Self.rig(preset)
        #expect(await rig.verify(Self.ec.sign(claims: Self.claims(rig, preset))) == .accepted())
        #expect(await rig.verify(Self.rsa.sign(claims: Self.claims(rig, preset))) == .refused(.algorithm))
        #expect(rig.shared.config.verifiers.first?.namespace == "n")
    }
}
