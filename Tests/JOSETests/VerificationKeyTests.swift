import Digests
import JOSE
import Primitives
import TestSupport
import Testing

@Suite struct VerificationKeyTests {
    private func pem(_ text: String) throws(KeyError) -> VerificationKey { try VerificationKey.pem(Array(text.utf8), keyID: "k") }

    static let accepted: [(String, VerificationKey.Kind, [JWSAlgorithm])] = [
        (KeyFixtures.rsa, .rsa(bits: 2048), [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]),
        (KeyFixtures.rsaPKCS1, .rsa(bits: 2048), [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]),
        (KeyFixtures.rsaCertificate, .rsa(bits: 2048), [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]),
        (KeyFixtures.p256, .ec(.p256), [.es256]), (KeyFixtures.p256Compressed, .ec(.p256), [.es256]),
        (KeyFixtures.ed25519, .ed25519, [.edDSA]),
        (
            "some text before\r\n" + KeyFixtures.ed25519.split(separator: "\n").joined(separator: "\r\n") + "\r\n", .ed25519,
            [.edDSA]
        ),
        (
            KeyFixtures.rsaCertificate + "\n" + KeyFixtures.rsaCertificate, .rsa(bits: 2048),
            [.rs256, .rs384, .rs512, .ps256, .ps384, .ps512]
        ),
    ]

    @Test(arguments: accepted)
    func publicKeysInPEMAreRead(text: String, kind: VerificationKey.Kind, algorithms: [JWSAlgorithm]) throws {
        let key = try pem(text)
        #expect(key.kind == kind)
        #expect(key.keyID == "k")
        #expect(key.algorithm == nil)
        #expect(JWSAlgorithm.allCases.filter(key.fits) == algorithms)
    }

    private static func block(_ label: String, _ content: String = "AAAA") -> String {
        "-----BEGIN \(label)-----\n\(content)\n-----END \(label)-----\n"
    }

    static let refused: [(String, KeyError)] = [
        ("", .notPEM), ("secret", .notPEM), (KeyFixtures.rsa1024, .rsaTooSmall(bits: 1024)),
        (KeyFixtures.secp256k1, .unsupportedCurve),
        (KeyFixtures.p256Explicit, .unsupportedCurve), (KeyFixtures.ed448, .unsupportedType),
        (KeyFixtures.rsaPSS, .unsupportedType),
        (block("PUBLIC KEY"), .malformed), (block("RSA PUBLIC KEY"), .malformed), (block("CERTIFICATE"), .malformed),
        (block("PRIVATE KEY"), .privateKey), (block("RSA PRIVATE KEY"), .privateKey), (block("EC PRIVATE KEY"), .privateKey),
        (block("ENCRYPTED PRIVATE KEY"), .privateKey), (block("OPENSSH PRIVATE KEY"), .privateKey),
        (block("EC PARAMETERS") + block("EC PRIVATE KEY"), .privateKey),
        (KeyFixtures.rsa + "\n" + block("PRIVATE KEY"), .privateKey),
        (
            block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,1897DA66E7B73021FA439FD0E6A22215\n\nAAAA"),
            .privateKey
        ),
        (KeyFixtures.rsa + "\n" + KeyFixtures.p256, .severalKeys),
        (KeyFixtures.rsa + "\n" + KeyFixtures.rsaCertificate, .severalKeys),
        (block("CERTIFICATE REQUEST"), .notPEM), (block("DH PARAMETERS"), .notPEM),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n", .malformed), (block("PUBLIC KEY", "!!!!"), .malformed),
    ]

    @Test(arguments: refused)
    func otherPEMFilesAreRefusedWithTheirReason(text: String, error: KeyError) {
        #expect(throws: error) { try pem(text) }
    }

    /// No cut of a key file is another key, and none crashes.
    @Test(arguments: [KeyFixtures.rsa, KeyFixtures.rsaPKCS1, KeyFixtures.rsaCertificate, KeyFixtures.p256, KeyFixtures.ed25519])
    func everyCutOfAKeyFileIsRefused(text: String) {
        let bytes = Array(text.utf8)
        for end in 0..<(bytes.count - 1) {
            do {
                _ = try VerificationKey.pem(Array(bytes[..<end]))
                // The last dashes of the closing line may be missing without harm; the content is complete then.
                #expect(end > bytes.count - 6, "cut at \(end)")
            } catch {
                #expect([.notPEM, .malformed].contains(error), "cut at \(end)")
            }
        }
    }

    /// RFC 7518 section 3.2: a key of the size of the hash or larger.
    @Test(arguments: [(JWSAlgorithm.hs256, 32), (.hs384, 48), (.hs512, 64)])
    func secretsAreAtLeastAsLongAsTheHash(algorithm: JWSAlgorithm, needed: Int) throws {
        for count in [0, 1, needed - 1] {
            #expect(throws: KeyError.secretTooShort(bytes: count, needed: needed)) {
                try VerificationKey.hmac(Secret([UInt8](repeating: 7, count: count)), algorithms: [algorithm])
            }
        }
        for count in [needed, needed + 1, 1_000] {
            let key = try VerificationKey.hmac(Secret([UInt8](repeating: 7, count: count)), algorithms: [algorithm], keyID: "s")
            #expect(JWSAlgorithm.allCases.filter(key.fits) == [algorithm])
            #expect(key.kind == .hmac && key.keyID == "s" && key.algorithm == algorithm)
        }
    }

    @Test func secretsForSeveralAlgorithmsSatisfyTheLongest() throws {
        let secret = Secret([UInt8](repeating: 7, count: 48))
        #expect(try VerificationKey.hmac(secret, algorithms: [.hs256, .hs384]).algorithm == nil)
        #expect(throws: KeyError.secretTooShort(bytes: 48, needed: 64)) {
            try VerificationKey.hmac(secret, algorithms: [.hs256, .hs512])
        }
        #expect(throws: KeyError.algorithmMismatch) { try VerificationKey.hmac(secret, algorithms: [.hs256, .rs256]) }
        #expect(throws: KeyError.algorithmMismatch) { try VerificationKey.hmac(secret, algorithms: []) }
    }

    /// The classic confusion (RFC 8725 section 2.1): the public key's text as a MAC secret.
    @Test func publicKeysVerifyNoMAC() throws {
        let forged = SigningKey.hmac(.hs256, secret: Secret(KeyFixtures.rsa)).sign(claims: ["sub": "admin"])
        let jws = try CompactJWS.parse(forged)
        #expect(!SignatureVerifier().verify(jws, algorithm: .hs256, key: try pem(KeyFixtures.rsa)))
        #expect(!SignatureVerifier().verify(jws, algorithm: .rs256, key: try pem(KeyFixtures.rsa)))
    }

    // MARK: Cut and changed

    private static let whole = [
        KeyFixtures.rsa, KeyFixtures.rsaPKCS1, KeyFixtures.rsaCertificate, KeyFixtures.p256, KeyFixtures.ed25519,
    ]

    /// Without its last line a file is not PEM; nothing of a cut file is ever taken for another key.
    @Test(arguments: whole) func aPEMFileCutAnywhereIsTheSameKeyOrNone(text: String) throws {
        let key = try pem(text)
        let bytes = Array(text.utf8)
        let end = bytes.count - (bytes.last == 0x0A ? 1 : 0)
        for cut in 0..<end {
            do throws(KeyError) {
                let other = try VerificationKey.pem(Array(bytes[..<cut]))
                Issue.record("cut at \(cut): \(other.kind)")
            } catch {
                #expect([.notPEM, .malformed].contains(error), "cut at \(cut): \(error)")
            }
        }
        #expect(try VerificationKey.pem(Array(bytes[..<end])).kind == key.kind)
    }

    /// A changed file is refused with a reason, or holds a key of a kind that exists; it never crashes.
    @Test func changedPEMFilesNeverCrash() throws {
        let seed: UInt64 = 7_468
        var random = SeededRandom(seed: seed)
        let alphabet = Array("ABCXYZabcxyz0189+/=-\n\r \t\0BEGINKEY".utf8)
        for round in 0..<4_000 {
            var bytes = Array(try #require(Self.whole.randomElement(using: &random)).utf8)
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                let byte = alphabet.randomElement(using: &random) ?? 0
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = byte
                case 1: bytes.insert(byte, at: index)
                default: bytes.removeSubrange(index..<min(bytes.count, index + Int.random(in: 1...40, using: &random)))
                }
                if bytes.isEmpty { bytes = [byte] }
            }
            guard let key = try? VerificationKey.pem(bytes) else { continue }
            switch key.kind {
            case .rsa(let bits): #expect((2_048...8_192).contains(bits), "seed \(seed), round \(round)")
            case .ec, .ed25519: break
            case .hmac: Issue.record("seed \(seed), round \(round): a public key became a secret")
            }
        }
    }
}
