import Foundation
import JOSE
import Primitives
import StrictJSON
import TestSupport
import Testing

/// Vectors of others (Wycheproof, RFC 7520 and more) from the shared corpora. Runs where the folder is found.
@Suite struct JOSECorpusTests {
    static func read(_ path: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: #require(Corpora.folder).appendingPathComponent(path)))
    }

    static func parse(_ bytes: [UInt8]) throws -> JSONValue {
        try JSONValue.parse(bytes, limits: JSONLimits(bytes: 64_000_000, depth: 64))
    }

    /// The whole way of a token without its claims: parse, header, choice of the key, signature.
    func verifies(_ token: String, keys: [JSONValue], verifier: SignatureVerifier) throws -> Bool {
        let set = try JWKSet.parse(JSONValue.object(["keys": .array(keys)]).encoded(), source: .file)
        guard let jws = try? CompactJWS.parse(token), !jws.header.hasCritical, !jws.header.changesPayload,
            let algorithm = jws.header.algorithm,
            case .keys(let candidates) = set.candidates(keyID: jws.header.keyID, algorithm: algorithm)
        else { return false }
        return verifier.verify(jws, algorithm: algorithm, keys: candidates) != nil
    }

    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"))
    func everyTokenOfTheSharedCasesIsJudgedRight() throws {
        let verifier = SignatureVerifier()
        var judged = 0
        for line in try Self.read("jose-jws-cases.jsonl").split(separator: UInt8(ascii: "\n")) {
            let row = try #require(try Self.parse(Array(line)).object)
            let keys = row["jwk"].map { [$0] } ?? row["jwks"]?.object?["keys"]?.array ?? []
            // Some rows hold the JSON serialization: an object where a string is expected.
            let token = row["jws"]?.string ?? String(decoding: row["jws"]?.encoded() ?? [], as: UTF8.self)
            let expected = (row["strict_result"] ?? row["result"])?.string
            let verdict = try verifies(token, keys: keys, verifier: verifier)
            #expect(verdict == (expected == "valid"), "\(row["id"]?.string ?? "?") \(row["note"]?.string ?? "")")
            judged += 1
        }
        #expect(judged > 200)
    }

    /// What the README of the corpora says about rows whose listed result is not the strict one.
    static let strictJWS: [Int64: Bool] = [
        367: true, 370: true, 372: false, 373: false, 346: false, 347: false, 350: false, 351: false,
    ]

    @Test(
        .enabled(if: Corpora.isHere, "the shared corpora are not here"),
        arguments: ["json_web_signature_test.json", "json_web_key_test.json", "json_web_crypto_test.json"])
    func everyWycheproofTokenIsJudgedRight(file: String) throws {
        let verifier = SignatureVerifier()
        var judged = 0
        for group in try groups(file) {
            // The public part where there is one; a secret is its own verification key.
            let key = try #require(group["public"] ?? group["private"])
            var keys = key.object?["keys"]?.array ?? [key]
            keys = keys.map { withoutPrivateMembers($0) }
            // The rows with `jwe` are those of `everyWycheproofJWEIsRefused`.
            for test in (group["tests"]?.array ?? []).compactMap(\.object) where test["jwe"] == nil {
                let id = try #require(test["tcId"]?.number?.integer)
                let jws = try #require(test["jws"])
                var expected = test["result"] == "valid"
                if file.contains("signature"), let strict = Self.strictJWS[id] { expected = strict }
                // One row holds the JSON serialization: an object where a string is expected.
                let token = jws.string ?? String(decoding: jws.encoded(), as: UTF8.self)
                let verdict = try verifies(token, keys: keys, verifier: verifier)
                #expect(verdict == expected, "\(file) \(id) \(test["comment"]?.string ?? "")")
                judged += 1
            }
        }
        #expect(judged > 20)
    }

    func withoutPrivateMembers(_ value: JSONValue) -> JSONValue {
        guard case .object(var jwk) = value, jwk["kty"] != "oct" else { return value }
        for name in ["d", "p", "q", "dp", "dq", "qi"] { jwk[name] = nil }
        return .object(jwk)
    }

    func groups(_ file: String) throws -> [JSONObject] {
        let document = try Self.parse(try Self.read("jose/wycheproof/\(file)"))
        return (document.object?["testGroups"]?.array ?? []).compactMap(\.object)
    }

    static let signatureFiles: [(String, JWSAlgorithm)] = [
        ("ecdsa_secp256r1_sha256_p1363_test.json", .es256), ("ed25519_test.json", .edDSA),
        ("rsa_signature_2048_sha256_test.json", .rs256),
        ("rsa_signature_4096_sha512_test.json", .rs512), ("rsa_pss_2048_sha256_mgf1_32_test.json", .ps256),
        ("rsa_pss_4096_sha384_mgf1_48_test.json", .ps384),
    ]

    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"), arguments: signatureFiles)
    func everyWycheproofSignatureIsJudgedRight(file: String, algorithm: JWSAlgorithm) throws {
        let verifier = SignatureVerifier()
        var judged = 0
        for group in try groups(file) {
            let key = try VerificationKey.pem(Array(try #require(group["publicKeyPem"]?.string).utf8))
            for test in (group["tests"]?.array ?? []).compactMap(\.object) {
                let message = try hex(test["msg"])
                let verdict = verifier.verify(try hex(test["sig"]), over: message, algorithm: algorithm, key: key)
                // "acceptable": a DigestInfo without NULL, which RFC 8017 allows verifiers to refuse.
                #expect(
                    verdict == (test["result"] == "valid"),
                    "\(file) \(test["tcId"]?.number?.text ?? "") \(test["comment"]?.string ?? "")")
                judged += 1
            }
        }
        #expect(judged > 90)
    }

    /// The salt is as long as the hash (RFC 7518 section 3.5): signatures with another salt are good PSS, but not PS256.
    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"))
    func noPSSSignatureWithAnotherSaltVerifies() throws {
        let verifier = SignatureVerifier()
        for group in try groups("rsa_pss_2048_sha256_mgf1_0_test.json") {
            let key = try VerificationKey.pem(Array(try #require(group["publicKeyPem"]?.string).utf8))
            for test in (group["tests"]?.array ?? []).compactMap(\.object) {
                let verdict = verifier.verify(try hex(test["sig"]), over: try hex(test["msg"]), algorithm: .ps256, key: key)
                // The file expects no salt at all; the one with 32 octets is what PS256 wants.
                #expect(verdict == (test["comment"] == "s_len changed to 32"), "\(test["tcId"]?.number?.text ?? "")")
            }
        }
    }

    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"))
    func everyWycheproofMACIsJudgedRight() throws {
        let verifier = SignatureVerifier()
        var judged = 0
        for group in try groups("hmac_sha256_test.json") {
            for test in (group["tests"]?.array ?? []).compactMap(\.object) {
                let secret = Secret(try hex(test["key"]))
                let input = try hex(test["msg"])
                let tag = try hex(test["tag"])
                guard secret.byteCount >= 32 else {
                    #expect(throws: KeyError.secretTooShort(bytes: secret.byteCount, needed: 32)) {
                        try VerificationKey.hmac(secret, algorithms: [.hs256])
                    }
                    continue
                }
                let key = try VerificationKey.hmac(secret, algorithms: [.hs256])
                // Cut tags are valid MACs there, but no JWS signatures (RFC 7518 section 3.2).
                let expected = test["result"] == "valid" && tag.count == 32
                #expect(
                    verifier.verify(tag, over: input, algorithm: .hs256, key: key) == expected,
                    "\(test["tcId"]?.number?.text ?? "")")
                judged += 1
            }
        }
        #expect(judged > 80)
    }

    /// Curves we do not support never become keys.
    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"))
    func keysOnOtherCurvesAreRefused() throws {
        for group in try groups("ecdsa_secp256k1_sha256_p1363_test.json") {
            let pem = Array(try #require(group["publicKeyPem"]?.string).utf8)
            #expect(throws: KeyError.unsupportedCurve) { try VerificationKey.pem(pem) }
        }
    }

    func hex(_ value: JSONValue?) throws -> [UInt8] {
        let text = try #require(value?.string)
        return try #require(Hex.decode(Array(text.utf8)))
    }
}
