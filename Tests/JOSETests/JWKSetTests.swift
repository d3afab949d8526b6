import JOSE
import Primitives
import StrictJSON
import TestSupport
import Testing

/// RFC 7517, RFC 7518 section 6, RFC 8037 section 2.
@Suite struct JWKSetTests {
    private static func parse(_ keys: [JSONValue], source: JWKSet.Source = .url) throws(JWKSetError) -> JWKSet {
        try JWKSet.parse(JSONValue.object(["keys": .array(keys)]).encoded(), source: source)
    }

    private static func jwk(_ algorithm: JWSAlgorithm, _ change: JSONObject = [:]) -> JSONValue {
        var jwk = Keys.all[algorithm]?.publicJWK ?? [:]
        for member in change.members { jwk[member.name] = member.value.isNull ? nil : member.value }
        return .object(jwk)
    }

    // MARK: Entries

    @Test(arguments: JWSAlgorithm.allCases.filter { !$0.isSymmetric })
    func publicKeysOfEveryKindAreRead(algorithm: JWSAlgorithm) throws {
        let set = try Self.parse([Self.jwk(algorithm), Self.jwk(algorithm, ["alg": .null, "use": .null, "kid": .null])])
        #expect(set.skipped == [])
        #expect(set.keys.map(\.algorithm) == [algorithm, nil])
        #expect(set.keys.map(\.keyID) == ["key-\(algorithm.rawValue)", nil])
        #expect(set.keys.allSatisfy { $0.fits(algorithm) })
    }

    private static func modulus(bits: Int, low: UInt8 = 0x01) -> JSONValue {
        // A number of the wanted size that no generator made: good enough to be judged by its size.
        var random = SeededRandom(seed: UInt64(bits))
        var bytes = (0..<(bits + 7) / 8).map { _ in UInt8.random(in: 0...255, using: &random) }
        bytes[0] = bits % 8 == 0 ? bytes[0] | 0x80 : UInt8(1 << (bits % 8 - 1))
        bytes[bytes.count - 1] = bytes[bytes.count - 1] & 0xFE | low
        return .string(Base64URL.encode(bytes))
    }

    /// 65537^128: a power of 65537 modulo every prime, which is what the broken generator's moduli are (CVE-2017-15361).
    private static var powerOf65537: JSONValue {
        var number: [UInt8] = [1]  // little-endian
        for _ in 0..<128 {
            var product: [UInt8] = []
            var carry = 0
            for index in 0..<(number.count + 2) {
                carry += (index < number.count ? Int(number[index]) : 0) + (index >= 2 ? Int(number[index - 2]) : 0)
                product.append(UInt8(carry & 0xFF))
                carry >>= 8
            }
            if carry > 0 { product.append(UInt8(carry)) }
            number = product
        }
        return .string(Base64URL.encode(number.reversed()))
    }

    static let entries: [(JSONValue, JWKSet.SkipReason?)] = [
        (jwk(.rs256, ["n": powerOf65537]), .key(.weakModulus)),
        ("x", .notObject), (.null, .notObject), ([:], .invalidMember("kty")), (["kty": 1], .invalidMember("kty")),
        (["kty": "AKP", "kid": "x"], .unsupportedType), (["kty": "rsa"], .unsupportedType),
        // use and key_ops
        (jwk(.rs256, ["use": "enc"]), .unsupportedUse), (jwk(.rs256, ["use": "SIG"]), .unsupportedUse),
        (jwk(.rs256, ["use": 1]), .invalidMember("use")),
        (jwk(.rs256, ["key_ops": ["encrypt"]]), .unsupportedUse), (jwk(.rs256, ["key_ops": []]), .unsupportedUse),
        (jwk(.rs256, ["key_ops": ["verify", "encrypt"]]), nil), (jwk(.rs256, ["key_ops": "verify"]), .invalidMember("key_ops")),
        (jwk(.rs256, ["key_ops": ["verify", 1]]), .invalidMember("key_ops")),
        (jwk(.rs256, ["key_ops": ["sign"]]), .unsupportedUse),
        (jwk(.rs256, ["use": "enc", "key_ops": ["verify"]]), .unsupportedUse),
        // kid and alg
        (jwk(.rs256, ["kid": 1]), .invalidMember("kid")), (jwk(.rs256, ["alg": 1]), .invalidMember("alg")),
        (jwk(.rs256, ["alg": "RSA-OAEP"]), .unsupportedAlgorithm), (jwk(.rs256, ["alg": "none"]), .unsupportedAlgorithm),
        (jwk(.rs256, ["alg": "ES256"]), .key(.algorithmMismatch)), (jwk(.rs256, ["alg": "HS256"]), .key(.algorithmMismatch)),
        (jwk(.rs256, ["alg": "PS512"]), nil), (jwk(.es256, ["alg": "ES384"]), .key(.algorithmMismatch)),
        (jwk(.es512, ["alg": "ES521"]), .unsupportedAlgorithm),
        (jwk(.edDSA, ["alg": "ES256"]), .key(.algorithmMismatch)),
        // private members, also empty ones
        (jwk(.rs256, ["d": "AQAB"]), .privateKey), (jwk(.rs256, ["p": "AQAB"]), .privateKey),
        (jwk(.es256, ["d": ""]), .privateKey),
        (jwk(.edDSA, ["d": "AA"]), .privateKey), (jwk(.rs256, ["oth": []]), .privateKey),
        // RSA numbers
        (jwk(.rs256, ["n": .null]), .invalidMember("n")), (jwk(.rs256, ["e": .null]), .invalidMember("e")),
        (jwk(.rs256, ["n": "A"]), .invalidMember("n")),
        (jwk(.rs256, ["n": ""]), .key(.rsaTooSmall(bits: 0))), (jwk(.rs256, ["e": ""]), .key(.weakExponent)),
        (jwk(.rs256, ["e": "AQ"]), .key(.weakExponent)), (jwk(.rs256, ["e": "AA"]), .key(.weakExponent)),
        (jwk(.rs256, ["e": "Ag"]), .key(.weakExponent)),
        (jwk(.rs256, ["e": "AQAA"]), .key(.weakExponent)), (jwk(.rs256, ["e": "Aw"]), nil),
        (jwk(.rs256, ["e": "AQAB="]), .invalidMember("e")),
        (jwk(.rs256, ["e": "AAEAAQ"]), nil), (jwk(.rs256, ["e": "__________8"]), nil),
        (jwk(.rs256, ["e": "AQAAAAAAAAAB"]), .key(.weakExponent)),
        (jwk(.rs256, ["n": modulus(bits: 1024)]), .key(.rsaTooSmall(bits: 1024))),
        (jwk(.rs256, ["n": modulus(bits: 2047)]), .key(.rsaTooSmall(bits: 2047))),
        (jwk(.rs256, ["n": modulus(bits: 2048)]), nil), (jwk(.rs256, ["n": modulus(bits: 8192)]), nil),
        (jwk(.rs256, ["n": modulus(bits: 8193)]), .key(.rsaTooLarge(bits: 8193))),
        (jwk(.rs256, ["n": modulus(bits: 65_536)]), .key(.rsaTooLarge(bits: 65_536))),
        (jwk(.rs256, ["n": modulus(bits: 2048, low: 0)]), .key(.weakModulus)),
        // points
        (jwk(.es256, ["crv": "P-384"]), .invalidMember("x")), (jwk(.es256, ["crv": "secp256k1"]), .unsupportedCurve),
        (jwk(.es256, ["crv": .null]), .invalidMember("crv")),
        (jwk(.es256, ["y": .null]), .invalidMember("y")), (jwk(.es256, ["x": "AAAA"]), .invalidMember("x")),
        (
            jwk(
                .es256,
                [
                    "x": .string(Base64URL.encode([UInt8](repeating: 0, count: 32))),
                    "y": .string(Base64URL.encode([UInt8](repeating: 0, count: 32))),
                ]), .key(.notOnCurve)
        ),
        (jwk(.es256, ["x": .string(Base64URL.encode([UInt8](repeating: 0xFF, count: 32)))]), .key(.notOnCurve)),
        (jwk(.es256, ["x": .string(Base64URL.encode([UInt8](repeating: 1, count: 31)))]), .invalidMember("x")),
        (jwk(.es256, ["x": .string(Base64URL.encode([UInt8](repeating: 1, count: 33)))]), .invalidMember("x")),
        (jwk(.edDSA, ["crv": "Ed448"]), .unsupportedCurve), (jwk(.edDSA, ["crv": "X25519"]), .unsupportedCurve),
        (jwk(.edDSA, ["x": .string(Base64URL.encode([UInt8](repeating: 1, count: 31)))]), .invalidMember("x")),
        (jwk(.edDSA, ["x": .string(Base64URL.encode([UInt8](repeating: 0, count: 32)))]), .key(.notOnCurve)),
        (jwk(.edDSA, ["x": .string(Base64URL.encode([1] + [UInt8](repeating: 0, count: 30) + [0x80]))]), .key(.notOnCurve)),
        // secrets
        (jwk(.hs256), .publishedSecret), (["kty": "oct", "k": "AA"], .publishedSecret),
        // unknown members change nothing
        (jwk(.es256, ["x5c": ["MII"], "x5t": 1, "x5u": "https://x", "ext": true]), nil),
    ]

    @Test(arguments: entries)
    func entriesAreReadOrSkippedWithTheirReason(entry: JSONValue, expected: JWKSet.SkipReason?) throws {
        let good = Self.jwk(.es384)
        let set = try Self.parse([entry, good])
        #expect(set.skipped.map(\.reason) == (expected.map { [$0] } ?? []))
        #expect(set.skipped.map(\.index) == (expected == nil ? [] : [0]))
        // A bad neighbour never costs a good key.
        #expect(set.keys.last?.kind == .ec(.p384))
        #expect(set.keys.count == (expected == nil ? 2 : 1))
    }

    @Test(
        arguments: [
            ("AA", nil, .key(.secretTooShort(bytes: 1, needed: 32))), ("", nil, .key(.secretTooShort(bytes: 0, needed: 32))),
            ("A", nil, .invalidMember("k")),
            (Base64URL.encode([UInt8](repeating: 1, count: 31)), nil, .key(.secretTooShort(bytes: 31, needed: 32))),
            (Base64URL.encode([UInt8](repeating: 1, count: 47)), "HS384", .key(.secretTooShort(bytes: 47, needed: 48))),
            (Base64URL.encode([UInt8](repeating: 1, count: 64)), "A256GCM", .unsupportedAlgorithm),
            (Base64URL.encode([UInt8](repeating: 1, count: 64)), "RS256", .key(.algorithmMismatch)),
        ] as [(String, String?, JWKSet.SkipReason)])
    func weakSecretsAreSkipped(secret: String, algorithm: String?, reason: JWKSet.SkipReason) throws {
        var jwk: JSONObject = ["kty": "oct", "k": .string(secret)]
        jwk["alg"] = algorithm.map(JSONValue.string)
        #expect(try Self.parse([.object(jwk)], source: .file).skipped.map(\.reason) == [reason])
    }

    @Test(arguments: [(32, [JWSAlgorithm.hs256]), (47, [.hs256]), (48, [.hs256, .hs384]), (64, [.hs256, .hs384, .hs512])])
    func secretsOfAFileFitWhatTheyAreLongEnoughFor(count: Int, algorithms: [JWSAlgorithm]) throws {
        let jwk: JSONValue = ["kty": "oct", "k": .string(Base64URL.encode([UInt8](repeating: 1, count: count)))]
        let key = try #require(try Self.parse([jwk], source: .file).keys.first)
        #expect(JWSAlgorithm.allCases.filter(key.fits) == algorithms)
    }

    @Test func secretsAmongPublicKeysAreSkipped() throws {
        let set = try Self.parse([Self.jwk(.hs256), Self.jwk(.es256)], source: .file)
        #expect(set.skipped.map(\.reason) == [.secretAmongPublicKeys])
        #expect(set.keys.map(\.kind) == [.ec(.p256)])
    }

    // MARK: Sets

    static let refused: [(String, JWKSetError)] = [
        ("", .notJSON(.unexpectedEnd)), ("<html>", .notJSON(.syntax)), ("[]", .notObject), ("{}", .missingKeys),
        (#"{"keys":{}}"#, .missingKeys),
        (#"{"keys":null}"#, .missingKeys), (#"{"keys":[],"keys":[]}"#, .notJSON(.duplicateName)),
        (#"{"keys":[{"kty":"RSA","kty":"EC"}]}"#, .notJSON(.duplicateName)), (#"{"keys":[]} x"#, .notJSON(.trailingBytes)),
    ]

    @Test(arguments: refused)
    func whatIsNoSetIsRefused(text: String, error: JWKSetError) {
        #expect(throws: error) { try JWKSet.parse(Array(text.utf8), source: .url) }
    }

    @Test func aSetMayBeEmpty() throws {
        let set = try JWKSet.parse(Array(#"{"keys":[],"other":1}"#.utf8), source: .url)
        #expect(set.keys.isEmpty && set.skipped.isEmpty)
    }

    @Test func setsMayBeHalfAMebibyteLong() {
        func text(_ count: Int) -> [UInt8] { Array(#"{"keys":[]}"#.utf8) + [UInt8](repeating: 0x20, count: count - 11) }
        #expect(throws: Never.self) { try JWKSet.parse(text(524_287), source: .url) }
        #expect(throws: Never.self) { try JWKSet.parse(text(524_288), source: .url) }
        #expect(throws: JWKSetError.tooLarge) { try JWKSet.parse(text(524_289), source: .url) }
    }

    @Test(arguments: [255, 256, 257])
    func setsMayHave256Keys(count: Int) throws {
        let secrets = (0..<count).map { index -> JSONValue in
            [
                "kty": "oct",
                "k": .string(Base64URL.encode([UInt8](repeating: UInt8(index & 255), count: 32) + [UInt8(index >> 8)])),
            ]
        }
        let set = try Self.parse(secrets, source: .file)
        #expect(set.keys.count == min(count, 256))
        #expect(set.skipped.map(\.reason) == Array(repeating: .tooManyKeys, count: max(0, count - 256)))
    }

    @Test func everyCutOfASetIsRefused() throws {
        let bytes = JSONValue.object(["keys": [Self.jwk(.es256), Self.jwk(.edDSA)]]).encoded()
        for end in 0..<bytes.count {
            #expect(throws: JWKSetError.notJSON(.unexpectedEnd)) { try JWKSet.parse(Array(bytes[..<end]), source: .url) }
        }
    }

    /// Changed sets never crash, and a key that is read is one of the three kinds it could be.
    @Test func randomlyChangedSetsNeverCrash() throws {
        let seed: UInt64 = 7_517
        var random = SeededRandom(seed: seed)
        let text = JSONValue.object(["keys": [Self.jwk(.rs256), Self.jwk(.es256), Self.jwk(.edDSA)]]).encoded()
        for round in 0..<1_000 {
            var bytes = text
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] =
                    Array("AZaz09-_\"{}[]:,".utf8).randomElement(using: &random) ?? 0
            }
            guard let set = try? JWKSet.parse(bytes, source: .url) else { continue }
            #expect(set.keys.count + set.skipped.count <= 3, "seed \(seed), round \(round)")
        }
    }

    // MARK: Choosing

    private func names(_ candidates: JWKSet.Candidates) -> String {
        switch candidates {
        case .keys(let keys): keys.map { $0.keyID ?? "-" }.joined(separator: ",")
        case .unknownKeyID: "unknown kid"
        case .tooMany: "too many"
        case .none: "none"
        }
    }

    @Test func aKeyIDNamesItsKey() throws {
        let set = try Self.parse([
            Self.jwk(.rs256, ["kid": "a"]), Self.jwk(.es256, ["kid": "b"]), Self.jwk(.es384, ["kid": "c", "use": "enc"]),
        ])
        #expect(names(set.candidates(keyID: "a", algorithm: .rs256)) == "a")
        #expect(names(set.candidates(keyID: "a", algorithm: .es256)) == "none")
        #expect(names(set.candidates(keyID: "b", algorithm: .es256)) == "b")
        #expect(names(set.candidates(keyID: "c", algorithm: .es384)) == "none")
        #expect(names(set.candidates(keyID: "A", algorithm: .rs256)) == "unknown kid")
        #expect(names(set.candidates(keyID: "", algorithm: .rs256)) == "unknown kid")
        #expect(names(set.candidates(keyID: nil, algorithm: .rs256)) == "a")
        #expect(names(set.candidates(keyID: nil, algorithm: .edDSA)) == "none")
        #expect(names(JWKSet(keys: []).candidates(keyID: "a", algorithm: .rs256)) == "unknown kid")
        #expect(names(JWKSet(keys: []).candidates(keyID: nil, algorithm: .rs256)) == "none")
    }

    /// RFC 7515 section 4.1.4: a `kid` is matched against the `kid` of the keys; a key that has none does not match it.
    @Test func keysWithoutKeyIDAreForTokensWithoutOne() throws {
        let keys = [SigningKey.generate(.es256, keyID: "b"), SigningKey.generate(.edDSA)]
        let set = JWKSet(keys: try keys.map { try $0.verificationKey() })
        #expect(names(set.candidates(keyID: "old", algorithm: .edDSA)) == "unknown kid")
        #expect(names(set.candidates(keyID: "old", algorithm: .es256)) == "unknown kid")
        #expect(names(set.candidates(keyID: "b", algorithm: .es256)) == "b")
        #expect(names(set.candidates(keyID: "b", algorithm: .edDSA)) == "none")
        #expect(names(set.candidates(keyID: nil, algorithm: .edDSA)) == "-")
    }

    @Test(arguments: [(7, "7"), (8, "8"), (9, "too many")])
    func atMostEightKeysAreTriedWithoutKeyID(count: Int, expected: String) throws {
        let keys = try (0..<count).map { try SigningKey.generate(.edDSA, keyID: "\($0)").verificationKey() }
        let set = JWKSet(keys: keys)
        if case .keys(let candidates) = set.candidates(keyID: nil, algorithm: .edDSA) {
            #expect("\(candidates.count)" == expected)
        } else {
            #expect(names(set.candidates(keyID: nil, algorithm: .edDSA)) == expected)
        }
        #expect(names(set.candidates(keyID: "0", algorithm: .edDSA)) == "0")
    }

    /// RFC 7517 section 4.5: keys of different types may share a `kid`; which of two that fit is meant cannot be known.
    @Test func sharedKeyIDsAreUsedOnlyWhereOneKeyFits() throws {
        let another = JSONValue.object(SigningKey.generate(.es256, keyID: "a").publicJWK)
        let rsaAndEC = try Self.parse([Self.jwk(.rs256, ["kid": "a"]), Self.jwk(.es256, ["kid": "a"])])
        #expect(names(rsaAndEC.candidates(keyID: "a", algorithm: .rs256)) == "a")
        #expect(names(rsaAndEC.candidates(keyID: "a", algorithm: .es256)) == "a")
        let twoEC = try Self.parse([Self.jwk(.es256, ["kid": "a"]), another])
        #expect(names(twoEC.candidates(keyID: "a", algorithm: .es256)) == "too many")
        let twice = try Self.parse([Self.jwk(.es256, ["kid": "a"]), Self.jwk(.es256, ["kid": "a"])])
        #expect(names(twice.candidates(keyID: "a", algorithm: .es256)) == "a")
        #expect(twice.skipped.map(\.reason) == [.duplicate])
        let damaged = try Self.parse([Self.jwk(.es256, ["kid": "a"]), Self.jwk(.es256, ["kid": "a", "x": "AB"])])
        #expect(names(damaged.candidates(keyID: "a", algorithm: .es256)) == "too many")
        let otherUse = try Self.parse([Self.jwk(.es256, ["kid": "a"]), Self.jwk(.rs256, ["kid": "a", "use": "enc"])])
        #expect(names(otherUse.candidates(keyID: "a", algorithm: .es256)) == "a")
        let merged = JWKSet(keys: twoEC.keys)
        #expect(names(merged.candidates(keyID: "a", algorithm: .es256)) == "too many")
    }
}
