import January
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// The proof that a probe of `doctor --through` carries, and the report it gets.
@Suite struct WayProbeTests {
    private static let now = WallInstant(secondsSinceEpoch: 1_800_000_000)
    private static func key(_ digit: Character) throws -> APIKey {
        try APIKey(Secret("sk-" + String(repeating: digit, count: 40)))
    }

    private static func read(_ text: some Collection<UInt8>, _ keys: [APIKey], after seconds: Int64 = 0) -> WayProbe.Answer? {
        WayProbe.read(Array(text)[...], keys: keys, now: WallInstant(secondsSinceEpoch: now.secondsSinceEpoch + seconds))
    }

    @Test(arguments: WayProbe.Answer.allCases)
    func whoHoldsOneOfTheKeysIsAnswered(answer: WayProbe.Answer) throws {
        let (first, next, other) = (try Self.key("1"), try Self.key("2"), try Self.key("3"))
        let text = WayProbe.credential(answer, key: next, now: Self.now).utf8
        #expect(Self.read(text, [first, next]) == answer)
        #expect(Self.read(text, [first, other]) == nil)
        #expect(Self.read(text, []) == nil)
        #expect(text.count <= WayProbe.maxBytes)
    }

    /// The time of the server minus that of whoever asks.
    @Test(arguments: [(-61, false), (-60, true), (0, true), (300, true), (301, false)] as [(Int64, Bool)])
    func itIsGoodForFiveMinutes(seconds: Int64, isGood: Bool) throws {
        let key = try Self.key("1")
        let text = WayProbe.credential(.report, key: key, now: Self.now).utf8
        #expect((Self.read(text, [key], after: seconds) != nil) == isGood)
    }

    @Test func nothingOfItCanBeChangedOrLeftOut() throws {
        let key = try Self.key("1")
        let text = Array(WayProbe.credential(.limited, key: key, now: Self.now).utf8)
        for index in text.indices {
            #expect(Self.read(text[..<index], [key]) == nil)
            for change in [UInt8(1), 0x20, 0x80] {
                var other = text
                other[index] ^= change
                #expect(Self.read(other, [key]) == nil, "byte \(index)")
            }
        }
        #expect(Self.read(text + Array("0".utf8), [key]) == nil)
        #expect(Self.read(text + Array(".0".utf8), [key]) == nil)
    }

    /// The keys are not even looked at for what sessions look like.
    @Test(arguments: ["", "doctor-", "doctor-0123456789abcdef", "e30.e30.e30", "doctor-probe"])
    func othersAreNoProbes(text: String) {
        var wasAsked = false
        let keys: () -> [APIKey] = {
            wasAsked = true
            return []
        }
        let answer = WayProbe.read(Array(text.utf8)[...], keys: keys(), now: Self.now)
        #expect(answer == nil && !wasAsked)
    }

    private static let report = WayReport(
        version: "1.2.3", requestID: String(repeating: "a", count: 32), peer: "10.0.0.1", isTrusted: true,
        isUnconfigured: false, addressCount: 2, client: "2001:db8::1", idleProxyCount: 3, idleSeconds: 0.3)

    @Test func aReportArrivesWholeOrNotAtAll() {
        let content = Self.report.encoded()
        #expect(WayReport(content) == Self.report)
        for index in content.indices {
            #expect(WayReport(Array(content[..<index])) == nil)
            var other = content
            other[index] ^= 1
            #expect(WayReport(other) == nil, "byte \(index)")
        }
        #expect(WayReport(content + [0x0A]) == nil)
    }

    /// What is compared with what arrives: the same bytes for the same ID.
    @Test func theAnswersAreKnownByHeart() throws {
        let id = String(repeating: "0", count: 31) + "f"
        let limited = try #require(SentAnswer.expected(.limited, requestID: id))
        #expect(limited.status == 429)
        let fields = Dictionary(uniqueKeysWithValues: limited.fields.map { ($0.name, $0.value) })
        #expect(fields["Retry-After"] == "17")
        #expect(fields["RateLimit"] == "\"per_address\";r=0;t=17")
        #expect(fields["RateLimit-Policy"] == "\"per_address\";q=1;w=1")
        #expect(fields["X-Request-Id"] == id && fields["Cache-Control"] == "no-store")
        let unavailable = try #require(SentAnswer.expected(.unavailable, requestID: id))
        #expect(unavailable.status == 503 && unavailable.fields.contains { $0 == ("Retry-After", "17") })
        let report = try #require(SentAnswer.expected(.report, requestID: id, content: [1, 2]))
        #expect(report.status == 201 && report.content == [1, 2])
        #expect(report.fields.contains { $0 == ("January-Request-Id", "doctor") })
        for wrong in ["", "f", id + "0", String(repeating: "F", count: 32), String(repeating: "+", count: 32)] {
            #expect(SentAnswer.expected(.limited, requestID: wrong) == nil)
        }
    }
}
