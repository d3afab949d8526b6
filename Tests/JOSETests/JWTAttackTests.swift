import Foundation
import JOSE
import Primitives
import StrictJSON
import TestSupport
import Testing

/// Attack classes from the shared corpora, built into real tokens by their Python builder. Runs where the corpora and Python with the
/// package `cryptography` are found.
@Suite struct JWTAttackTests {
    static let issuer = "https://issuer.example"
    static let audience = "my-api"

    @Test(
        .enabled("the shared corpora or Python's cryptography are not here") {
            try await onOwnThread { Corpora.canBuildTokens }
        })
    func everyAttackIsRefusedAndEveryControlAccepted() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "jwt-attacks-\(ProcessInfo.processInfo.globallyUniqueString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.path
        try await onOwnThread { try Corpora.buildTokens(issuer: Self.issuer, audience: Self.audience, into: path) }
        let verifier = SignatureVerifier()
        let now = WallInstant(secondsSinceEpoch: Int64(Date().timeIntervalSince1970))
        var judged = 0
        for line in try [UInt8](Data(contentsOf: folder.appendingPathComponent("tokens.jsonl"))).split(
            separator: UInt8(ascii: "\n"))
        {
            let row = try #require(try JOSECorpusTests.parse(Array(line)).object)
            // Rows about the transport or about rules for end-user IDs are for other tests.
            guard let token = row["token"]?.string, let trust = row["trust"]?.string, let expected = row["expected"]?.string
            else { continue }
            let id = row["id"]?.string ?? "?"
            if expected == "policy" || ["sub-type-6", "sub-ctl-nul", "sub-ctl-esc", "sub-ctl-del"].contains(id) { continue }
            let outcome = try check(
                token, trust: trust, keys: folder.appendingPathComponent("keys"), now: now, verifier: verifier)
            #expect((outcome == "accepted") == (expected == "accept"), "\(id): \(outcome)")
            judged += 1
        }
        #expect(judged > 90)
    }

    /// The verdict of a server that trusts `trust`, as the sessions would reach it.
    private func check(_ token: String, trust: String, keys: URL, now: WallInstant, verifier: SignatureVerifier) throws -> String
    {
        var algorithms = Set(JWSAlgorithm.allCases.filter { !$0.isSymmetric })
        let set: JWKSet
        do {
            func file(_ name: String) throws -> [UInt8] { try [UInt8](Data(contentsOf: keys.appendingPathComponent(name))) }
            switch trust {
            case "hs", "hs-short":
                algorithms = [.hs256, .hs384, .hs512]
                set = JWKSet(keys: [try .hmac(Secret(file("\(trust).secret")), algorithms: algorithms)])
            case "jwks", "jwks-dup": set = try JWKSet.parse(file("\(trust).json"), source: .url)
            default:
                let names = [
                    "rsa": "rsa", "rsa1024": "rsa1024", "ec": "ec256", "ec384": "ec384", "ec521": "ec521", "ed": "ed25519",
                ]
                set = JWKSet(keys: [try .pem(file("\(try #require(names[trust])).pub.pem"))])
            }
        } catch let error as KeyError { return "configuration refused: \(error.reason)" }
        let rules = JWTRules(issuers: [Self.issuer], audience: [Self.audience], algorithms: algorithms)
        do {
            let jws = try CompactJWS.parse(token)
            let algorithm = try rules.check(jws.header)
            guard
                case .keys(let candidates) = set.candidates(
                    // Keys from PEM files and secrets have no ID.
                    keyID: trust.hasPrefix("jwks") ? jws.header.keyID : nil, algorithm: algorithm)
            else {
                return "no key"
            }
            guard verifier.verify(jws, algorithm: algorithm, keys: candidates) != nil else { return "signature" }
            try rules.check(try JWTClaims.parse(jws.payload), now: now)
            return "accepted"
        } catch { return "\(error)" }
    }
}
