import JOSE
import StrictJSON
import Testing

/// RFC 7519 section 4.1: the types of the registered claims.
@Suite struct JWTClaimsTests {
    private func claims(_ text: String) throws(JWTClaimsError) -> JWTClaims { try JWTClaims.parse(Array(text.utf8)) }

    @Test func claimsAreTyped() throws {
        let claims = try claims(
            #"{"iss":"i","sub":"s","aud":["a","b"],"exp":4.1024448e9,"nbf":1.5,"iat":-1,"cnf":null,"x":[{}]}"#)
        #expect(claims.issuer == "i")
        #expect(claims.subject == "s")
        #expect(claims.audience == ["a", "b"])
        #expect(claims.expiration == 4_102_444_800)
        #expect(claims.notBefore == 1.5)
        #expect(claims.issuedAt == -1)
        #expect(claims.isBound)
        #expect(claims.object["x"] == [[:]])
    }

    @Test func everyClaimMayBeAbsent() throws {
        let claims = try claims("{}")
        #expect(claims.issuer == nil && claims.subject == nil && claims.audience == [] && claims.expiration == nil)
        #expect(claims.notBefore == nil && claims.issuedAt == nil && !claims.isBound)
        #expect(try self.claims(#"{"aud":"one"}"#).audience == ["one"])
        #expect(try self.claims(#"{"aud":[]}"#).audience == [])
    }

    static let refused: [(String, JWTClaimsError)] = [
        ("", .notJSON(.unexpectedEnd)), ("x", .notJSON(.syntax)), ("[]", .notObject), ("\"x\"", .notObject), ("1", .notObject),
        ("null", .notObject), (#"{"sub":"a","sub":"b"}"#, .notJSON(.duplicateName)),
        (#"{"x":{"a":1,"a":1}}"#, .notJSON(.duplicateName)),
        (#"{"exp":NaN}"#, .notJSON(.syntax)), (#"{"exp":0x7f}"#, .notJSON(.syntax)),
        ("{\"sub\":\"a\"}\0", .notJSON(.trailingBytes)),
        (#"{"exp":null}"#, .invalidClaim(.expiration)), (#"{"exp":true}"#, .invalidClaim(.expiration)),
        (#"{"exp":"4102444800"}"#, .invalidClaim(.expiration)), (#"{"exp":{}}"#, .invalidClaim(.expiration)),
        (#"{"exp":[1]}"#, .invalidClaim(.expiration)), (#"{"exp":1E400}"#, .invalidClaim(.expiration)),
        (#"{"exp":-1e309}"#, .invalidClaim(.expiration)), (#"{"exp":1e999999}"#, .invalidClaim(.expiration)),
        ("{\"exp\":" + String(repeating: "9", count: 400) + "}", .invalidClaim(.expiration)),
        (#"{"nbf":"0"}"#, .invalidClaim(.notBefore)), (#"{"nbf":null}"#, .invalidClaim(.notBefore)),
        (#"{"iat":"x"}"#, .invalidClaim(.issuedAt)), (#"{"iat":{}}"#, .invalidClaim(.issuedAt)),
        (#"{"sub":""}"#, .invalidClaim(.subject)), (#"{"sub":null}"#, .invalidClaim(.subject)),
        (#"{"sub":1}"#, .invalidClaim(.subject)),
        (#"{"sub":["a"]}"#, .invalidClaim(.subject)), (#"{"iss":["i"]}"#, .invalidClaim(.issuer)),
        (#"{"iss":null}"#, .invalidClaim(.issuer)),
        (#"{"aud":{"a":1}}"#, .invalidClaim(.audience)), (#"{"aud":[["a"]]}"#, .invalidClaim(.audience)),
        (#"{"aud":["a",1]}"#, .invalidClaim(.audience)), (#"{"aud":null}"#, .invalidClaim(.audience)),
        ("{\"x\":" + String(repeating: "[", count: 16) + String(repeating: "]", count: 16) + "}", .notJSON(.tooDeep)),
    ]

    @Test(arguments: refused)
    func otherTypesAreRefused(text: String, error: JWTClaimsError) {
        #expect(throws: error) { try claims(text) }
    }

    @Test func claimsMayBeSixteenLevelsDeep() throws {
        #expect(throws: Never.self) {
            try claims("{\"x\":" + String(repeating: "[", count: 15) + String(repeating: "]", count: 15) + "}")
        }
    }

    @Test(arguments: ["9223372036854775808", "18446744073709551616", "1e20", "-9223372036854775809", "4102444800.25", "-0"])
    func numbersOfEveryFiniteSizeAreDates(text: String) throws {
        #expect(try claims("{\"exp\":\(text)}").expiration == Double(text))
    }
}
