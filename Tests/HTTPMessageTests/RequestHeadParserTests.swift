import HTTPMessage
import TestSupport
import Testing

struct RequestCase: Sendable, CustomTestStringConvertible {
    let bytes: [UInt8]
    let reason: HTTPParseError.Reason?

    init(_ text: String, _ reason: HTTPParseError.Reason? = nil) {
        bytes = Array(text.utf8)
        self.reason = reason
    }

    init(latin1 text: String, _ reason: HTTPParseError.Reason? = nil) {
        bytes = text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        self.reason = reason
    }

    var testDescription: String { "\(text(bytes).prefix(120).debugDescription)" }

    private static func field(_ line: String, _ reason: HTTPParseError.Reason? = nil) -> RequestCase {
        RequestCase(latin1: "GET / HTTP/1.1\r\nHost: a\r\n\(line)\r\n\r\n", reason)
    }
    private static func line(_ line: String, _ reason: HTTPParseError.Reason? = nil) -> RequestCase {
        RequestCase(latin1: "\(line)\r\nHost: a\r\n\r\n", reason)
    }
    private static func host(_ value: String, _ reason: HTTPParseError.Reason? = nil) -> RequestCase {
        RequestCase(latin1: "GET / HTTP/1.1\r\nHost: \(value)\r\n\r\n", reason)
    }

    /// RFC 9112 sections 2.2, 2.3, 3 and RFC 9110 section 9.1.
    static let lines: [RequestCase] = [
        line("GET / HTTP/1.1"), line("\r\nGET / HTTP/1.1"), line("get / HTTP/1.1"), line("M-SEARCH!#$%&'*+.^_`|~ / HTTP/1.1"),
        line("GET / HTTP/1.0"), line("GET / HTTP/1.2"), line("GET / HTTP/1.9"),
        line("\r\n\r\n\r\n\r\nGET / HTTP/1.1"), line("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1", .requestLineMalformed),
        line("\rGET / HTTP/1.1", .bareCarriageReturn), line("\nGET / HTTP/1.1", .bareLineFeed),
        line(" GET / HTTP/1.1", .methodInvalid), line("G@T / HTTP/1.1", .methodInvalid), line("GET: / HTTP/1.1", .methodInvalid),
        line("G\u{0}T / HTTP/1.1", .controlCharacter), line("G\u{E4}T / HTTP/1.1", .methodInvalid),
        line("GET\t/\tHTTP/1.1", .methodInvalid), line("GET\u{B}/\u{B}HTTP/1.1", .controlCharacter),
        line("GET  / HTTP/1.1", .versionInvalid), line("GET /  HTTP/1.1", .versionInvalid),
        line("GET / HTTP/1.1 ", .versionInvalid),
        line("GET / a HTTP/1.1", .versionInvalid), line("GET /", .requestLineMalformed), line("GET", .requestLineMalformed),
        line("GET HTTP/1.1", .requestLineMalformed), line("SSH-2.0-OpenSSH_9.2", .requestLineMalformed),
        line("HTTP/1.1 200 OK", .methodInvalid), line("GET / http/1.1", .versionInvalid), line("GET / HTTP/1.", .versionInvalid),
        line("GET / HTTP/1.10", .versionInvalid), line("GET / HTTP/11.1", .versionInvalid),
        line("GET / HTTP/1,1", .versionInvalid),
        line("GET / HTTPS/1.1", .versionInvalid), line("GET / ICE/1.0", .versionInvalid),
        line("GET / HTTP/\u{D9}.1", .versionInvalid),
        line("GET / HTTP/2.0", .versionUnsupported), line("GET / HTTP/0.9", .versionUnsupported),
        RequestCase("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .versionUnsupported),
        line("GET / HTTP/1.1\rX", .bareCarriageReturn), RequestCase("GET / HTTP/1.1\nHost: a\n\n", .bareLineFeed),
        RequestCase(latin1: "\u{16}\u{3}\u{1}\u{2}\u{0}", .controlCharacter),
    ]

    /// RFC 9112 section 3.2.
    static let targets: [RequestCase] = [
        line("GET //a//b HTTP/1.1"), line("GET /? HTTP/1.1"), line("GET /a?b=c?d HTTP/1.1"), line("GET /%41%2f%00 HTTP/1.1"),
        line("GET /a;b=c,d!$&'()*+:@~ HTTP/1.1"), line("GET /?a[]={1|2}^`\\ HTTP/1.1"),
        line("GET http://localhost HTTP/1.1"), line("GET HTTP://localhost:80/a?b HTTP/1.1"), line("GET https://[::1]?x HTTP/1.1"),
        line("OPTIONS * HTTP/1.1"), line("CONNECT a:443 HTTP/1.1"), line("CONNECT [::1]:443 HTTP/1.1"),
        line("GET /a\u{0}b HTTP/1.1", .controlCharacter), line("GET /a\u{7F}b HTTP/1.1", .controlCharacter),
        line("GET /a\tb HTTP/1.1", .targetInvalid), line("GET /\u{C0}\u{AF} HTTP/1.1", .targetInvalid),
        line("GET /?\u{E4} HTTP/1.1", .targetInvalid), line("GET /a#b HTTP/1.1", .targetInvalid),
        line("GET /?a#b HTTP/1.1", .targetInvalid),
        line("GET /% HTTP/1.1", .targetInvalid), line("GET /%4 HTTP/1.1", .targetInvalid),
        line("GET /%zz HTTP/1.1", .targetInvalid),
        line("GET /?%4g HTTP/1.1", .targetInvalid), line("GET /a\\b HTTP/1.1", .targetInvalid),
        line("GET /\"a\" HTTP/1.1", .targetInvalid),
        line("GET /<a> HTTP/1.1", .targetInvalid), line("GET /?<a> HTTP/1.1", .targetInvalid),
        line("GET /{a} HTTP/1.1", .targetInvalid),
        line("GET * HTTP/1.1", .targetInvalid), line("OPTIONS ** HTTP/1.1", .targetInvalid),
        line("GET a HTTP/1.1", .targetInvalid),
        line("GET a.example:443 HTTP/1.1", .targetInvalid), line("GET ?a HTTP/1.1", .targetInvalid),
        line("GET ftp://a/ HTTP/1.1", .targetInvalid), line("GET http:/a HTTP/1.1", .targetInvalid),
        line("GET http:///a HTTP/1.1", .targetInvalid), line("GET http://u@a/ HTTP/1.1", .targetInvalid),
        line("GET http://a:80:80/ HTTP/1.1", .targetInvalid), line("GET http://[::1/ HTTP/1.1", .targetInvalid),
        line("GET http://[4712::abcd::]/ HTTP/1.1", .targetInvalid), line("GET http://a/#b HTTP/1.1", .targetInvalid),
        line("CONNECT / HTTP/1.1", .targetInvalid), line("CONNECT a HTTP/1.1", .targetInvalid),
        line("CONNECT a: HTTP/1.1", .targetInvalid),
        line("CONNECT http://a/ HTTP/1.1", .targetInvalid), line("CONNECT * HTTP/1.1", .targetInvalid),
    ]

    /// RFC 9112 section 3.2: one valid `Host`, and only HTTP/1.0 may leave it out.
    static let hosts: [RequestCase] = [
        host("localhost"), host("LOCALHOST:8080"), host("localhost:"), host("a_b.example"), host("0.0.0.0=5000"), host("a%41"),
        host("[::1]:8080"), host("[1:2:3:4:5:6:7:8]"), host("[::ffff:1.2.3.4]"), host("[1::]"), host("[1:2:3:4:5:6:7::]"),
        RequestCase("GET / HTTP/1.0\r\n\r\n"), RequestCase("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"),
        RequestCase("GET / HTTP/1.1\r\n\r\n", .hostMissing), RequestCase("GET http://a/ HTTP/1.1\r\n\r\n", .hostMissing),
        RequestCase("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", .hostRepeated),
        RequestCase("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", .hostRepeated),
        host("", .hostInvalid), host("u@a", .hostInvalid), host("a, b", .hostInvalid), host("a,b", .hostInvalid),
        host("a b", .hostInvalid),
        host("a\tb", .hostInvalid), host("a:http", .hostInvalid), host("a:-80", .hostInvalid), host("a:80:80", .hostInvalid),
        host("a:65536", .hostInvalid), host(":80", .hostInvalid), host("a?x", .hostInvalid), host("a/x", .hostInvalid),
        host("a#x", .hostInvalid), host("\"a\"", .hostInvalid), host("<a>", .hostInvalid), host("a\u{FF}", .hostInvalid),
        host("a%4", .hostInvalid), host("a\u{85}X-A: b", .hostInvalid), host("[::1]x", .hostInvalid), host("[::1", .hostInvalid),
        host("::1", .hostInvalid), host("[4711::abcd::]", .hostInvalid), host("[1:2:3:4:5:6:7]", .hostInvalid),
        host("[1:2:3:4:5:6:7:8:9]", .hostInvalid), host("[12345::]", .hostInvalid), host("[::1%25eth0]", .hostInvalid),
        host("[v1.a]", .hostInvalid), host("[]", .hostInvalid), host("[:]", .hostInvalid), host("[1:]", .hostInvalid),
        host("[::1.2.3]", .hostInvalid), host("[::1.2.3.04]", .hostInvalid), host("[1:2:3:4:5:6:7::8]", .hostInvalid),
        host("a\u{0}b", .controlCharacter),
    ]

    /// RFC 9112 section 5, RFC 9110 sections 5.1, 5.5 and 5.6.2.
    static let fields: [RequestCase] = [
        field("!#$%&'*+-.^_`|~0Az: v"), field("X-A:"), field("X-A: \t "), field("X-A:b"), field("X-A: \t b c \t "),
        field("X-A: \u{FF}"),
        field("X-A : b", .whitespaceBeforeColon), field("X A: b", .whitespaceBeforeColon),
        field("X-A\t: b", .whitespaceBeforeColon),
        field("Content-Length 20", .whitespaceBeforeColon), field(" X-A: b", .obsFold), field("X-A: b\r\n c", .obsFold),
        field("X-A:\r\n\tb", .obsFold), RequestCase("GET / HTTP/1.1\r\n Host: a\r\n\r\n", .obsFold),
        field("NoColon", .colonMissing), field("Transfer-\r\nEncoding: chunked", .colonMissing), field(": b", .fieldNameInvalid),
        field(":", .fieldNameInvalid), field("X@A: b", .fieldNameInvalid), field("X\u{A0}A: b", .fieldNameInvalid),
        field("Content-Length\u{85}: 20", .fieldNameInvalid), field("X\u{1}A: b", .controlCharacter),
        field("X\rA: b", .bareCarriageReturn),
        field("\u{C}X: b", .controlCharacter), field("X-A: b\u{0}", .controlCharacter), field("X-A: b\u{7F}c", .controlCharacter),
        field("X-A: b\rc", .bareCarriageReturn), field("X-A: b\r", .bareCarriageReturn), field("X-A: b\nc", .bareLineFeed),
        field("X-A: b\n c", .bareLineFeed), RequestCase("GET / HTTP/1.1\r\nHost: a\r\n\rZ", .bareCarriageReturn),
    ]

    /// RFC 9112 sections 6.1 to 6.3 and RFC 9110 section 10.1.1.
    static let framings: [RequestCase] = [
        field("Content-Length: 20"), field("Content-Length: 0020"), field("Content-Length: 99999999999"),
        field("Transfer-Encoding: chunked"), field("Transfer-Encoding:\tChUnKeD\t"), field("Expect: 100-Continue"),
        field("Content-Length: ", .contentLengthInvalid), field("Content-Length: -0", .contentLengthInvalid),
        field("Content-Length: +1", .contentLengthInvalid), field("Content-Length: 0x14", .contentLengthInvalid),
        field("Content-Length: 2 0", .contentLengthInvalid), field("Content-Length: 20.0", .contentLengthInvalid),
        field("Content-Length: 5, 5", .contentLengthInvalid), field("Content-Length: 5,", .contentLengthInvalid),
        field("Content-Length: \u{B2}", .contentLengthInvalid),
        field("Content-Length: 9223372036854775808", .contentLengthInvalid),
        field("Content-Length: 5\r\ncontent-length: 5", .contentLengthRepeated),
        field("Content-Length: 5\r\nTransfer-Encoding: chunked", .lengthAndTransferEncoding),
        field("Transfer-Encoding: gzip\r\nContent-Length: 5", .lengthAndTransferEncoding),
        field("Transfer-Encoding: gzip", .transferCodingUnknown),
        field("Transfer-Encoding: gzip, chunked", .transferCodingUnknown),
        field("Transfer-Encoding: xchunked", .transferCodingUnknown), field("Transfer-Encoding: a;q=1", .transferCodingUnknown),
        field("Transfer-Encoding: cow\r\nTransfer-Encoding: chunked", .transferCodingUnknown),
        field("Transfer-Encoding: ", .transferEncodingInvalid),
        field("Transfer-Encoding: chunked, chunked", .transferEncodingInvalid),
        field("Transfer-Encoding: chunked, gzip", .transferEncodingInvalid),
        field("Transfer-Encoding: chunked,", .transferEncodingInvalid),
        field("Transfer-Encoding: ,chunked", .transferEncodingInvalid),
        field("Transfer-Encoding: chunked;q=1", .transferEncodingInvalid),
        field("Transfer-Encoding: \"chunked\"", .transferEncodingInvalid),
        field("Transfer-Encoding: cow chunked", .transferEncodingInvalid),
        field("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", .transferEncodingInvalid),
        field("Transfer-Encoding: \u{A0}chunked", .transferEncodingInvalid),
        RequestCase("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", .transferEncodingInHTTP10),
        RequestCase("POST / HTTP/1.0\r\nExpect: 200-ok\r\n\r\n"), field("Expect: 200-ok", .expectationUnknown),
        field("Expect: 100-continue, x", .expectationUnknown), field("Expect:", .expectationUnknown),
    ]

    static let all = lines + targets + hosts + fields + framings
}

@Suite struct RequestHeadParserTests {
    @Test(arguments: RequestCase.all)
    func everyRuleHasItsVerdict(_ row: RequestCase) {
        let outcome = request(row.bytes)
        #expect(outcome.reason == row.reason, "\(outcome)")
        if row.reason == nil { #expect(outcome != .needMore) }
    }

    @Test(arguments: RequestCase.all)
    func theVerdictDoesNotDependOnTheCut(_ row: RequestCase) {
        let whole = request(row.bytes)
        for cut in 0...row.bytes.count {
            #expect(HeadRun.request().outcome(reads(row.bytes, cuts: [cut])) == whole, "cut at \(cut)")
        }
        #expect(HeadRun.request().outcome(reads(row.bytes, cuts: Array(0...row.bytes.count))) == whole)
    }

    @Test(arguments: [
        (HTTPParseError.Reason.bareLineFeed, 400), (.requestLineTooLong, 414), (.fieldsTooLarge, 431), (.tooManyFields, 431),
        (.contentTooLarge, 413), (.expectationUnknown, 417), (.transferCodingUnknown, 501), (.versionUnsupported, 505),
        (.lengthAndTransferEncoding, 400), (.chunkLineTooLong, 400),
    ])
    func everyReasonHasItsStatus(reason: HTTPParseError.Reason, status: Int) {
        #expect(HTTPParseError(reason, at: 0).status == status)
    }

    @Test func theHeadHoldsWhatWasSent() throws {
        let head = try requestHead(
            "POST /a/b%20c?x=1&y HTTP/1.1\r\nHOST: api.example:8443\r\nAuthorization: Bearer t\r\nX-Two: 1\r\nx-two:  2 \r\n"
                + "Expect: 100-continue\r\nContent-Length: 12\r\n\r\n")
        let found = try #require(head)
        #expect(found.method == .post)
        #expect(found.target.form == .origin)
        #expect(found.target.path == "/a/b%20c")
        #expect(found.target.pathEquals(Array("/a/b%20c".utf8)))
        #expect(!found.target.pathEquals(Array("/a/b c".utf8)))
        #expect(found.target.queryBytes.map { text($0) } == "x=1&y")
        #expect(found.authority.map { text($0) } == "api.example:8443")
        #expect(found.version == .http11)
        #expect(found.framing == .length(12))
        #expect(found.expectsContinue && found.isPersistent)
        #expect(found.fields.count == 6)
        #expect(found.fields.string(.authorization) == "Bearer t")
        #expect(found.fields.string(FieldName("x-two")) == nil)
        #expect(found.fields.count(of: FieldName("X-TWO")) == 2)
        #expect(found.fields.values(FieldName("x-two")).map { text($0) } == ["1", "2"])
        #expect(found.fields.first(FieldName("x-tw")) == nil)
    }

    @Test(arguments: [
        ("GET http://A.example/x HTTP/1.1", "A.example", "/x"), ("GET http://a HTTP/1.1", "a", "/"),
        ("OPTIONS * HTTP/1.1", "h", "*"),
        ("CONNECT a:443 HTTP/1.1", "a:443", ""), ("GET https://a?q HTTP/1.1", "a", "/"),
    ])
    func theTargetOverrulesHost(line: String, authority: String, path: String) throws {
        let head = try #require(try requestHead("\(line)\r\nHost: h\r\n\r\n"))
        #expect(head.authority.map { text($0) } == authority)
        #expect(head.target.path == path)
        #expect(head.target.pathEquals(Array(path.utf8)) == path.hasPrefix("/"))
    }

    /// RFC 9112 section 9.3.
    @Test(arguments: [
        ("1.1", "", true), ("1.1", "close", false), ("1.1", "foo, CLOSE", false), ("1.1", "close, keep-alive", false),
        ("1.1", "closed", true), ("1.1", "Upgrade", true), ("1.1", "a,,\tclose ,b", false), ("1.0", "", false),
        ("1.0", "Keep-Alive", true), ("1.0", "keep-alive, close", false), ("1.3", "", true),
    ])
    func persistenceFollowsVersionAndOptions(version: String, value: String, expected: Bool) throws {
        let connection = value.isEmpty ? "" : "Connection: \(value)\r\n"
        let head = try requestHead("GET / HTTP/\(version)\r\nHost: a\r\n\(connection)\r\n")
        #expect(head?.isPersistent == expected)
    }

    @Test(arguments: [
        ("1.1", "Content-Length: 1\r\n", true), ("1.1", "Content-Length: 0\r\n", false), ("1.1", "", false),
        ("1.1", "Transfer-Encoding: chunked\r\n", true), ("1.0", "Content-Length: 1\r\n", false),
    ])
    func aContinueIsExpectedOnlyWithContentToCome(version: String, framing: String, expected: Bool) throws {
        let head = try requestHead("POST / HTTP/\(version)\r\nHost: a\r\nExpect: 100-continue\r\n\(framing)\r\n")
        #expect(head?.expectsContinue == expected)
    }

    @Test func aRequestBeginsBehindTheEmptyLine() throws {
        var parser = RequestHeadParser(limits: .standard)
        for (bytes, begun) in [("", false), ("\r", false), ("\r\n", false), ("\r\n\r", false), ("\r\n\r\nG", true)] {
            #expect(try parser.parse(Array(bytes.utf8).span.bytes) == nil)
            #expect(parser.hasBegun == begun)
        }
        parser.reset()
        #expect(!parser.hasBegun)
        let next = try parser.parse(Array("GET / HTTP/1.0\r\n\r\nrest".utf8).span.bytes)
        #expect(next?.byteCount == 18)
    }

    // MARK: Limits

    @Test(arguments: [(-1, nil), (0, nil), (1, HTTPParseError.Reason.requestLineTooLong)])
    func theRequestLineIsBounded(beyond: Int, reason: HTTPParseError.Reason?) {
        let path = String(repeating: "a", count: 8192 + beyond - "GET / HTTP/1.1".utf8.count)
        #expect(request("GET /\(path) HTTP/1.1\r\nHost: a\r\n\r\n").reason == reason)
        // Without its end, too: nobody has to send one.
        #expect(request(String(repeating: "A", count: 8192 + beyond)).reason == reason)
    }

    @Test(arguments: [(-1, nil), (0, nil), (1, HTTPParseError.Reason.fieldsTooLarge)])
    func theFieldSectionIsBounded(beyond: Int, reason: HTTPParseError.Reason?) {
        let value = String(repeating: "a", count: 16384 + beyond - "Host: a\r\nX-A: \r\n".utf8.count)
        #expect(request("GET / HTTP/1.1\r\nHost: a\r\nX-A: \(value)\r\n\r\n").reason == reason)
        #expect(request("GET / HTTP/1.1\r\nHost: a\r\nX-A: \(value)\r\n").reason == reason)
    }

    @Test(arguments: [(99, nil), (100, nil), (101, HTTPParseError.Reason.tooManyFields)])
    func theNumberOfLinesIsBounded(count: Int, reason: HTTPParseError.Reason?) {
        let lines = String(repeating: "X: a\r\n", count: count - 1)
        #expect(request("GET / HTTP/1.1\r\nHost: a\r\n\(lines)\r\n").reason == reason)
    }

    @Test func aLineWithoutEndIsRefusedAtItsLimit() {
        let limits = HTTPLimits(requestLineBytes: 20, fieldsBytes: 30)
        #expect(request("GET /aaaaaaaaaaaaaaaaaaaaaaaaaaa", limits: limits) == .refused(.requestLineTooLong, offset: 20))
        let head = "GET / HTTP/1.1\r\n"
        let long = head + String(repeating: "X", count: 40)
        #expect(request(long, limits: limits) == .refused(.fieldsTooLarge, offset: head.utf8.count + 28))
    }

    // MARK: Random

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func randomMessagesHaveOneVerdictHoweverTheyAreCut(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<1500 {
            let row = RequestCase.all[Int.random(in: 0..<RequestCase.all.count, using: &random)]
            let bytes = random.mutate(row.bytes)
            let whole = request(bytes)
            let cuts = random.cuts(of: bytes.count)
            #expect(HeadRun.request().outcome(reads(bytes, cuts: cuts)) == whole, "seed \(seed): \(bytes) at \(cuts)")
        }
    }

    @Test(arguments: [11, 12] as [UInt64])
    func whatIsParsedWrittenAndParsedAgainIsTheSame(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var written = 0
        for _ in 0..<3000 {
            let row = RequestCase.all[Int.random(in: 0..<RequestCase.all.count, using: &random)]
            let bytes = Bool.random(using: &random) ? row.bytes : random.mutate(row.bytes)
            var parser = RequestHeadParser(limits: .standard)
            guard let head = try? parser.parse(bytes.span.bytes)?.head, head.version == .http11 else { continue }
            var output: [UInt8] = []
            let target = head.target
            let query = target.queryBytes.map { "?" + text($0) } ?? ""
            let sent =
                switch target.form {
                case .origin: target.path + query
                case .asterisk: "*"
                case .authority: text(target.authority ?? [])
                case .absolute: "http://" + text(target.authority ?? []) + text(target.pathBytes) + query
                }
            try HeadEncoder.requestLine(head.method, target: sent, to: &output)
            head.fields.forEach { name, value in
                guard let name = FieldName(parsing: text(name)) else { return }
                // No closure that throws two kinds of errors: the value was in a message, so it can be written.
                #expect(throws: Never.self) { try HeadEncoder.field(name, bytes: value.span.bytes, to: &output) }
            }
            HeadEncoder.end(to: &output)
            parser.reset()
            let again = try #require(try parser.parse(output.span.bytes))
            #expect(summary(again.head).lowercased() == summary(head).lowercased(), "seed \(seed): \(bytes)")
            #expect(again.byteCount == output.count)
            written += 1
        }
        #expect(written > 200)
    }
}
