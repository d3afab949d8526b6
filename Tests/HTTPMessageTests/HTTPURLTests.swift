import HTTPMessage
import Primitives
import Testing

@Suite struct HTTPURLTests {
    @Test(arguments: [
        ("https://partners.january.ai", "partners.january.ai", 443, "/"),
        ("HTTP://A.Example:8080/x?y=z", "a.example:8080", 8080, "/x?y=z"),
        ("http://[::1]:80/", "[::1]", 80, "/"), ("https://a?x", "a", 443, "/?x"), ("https://a:/b", "a", 443, "/b"),
        ("http://127.0.0.1:1/%41", "127.0.0.1:1", 1, "/%41"), ("https://a:443/b", "a", 443, "/b"),
    ])
    func aURLHasItsParts(text: String, authority: String, port: Int, target: String) throws {
        let url = try HTTPURL.parse(text)
        #expect(url.origin.authority == authority)
        #expect(url.origin.port == port)
        #expect(url.target == target)
        #expect(url.userInfo == nil)
    }

    @Test(arguments: [
        ("", HTTPURLError.scheme), ("ftp://a", .scheme), ("a.example", .scheme), ("https:/a", .scheme), (" https://a", .scheme),
        ("https://", .host), ("https:///a", .host), ("https://?x", .host), ("https://a b/", .host), ("https://a,b/", .host),
        ("https://a%41/", .host), ("https://\u{E4}.example/", .host), ("https://[::1/", .host), ("https://[::1]x/", .host),
        ("https://::1/", .host),
        ("https://a:0/", .port), ("https://a:65536/", .port), ("https://a:-1/", .port),
        ("https://a:99999999999999999999/", .port),
        ("https://a:b/", .host), ("https://a/b c", .target), ("https://a/\u{E4}", .target), ("https://a/%4", .target),
        ("https://a/?%", .target),
        ("https://a/b\n", .target), ("https://a/#b", .fragment), ("https://a#b", .fragment), ("https://u%4@a/", .userInfo),
        ("https://u b@a/", .userInfo),
    ])
    func whatIsNoURLIsRefusedWithItsReason(text: String, expected: HTTPURLError) {
        #expect(throws: expected) { try HTTPURL.parse(text) }
    }

    @Test func userInformationAndQueryAreNeverPrinted() throws {
        let url = try HTTPURL.parse("https://us%40er:p%3Aw:x@a.example:8443/path?key=secret")
        #expect(url.userInfo?.user == "us@er")
        #expect(url.userInfo?.password?.equals(Secret("p:w:x")) == true)
        #expect(url.redacted == "https://<redacted>@a.example:8443/path?<redacted>")
        #expect("\(url)" == url.redacted && String(reflecting: url) == url.redacted)
        var dumped = ""
        dump(url, to: &dumped)
        #expect(!dumped.contains("us@er") && !dumped.contains("key=secret"))
        #expect(try HTTPURL.parse("https://u@a").userInfo?.password == nil)
        #expect(try HTTPURL.parse("https://a/b").redacted == "https://a/b")
        // The host is what follows the last `@`, whatever stands before it.
        #expect(try HTTPURL.parse("https://good.example@evil.example/").origin.host == "evil.example")
    }

    @Test(arguments: [
        ("http://localhost", true), ("http://127.0.0.1:1", true), ("http://127.255.0.9", true), ("http://[::1]", true),
        ("http://[0:0:0:0:0:0:0:1]", true), ("http://[::ffff:127.0.0.1]", true), ("http://128.0.0.1", false),
        ("http://127.0.0.1.example", false),
        ("http://localhost.example", false), ("http://[::2]", false), ("http://[::ffff:128.0.0.1]", false),
        ("http://127.1", false),
        ("http://0.0.0.0", false), ("http://127.0.0.01", false),
    ])
    func loopbackIsToldByTheText(text: String, expected: Bool) throws {
        #expect(try HTTPURL.parse(text).origin.isLoopback == expected)
    }

    @Test(arguments: [
        ("https://App.example.com", "https://app.example.com"), ("https://a:8443", "https://a:8443"),
        ("https://a:443", "https://a"),
        ("http://[::1]:3000", "http://[::1]:3000"), ("https://a/", nil), ("https://a?", nil), ("https://a/b", nil),
        ("https://u@a", nil),
        ("null", nil), ("*", nil), ("https://*.a", nil), ("a", nil), ("https://a#", nil),
    ])
    func anOriginHasNothingBehindIt(text: String, expected: String?) {
        #expect(Origin.parse(text)?.description == expected)
    }

    @Test func originsAreEqualByTheirParts() {
        #expect(Origin.parse("https://A") == Origin.parse("https://a:443"))
        #expect(Origin.parse("https://a") != Origin.parse("http://a"))
        #expect(Origin(scheme: .http, host: "::1", port: 8080)?.authority == "[::1]:8080")
        #expect(Origin(scheme: .http, host: "[::1]") == nil)
        #expect(Origin(scheme: .http, host: "") == nil)
        #expect(Origin(scheme: .http, host: "a/b") == nil)
        #expect(Origin(scheme: .http, host: "a", port: 0) == nil)
    }
}
