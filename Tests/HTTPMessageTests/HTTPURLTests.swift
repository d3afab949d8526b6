import HTTPMessage
import Primitives
import TestSupport
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

    // MARK: Cut and changed

    private static let urls = [
        "https://partners.january.ai", "HTTP://A.Example:8080/x?y=z", "http://[::1]:80/", "https://a?x", "https://a:/b",
        "https://us%40er:p%3Aw:x@a.example:8443/path?key=secret", "http://127.0.0.1:1/%41%42",
    ]

    /// What is read is written as a URL that reads as the same, and shows nothing that has to stay secret.
    private static func isSound(_ text: String) -> Bool {
        guard let url = try? HTTPURL.parse(text) else { return true }
        let written = "\(url.origin.scheme)://\(url.origin.authority)\(url.target)"
        guard let again = try? HTTPURL.parse(written) else { return false }
        let hasQuery = url.target.contains("?")
        return again.origin == url.origin && again.target == url.target && url.target.hasPrefix("/")
            && (1...65_535).contains(url.origin.port) && url.redacted.hasSuffix("?<redacted>") == hasQuery
    }

    @Test(arguments: urls) func aURLCutAnywhereIsSoundOrRefused(text: String) {
        let bytes = Array(text.utf8)
        for end in 0...bytes.count { #expect(Self.isSound(String(decoding: bytes[..<end], as: UTF8.self)), "\(end)") }
        for start in 0..<bytes.count { #expect(Self.isSound(String(decoding: bytes[start...], as: UTF8.self)), "\(start)") }
    }

    @Test func changedURLsAreSoundOrRefused() throws {
        let seed: UInt64 = 3_986
        var random = SeededRandom(seed: seed)
        let alphabet = Array("azAZ09-._~:/?#[]@!$&'()*+,;=%\\ \t\n\0\u{E4}".utf8)
        for round in 0..<20_000 {
            var bytes = Array(try #require(Self.urls.randomElement(using: &random)).utf8)
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                let index = Int.random(in: 0..<max(1, bytes.count), using: &random)
                let byte = alphabet.randomElement(using: &random) ?? 0
                switch Int.random(in: 0..<3, using: &random) {
                case 0 where !bytes.isEmpty: bytes[index] = byte
                case 1 where !bytes.isEmpty: bytes.remove(at: index)
                default: bytes.insert(byte, at: index)
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            #expect(Self.isSound(text), "seed \(seed), round \(round): \(text.debugDescription)")
        }
    }
}
