import StrictJSON
import Testing

@testable import Sessions

struct ClaimRulesTests {
    private static let claims: JSONObject = [
        "plan": "pro", "n": 1, "a/b": "slash", "list": ["x", 2], "deep": ["list": ["zero", "one"]], "none": .null,
    ]

    @Test(
        arguments: [
            ("plan", "pro"), ("a/b", "slash"), ("/a~1b", "slash"), ("/deep/list/1", "one"), ("/list/1", 2), ("none", .null),
        ] as [(String, JSONValue)])
    func aClaimIsFoundByNameOrPointer(text: String, expected: JSONValue) throws {
        let path = try #require(ClaimPath(text))
        #expect(path.value(in: Self.claims) == expected)
        #expect(path.description == text)
    }

    @Test(arguments: ["missing", "/missing", "/list/2", "/list/01", "/plan/x", "deep/list"])
    func whatIsNotThereIsNil(text: String) throws {
        #expect(try #require(ClaimPath(text)).value(in: Self.claims) == nil)
    }

    @Test(arguments: ["", "/~2", "/a~"])
    func textThatIsNeitherIsRefused(text: String) { #expect(ClaimPath(text) == nil) }

    @Test(
        arguments: [
            ("plan", ["pro"], true), ("plan", ["free", "pro"], true), ("plan", ["Pro"], false), ("n", [1], true),
            ("n", ["1"], false),
            ("n", [1.0], true), ("list", ["x"], true), ("list", [2], true), ("list", ["2"], false), ("list", [["x", 2]], true),
            ("missing", ["x"], false), ("none", [.null], true), ("none", ["x"], false),
        ] as [(String, [JSONValue], Bool)])
    func aRequiredClaimIsComparedByTypeAndValue(name: String, allowed: [JSONValue], expected: Bool) {
        #expect(RequiredClaim(path: .claim(name), allowed: allowed).holds(in: Self.claims) == expected)
    }

    @Test func aClaimThatHasOneValueIsNeverAList() {
        #expect(RequiredClaim(path: .claim("plan"), allowed: ["pro"], isSingle: true).holds(in: Self.claims))
        #expect(!RequiredClaim(path: .claim("list"), allowed: ["x"], isSingle: true).holds(in: Self.claims))
        #expect(!RequiredClaim(path: .claim("list"), allowed: ["x"], onlyIfPresent: true, isSingle: true).holds(in: Self.claims))
    }

    @Test func aClaimThatIsOnlyCheckedIfPresentMayBeAbsent() {
        #expect(RequiredClaim(path: .claim("missing"), allowed: ["x"], onlyIfPresent: true).holds(in: Self.claims))
        #expect(!RequiredClaim(path: .claim("plan"), allowed: ["x"], onlyIfPresent: true).holds(in: Self.claims))
        #expect(!RequiredClaim(path: .claim("none"), allowed: ["x"], onlyIfPresent: true).holds(in: Self.claims))
    }
}

struct VerifierURLTests {
    @Test(
        arguments: [
            ("https://login.example/jwks", false, nil), ("http://127.0.0.1:8080/x", false, nil),
            ("http://localhost/x", false, nil),
            ("http://[::1]/x", false, nil), ("http://10.0.0.1/x", false, .plainHTTP(privateHost: true)),
            ("http://10.0.0.1/x", true, nil),
            ("http://172.15.0.1/x", true, .plainHTTP(privateHost: false)), ("http://172.16.0.1/x", true, nil),
            ("http://172.31.255.255/x", true, nil), ("http://172.32.0.1/x", true, .plainHTTP(privateHost: false)),
            ("http://192.168.1.1/x", true, nil), ("http://192.169.1.1/x", true, .plainHTTP(privateHost: false)),
            ("http://100.64.0.1/x", true, nil), ("http://100.128.0.1/x", true, .plainHTTP(privateHost: false)),
            ("http://169.254.169.254/x", true, nil), ("http://[fd00::1]/x", true, nil), ("http://[fe80::1]/x", true, nil),
            ("http://[2001:db8::1]/x", true, .plainHTTP(privateHost: false)),
            ("http://[fd::1]/x", true, .plainHTTP(privateHost: false)),
            ("http://keycloak:8080/x", true, nil), ("http://auth.internal/x", true, nil),
            ("http://kc.default.svc.cluster.local/x", true, nil),
            ("http://login.example/x", true, .plainHTTP(privateHost: false)),
            ("http://8.8.8.8/x", true, .plainHTTP(privateHost: false)),
            ("http://10.0.0.1.example/x", true, .plainHTTP(privateHost: false)), ("ftp://x/y", true, .notAURL),
            ("login.example", true, .notAURL),
            ("https://u:p@login.example/x", true, .userInformation), ("http://u@8.8.8.8/x", true, .userInformation),
            ("https://u:p/w@login.example/x", true, .userInformation), ("https://u:p w@login.example/x", true, .userInformation),
        ] as [(String, Bool, VerifierURL.Problem?)])
    func httpIsForLoopbackAndWithPermissionForPrivateHosts(text: String, allowHTTP: Bool, expected: VerifierURL.Problem?) {
        var found: VerifierURL.Problem?
        do throws(VerifierURL.Problem) { _ = try VerifierURL.parse(text, allowHTTP: allowHTTP) } catch { found = error }
        #expect(found == expected)
    }
}
