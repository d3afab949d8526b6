import JOSE
import Primitives
import StrictJSON
import Testing

/// RFC 7515 section 7.1, with section 2 for base64url.
@Suite struct CompactJWSTests {
    private static func token(_ header: String, _ payload: String = "{}", _ signature: String = "AA") -> String {
        "\(Base64URL.encode(header.utf8)).\(Base64URL.encode(payload.utf8)).\(signature)"
    }

    private static func deep(_ depth: Int) -> String {
        let levels = depth - 1  // the header object is one
        return "{\"alg\":\"HS256\",\"x\":" + String(repeating: "[", count: levels) + String(repeating: "]", count: levels) + "}"
    }

    @Test func aTokenIsTakenApart() throws {
        let token = Self.token(#"{"alg":"ES256","kid":"k 1","typ":"at+jwt","x":{"y":[1]}}"#, "payload", "AQID")
        let jws = try CompactJWS.parse(token)
        #expect(jws.header.algorithmName == "ES256")
        #expect(jws.header.algorithm == .es256)
        #expect(jws.header.keyID == "k 1")
        #expect(jws.header.type == "at+jwt")
        #expect(!jws.header.hasCritical)
        #expect(jws.header.object["x"] == ["y": [1]])
        #expect(jws.payload == Array("payload".utf8))
        #expect(jws.signature == [1, 2, 3])
        #expect(jws.signingInput == Array(token.utf8.dropLast(5)))
    }

    @Test func emptyPayloadAndSignatureAreParts() throws {
        let jws = try CompactJWS.parse(Self.token(#"{"alg":"HS256"}"#, "", ""))
        #expect(jws.payload.isEmpty)
        #expect(jws.signature.isEmpty)
    }

    @Test(arguments: [
        "none", "None", "NONE", "nOnE", "none ", " none", "", "hs256", "HS256 ", "HS-256", "n\u{43E}ne", "RS1", "ES256K",
        "Ed25519",
    ])
    func otherNamesAreNoAlgorithm(name: String) throws {
        let header = String(decoding: JSONValue.object(["alg": .string(name)]).encoded(), as: UTF8.self)
        #expect(try CompactJWS.parse(Self.token(header)).header.algorithm == nil)
    }

    @Test(arguments: [
        (#"{"alg":"HS256","crit":[]}"#, true, false), (#"{"alg":"HS256","crit":null}"#, true, false),
        (#"{"alg":"HS256","crit":["exp"],"exp":1}"#, true, false), (#"{"alg":"HS256","b64":false}"#, false, true),
        (#"{"alg":"HS256","b64":true}"#, false, false), (#"{"alg":"HS256","b64":"false"}"#, false, true),
        (#"{"alg":"HS256","zip":"DEF"}"#, false, true), (#"{"alg":"HS256","jwk":{},"jku":1,"x5u":[],"x5c":"x"}"#, false, false),
        (#"{"alg":"HS256","crit\u0000":[]}"#, false, false),
    ])
    func extensionsAreNoticed(header: String, hasCritical: Bool, changesPayload: Bool) throws {
        let header = try CompactJWS.parse(Self.token(header)).header
        #expect(header.hasCritical == hasCritical)
        #expect(header.changesPayload == changesPayload)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let token: String
        let error: JWSFormatError
        let isOpaque: Bool
        var testDescription: String { String(token.prefix(60)) }
        init(_ token: String, _ error: JWSFormatError, isOpaque: Bool = true) {
            self.token = token
            self.error = error
            self.isOpaque = isOpaque
        }
    }

    static let good = token(#"{"alg":"HS256"}"#)
    static let refused = [
        Row("", .notThreeParts), Row("abc", .notThreeParts), Row("a.b", .notThreeParts), Row("a.b.c.d", .notThreeParts),
        Row(good + ".", .notThreeParts), Row("." + good, .notThreeParts), Row("....", .notThreeParts),
        Row("..", .invalidHeader(.unexpectedEnd)), Row(".e30.AA", .invalidHeader(.unexpectedEnd)),
        Row("e30=.e30.AA", .invalidBase64(.header)), Row("e3 0.e30.AA", .invalidBase64(.header)),
        Row("e31.e30.AA", .invalidBase64(.header)), Row("e30.e30.AA", .missingAlgorithm),
        Row(" " + good, .invalidBase64(.header)), Row(good + "\n", .invalidBase64(.signature), isOpaque: false),
        Row(good + "=", .invalidBase64(.signature), isOpaque: false),
        Row(good + "==", .invalidBase64(.signature), isOpaque: false),
        Row(good + ",x", .invalidBase64(.signature), isOpaque: false),
        Row(token(#"{"alg":"HS256"}"#, "{}", "AB"), .invalidBase64(.signature), isOpaque: false),
        Row(token(#"{"alg":"HS256"}"#, "{}", "A"), .invalidBase64(.signature), isOpaque: false),
        Row(token(#"{"alg":"HS256"}"#, "{}", "+/+/"), .invalidBase64(.signature), isOpaque: false),
        Row(Base64URL.encode(#"{"alg":"HS256"}"#.utf8) + ".e31.AA", .invalidBase64(.payload), isOpaque: false),
        Row(Base64URL.encode(#"{"alg":"HS256"}"#.utf8) + ".e?30.AA", .invalidBase64(.payload), isOpaque: false),
        Row(token("[]"), .headerNotObject), Row(token("\"HS256\""), .headerNotObject), Row(token("null"), .headerNotObject),
        Row(token("{}"), .missingAlgorithm), Row(token(#"{"typ":"JWT"}"#), .missingAlgorithm),
        Row(token(#"{"ALG":"HS256"}"#), .missingAlgorithm),
        Row(token(#"{"alg":1}"#), .invalidParameter(.algorithm), isOpaque: false),
        Row(token(#"{"alg":null}"#), .invalidParameter(.algorithm), isOpaque: false),
        Row(token(#"{"alg":["HS256"]}"#), .invalidParameter(.algorithm), isOpaque: false),
        Row(token(#"{"alg":"HS256","kid":1}"#), .invalidParameter(.keyID), isOpaque: false),
        Row(token(#"{"alg":"HS256","kid":null}"#), .invalidParameter(.keyID), isOpaque: false),
        Row(token(#"{"alg":"HS256","typ":{}}"#), .invalidParameter(.type), isOpaque: false),
        Row(token(#"{"alg":"HS256","alg":"HS256"}"#), .invalidHeader(.duplicateName)),
        Row(token(#"{"alg":"HS256","\u0061lg":"none"}"#), .invalidHeader(.duplicateName)),
        Row(token(#"{"alg":"HS256","x":{"a":1,"a":2}}"#), .invalidHeader(.duplicateName)),
        Row(token("\u{FEFF}{\"alg\":\"HS256\"}"), .invalidHeader(.byteOrderMark)),
        Row(token(#"{"alg":"HS256"} x"#), .invalidHeader(.trailingBytes)),
        Row(token(deep(17)), .invalidHeader(.tooDeep)),
        Row(token(#"{"alg":"HS256","x":"\ud800"}"#), .invalidHeader(.loneSurrogate)),
    ]

    @Test(arguments: refused)
    func malformedTokensAreRefusedWithTheirReason(_ row: Row) {
        #expect(throws: row.error) { try CompactJWS.parse(row.token) }
        #expect(row.error.isOpaque == row.isOpaque)
    }

    @Test func headersMayBeSixteenLevelsDeep() throws {
        #expect(throws: Never.self) { try CompactJWS.parse(Self.token(Self.deep(15))) }
        #expect(throws: Never.self) { try CompactJWS.parse(Self.token(Self.deep(16))) }
    }

    @Test func tokensMayBeSixteenKibibytesLong() {
        let head = Base64URL.encode(#"{"alg":"HS256"}"#.utf8) + ".e30."
        func token(_ count: Int) -> String { head + String(repeating: "A", count: count - head.utf8.count) }
        #expect(throws: Never.self) { try CompactJWS.parse(token(16_383)) }
        #expect(throws: Never.self) { try CompactJWS.parse(token(16_384)) }
        #expect(throws: JWSFormatError.tooLarge) { try CompactJWS.parse(token(16_385)) }
        #expect(throws: JWSFormatError.tooLarge) { try CompactJWS.parse(token(1_048_576)) }
    }

    /// A cut token is malformed or a shorter signature; it never verifies.
    @Test(arguments: [JWSAlgorithm.hs256, .es256])
    func aCutTokenNeverVerifies(algorithm: JWSAlgorithm) throws {
        let key = try Keys.key(algorithm)
        let publicKey = try key.verificationKey()
        let token = Array(key.sign(claims: ["sub": "user-1"]).utf8)
        let verifier = SignatureVerifier()
        let secondDot = try #require(token.lastIndex(of: UInt8(ascii: ".")))
        for end in 0..<token.count {
            do {
                let jws = try CompactJWS.parse(Array(token[..<end]))
                #expect(end > secondDot)
                #expect(!verifier.verify(jws, algorithm: algorithm, key: publicKey))
            } catch {
                let expected: [JWSFormatError] = end <= secondDot ? [.notThreeParts] : [.invalidBase64(.signature)]
                #expect(expected.contains(error), "cut at \(end)")
            }
        }
    }
}
