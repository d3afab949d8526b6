import HTTPMessage
import JOSE
import Primitives
import StrictJSON
import Testing

@testable import Sessions

/// Choosing the verifier, its steps and what it says about a session; keys from files.
@Suite(.serialized)
struct JWTSessionVerifierTests {
    private static let secret = String(repeating: "k", count: 64)
    private static let hs = SigningKey.hmac(.hs256, secret: Secret(secret))
    private static let ec = SigningKey.generate(.es256, keyID: "e1")
    private static let ec2 = SigningKey.generate(.es256, keyID: "e2")
    private static let rsa = SigningKey.generate(.rs256, keyID: "r1")
    private static let ed = SigningKey.generate(.edDSA, keyID: "d1")

    private static func folder() throws -> TestFolder {
        let folder = try TestFolder()
        try folder.write("secret", secret + "\n")
        try folder.write("secret.hex", Hex.encode(secret.utf8) + "\n")
        try folder.write("secret.b64", Base64.encode(secret.utf8) + "\n")
        for (name, key) in [("ec.pem", ec), ("ec2.pem", ec2), ("rsa.pem", rsa), ("ed.pem", ed)] {
            try folder.write(name, try #require(key.publicPEM))
        }
        try folder.write("set.json", [ec, rsa, ed].keySet)
        return folder
    }

    private static func rig(_ verifiers: [String], endUserClaim: String? = nil) throws -> SessionRig {
        let folder = try folder()
        let read = ReadSessions(verifiers: verifiers, endUserClaim: endUserClaim, folder: folder.path)
        #expect(read.problems == [])
        return try SessionRig(read.config)
    }

    private static func verifier(_ keys: String, issuer: String = "https://issuer.example", audience: String = "api") -> String {
        "{ type: jwt, issuer: \"\(issuer)\", audience: \(audience), \(keys) }"
    }

    @Test(
        arguments: [
            ("hmac_secret_file: secret, algorithms: [HS256]", [hs]),
            ("hmac_secret_file: secret.hex, hmac_secret_encoding: hex, algorithms: [HS256]", [hs]),
            ("hmac_secret_file: secret.b64, hmac_secret_encoding: base64, algorithms: [HS256, HS512]", [hs]),
            ("public_key_files: [ec.pem]", [ec]), ("public_key_files: [ec2.pem, ec.pem, ed.pem]", [ec, ec2, ed]),
            ("public_key_files: [rsa.pem], algorithms: [RS256]", [rsa]), ("jwks_file: set.json", [ec, rsa, ed]),
        ] as [(String, [SigningKey])])
    func keysFromFilesVerify(keys: String, signers: [SigningKey]) async throws {
        let rig = try Self.rig([Self.verifier(keys)])
        for signer in [Self.hs, Self.ec, Self.ec2, Self.rsa, Self.ed] {
            let outcome = await rig.verify(signer.sign(claims: rig.claims()))
            let isKnown = signers.contains { $0.algorithm == signer.algorithm && $0.keyID == signer.keyID }
            if isKnown {
                #expect(outcome == .accepted(), "\(signer.algorithm)")
            } else if case .refused = outcome {
            } else {
                Issue.record("\(signer.algorithm) was not refused: \(outcome)")
            }
        }
    }

    @Test func anUnknownKeyOfAFileIsRefusedAtOnce() async throws {
        let rig = try Self.rig([Self.verifier("jwks_file: set.json")])
        #expect(await rig.verify(Self.ec2.sign(claims: rig.claims())) == .refused(.unknownKey))
    }

    @Test func theIssuerChoosesTheVerifierOnce() async throws {
        let rig = try Self.rig([
            Self.verifier("public_key_files: [ec.pem]", issuer: "https://a.example"),
            Self.verifier("public_key_files: [ec2.pem]", issuer: "https://b.example"),
            "{ type: jwt, name: any, allow_any_issuer: true, audience: api, hmac_secret_file: secret, algorithms: [HS256] }",
        ])
        let claims = { (issuer: String) in rig.claims(issuer: issuer) }
        #expect(await rig.verify(Self.ec.sign(claims: claims("https://a.example"))) == .accepted())
        #expect(await rig.verify(Self.ec2.sign(claims: claims("https://b.example"))) == .accepted())
        // A refusal is never tried elsewhere.
        #expect(await rig.verify(Self.ec.sign(claims: claims("https://b.example"))) == .refused(.signature))
        #expect(await rig.verify(Self.hs.sign(claims: claims("https://b.example"))) == .refused(.algorithm))
        #expect(await rig.verify(Self.hs.sign(claims: claims("https://c.example"))) == .accepted())
        #expect(await rig.verify(Self.hs.sign(claims: rig.claims(["iss": nil]))) == .accepted())
        #expect(rig.metric("sessions_total{verifier=\"any\",verdict=\"accepted\",reason=\"person\"}") == 2)
    }

    /// One text in two spellings (composed, decomposed) is equal for people and for `String`, and two issuers for RFC 7519.
    @Test func issuersAreComparedByTheirBytes() async throws {
        let (composed, decomposed) = ("https://caf\u{E9}.example", "https://cafe\u{301}.example")
        let one = try Self.rig([Self.verifier("public_key_files: [ec.pem]", issuer: composed)])
        #expect(await one.verify(Self.ec.sign(claims: one.claims(issuer: composed))) == .accepted())
        #expect(await one.verify(Self.ec.sign(claims: one.claims(issuer: decomposed))) == .refused(.noVerifierForIssuer))
        let both = try Self.rig([
            Self.verifier("public_key_files: [ec.pem]", issuer: composed),
            Self.verifier("public_key_files: [ec2.pem]", issuer: decomposed),
        ])
        #expect(await both.verify(Self.ec.sign(claims: both.claims(issuer: composed))) == .accepted())
        #expect(await both.verify(Self.ec2.sign(claims: both.claims(issuer: decomposed))) == .accepted())
        #expect(await both.verify(Self.ec.sign(claims: both.claims(issuer: decomposed))) == .refused(.signature))
    }

    @Test func withoutAVerifierForTheIssuerATokenIsRefused() async throws {
        let rig = try Self.rig([Self.verifier("public_key_files: [ec.pem]")])
        #expect(
            await rig.verify(Self.ec.sign(claims: rig.claims(issuer: "https://other.example"))) == .refused(.noVerifierForIssuer))
        #expect(await rig.verify(Self.ec.sign(claims: rig.claims(["iss": nil]))) == .refused(.noVerifierForIssuer))
        #expect(await rig.verify(Self.ec.sign(claims: rig.claims(["iss": 1]))) == .refused(.claims))
        #expect(rig.metric("sessions_total{verifier=\"none\",verdict=\"refused\",reason=\"no_verifier_for_issuer\"}") == 2)
    }

    @Test(arguments: ["", "abc", "a.b", "a.b.c.d", "e30.e30.", "e30.e30.AAAA", "W10.e30.AAAA", "{}.{}.{}"])
    func whatIsNoJWTIsRefused(token: String) async throws {
        let rig = try Self.rig([Self.verifier("public_key_files: [ec.pem]")])
        #expect(await rig.verify(token) == .refused(.notAJWT))
    }

    @Test func verifiersOfOneIssuerDifferByAudience() async throws {
        let rig = try Self.rig([
            Self.verifier("public_key_files: [ec.pem]", audience: "web"),
            Self.verifier("public_key_files: [ec2.pem]", audience: "app"),
            "{ type: jwt, name: both, issuer: \"https://issuer.example\", audience: [app, tv], public_key_files: [ec.pem] }",
        ])
        #expect(await rig.verify(Self.ec.sign(claims: rig.claims(audience: "web"))) == .accepted())
        #expect(await rig.verify(Self.ec2.sign(claims: rig.claims(audience: "app"))) == .accepted())
        #expect(await rig.verify(Self.ec.sign(claims: rig.claims(audience: "app"))) == .accepted())
        #expect(await rig.verify(Self.ec2.sign(claims: rig.claims(audience: "web"))) == .refused(.signature))
        #expect(await rig.verify(Self.ec2.sign(claims: rig.claims(audience: "tv"))) == .refused(.signature))
        #expect(await rig.verify(Self.ec.sign(claims: rig.claims(audience: "none"))) == .refused(.audience))
        #expect(rig.metric("sessions_total{verifier=\"both\",verdict=\"accepted\",reason=\"person\"}") == 1)
    }

    @Test func requiredClaimsAreChecked() async throws {
        let rig = try Self.rig([Self.verifier("public_key_files: [ec.pem], required_claims: { azp: [web], level: 2 }")])
        let verify = { (changes: [String: JSONValue?]) in await rig.verify(Self.ec.sign(claims: rig.claims(changes))) }
        #expect(await verify(["azp": "web", "level": 2]) == .accepted())
        #expect(await verify(["azp": "web", "level": "2"]) == .refused(.requiredClaim))
        #expect(await verify(["azp": "web"]) == .refused(.requiredClaim))
        #expect(SessionRefusal.requiredClaim.description == "audience")
    }

    @Test func aSubjectIsNeededUnlessAnotherClaimNamesTheEndUser() async throws {
        let verifier = Self.verifier("public_key_files: [ec.pem]")
        let strict = try Self.rig([verifier])
        #expect(await strict.verify(Self.ec.sign(claims: strict.claims(["sub": nil]))) == .refused(.missingSubject))
        let other = try Self.rig([verifier], endUserClaim: "uid")
        #expect(await other.verify(Self.ec.sign(claims: other.claims(["sub": nil]))) == .accepted())
        #expect(await other.verify(Self.ec.sign(claims: other.claims(["sub": ""]))) == .refused(.claims))
    }

    @Test func aSessionSaysWhatTheTokenSays() async throws {
        let rig = try Self.rig([Self.verifier("public_key_files: [ec.pem], namespace: acme")])
        let exp = rig.time.wall().secondsSinceEpoch + 300
        let session = { (changes: [String: JSONValue?]) async -> VerifiedSession? in
            await rig.session(Self.ec.sign(claims: rig.claims(changes)))
        }
        let plain = try #require(await session([:]))
        #expect(plain.verifierName == "jwt")
        #expect(plain.namespace == "acme")
        #expect(plain.subject == "user-1")
        #expect(plain.sessionID == nil)
        #expect(plain.expiresAt == WallInstant(secondsSinceEpoch: exp))
        #expect(plain.startedAt == Double(exp - 305))
        #expect(plain.endUserClaim == nil)
        #expect(await session(["auth_time": 7.5])?.startedAt == 7.5)
        // There is a beginning that cannot be read: the `iat` of a refreshed token does not stand in for it.
        for unreadable in ["7", true, .null, [7], [:]] as [JSONValue] {
            let session = try #require(await session(["auth_time": unreadable]))
            #expect(session.startedAt == nil)
        }
        #expect(await session(["sid": "s", "session_id": "t"])?.sessionID == "s")
        #expect(await session(["session_id": "t", "origin_jti": "o"])?.sessionID == "t")
        #expect(await session(["origin_jti": "o"])?.sessionID == "o")
        #expect(await session(["sid": "", "origin_jti": "o"])?.sessionID == "o")
        #expect(await session(["exp": 1e300])?.expiresAt == WallInstant(nanosecondsSinceEpoch: .max))
    }

    @Test func everyStepIsTraced() async throws {
        let rig = try Self.rig([Self.verifier("public_key_files: [ec.pem], required_claims: { azp: [web] }")])
        let good = await rig.verifying(Self.ec.sign(claims: rig.claims(["azp": "web"])))
        _ = await good.value
        #expect(
            good.trace == [
                "format: ok: a JWT", "verifier: ok: jwt (sessions.verifiers[0])", "crit: ok: no critical extension",
                "alg: ok: ES256",
                "typ: ok: \"JWT\"", "kid: ok: \"e1\": 1 of the keys in public_key_files", "signature: ok: ES256, made by the key",
                "iss: ok: as configured", "aud: ok: as configured", "exp: ok: not expired", "nbf: skipped: there is no nbf",
                "lifetime: skipped: no longest lifetime is configured", "sub: ok: a non-empty string",
                "cnf: skipped: the token is not bound to a key", "required claim azp: ok: a string",
                "person: skipped: the verifier has no such rule",
            ])
        let bad = await rig.verifying(Self.ec2.sign(claims: rig.claims()))
        _ = await bad.value
        #expect(bad.trace.last == "signature: failed: not made by any of the keys")
        // Values only where they are asked for.
        let shown = await rig.verifying(Self.ec.sign(claims: rig.claims(["azp": "web"])), showsClaims: true)
        _ = await shown.value
        #expect(shown.trace.contains("required claim azp: ok: a string (\"web\")"))
        #expect(!good.trace.joined().contains("user-1"))
        #expect(shown.trace.joined().contains("user-1"))
    }

    @Test func theCredentialOfARequestIsFoundAndItsAbsenceCounted() async throws {
        let rig = try Self.rig([Self.verifier("public_key_files: [ec.pem]")])
        let reason = await rig.reasonWithoutCredential()
        #expect(reason == .noSession)
        #expect(rig.metric("sessions_total{verifier=\"none\",verdict=\"refused\",reason=\"no_session\"}") == 1)
    }

    @Test func everyReasonHasACoarseWord() {
        let words: Set<String> = [
            "expired", "not yet valid", "signature", "issuer", "audience", "malformed", "unknown key", "inactive",
        ]
        let refusals: [JWTRefusal] = [
            .format(.notThreeParts), .claims(.notObject), .criticalHeader, .algorithmNotAllowed, .typeNotAllowed, .unknownKeyID,
            .noFittingKey, .ambiguousKey, .signature, .issuer, .audience, .missingExpiration, .expired, .notYetValid,
            .lifetimeTooLong,
            .missingSubject, .boundToken,
        ]
        for refusal in refusals { #expect(words.contains(SessionRefusal(refusal).description ?? "")) }
        for refusal in [SessionRefusal.notAJWT, .noVerifierForIssuer, .requiredClaim, .credentialTooLarge, .ambiguousCredential] {
            #expect(words.contains(refusal.description ?? ""))
        }
        #expect(SessionUnavailable(.keysUnavailable, retryAfter: .milliseconds(1001)).retryAfter == 2)
        #expect(SessionUnavailable(.keysUnavailable, retryAfter: .zero).retryAfter == 1)
    }
}
