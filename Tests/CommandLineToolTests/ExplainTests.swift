import Digests
import Foundation
import Primitives
import StrictJSON
import Testing

@testable import CommandLineTool

@Suite struct ExplainTests {
    private let secrets: SecretsFolder
    private let path: String

    init() throws {
        secrets = try SecretsFolder()
        path = try secrets.write(
            "config.yaml",
            """
            january: { api_key_file: january_api_key }
            sessions:
              from: [bearer, { header: X-Session }]
              verifiers:
                - type: jwt
                  issuer: https://i.example
                  audience: app
                  hmac_secret_file: session_secret
                  algorithms: [HS256]
                  required_claims: { azp: [web] }
            end_user_id: { from: uid }
            grants:
              - when: { claim: plan, equals: pro }
                features: [food_search, glucose]

            """)
    }

    private static let person: [String: JSONValue] = [
        "iss": "https://i.example", "aud": "app", "azp": "web", "uid": "user-MARKER", "plan": "pro",
    ]

    private func token(_ changes: [String: JSONValue?] = [:], header: JSONValue = ["alg": "HS256"]) -> String {
        var claims = Self.person
        claims["exp"] = .number(JSONNumber(Int(Date().timeIntervalSince1970) + 600))
        for (name, value) in changes { claims[name] = value }
        let object = JSONValue.object(JSONObject(claims.map { JSONMember(name: $0, value: $1) }))
        let input = Base64URL.encode(header.encoded()) + "." + Base64URL.encode(object.encoded())
        let key = HMACKey(.sha256, key: Secret(SecretsFolder.sessionSecret))
        return input + "." + Base64URL.encode(key.authenticate(Array(input.utf8)))
    }

    private func explain(_ input: String, _ flags: String...) -> Run {
        Run(["explain", "--config", path] + flags, input: input)
    }

    @Test func aGoodSessionIsFollowedToItsScopes() {
        let run = explain(token())
        #expect(run.code == .ok)
        #expect(run.errors == "")
        for line in [
            "found: ok: given by itself, taken as if it came in the Authorization field", "alg: ok: HS256",
            "exp: ok: not expired",
            "signature: ok: HS256, made by the key", "end user: ok: from \"uid\", transform none",
            "features: ok: food_search, glucose", "scopes: ok: foods:read glucose:read", "ttl: ok: 1800 s",
            "limits: ok: per_address 600 in 60 s, burst 600; per_session 6 in 60 s, burst 10, by the session itself; per_end_user 12 in 60 s, burst 30",
            "result: ok: accepted", "claim: ok: \"uid\", not yet verified, is a string",
        ] { #expect(run.lines.contains(line)) }
        #expect(!run.output.contains("MARKER"))
    }

    @Test func everyLineIsAStepWithItsOutcome() {
        for input in [token(), token(["exp": 5]), "", "opaque", "Authorization: Basic x", token(["azp": "other"])] {
            for line in explain(input).lines {
                #expect(line.wholeMatch(of: /[^:]+: (ok|failed|skipped): .+/) != nil, "\(line)")
            }
        }
    }

    @Test func valuesOfClaimsAreShownOnlyWhenAskedFor() {
        let run = explain(token(), "--show-claims")
        #expect(run.output.contains("\"uid\", not yet verified, is a string: \"user-MARKER\""))
        #expect(run.output.contains("end user: ok: from \"uid\", transform none: \"user-MARKER\""))
    }

    @Test func theSessionIsFoundWhereARequestWouldHaveIt() {
        let token = token()
        for (input, found) in [
            ("Authorization: Bearer \(token)\r\n", "found: ok: in the Authorization field"),
            ("authorization: bearer \(token)", "found: ok: in the Authorization field"),
            ("Bearer \(token)\n", "found: ok: in the Authorization field"),
            ("X-Session: \(token)", "found: ok: in the field x-session"),
            ("X-Other: 1\nX-Session: \(token)\n", "found: ok: in the field x-session"),
            ("\n  \(token)  \n", "found: ok: given by itself, taken as if it came in the Authorization field"),
        ] {
            let run = explain(input)
            #expect(run.code == .ok)
            #expect(run.lines.first == found)
        }
    }

    /// The first failing step, and the line of the configuration that decides it.
    @Test func aRefusalNamesItsStepAndItsLine() {
        let cases: [(input: String, step: String, place: String)] = [
            ("", "found", ":3: sessions.from"), ("Authorization: Basic abc", "scheme", ":3: sessions.from"),
            ("Authorization: Bearer \(token())\nAuthorization: Bearer \(token())", "found", ":3: sessions.from"),
            ("X-Unknown: abc", "found", ":3: sessions.from"), ("opaque", "format", ":4: sessions.verifiers"),
            (token(["iss": "https://other.example"]), "verifier", ":4: sessions.verifiers"),
            (token(header: ["alg": "RS256"]), "alg", ":9: sessions.verifiers[0].algorithms"),
            (token(header: ["alg": "HS256", "typ": "dpop+jwt"]), "typ", ":5: sessions.verifiers[0].types"),
            (token() + "AAAA", "signature", ":8: sessions.verifiers[0].hmac_secret_file"),
            (token(["aud": "other"]), "aud", ":7: sessions.verifiers[0].audience"),
            (token(["exp": 5]), "exp", ":5: sessions.verifiers[0].clock_skew_seconds"),
            (token(["nbf": 4_000_000_000]), "nbf", ":5: sessions.verifiers[0].clock_skew_seconds"),
            (token(["cnf": [:]]), "cnf", ":5: sessions.verifiers[0].allow_bound_tokens"),
            (token(["azp": "other"]), "required claim azp", ":10: sessions.verifiers[0].required_claims"),
            (token(["uid": .null]), "end user", ":11: end_user_id.from"),
            (token(["uid": "a@b.example"]), "end user", ":11: end_user_id.from"),
            (token(["plan": "free"]), "features", ":1: features"),
        ]
        for (input, step, place) in cases {
            let run = explain(input)
            #expect(run.code == .failed, "\(step)")
            #expect(run.lines.contains("result: failed: refused"))
            #expect(run.lines.contains { $0.hasPrefix("first failing step: failed: \(step): ") }, "\(step): \(run.output)")
            #expect(run.lines.last == "configuration: failed: \(path)\(place): decides this step", "\(step)")
        }
    }

    /// What the app sees is what a request with the same session would be answered.
    @Test func whatTheAppSeesIsSaid() {
        let cases: [(input: String, line: String)] = [
            (token(), "app sees: ok: 201 and the token, where January agrees"),
            ("", "app sees: failed: 401 invalid_session"), (token(["exp": 5]), "app sees: failed: 401 invalid_session"),
            (token(["uid": .null]), "app sees: failed: 403 no_end_user"),
            (token(["uid": "a@b.example"]), "app sees: failed: 403 invalid_end_user_id"),
            (token(["plan": "free"]), "app sees: failed: 403 no_features"),
        ]
        for (input, line) in cases { #expect(explain(input).lines.contains(line), "\(line)") }
    }

    /// Beside what failed stands what is configured; what the token holds is shown only where that is asked for.
    @Test func whatIsConfiguredIsShownBesideTheFailedCheck() {
        let cases: [(input: String, line: String)] = [
            (token(["aud": "MARKER"]), "aud: failed: does not hold what is configured: \"app\""),
            (
                token(["iss": "https://MARKER"]),
                "verifier: failed: no verifier is configured for this issuer; configured: \"https://i.example\""
            ),
            (token(header: ["alg": "HS512"]), "alg: failed: \"HS512\" is not one of HS256"),
            (token(["exp": 5]), "exp: failed: expired, 60.0 s of clock skew allowed"),
            (token(["azp": "MARKER"]), "required claim azp: failed: a string that is not one of \"web\""),
        ]
        for (input, line) in cases {
            let run = explain(input)
            #expect(run.lines.contains(line), "\(run.output)")
            #expect(!run.output.contains("MARKER"))
        }
    }

    @Test(arguments: ["ct-0123MARKER", "sk-0123MARKER", "Authorization: Bearer ct-0123MARKER", "X-Session: sk-0123MARKER"])
    func januarysOwnSecretsAreToldApartFromSessions(input: String) {
        let run = explain(input)
        #expect(run.code == .failed)
        #expect(
            run.lines.contains {
                $0.hasPrefix("first failing step: failed: format: starts with \(input.contains("ct-") ? "ct-" : "sk-"): ")
            })
        #expect(!run.output.contains("MARKER"))
    }

    @Test func nothingOfTheSessionIsShown() {
        let secret = "c2VjcmV0-MARKER"
        for input in [
            secret, "X-Session: \(secret)", "Bearer \(secret)", "Authorization: Basic \(secret)", "Cookie: app=\(secret)",
            "\(secret).\(secret).\(secret)", token(["sub": .string(secret)]), "X-Session \(secret)",
            "X-Session: \(secret)\n\(secret)",
        ] {
            let run = explain(input)
            #expect(!(run.output + run.errors).contains("MARKER"), "\(run.output)")
            for part in token(["sub": .string(secret)]).split(separator: ".") { #expect(!run.output.contains(part)) }
        }
    }

    @Test func whatATokenNamesCannotWriteLinesOfItsOwn() {
        let run = explain(token(["x\nresult: ok: accepted": 1, "exp": 5], header: ["alg": "HS256", "typ": "a\nresult: ok: b"]))
        #expect(run.code == .failed)
        #expect(!run.lines.contains { $0.hasPrefix("result: ok") })
    }

    @Test func moreThanASessionCanBeIsRefused() {
        for count in [16_385, 65_537] {
            let run = explain(String(repeating: "a", count: count))
            #expect(run.code == .failed)
            #expect(run.lines.first?.hasPrefix("found: failed: ") == true)
        }
    }

    /// Not knowing is not a refusal.
    @Test func akeySetThatCannotBeLoadedIsNoVerdict() throws {
        let path = try secrets.write(
            "remote.yaml",
            """
            january: { api_key_file: january_api_key }
            sessions:
              verifiers:
                - { type: jwt, issuer: "https://i.example", audience: app, algorithms: [ES256], jwks_url: "http://127.0.0.1:1/jwks" }
            features: [food_search]

            """)
        let run = Run(["explain", "--config", path], input: token(["sub": "u"], header: ["alg": "ES256", "kid": "k"]))
        #expect(run.code == .unknown)
        #expect(run.lines.contains("result: failed: could not find out"))
        #expect(run.lines.contains("app sees: failed: 503 session_backend_unavailable, and asks again later"))
        #expect(run.output.contains("cannot be loaded: refused\n"))
        #expect(run.lines.last == "configuration: failed: \(path):4: sessions.verifiers[0].jwks_url: decides this step")
    }
}
