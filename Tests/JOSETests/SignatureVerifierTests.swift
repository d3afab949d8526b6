import Digests
import JOSE
import Primitives
import StrictJSON
import TestSupport
import Testing

/// One key per algorithm, made once: RSA keys take a second.
enum Keys {
    static let all: [JWSAlgorithm: SigningKey] = Dictionary(
        uniqueKeysWithValues: JWSAlgorithm.allCases.map { ($0, SigningKey.generate($0, keyID: "key-\($0.rawValue)")) })

    static func key(_ algorithm: JWSAlgorithm) throws -> SigningKey { try #require(all[algorithm]) }
}

@Suite struct SignatureVerifierTests {
    static let claims: JSONObject = ["iss": "https://issuer.example", "sub": "user-1", "exp": 4_102_444_800]

    @Test(arguments: RFCVector.all)
    func tokensOfTheRFCsVerify(_ vector: RFCVector) throws {
        let set = try JWKSet.parse(Array("{\"keys\":[\(vector.jwk)]}".utf8), source: .file)
        let key = try #require(set.keys.first)
        let jws = try CompactJWS.parse(vector.token)
        #expect(jws.header.algorithm == vector.algorithm)
        let verifier = SignatureVerifier()
        #expect(verifier.verify(jws, algorithm: vector.algorithm, key: key))
        for other in JWSAlgorithm.allCases where other != vector.algorithm {
            #expect(!verifier.verify(jws, algorithm: other, key: key), "\(other)")
        }
    }

    @Test(arguments: JWSAlgorithm.allCases)
    func whatAKeySignsItsPublicSideVerifies(algorithm: JWSAlgorithm) throws {
        let key = try Keys.key(algorithm)
        let token = key.sign(claims: Self.claims)
        let jws = try CompactJWS.parse(token)
        #expect(jws.header.algorithm == algorithm)
        #expect(jws.header.keyID == "key-\(algorithm.rawValue)")
        #expect(jws.header.type == "JWT")
        let verifier = SignatureVerifier()
        let publicKey = try key.verificationKey()
        // Twice, and after a failure: nothing of one check reaches the next.
        #expect(verifier.verify(jws, algorithm: algorithm, key: publicKey))
        #expect(!verifier.verify(jws.signature, over: jws.signingInput + [0], algorithm: algorithm, key: publicKey))
        #expect(verifier.verify(jws, algorithm: algorithm, key: publicKey))
        if let pem = key.publicPEM {
            #expect(verifier.verify(jws, algorithm: algorithm, key: try VerificationKey.pem(Array(pem.utf8))))
        }
    }

    @Test(arguments: JWSAlgorithm.allCases)
    func anotherKeyOfTheSameKindDoesNotVerify(algorithm: JWSAlgorithm) throws {
        let jws = try CompactJWS.parse(try Keys.key(algorithm).sign(claims: Self.claims))
        let other = try SigningKey.generate(algorithm).verificationKey()
        #expect(!SignatureVerifier().verify(jws, algorithm: algorithm, key: other))
    }

    /// RFC 8725 section 2.1: a signature of one algorithm is not one of another, even where the key could compute both.
    @Test func signaturesOfOneAlgorithmAreNotThoseOfAnother() throws {
        let rsa = try VerificationKey.pem(Array(try #require(try Keys.key(.rs256).publicPEM).utf8))
        let verifier = SignatureVerifier()
        let input = Array("a.b".utf8)
        let algorithms: [JWSAlgorithm] = [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]
        for made in algorithms {
            let signature = try Keys.key(.rs256).signature(over: input, as: made)
            for asked in algorithms {
                #expect(
                    verifier.verify(signature, over: input, algorithm: asked, key: rsa) == (made == asked), "\(made) \(asked)")
            }
        }
    }

    /// The key's own `alg` rules out every other algorithm of its type (RFC 7517 section 4.4).
    @Test func keyWithAnAlgorithmFitsThatAlone() throws {
        for (algorithm, key) in Keys.all {
            let publicKey = try key.verificationKey()
            #expect(publicKey.algorithm == algorithm)
            for other in JWSAlgorithm.allCases { #expect(publicKey.fits(other) == (other == algorithm)) }
        }
    }

    @Test(arguments: [JWSAlgorithm.es256, .es384, .es512])
    func ecdsaSignaturesHaveExactlyTwoCoordinates(algorithm: JWSAlgorithm) throws {
        let key = try Keys.key(algorithm)
        let publicKey = try key.verificationKey()
        let input = Array("a.b".utf8)
        let half = [JWSAlgorithm.es256: 32, .es384: 48, .es512: 66][algorithm] ?? 0
        let good = key.signature(over: input)
        let verifier = SignatureVerifier()
        func verify(_ signature: [UInt8]) -> Bool {
            verifier.verify(signature, over: input, algorithm: algorithm, key: publicKey)
        }
        #expect(good.count == 2 * half)
        #expect(verify(good))
        let zero = [UInt8](repeating: 0, count: half)
        let refused: [[UInt8]] = [
            [], [0], Array(good.dropLast()), good + [0], [0] + good, [0] + good[..<half] + [0] + good[half...], zero + zero,
            zero + good[half...], good[..<half] + zero, Array(good[half...] + good[..<half]),
            [UInt8](repeating: 0xFF, count: 2 * half),
            Array(good.prefix(half)), der(good),
        ]
        for signature in refused { #expect(!verify(signature), "\(signature)") }
    }

    /// Every leading-zero shape of r and s occurs among a few hundred signatures.
    @Test func ecdsaSignaturesWithShortNumbersVerify() throws {
        let key = try Keys.key(.es256)
        let publicKey = try key.verificationKey()
        let verifier = SignatureVerifier()
        var shapes: Set<[Bool]> = []
        for round in 0..<400 {
            let input = Array("\(round)".utf8)
            let signature = key.signature(over: input)
            shapes.insert([signature[0] == 0, signature[0] > 0x7F, signature[32] == 0, signature[32] > 0x7F])
            #expect(verifier.verify(signature, over: input, algorithm: .es256, key: publicKey))
        }
        #expect(shapes.count >= 4)
    }

    private func der(_ signature: [UInt8]) -> [UInt8] {
        func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] { [0x02, UInt8(bytes.count + 1), 0] + bytes }
        let half = signature.count / 2
        let body = integer(signature[..<half]) + integer(signature[half...])
        return [0x30] + (body.count < 128 ? [] : [0x81]) + [UInt8(body.count)] + body
    }

    @Test(arguments: [JWSAlgorithm.rs256, .ps256, .edDSA, .hs256, .hs512])
    func signaturesOfAnotherLengthAreRefused(algorithm: JWSAlgorithm) throws {
        let key = try Keys.key(algorithm)
        let publicKey = try key.verificationKey()
        let input = Array("a.b".utf8)
        let good = key.signature(over: input)
        let verifier = SignatureVerifier()
        for signature in [
            [], Array(good.dropLast()), good + [0], [0] + good, Array(good.prefix(16)), [UInt8](repeating: 0, count: good.count),
        ] {
            #expect(!verifier.verify(signature, over: input, algorithm: algorithm, key: publicKey))
        }
        #expect(verifier.verify(good, over: input, algorithm: algorithm, key: publicKey))
    }

    /// RFC 8032 section 5.1.7: S is below the order of the group, so that a signature has one spelling.
    @Test func ed25519SignaturesHaveOneSpelling() throws {
        let key = try Keys.key(.edDSA)
        let input = Array("a.b".utf8)
        var signature = key.signature(over: input)
        let order: [UInt8] = [
            0xED, 0xD3, 0xF5, 0x5C, 0x1A, 0x63, 0x12, 0x58, 0xD6, 0x9C, 0xF7, 0xA2, 0xDE, 0xF9, 0xDE, 0x14, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0,
            0, 0, 0, 0, 0x10,
        ]
        var carry = 0
        for index in 0..<32 {
            carry += Int(signature[32 + index]) + Int(order[index])
            signature[32 + index] = UInt8(carry & 0xFF)
            carry >>= 8
        }
        #expect(!SignatureVerifier().verify(signature, over: input, algorithm: .edDSA, key: try key.verificationKey()))
    }

    @Test func theFirstKeyThatVerifiesIsNamed() throws {
        let others = try (0..<3).map { try SigningKey.generate(.es256, keyID: "\($0)").verificationKey() }
        let key = try Keys.key(.es256)
        let jws = try CompactJWS.parse(key.sign(claims: Self.claims))
        let verifier = SignatureVerifier()
        #expect(verifier.verify(jws, algorithm: .es256, keys: others + [try key.verificationKey()])?.keyID == key.keyID)
        #expect(verifier.verify(jws, algorithm: .es256, keys: others) == nil)
        #expect(verifier.verify(jws, algorithm: .es256, keys: []) == nil)
    }

    /// More secrets than the verifier remembers, in turns.
    @Test func manySecretsTakeTurns() throws {
        let verifier = SignatureVerifier()
        let keys = (0..<20).map { SigningKey.generate(.hs256, keyID: "\($0)") }
        let verificationKeys = try keys.map { try $0.verificationKey() }
        for round in 0..<3 {
            for (index, key) in keys.enumerated() {
                let input = Array("\(round) \(index)".utf8)
                let signature = key.signature(over: input)
                #expect(verifier.verify(signature, over: input, algorithm: .hs256, key: verificationKeys[index]))
                #expect(
                    !verifier.verify(signature, over: input, algorithm: .hs256, key: verificationKeys[(index + 1) % keys.count]))
            }
        }
    }

    /// A changed token never verifies, whatever is changed (canonical base64url gives every octet string one spelling).
    @Test(arguments: [JWSAlgorithm.hs256, .es256, .edDSA, .rs256, .ps256])
    func aMutatedTokenNeverVerifies(algorithm: JWSAlgorithm) throws {
        let seed: UInt64 = 7_515
        var random = SeededRandom(seed: seed)
        let key = try Keys.key(algorithm)
        let publicKey = try key.verificationKey()
        let token = Array(key.sign(claims: Self.claims).utf8)
        let verifier = SignatureVerifier()
        let alphabet = Array("ABCXYZabcxyz0189-_.=+/ \0é".utf8)
        for round in 0..<1_500 {
            var mutated = token
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<mutated.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: mutated[index] = UInt8.random(in: 0...255, using: &random)
                case 1: mutated[index] = alphabet.randomElement(using: &random) ?? 0
                case 2: mutated.remove(at: index)
                default: mutated.insert(alphabet.randomElement(using: &random) ?? 0, at: index)
                }
            }
            guard mutated != token, let jws = try? CompactJWS.parse(mutated) else { continue }
            #expect(!verifier.verify(jws, algorithm: algorithm, key: publicKey), "seed \(seed), round \(round)")
        }
    }

    /// Keys are shared by threads; each thread has its own verifier.
    @Test func keysAreUsedFromSeveralThreadsAtOnce() async throws {
        for algorithm in [JWSAlgorithm.hs256, .rs256, .es256, .edDSA] {
            let key = try Keys.key(algorithm)
            let publicKey = try key.verificationKey()
            let jws = try CompactJWS.parse(key.sign(claims: Self.claims))
            let verified = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let verifier = SignatureVerifier()
                        return (0..<50).count { _ in verifier.verify(jws, algorithm: algorithm, key: publicKey) }
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(verified == 200)
        }
    }
}
