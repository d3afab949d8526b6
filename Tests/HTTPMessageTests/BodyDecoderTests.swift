import HTTPMessage
import TestSupport
import Testing

struct ChunkedCase: Sendable, CustomTestStringConvertible {
    let bytes: [UInt8]
    let expected: Expected

    enum Expected: Sendable {
        case success(String)
        case failure(HTTPParseError.Reason)
    }

    var testDescription: String { text(bytes).debugDescription }

    private static func ok(_ text: String, _ content: String) -> ChunkedCase {
        ChunkedCase(bytes: Array(text.utf8), expected: .success(content))
    }
    private static func bad(_ text: String, _ reason: HTTPParseError.Reason) -> ChunkedCase {
        ChunkedCase(bytes: text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }, expected: .failure(reason))
    }
    private static func size(_ line: String, _ reason: HTTPParseError.Reason) -> ChunkedCase {
        bad("\(line)\r\nhello\r\n0\r\n\r\n", reason)
    }

    /// RFC 9112 section 7.1.
    static let all: [ChunkedCase] = [
        ok("0\r\n\r\n", ""), ok("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ok("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ok("0005\r\nhello\r\n000\r\n\r\n", "hello"), ok("5;a\r\nhello\r\n0;b=c\r\n\r\n", "hello"),
        ok("5 ; a = b\t;c\r\nhello\r\n0\r\n\r\n", "hello"), ok("5;a=\"b; c\\\"d \\\\\";e\r\nhello\r\n0\r\n\r\n", "hello"),
        ok("5;a=\"\" ;b\r\nhello\r\n0\r\n\r\n", "hello"), ok("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ok("5\r\nhello\r\n0\r\nX-Sum: abc\r\nX-T:\r\nHost: x\r\n\r\n", "hello"),
        size("-5", .chunkSizeInvalid), size("+5", .chunkSizeInvalid), size("0x5", .chunkSizeInvalid),
        size("5_0", .chunkSizeInvalid),
        size("5.0", .chunkSizeInvalid), size("", .chunkSizeInvalid), size(" 5", .chunkSizeInvalid),
        size("\t5", .chunkSizeInvalid),
        size("5 ", .chunkSizeInvalid), size("5\t", .chunkSizeInvalid), size("5 0", .chunkExtensionInvalid),
        size("$5", .chunkSizeInvalid),
        size(";a=b", .chunkSizeInvalid), size("\u{B}5", .chunkSizeInvalid), size("\u{EF}", .chunkSizeInvalid),
        size("fffffffffffffffff", .chunkSizeInvalid), size("10000000000000005", .chunkSizeInvalid),
        size("8000000000000000", .chunkSizeInvalid),
        size("7fffffffffffffff", .contentTooLarge), size("40000000", .contentTooLarge),
        size("5;", .chunkExtensionInvalid), size("5; ", .chunkExtensionInvalid), size("5;;a", .chunkExtensionInvalid),
        size("5;a=", .chunkExtensionInvalid), size("5;a =", .chunkExtensionInvalid), size("5;a ", .chunkExtensionInvalid),
        size("5;a=b ", .chunkExtensionInvalid), size("5;a b=c", .chunkExtensionInvalid), size("5;a=b c", .chunkExtensionInvalid),
        size("5;a[b=c", .chunkExtensionInvalid), size("5;a=\u{0}", .chunkExtensionInvalid),
        size("5;a=\"b", .chunkExtensionInvalid),
        size("5;a=\"b\"c", .chunkExtensionInvalid), size("5;a=\"b\u{0}\"", .chunkExtensionInvalid),
        size("5;a=\"b\\\u{1}\"", .chunkExtensionInvalid),
        size("5;=b", .chunkExtensionInvalid), size("5 abc", .chunkExtensionInvalid), size("5;a=b=c", .chunkExtensionInvalid),
        size("5;a=\"b\\", .chunkExtensionInvalid),
        bad("5\nhello\r\n0\r\n\r\n", .bareLineFeed), bad("5\rhello\r\n0\r\n\r\n", .bareCarriageReturn),
        bad("5;a\nhello", .bareLineFeed),
        bad("5\r\r\nhello", .bareCarriageReturn), bad("5\r\nhello0\r\n\r\n", .chunkEndMissing),
        bad("5\r\nhelloXX0\r\n\r\n", .chunkEndMissing),
        bad("5\r\nhello\rX0\r\n\r\n", .chunkEndMissing), bad("5\r\nhello\n0\r\n\r\n", .chunkEndMissing),
        bad("4\r\nhello\r\n0\r\n\r\n", .chunkEndMissing), bad("5\r\nhello\r\n\r\n0\r\n\r\n", .chunkSizeInvalid),
        bad("0\r\n\rX", .bareCarriageReturn), bad("0\r\n\n", .bareLineFeed), bad("0\r\nX-A : b\r\n\r\n", .whitespaceBeforeColon),
        bad("0\r\nX-A: b\r\n c\r\n\r\n", .obsFold), bad("0\r\nGET / HTTP/1.1\r\n\r\n", .whitespaceBeforeColon),
        bad("0\r\nX\r\n\r\n", .colonMissing),
        bad("0\r\n: a\r\n\r\n", .fieldNameInvalid), bad("0\r\nX@: a\r\n\r\n", .fieldNameInvalid),
        bad("0\r\nX: a\u{0}\r\n\r\n", .controlCharacter),
        bad("0\r\nX: a\n\r\n", .bareLineFeed), bad("0\r\nX: a\rb\r\n\r\n", .bareCarriageReturn),
    ]
}

@Suite struct BodyDecoderTests {
    @Test(arguments: ChunkedCase.all)
    func everyChunkedBodyHasItsVerdict(_ row: ChunkedCase) {
        let outcome = body(row.bytes, .chunked)
        switch row.expected {
        case .success(let content): #expect(outcome == .content(content, consumed: row.bytes.count, isComplete: true))
        case .failure(let reason): #expect(outcome.reason == reason, "\(outcome)")
        }
    }

    @Test(arguments: ChunkedCase.all)
    func theVerdictDoesNotDependOnTheCut(_ row: ChunkedCase) {
        let whole = body(row.bytes, .chunked)
        for cut in 0...row.bytes.count {
            #expect(body(row.bytes, .chunked, cuts: [cut]) == whole, "cut at \(cut)")
        }
        #expect(body(row.bytes, .chunked, cuts: Array(0...row.bytes.count)) == whole)
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func randomBodiesHaveOneVerdictHoweverTheyAreCut(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<2000 {
            let bytes = random.mutate(ChunkedCase.all[Int.random(in: 0..<ChunkedCase.all.count, using: &random)].bytes)
            let cuts = random.cuts(of: bytes.count)
            #expect(body(bytes, .chunked, cuts: cuts) == body(bytes, .chunked), "seed \(seed): \(bytes) at \(cuts)")
        }
    }

    @Test(arguments: [5, 6] as [UInt64])
    func whatIsChunkedIsReadAgain(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<300 {
            var content: [UInt8] = []
            var output: [UInt8] = []
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                let piece = (0..<Int.random(in: 0...300, using: &random)).map { _ in UInt8.random(in: 0x20...0x7E, using: &random)
                }
                content += piece
                ChunkedEncoder.chunk(piece.span.bytes, to: &output)
            }
            ChunkedEncoder.end(to: &output)
            let count = output.count
            output += Array("GET".utf8)
            let cuts = random.cuts(of: output.count)
            #expect(
                body(output, .chunked, cuts: cuts) == .content(text(content), consumed: count, isComplete: true), "seed \(seed)")
        }
    }

    @Test(arguments: [
        (BodyFraming.none, "abc", "", 0, true), (.length(0), "abc", "", 0, true), (.length(3), "abcdef", "abc", 3, true),
        (.length(3), "ab", "ab", 2, false), (.untilClose, "abc", "abc", 3, false),
    ])
    func everyFramingTakesItsOwn(framing: BodyFraming, bytes: String, content: String, consumed: Int, isComplete: Bool) {
        #expect(body(bytes, framing) == .content(content, consumed: consumed, isComplete: isComplete))
    }

    @Test(arguments: [BodyFraming.length(3), .chunked])
    func aBodyCutShortIsAnError(framing: BodyFraming) {
        var decoder = BodyDecoder(framing: framing, limits: .standard)
        #expect(throws: HTTPParseError(.incomplete, at: 0)) { try decoder.finishAtEOF() }
    }

    @Test(arguments: [BodyFraming.none, .length(0), .untilClose])
    func theEndOfTheConnectionCompletesTheOthers(framing: BodyFraming) throws {
        var decoder = BodyDecoder(framing: framing, limits: .standard)
        #expect(try decoder.finishAtEOF())
        #expect(decoder.isComplete)
    }

    @Test func discardedContentIsCounted() throws {
        var decoder = BodyDecoder(framing: .chunked, limits: .standard, discards: true)
        var content: [UInt8] = []
        let progress = try decoder.decode(Array("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n".utf8).span.bytes, into: &content)
        #expect(progress.isComplete && content.isEmpty && decoder.contentCount == 6)
    }

    // MARK: Limits

    @Test(arguments: [(9, nil), (10, nil), (11, HTTPParseError.Reason.contentTooLarge)])
    func contentIsBoundedInEveryFraming(count: Int, reason: HTTPParseError.Reason?) {
        let limits = HTTPLimits(bodyBytes: 10)
        let content = String(repeating: "a", count: count)
        #expect(BodyFraming.length(count).exceeds(limits) == (reason != nil))
        #expect(body(content, .length(count), limits: limits).reason == reason)
        // Announced is enough.
        #expect(body("", .length(count), limits: limits).reason == reason)
        #expect(body(content, .untilClose, limits: limits).reason == reason)
        #expect(body("\(String(count, radix: 16))\r\n", .chunked, limits: limits).reason == reason)
        let ones = String(repeating: "1\r\na\r\n", count: count)
        #expect(body(ones + "0\r\n\r\n", .chunked, limits: limits).reason == reason)
    }

    @Test(arguments: [(255, nil), (256, nil), (257, HTTPParseError.Reason.chunkLineTooLong)])
    func chunkLinesAreBounded(count: Int, reason: HTTPParseError.Reason?) {
        #expect(body(String(repeating: "0", count: count - 1) + "5\r\nhello\r\n0\r\n\r\n", .chunked).reason == reason)
        #expect(body("5;" + String(repeating: "a", count: count - 2) + "\r\nhello\r\n0\r\n\r\n", .chunked).reason == reason)
        #expect(body("5;" + String(repeating: "a", count: count - 2), .chunked).reason == reason)
    }

    /// RFC 9112 section 7.1.1: the total of extensions is bounded, too.
    @Test(arguments: [(99, nil), (100, nil), (101, HTTPParseError.Reason.chunkExtensionsTooLarge)])
    func allExtensionsTogetherAreBounded(count: Int, reason: HTTPParseError.Reason?) {
        let limits = HTTPLimits(fieldsBytes: 100)
        let chunks = String(repeating: "1;abcdefg\r\na\r\n", count: count)
        #expect(body(chunks + "0\r\n\r\n", .chunked, limits: limits).reason == reason)
    }

    @Test(arguments: [(-1, nil), (0, nil), (1, HTTPParseError.Reason.fieldsTooLarge)])
    func theTrailerSectionIsBounded(beyond: Int, reason: HTTPParseError.Reason?) {
        let value = String(repeating: "a", count: 16384 + beyond - "X: \r\n".utf8.count)
        #expect(body("0\r\nX: \(value)\r\n\r\n", .chunked).reason == reason)
    }

    @Test(arguments: [(99, nil), (100, nil), (101, HTTPParseError.Reason.tooManyFields)])
    func theNumberOfTrailerLinesIsBounded(count: Int, reason: HTTPParseError.Reason?) {
        #expect(body("0\r\n" + String(repeating: "X: a\r\n", count: count) + "\r\n", .chunked).reason == reason)
    }
}
