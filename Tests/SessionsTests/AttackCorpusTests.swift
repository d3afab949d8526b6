import Foundation
import JOSE
import Primitives
import StrictJSON
import TestSupport
import Testing

@testable import Sessions

/// The shared classes of attacks on JWT verifiers, built into real tokens and sent through whole verifiers. Runs where the corpora and
/// their builder (Python with `cryptography`) are found.
@Suite(.serialized)
struct AttackCorpusTests {
    private static let issuer = "https://issuer.example"

    private static let isHere: @Sendable () async throws -> Bool = { try await onOwnThread { Corpora.canBuildTokens } }

    /// Tokens and keys.
    private static func build(in folder: TestFolder) async throws -> [JSONValue] {
        let path = folder.path
        try await onOwnThread { try Corpora.buildTokens(issuer: issuer, audience: "api", into: path) }
        let text = try String(contentsOfFile: path + "tokens.jsonl", encoding: .utf8)
        return text.split(separator: "\n").compactMap { line in
            // Python escapes everything beyond ASCII, lone surrogates included; those lines are read leniently, for the token only.
            if let value = try? JSONValue.parse(Array(line.utf8).span.bytes, limits: JSONLimits(bytes: 4_000_000)) {
                return value
            }
            guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] else { return nil }
            return .object(
                JSONObject(
                    object.compactMap { name, value in
                        (value as? String).map { JSONMember(name: name, value: .string($0)) }
                    }))
        }
    }

    private static func rig(_ trust: String, _ folder: TestFolder) async throws -> SessionRig? {
        let keys: [String: String] = [
            "hs": "hmac_secret_file: keys/hs.secret, algorithms: [HS256, HS384, HS512]",
            "rsa": "public_key_files: [keys/rsa.pub.pem], algorithms: [RS256, RS384, RS512, PS256, PS384, PS512]",
            "ec": "public_key_files: [keys/ec256.pub.pem]", "ec384": "public_key_files: [keys/ec384.pub.pem]",
            "ec521": "public_key_files: [keys/ec521.pub.pem]", "ed": "public_key_files: [keys/ed25519.pub.pem]",
            "jwks": "jwks_url: \"https://issuer.example/jwks.json\", algorithms: [RS256, PS256, ES256, EdDSA]",
            "jwks-dup": "jwks_url: \"https://issuer.example/jwks-dup.json\", algorithms: [RS256, PS256, ES256, EdDSA]",
        ]
        let source = try #require(keys[trust], "\(trust)")
        let read = ReadSessions(
            verifiers: ["{ type: jwt, issuer: \"\(issuer)\", audience: api, \(source) }"], folder: folder.path)
        #expect(read.problems == [])
        let wall = WallInstant(nanosecondsSinceEpoch: Int64(Date().timeIntervalSince1970 * 1e9))
        let rig = try SessionRig(read.config, time: TestTime(wall: wall))
        for name in ["jwks", "jwks-dup"] {
            let set = try String(contentsOfFile: "\(folder.path)keys/\(name).json", encoding: .utf8)
            rig.provider.set("https://issuer.example/\(name).json", .page(body: set))
        }
        await rig.start()
        return rig
    }

    @Test(.enabled("the shared corpora or Python's cryptography are not here", isHere))
    func everyClassIsAnsweredAsExpected() async throws {
        let folder = try TestFolder()
        let cases = try await Self.build(in: folder)
        #expect(cases.count > 100)
        var rigs: [String: SessionRig] = [:]
        var checked = 0
        for entry in cases {
            guard let object = entry.object, let token = object["token"]?.string, let trust = object["trust"]?.string else {
                continue
            }
            let id = object["id"]?.string ?? ""
            // Keys that are refused when they are loaded: there is no verifier to ask.
            if ["hs-short", "rsa1024"].contains(trust) { continue }
            if rigs[trust] == nil { rigs[trust] = try await Self.rig(trust, folder) }
            let outcome = try await #require(rigs[trust]).verify(token)
            checked += 1
            switch (object["expected"]?.string, outcome) {
            case ("accept", .accepted(.person)), ("reject", .refused), ("policy", .accepted), ("policy", .refused): break
            case ("reject", .accepted) where id.hasPrefix("sub-"):
                // The signature is good: the end-user mapping refuses such a subject, not the session.
                break
            default: Issue.record("\(id): expected \(object["expected"]?.string ?? ""), got \(outcome)")
            }
        }
        #expect(checked > 100)
    }

    @Test(.enabled("the shared corpora or Python's cryptography are not here", isHere))
    func weakKeysAreRefusedWithTheConfiguration() async throws {
        let folder = try TestFolder()
        _ = try await Self.build(in: folder)
        for source in [
            "hmac_secret_file: keys/hs-short.secret, algorithms: [HS256]",
            "public_key_files: [keys/rsa1024.pub.pem], algorithms: [RS256]",
        ] {
            let read = ReadSessions(verifiers: ["{ type: jwt, issuer: i, audience: a, \(source) }"], folder: folder.path)
            #expect(read.problems.count == 1, "\(read.problems)")
        }
    }
}
