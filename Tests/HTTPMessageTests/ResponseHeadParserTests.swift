import HTTPMessage
import TestSupport
import Testing

struct ResponseCase: Sendable, CustomTestStringConvertible {
    let bytes: [UInt8]
    let reason: HTTPParseError.Reason?

    init(_ text: String, _ reason: HTTPParseError.Reason? = nil) {
        bytes = text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        self.reason = reason
    }

    var testDescription: String { text(bytes).debugDescription }

    private static func line(_ line: String, _ reason: HTTPParseError.Reason? = nil) -> ResponseCase {
        ResponseCase("\(line)\r\nDate: x\r\n\r\n", reason)
    }
    private static func field(_ line: String, _ reason: HTTPParseError.Reason? = nil) -> ResponseCase {
        ResponseCase("HTTP/1.1 200 OK\r\n\(line)\r\n\r\n", reason)
    }

    /// RFC 9112 section 4.
    static let all: [ResponseCase] = [
        line("HTTP/1.1 200 OK"), line("HTTP/1.0 404 Not\tFound \u{E4}"), line("HTTP/1.1 200 "), line("HTTP/1.1 200"),
        line("HTTP/1.2 599 x"),
        line("HTTP/1.1 100 Continue"), ResponseCase("HTTP/1.1 204 No Content\r\n\r\n"),
        line("HTTP/1.1 20 OK", .statusLineMalformed), line("HTTP/1.1 2000 OK", .statusLineMalformed),
        line("HTTP/1.1 +20 OK", .statusLineMalformed), line("HTTP/1.1  200 OK", .statusLineMalformed),
        line("HTTP/1.1\t200 OK", .statusLineMalformed), line("HTTP/1.1 200\tOK", .statusLineMalformed),
        line("HTTP/1.1 099 OK", .statusLineMalformed), line("HTTP/1.1 600 OK", .statusLineMalformed),
        line("HTTP/1.1 2x0 OK", .statusLineMalformed), line("HTTP/1.1", .statusLineMalformed), line("", .statusLineMalformed),
        line("http/1.1 200 OK", .versionInvalid), line("HTTP/11 200 OK", .versionInvalid),
        line("ICY 200 OK now", .versionInvalid),
        line("HTTP/2.0 200 OK", .versionUnsupported), line("HTTP/1.1 200 O\u{0}K", .controlCharacter),
        line("HTTP/1.1 200 OK\rX", .bareCarriageReturn), ResponseCase("HTTP/1.1 200 OK\nDate: x\n\n", .bareLineFeed),
        ResponseCase("\r\nHTTP/1.1 200 OK\r\n\r\n", .statusLineMalformed),
        field("X-A : b", .whitespaceBeforeColon), field("X-A: b\r\n c", .obsFold), field("X-A: b\u{0}", .controlCharacter),
        field("NoColon", .colonMissing), field("X-A: a\rb", .bareCarriageReturn), field(": a", .fieldNameInvalid),
    ]
}

@Suite struct ResponseHeadParserTests {
    @Test(arguments: ResponseCase.all)
    func everyRuleHasItsVerdict(_ row: ResponseCase) {
        let outcome = response(row.bytes)
        #expect(outcome.reason == row.reason, "\(outcome)")
        if row.reason == nil { #expect(outcome != .needMore) }
    }

    @Test(arguments: ResponseCase.all)
    func theVerdictDoesNotDependOnTheCut(_ row: ResponseCase) {
        let whole = response(row.bytes)
        for cut in 0...row.bytes.count {
            #expect(HeadRun.response().outcome(reads(row.bytes, cuts: [cut])) == whole, "cut at \(cut)")
        }
        #expect(HeadRun.response().outcome(reads(row.bytes, cuts: Array(0...row.bytes.count))) == whole)
    }

    @Test(arguments: [1, 2] as [UInt64])
    func randomMessagesHaveOneVerdictHoweverTheyAreCut(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<1500 {
            let bytes = random.mutate(ResponseCase.all[Int.random(in: 0..<ResponseCase.all.count, using: &random)].bytes)
            let cuts = random.cuts(of: bytes.count)
            #expect(HeadRun.response().outcome(reads(bytes, cuts: cuts)) == response(bytes), "seed \(seed): \(bytes) at \(cuts)")
        }
    }

    @Test func anInformationalHeadIsFollowedByAnother() throws {
        let bytes = Array("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}".utf8)
        var parser = ResponseHeadParser(limits: .standard)
        let first = try #require(try parser.parse(bytes.span.bytes))
        #expect(first.head.isInformational)
        parser.reset()
        let second = try #require(try parser.parse(Array(bytes[first.byteCount...]).span.bytes))
        #expect(second.head.status == 201 && !second.head.isInformational)
        #expect(bytes.count - first.byteCount - second.byteCount == 2)
    }

    @Test(arguments: [
        ("1.1", "", true), ("1.1", "Connection: close\r\n", false), ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
    ])
    func persistenceFollowsVersionAndOptions(version: String, connection: String, expected: Bool) throws {
        #expect(try responseHead("HTTP/\(version) 200 OK\r\n\(connection)\r\n")?.isPersistent == expected)
    }

    @Test(arguments: [(-1, nil), (0, nil), (1, HTTPParseError.Reason.fieldsTooLarge)])
    func theFieldSectionIsBounded(beyond: Int, reason: HTTPParseError.Reason?) {
        let value = String(repeating: "a", count: 16384 + beyond - "X-A: \r\n".utf8.count)
        #expect(response("HTTP/1.1 200 OK\r\nX-A: \(value)\r\n\r\n").reason == reason)
    }

    @Test(arguments: [(99, nil), (100, nil), (101, HTTPParseError.Reason.tooManyFields)])
    func theNumberOfLinesIsBounded(count: Int, reason: HTTPParseError.Reason?) {
        #expect(response("HTTP/1.1 200 OK\r\n" + String(repeating: "X: a\r\n", count: count) + "\r\n").reason == reason)
    }

    @Test(arguments: [(-1, nil), (0, nil), (1, HTTPParseError.Reason.requestLineTooLong)])
    func theStatusLineIsBounded(beyond: Int, reason: HTTPParseError.Reason?) {
        let phrase = String(repeating: "a", count: 8192 + beyond - "HTTP/1.1 200 ".utf8.count)
        #expect(response("HTTP/1.1 200 \(phrase)\r\n\r\n").reason == reason)
    }
}

/// RFC 9112 section 6.3 and RFC 9110 section 8.6.
@Suite struct BodyFramingTests {
    static let table: [(Method, String, String, BodyFraming?, HTTPParseError.Reason?)] = [
        (.get, "1.1 200", "", .untilClose, nil),
        (.get, "1.0 200", "", .untilClose, nil),
        (.get, "1.1 200", "Content-Length: 0\r\n", .length(0), nil),
        (.post, "1.1 201", "Content-Length: 7\r\n", .length(7), nil),
        (.get, "1.0 200", "Content-Length: 7\r\n", .length(7), nil),
        (.get, "1.1 500", "Transfer-Encoding: chunked\r\n", .chunked, nil),
        (.get, "1.1 302", "Content-Length: 3\r\n", .length(3), nil),
        (.head, "1.1 200", "Content-Length: 7\r\n", BodyFraming.none, nil),
        (.head, "1.1 200", "Transfer-Encoding: chunked\r\n", BodyFraming.none, nil),
        (.head, "1.1 200", "", BodyFraming.none, nil),
        (.get, "1.1 304", "Content-Length: 7\r\n", BodyFraming.none, nil),
        (.get, "1.1 204", "", BodyFraming.none, nil),
        (.get, "1.1 204", "Content-Length: 0\r\n", BodyFraming.none, nil),
        (.get, "1.1 100", "", BodyFraming.none, nil),
        (.connect, "1.1 200", "", BodyFraming.none, nil),
        (.connect, "1.1 407", "Content-Length: 1\r\n", .length(1), nil),
        (.get, "1.1 204", "Content-Length: 1\r\n", nil, .contentForbidden),
        (.get, "1.1 204", "Transfer-Encoding: chunked\r\n", nil, .contentForbidden),
        (.get, "1.1 103", "Content-Length: 1\r\n", nil, .contentForbidden),
        (.get, "1.1 200", "Content-Length: 1\r\nContent-Length: 1\r\n", nil, .contentLengthRepeated),
        (.get, "1.1 200", "Content-Length: 1, 1\r\n", nil, .contentLengthInvalid),
        (.get, "1.1 200", "Content-Length: -1\r\n", nil, .contentLengthInvalid),
        (.head, "1.1 200", "Content-Length: x\r\n", nil, .contentLengthInvalid),
        (.get, "1.1 200", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", nil, .lengthAndTransferEncoding),
        (.get, "1.1 304", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", nil, .lengthAndTransferEncoding),
        (.get, "1.1 200", "Transfer-Encoding: gzip, chunked\r\n", nil, .transferCodingUnknown),
        (.get, "1.1 200", "Transfer-Encoding: gzip\r\n", nil, .transferCodingUnknown),
        (.get, "1.1 200", "Transfer-Encoding: chunked, gzip\r\n", nil, .transferEncodingInvalid),
        (.get, "1.1 200", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", nil, .transferEncodingInvalid),
        (.get, "1.0 200", "Transfer-Encoding: chunked\r\n", nil, .transferEncodingInHTTP10),
    ]

    @Test(arguments: table)
    func everyResponseHasItsFraming(
        method: Method, line: String, fields: String, expected: BodyFraming?, reason: HTTPParseError.Reason?
    ) throws {
        let head = try #require(try responseHead("HTTP/\(line) x\r\n\(fields)\r\n"))
        do {
            let framing = try BodyFraming.ofResponse(head, to: method)
            #expect(framing == expected)
        } catch {
            #expect(error.reason == reason)
        }
    }

    @Test(arguments: [
        ("POST / HTTP/1.1\r\nHost: a\r\n", BodyFraming.none), ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n", .length(0)),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n", .length(5)),
        ("GET / HTTP/1.0\r\nContent-Length: 5\r\n", .length(5)),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n", .chunked),
    ])
    func everyRequestHasItsFraming(head: String, expected: BodyFraming) throws {
        #expect(try requestHead(head + "\r\n")?.framing == expected)
    }
}
