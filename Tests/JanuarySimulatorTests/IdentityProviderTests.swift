import JOSE
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

@Suite(.serialized) struct IdentityProviderTests {
    private enum Verdict: Equatable {
        case accepted
        case unknownKeyID
        case badSignature
    }

    /// As a server would: fetches the key set and verifies with the product's own code.
    private static func verify(_ token: String, _ scenario: Scenario) throws -> Verdict {
        let document = try scenario.exchange(Scenario.request("GET", "/idp/jwks.json")).body
        let keys = try JWKSet.parse(Array(document.utf8).span.bytes, source: .url)
        #expect(keys.skipped.isEmpty)
        let jws = try CompactJWS.parse(token)
        let algorithm = try #require(jws.header.algorithm)
        switch keys.candidates(keyID: jws.header.keyID, algorithm: algorithm) {
        case .keys(let candidates):
            let verifier = SignatureVerifier()
            return candidates.contains { verifier.verify(jws, algorithm: algorithm, key: $0) } ? .accepted : .badSignature
        case .unknownKeyID, .none, .tooMany: return .unknownKeyID
        }
    }

    @Test(arguments: JWSAlgorithm.allCases.filter { !$0.isSymmetric })
    func aSessionVerifiesWithThePublishedKeyOfItsAlgorithm(algorithm: JWSAlgorithm) async throws {
        try await Scenario.run({ $0.algorithms = [] }) { scenario throws in
            let token = try scenario.simulator.session(SessionOrder(subject: "user-1", algorithm: algorithm))
            #expect(try Self.verify(token, scenario) == .accepted)
            let dot = try #require(token.lastIndex(of: "."))
            var signature = try #require(Base64URL.decode(String(token[token.index(after: dot)...])))
            signature[signature.count / 2] ^= 1
            #expect(try Self.verify(token[...dot] + Base64URL.encode(signature), scenario) == .badSignature)
        }
    }

    @Test func aRetiredKeyVerifiesItsSessionsUntilItIsWithdrawn() async throws {
        try await Scenario.run { scenario throws in
            let order = SessionOrder(subject: "user-1")
            let old = try scenario.simulator.session(order)
            let oldKey = try #require(try CompactJWS.parse(old).header.keyID)
            #expect(try Self.verify(old, scenario) == .accepted)
            let newKey = scenario.simulator.rotateKey(.es256)
            let new = try scenario.simulator.session(order)
            #expect(try CompactJWS.parse(new).header.keyID == newKey)
            #expect(try Self.verify(new, scenario) == .accepted)
            #expect(try Self.verify(old, scenario) == .accepted)
            #expect(scenario.simulator.setKeyStatus(.withdrawn, of: oldKey))
            #expect(try Self.verify(old, scenario) == .unknownKeyID)
            // An attacker's or forgotten key still signs on request.
            var withdrawn = order
            withdrawn.keyID = oldKey
            #expect(try Self.verify(try scenario.simulator.session(withdrawn), scenario) == .unknownKeyID)
            let upcoming = scenario.simulator.publishUpcomingKey(.es256)
            #expect(try CompactJWS.parse(try scenario.simulator.session(order)).header.keyID == newKey)
            #expect(scenario.simulator.setKeyStatus(.current, of: upcoming))
            #expect(try CompactJWS.parse(try scenario.simulator.session(order)).header.keyID == upcoming)
            #expect(!scenario.simulator.setKeyStatus(.current, of: "nobody"))
        }
    }

    @Test func theDiscoveryDocumentLeadsToTheKeys() async throws {
        try await Scenario.run { scenario throws in
            let path = "/idp/.well-known/openid-configuration"
            let document = try scenario.exchange(Scenario.request("GET", path)).json
            #expect(document["issuer"]?.string == scenario.simulator.origin + "/idp")
            // The request named this host.
            #expect(document["jwks_uri"] == "http://january.test/idp/jwks.json")
            #expect(document["id_token_signing_alg_values_supported"] == ["ES256"])
            _ = try scenario.control(
                "PATCH", "identity",
                #"{"issuer":"https://idp.example","discovery":{"jwks_uri":null,"token_endpoint":"x"},"cache_control":"max-age=60"}"#
            )
            let reply = try scenario.exchange(Scenario.request("GET", path))
            #expect(reply.json["issuer"] == "https://idp.example")
            #expect(reply.json["jwks_uri"] == nil)
            #expect(reply.json["token_endpoint"] == "x")
            #expect(reply.field("Cache-Control") == "max-age=60")
        }
    }

    @Test func theClaimsAreAsOrdered() async throws {
        try await Scenario.run { scenario throws in
            func claims(_ body: String) throws -> JSONObject {
                let token = try #require(try scenario.control("POST", "session", body).json["token"]?.string)
                return try JWTClaims.parse(try CompactJWS.parse(token).payload).object
            }
            let issuer = scenario.simulator.origin + "/idp"
            #expect(
                try claims(#"{"sub":"u","aud":"app"}"#) == [
                    "iss": .string(issuer), "sub": "u", "aud": "app", "iat": 1_795_996_800, "exp": 1_796_000_400,
                ])
            #expect(
                try claims(
                    #"""
                    {"sub":"u","aud":["a","b"],"iss":"https://x","expires_in":-5,"issued_ago":10,
                     "claims":{"role":["admin"],"iat":null,"sub":"v"}}
                    """#) == [
                        "iss": "https://x", "sub": "v", "aud": ["a", "b"], "exp": 1_795_996_795, "role": ["admin"],
                    ])
            #expect(try claims(#"{"expires_in":null}"#)["exp"] == nil)
            let several = try scenario.control("POST", "session", #"{"subs":["a","b"]}"#).json["tokens"]?.array ?? []
            #expect(
                try several.map { try JWTClaims.parse(try CompactJWS.parse($0.string ?? "").payload).subject } == [
                    "a", "b",
                ])
        }
    }

    @Test func aSharedSecretSignsAndIsNeverPublished() async throws {
        let secret = Secret("a shared secret of enough bytes for SHA-256 and more")
        try await Scenario.run({ $0.sharedSecret = secret }) { scenario throws in
            let token = try #require(
                try scenario.control("POST", "session", #"{"sub":"u","alg":"HS256","header":{"kid":"k"}}"#).json["token"]?.string)
            let jws = try CompactJWS.parse(token)
            #expect(jws.header.keyID == "k")
            let key = try VerificationKey.hmac(secret, algorithms: [.hs256], keyID: nil)
            #expect(SignatureVerifier().verify(jws, algorithm: .hs256, key: key))
            #expect(!(try scenario.exchange(Scenario.request("GET", "/idp/jwks.json")).body.contains("oct")))
        }
    }

    @Test func keysAreTurnedOverHTTP() async throws {
        try await Scenario.run { scenario throws in
            let first = scenario.simulator.snapshot().identity.keys.map(\.keyID)
            let rotated = try scenario.control("POST", "identity/rotate", #"{"alg":"ES256","old":"withdrawn"}"#)
            let keyID = try #require(rotated.json["kid"]?.string)
            #expect(
                try scenario.control("GET", "identity").json["keys"] == [
                    ["kid": .string(first[0]), "alg": "ES256", "status": "withdrawn"],
                    ["kid": .string(keyID), "alg": "ES256", "status": "current"],
                ])
            #expect(
                try scenario.control("POST", "identity/status", #"{"kid":"\#(first[0])","status":"retired"}"#).status == 200)
            #expect(try scenario.exchange(Scenario.request("GET", "/idp/jwks.json")).json["keys"]?.array?.count == 2)
            #expect(try scenario.control("POST", "identity/rotate", #"{"alg":"HS256"}"#).status == 400)
        }
    }
}
