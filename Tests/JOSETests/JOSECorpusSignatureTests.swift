import JOSE
import Primitives
import StrictJSON
import TestSupport
import Testing

/// The files of Wycheproof whose rows need a step before they are what a JWS holds, and those that nothing may accept.
extension JOSECorpusTests {
    // MARK: ECDSA in DER

    /// What a signature in DER comes to where r and s must stand side by side with a fixed width.
    private enum FixedWidth: Equatable {
        case signature([UInt8])
        /// r or s is longer than a coordinate; both padded to the longer one.
        case tooLong([UInt8])
        /// Not the one DER text of two numbers from 0 up: BER, negative, cut, more behind it.
        case notCanonical
    }

    private static func fixedWidth(_ der: [UInt8], coordinate: Int) -> FixedWidth {
        var rest = der[...]
        guard rest.popFirst() == 0x30, var count = rest.popFirst().map(Int.init) else { return .notCanonical }
        if count == 0x81 {
            guard let long = rest.popFirst(), long >= 0x80 else { return .notCanonical }
            count = Int(long)
        } else if count >= 0x80 {
            return .notCanonical
        }
        guard rest.count == count, let r = number(&rest), let s = number(&rest), rest.isEmpty else { return .notCanonical }
        let width = max(coordinate, r.count, s.count)
        let both = [r, s].flatMap { [UInt8](repeating: 0, count: width - $0.count) + $0 }
        return width == coordinate ? .signature(both) : .tooLong(both)
    }

    /// One INTEGER from 0 up in its shortest form, without leading zeros.
    private static func number(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard rest.popFirst() == 0x02, let count = rest.popFirst(), (1..<0x80).contains(count), rest.count >= Int(count) else {
            return nil
        }
        let octets = Array(rest.prefix(Int(count)))
        rest = rest.dropFirst(Int(count))
        if octets[0] & 0x80 != 0 { return nil }
        if octets.count > 1, octets[0] == 0, octets[1] & 0x80 == 0 { return nil }
        return Array(octets.drop { $0 == 0 })
    }

    /// Rows judged as r‖s, and rows whose numbers are too long for it: counted in the files.
    static let derFiles: [(String, JWSAlgorithm, Int, judged: Int, tooLong: Int)] = [
        ("ecdsa_secp256r1_sha256_test.json", .es256, 32, judged: 249, tooLong: 14),
        ("ecdsa_secp521r1_sha512_test.json", .es512, 66, judged: 314, tooLong: 8),
    ]

    /// A JWS holds r‖s (RFC 7518 section 3.4), these files DER. A row that is no canonical DER has no r‖s, so what is left of it to
    /// judge is that no DER, whatever its form, is taken for a signature.
    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"), arguments: derFiles)
    func everyWycheproofSignatureInDERIsJudgedRight(
        file: String, algorithm: JWSAlgorithm, coordinate: Int, leastJudged: Int, leastTooLong: Int
    ) throws {
        let verifier = SignatureVerifier()
        var (judged, tooLong, notCanonical) = (0, 0, 0)
        for group in try groups(file) {
            let key = try VerificationKey.pem(Array(try #require(group["publicKeyPem"]?.string).utf8))
            for test in (group["tests"]?.array ?? []).compactMap(\.object) {
                let message = try hex(test["msg"])
                let der = try hex(test["sig"])
                let isValid = test["result"] == "valid"
                let name = "\(file) \(test["tcId"]?.number?.text ?? "") \(test["comment"]?.string ?? "")"
                #expect(!verifier.verify(der, over: message, algorithm: algorithm, key: key), "\(name): DER")
                switch Self.fixedWidth(der, coordinate: coordinate) {
                case .signature(let signature):
                    let verdict = verifier.verify(signature, over: message, algorithm: algorithm, key: key)
                    #expect(verdict == isValid, "\(name)")
                    judged += 1
                case .tooLong(let signature):
                    #expect(!isValid && !verifier.verify(signature, over: message, algorithm: algorithm, key: key), "\(name)")
                    tooLong += 1
                case .notCanonical:
                    #expect(!isValid, "\(name)")
                    notCanonical += 1
                }
            }
        }
        #expect(judged >= leastJudged && tooLong >= leastTooLong && notCanonical >= 200)
    }

    // MARK: RSASSA-PSS with every parameter

    /// PS256, PS384 and PS512 have one hash for the message and for MGF1, and a salt as long as it (RFC 7518 section 3.5). The file
    /// has every other combination as well, each a good signature of its kind: for JWS they are none.
    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"))
    func noPSSSignatureWithOtherParametersVerifies() throws {
        let verifier = SignatureVerifier()
        let parameters: [(JWSAlgorithm, sha: String, salt: Int64)] = [
            (.ps256, "SHA-256", 32), (.ps384, "SHA-384", 48), (.ps512, "SHA-512", 64),
        ]
        var (judged, others) = (0, 0)
        for group in try groups("rsa_pss_misc_test.json") {
            let key = try VerificationKey.pem(Array(try #require(group["publicKeyPem"]?.string).utf8))
            let sha = try #require(group["sha"]?.string)
            let mgf = try #require(group["mgfSha"]?.string)
            let salt = try #require(group["sLen"]?.number?.integer)
            for test in (group["tests"]?.array ?? []).compactMap(\.object) {
                let message = try hex(test["msg"])
                let signature = try hex(test["sig"])
                var isOurs = false
                for (algorithm, ourSHA, ourSalt) in parameters {
                    let isThis = sha == ourSHA && mgf == ourSHA && salt == ourSalt
                    isOurs = isOurs || isThis
                    let verdict = verifier.verify(signature, over: message, algorithm: algorithm, key: key)
                    #expect(
                        verdict == (isThis && test["result"] == "valid"), "\(test["tcId"]?.number?.text ?? "") \(algorithm)")
                }
                if isOurs { judged += 1 } else { others += 1 }
            }
        }
        #expect(judged >= 3 && others >= 147)
    }

    // MARK: JWE

    /// Nothing here decrypts. A JWE has five parts; those of the files that are damaged have four or are JSON.
    @Test(
        .enabled(if: Corpora.isHere, "the shared corpora are not here"),
        arguments: [("json_web_encryption_test.json", 139), ("json_web_crypto_test.json", 34)])
    func everyWycheproofJWEIsRefused(file: String, least: Int) throws {
        var judged = 0
        for group in try groups(file) {
            let tests = (group["tests"]?.array ?? []).compactMap(\.object).filter { $0["jwe"] != nil }
            if tests.isEmpty { continue }
            for test in tests {
                let jwe = try #require(test["jwe"])
                let token = jwe.string ?? String(decoding: jwe.encoded(), as: UTF8.self)
                #expect(throws: JWSFormatError.notThreeParts, "\(file) \(test["tcId"]?.number?.text ?? "")") {
                    try CompactJWS.parse(token)
                }
                judged += 1
            }
            // Nor does a key for encryption ever verify.
            let key = withoutPrivateMembers(try #require(group["public"] ?? group["private"]))
            let set = try JWKSet.parse(JSONValue.object(["keys": .array([key])]).encoded(), source: .file)
            #expect(set.keys.isEmpty && set.skipped.map(\.reason) == [.unsupportedUse], "\(group["comment"]?.string ?? "")")
        }
        #expect(judged >= least)
    }

    // MARK: Curves

    /// The parameters of 26 curves. Their generators are points that OpenSSL knows: as keys only those of the three curves that JWS
    /// has are accepted, in a PEM file by the curve's OID and in a JWK by its name.
    @Test(.enabled(if: Corpora.isHere, "the shared corpora are not here"))
    func onlyTheThreeCurvesOfJWSBecomeKeys() throws {
        let ours: [String: VerificationKey.Curve] = ["secp256r1": .p256, "secp384r1": .p384, "secp521r1": .p521]
        var (accepted, refused, mislabelled) = (0, 0, 0)
        for test in (try groups("ec_prime_order_curves_test.json")).flatMap({ $0["tests"]?.array ?? [] }).compactMap(\.object) {
            let name = try #require(test["name"]?.string)
            let width = Array(try hex(test["p"]).drop { $0 == 0 }).count
            let x = Self.padded(try hex(test["gx"]), to: width)
            let y = Self.padded(try hex(test["gy"]), to: width)
            let pem = Self.pem(oid: try #require(test["oid"]?.string), point: [0x04] + x + y)
            if let curve = ours[name] {
                #expect(try VerificationKey.pem(pem).kind == .ec(curve), "\(name)")
                let set = try Self.keySet(curve: curve.rawValue, x, y)
                #expect(set.keys.map(\.kind) == [.ec(curve)], "\(name)")
                accepted += 1
                continue
            }
            // A curve that OpenSSL was built without cannot even be read.
            let error = #expect(throws: KeyError.self, "\(name)") { try VerificationKey.pem(pem) }
            #expect(error == .unsupportedCurve || error == .malformed, "\(name)")
            #expect(try Self.keySet(curve: name, x, y).skipped.map(\.reason) == [.unsupportedCurve], "\(name)")
            refused += 1
            // The same point under the name of a curve of ours with coordinates of this length.
            for (curve, length) in [("P-256", 32), ("P-384", 48)] where length == width {
                #expect(try Self.keySet(curve: curve, x, y).skipped.map(\.reason) == [.key(.notOnCurve)], "\(name)")
                mislabelled += 1
            }
        }
        #expect(accepted == 3 && refused >= 23 && mislabelled >= 6)
    }

    private static func padded(_ number: [UInt8], to width: Int) -> [UInt8] {
        let digits = number.drop { $0 == 0 }
        return [UInt8](repeating: 0, count: max(0, width - digits.count)) + digits
    }

    private static func keySet(curve: String, _ x: [UInt8], _ y: [UInt8]) throws -> JWKSet {
        let jwk: JSONValue = .object([
            "kty": "EC", "crv": .string(curve), "x": .string(Base64URL.encode(x)), "y": .string(Base64URL.encode(y)),
        ])
        return try JWKSet.parse(JSONValue.object(["keys": .array([jwk])]).encoded(), source: .file)
    }

    /// `SubjectPublicKeyInfo` of a named curve (RFC 5480 section 2) as PEM.
    private static func pem(oid: String, point: [UInt8]) -> [UInt8] {
        let ecPublicKey: [UInt8] = [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
        let arcs = oid.split(separator: ".").compactMap { Int($0) }
        var content = [UInt8(arcs[0] * 40 + arcs[1])]
        for arc in arcs[2...] {
            var octets = [UInt8(arc & 0x7F)]
            var rest = arc >> 7
            while rest > 0 {
                octets.insert(0x80 | UInt8(rest & 0x7F), at: 0)
                rest >>= 7
            }
            content += octets
        }
        let info = element(
            0x30, element(0x30, ecPublicKey + element(0x06, content)) + element(0x03, [0x00] + point))
        return Array("-----BEGIN PUBLIC KEY-----\n\(Base64.encode(info))\n-----END PUBLIC KEY-----\n".utf8)
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        return (count < 0x80 ? [tag, UInt8(count)] : [tag, 0x81, UInt8(count)]) + content
    }
}
