import TestSupport
import Testing

@testable import Configuration

@Suite struct ConfigTextTests {
    @Test(arguments: [
        ("plain", "plain"), ("https://host.example/path", "https://host.example/path"),
        ("https://user:pw@host.example/path", "https://<redacted>@host.example/path"),
        ("redis://:pw@127.0.0.1:6379/0", "redis://<redacted>@127.0.0.1:6379/0"),
        ("redis://:p@w@127.0.0.1:6379/0", "redis://<redacted>@127.0.0.1:6379/0"),
        ("redis://:p/w@127.0.0.1:6379/0", "redis://<redacted>@127.0.0.1:6379/0"),
        ("redis://:p?w@127.0.0.1:6379/0", "redis://<redacted>@127.0.0.1:6379/0"),
        ("https://me:p/w@host.example/", "https://<redacted>@host.example/"),
        ("https://host.example:443/@user", "https://host.example:443/@user"), ("https://[::1]:1/@user", "https://[::1]:1/@user"),
        ("https://host.example/?token=x", "https://host.example/?<redacted>"),
        ("https://host.example?", "https://host.example?<redacted>"),
        ("https://host.example/#x", "https://host.example/#<redacted>"),
        ("unix:/run/x.sock?mode=0666", "unix:/run/x.sock?mode=0666"),
        ("usr:pw99@h", "<redacted>@h"), ("redis:usr:p@w@h:1", "<redacted>@h:1"),
        ("somebody@host.example", "somebody@host.example"),
        ("://", "://"), ("a://@", "a://<redacted>@"),
    ])
    func userInfoAndQueryOfAURLAreRedacted(text: String, expected: String) {
        #expect(ConfigText.redacted(text) == expected)
    }

    @Test(arguments: [
        ("issuer", "isuer", 1), ("issuer", "issuer", 0), ("", "abc", 3), ("ab", "ba", 1), ("kitten", "sitting", 3), ("a", "", 1),
    ])
    func theDistanceCountsEdits(left: String, right: String, expected: Int) {
        #expect(Suggestion.editDistance(Array(left.utf8), Array(right.utf8)) == expected)
        #expect(Suggestion.editDistance(Array(right.utf8), Array(left.utf8)) == expected)
    }

    @Test func aSuggestionIsNear() {
        #expect(Suggestion.nearest(to: "isuer", in: ["audience", "issuer"]) == "issuer")
        #expect(Suggestion.nearest(to: "x", in: ["y", "z"]) == nil)
        #expect(Suggestion.nearest(to: "completely", in: ["different"]) == nil)
        #expect(Suggestion.nearest(to: String(repeating: "a", count: 65), in: [String(repeating: "a", count: 65)]) == nil)
        #expect(Suggestion.nearest(to: "ttl", in: ["ttl_seconds"]) == nil)
        #expect(Suggestion.nearest(to: "ttl_second", in: ["ttl_seconds"]) == "ttl_seconds")
    }

    /// What is written as YAML is read back as the same text, whatever it holds.
    @Test func everyTextSurvivesBeingPrinted() {
        var random = SeededRandom(seed: 7)
        let scalars: [Unicode.Scalar] = Array(
            "ab09-./:#,[]{}\"'\\&*!|>%@` \n\t\r\u{0}\u{1b}\u{7f}\u{85}\u{a0}\u{2028}\u{feff}\u{fffe}é😀".unicodeScalars)
        var texts = ["", "no", "Null", "~", "8", "true", "TRUE", "y", "-", "- a", "a: b", "<<", "1e3", ".5", "a #b"]
        for _ in 0..<2_000 {
            var text = ""
            for _ in 0..<Int.random(in: 1...12, using: &random) {
                if let scalar = scalars.randomElement(using: &random) { text.unicodeScalars.append(scalar) }
            }
            texts.append(text)
        }
        for text in texts {
            let reader = ConfigReader.parse(
                "a: \(YAMLText.scalar(text))  # x\nb: \(YAMLText.list([text, text]))\nc: {\(YAMLText.quoted(text)): 1}")
            #expect(reader.problems == [])
            #expect(reader.root.string("a").map { Array($0.utf8) } == Array(text.utf8))
            #expect(reader.root.strings("b").map { Array($0.utf8) } == [Array(text.utf8), Array(text.utf8)])
            #expect(reader.root.section("c").keys.map { Array($0.utf8) } == [Array(text.utf8)])
        }
    }

    @Test(arguments: [
        ("0", Duration.zero, "0"), ("8", .seconds(8), "8"), ("0.5", .milliseconds(500), "0.5"),
        ("-1.25", .milliseconds(-1250), "-1.25"),
        ("0.000000001", .nanoseconds(1), "0.000000001"), ("-0.5", .milliseconds(-500), "-0.5"),
        ("2.50", .milliseconds(2500), "2.5"),
    ])
    func secondsAreReadAndPrinted(text: String, duration: Duration, printed: String) {
        #expect(PlainScalar.seconds(text) == duration)
        #expect(PlainScalar.text(duration) == printed)
    }

    @Test(arguments: ["", "-", ".5", "5.", "1e3", "0x1", "01", "1.0000000001", "1 ", "NaN"])
    func otherSpellingsAreNoSeconds(text: String) {
        #expect(PlainScalar.seconds(text) == nil)
    }
}
