import HTTPMessage
import Primitives
import TestSupport
import Testing

@Suite struct HeadEncoderTests {
    @Test func aResponseHeadIsWrittenLineByLine() throws {
        var output: [UInt8] = []
        HeadEncoder.statusLine(201, to: &output)
        HeadEncoder.field(.cacheControl, literal: "no-store", to: &output)
        try HeadEncoder.field(.contentType, "application/json", to: &output)
        HeadEncoder.contentLength(17, to: &output)
        HeadEncoder.connectionClose(to: &output)
        HeadEncoder.end(to: &output)
        #expect(
            text(output) == "HTTP/1.1 201 Created\r\ncache-control: no-store\r\ncontent-type: application/json\r\n"
                + "Content-Length: 17\r\nConnection: close\r\n\r\n")
        let head = try #require(try responseHead(text(output)))
        #expect(head.status == 201 && !head.isPersistent)
        #expect(try BodyFraming.ofResponse(head, to: .post) == .length(17))
    }

    @Test func anUnknownStatusHasAnEmptyPhrase() {
        var output: [UInt8] = []
        HeadEncoder.statusLine(299, to: &output)
        #expect(text(output) == "HTTP/1.1 299 \r\n")
    }

    @Test(arguments: ["a\rb", "a\nb", "a\r\nX: y", "a\u{0}b", "\u{1}", "a\u{7F}"])
    func aValueCannotEndItsLine(value: String) {
        var output: [UInt8] = []
        #expect(throws: FieldError.invalidValue) { try HeadEncoder.field(.location, value, to: &output) }
        #expect(throws: FieldError.invalidValue) {
            try HeadEncoder.field(.location, bytes: Array(value.utf8).span.bytes, to: &output)
        }
        #expect(output.isEmpty)
        var block = FieldBlock()
        #expect(throws: FieldError.invalidValue) { try block.append(.location, value) }
        #expect(throws: FieldError.invalidValue) { try block.append(.authorization, secret: Secret(value), prefix: "Bearer ") }
        #expect(throws: FieldError.invalidValue) { try block.append(.authorization, secret: Secret("t"), prefix: value) }
        #expect(block.isEmpty && block.bytes.isEmpty)
    }

    @Test(arguments: ["", "a b", "a:", "a\r\n", "\u{E4}", "a\u{0}", "a\u{7F}", "a/b", "\"a\""])
    func aNameIsAToken(name: String) { #expect(FieldName(parsing: name) == nil) }

    @Test(arguments: ["", "/a b", "/a\r\nX: y", "/\u{E4}", "/\u{7F}"])
    func aTargetCannotEndItsLine(target: String) {
        var output: [UInt8] = []
        #expect(throws: FieldError.invalidTarget) { try HeadEncoder.requestLine(.get, target: target, to: &output) }
        #expect(output.isEmpty)
    }

    @Test func aMethodCannotEndItsLine() {
        var output: [UInt8] = []
        #expect(throws: FieldError.invalidTarget) { try HeadEncoder.requestLine(.other("A B"), target: "/", to: &output) }
        #expect(output.isEmpty)
    }

    @Test(arguments: [
        "Host", "CONTENT-LENGTH", "transfer-encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect",
    ])
    func aBlockHoldsNothingThatDecidesFraming(name: String) throws {
        var block = FieldBlock()
        let name = try #require(FieldName(parsing: name))
        #expect(throws: FieldError.reservedName) { try block.append(name, "1") }
    }

    @Test func aBlockNeverPrintsWhatItHolds() throws {
        var block = FieldBlock()
        try block.append(.authorization, secret: Secret("sk-secret"), prefix: "Bearer ")
        #expect(text(block.bytes) == "authorization: Bearer sk-secret\r\n")
        #expect("\(block)" == "<redacted>" && String(reflecting: block) == "<redacted>")
        var dumped = ""
        dump(block, to: &dumped)
        #expect(!dumped.contains("sk-"))
    }

    /// Where two lines of one name would be two readings, whoever asks must see that there are two.
    @Test func whatTheLinesOfOneNameComeTo() throws {
        var block = FieldBlock()
        for (name, value) in [("x-a", "1"), ("x-b", "2"), ("x-aa", "3"), ("x-a", "4"), ("authorization", "5")] {
            try block.append(try #require(FieldName(parsing: name)), value)
        }
        let fields = Fields(block)
        func value(_ name: FieldName) -> String {
            switch fields.single(name) {
            case .none: "none"
            case .one(let value): String(decoding: value, as: UTF8.self)
            case .several: "several"
            }
        }
        #expect(value(FieldName("x-a")) == "several" && fields.count(of: FieldName("x-a")) == 2)
        #expect(fields.first(FieldName("x-a")).map(Array.init) == [UInt8(ascii: "1")])
        #expect(fields.values(FieldName("x-a")).map(Array.init) == [[UInt8(ascii: "1")], [UInt8(ascii: "4")]])
        #expect(value(FieldName("x-b")) == "2" && value(FieldName("x-aa")) == "3" && value(.authorization) == "5")
        #expect(value(FieldName("y-a")) == "none" && value(FieldName("x")) == "none")
        #expect(fields.contains(.authorization) && !fields.contains(.accept) && fields.count(of: .accept) == 0)
    }

    @Test func aBlockReadsAsFields() throws {
        var block = FieldBlock()
        block.append(.accept, literal: "application/json")
        try block.append(FieldName("X-Two"), " 2 ")
        let fields = Fields(block)
        #expect(fields.count == 2)
        #expect(fields.string(.accept) == "application/json")
        #expect(fields.string(FieldName("x-two")) == "2")
        #expect(fields.listContains(.accept, "application/json"))
    }

    @Test(arguments: [
        (Method.post, "", "POST /a?b HTTP/1.1\r\nHost: a.example\r\naccept: x\r\nContent-Length: 0\r\n\r\n"),
        (.post, "{}", "POST /a?b HTTP/1.1\r\nHost: a.example\r\naccept: x\r\nContent-Length: 2\r\n\r\n"),
        (.get, "", "GET /a?b HTTP/1.1\r\nHost: a.example\r\naccept: x\r\n\r\n"),
    ])
    func aRequestHasItsOwnFraming(method: Method, body: String, expected: String) throws {
        let origin = try #require(Origin(scheme: .https, host: "A.example"))
        var fields = FieldBlock()
        fields.append(.accept, literal: "x")
        let request = UpstreamRequest(method: method, origin: origin, target: "/a?b", fields: fields, body: Array(body.utf8))
        var output: [UInt8] = []
        try HeadEncoder.request(request, to: &output)
        #expect(text(output) == expected)
        #expect(HeadRun.request().outcome([output]).reason == nil)
    }

    @Test(arguments: [
        (0, "0"), (7, "7"), (10, "10"), (65536, "65536"), (-12, "-12"), (Int.max, "\(Int.max)"), (Int.min, "\(Int.min)"),
    ])
    func numbersAreWrittenInDecimal(value: Int, expected: String) {
        var output: [UInt8] = [0x41]
        output.appendDecimal(value)
        #expect(text(output) == "A" + expected)
    }

    @Test(arguments: [
        Method.get, .head, .post, .put, .delete, .connect, .options, .trace, .patch, .other("get"), .other("PROPFIND"),
        .other("X"),
    ])
    func aMethodIsItsText(method: Method) { #expect(Method(method.text) == method) }

    @Test(arguments: ["", "A B", "G@T", "\u{E4}", "GETGETGETGET\r"])
    func aMethodIsAToken(text: String) { #expect(Method(text) == nil) }
}

/// RFC 9110 section 5.6.7.
@Suite struct HTTPDateTests {
    static let now = WallInstant(secondsSinceEpoch: 1_795_996_800)

    static let dates: [(Int64, String)] = [
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"), (1_795_996_800, "Mon, 30 Nov 2026 00:00:00 GMT"),
        (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
    ]

    @Test(arguments: dates)
    func aDateIsWrittenAndReadAgain(seconds: Int64, expected: String) {
        var output: [UInt8] = []
        HTTPDate.append(WallInstant(secondsSinceEpoch: seconds), to: &output)
        #expect(text(output) == expected)
        #expect(HTTPDate.parse(text(output), now: Self.now) == WallInstant(secondsSinceEpoch: seconds))
    }

    @Test func everyDayIsReadAsItWasWritten() {
        var random = SeededRandom(seed: 9)
        for _ in 0..<2000 {
            let instant = WallInstant(secondsSinceEpoch: Int64.random(in: -9_000_000_000...9_000_000_000, using: &random))
            var output: [UInt8] = []
            HTTPDate.append(instant, to: &output)
            #expect(HTTPDate.parse(text(output), now: Self.now) == instant, "\(text(output))")
        }
    }

    @Test(arguments: [
        "", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
        "Wed, 30 Feb 2000 00:00:00 GMT",
        "Wed, 00 Mar 2000 00:00:00 GMT", "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:3x GMT",
    ])
    func nothingElseIsADate(value: String) { #expect(HTTPDate.parse(value, now: Self.now) == nil) }

    @Test func aLeapSecondIsTheNextOne() {
        #expect(
            HTTPDate.parse("Sat, 31 Dec 2016 23:59:60 GMT", now: Self.now)
                == WallInstant(secondsSinceEpoch: 1_483_228_800))
    }

    @Test func theCachedLineFollowsTheClock() {
        let time = TestTime()
        var cache = DateCache()
        func line() -> String {
            var output: [UInt8] = []
            cache.appendLine(time.wall(), to: &output)
            return text(output)
        }
        #expect(line() == "Date: Mon, 30 Nov 2026 00:00:00 GMT\r\n")
        time.advance(by: .milliseconds(999))
        #expect(line() == "Date: Mon, 30 Nov 2026 00:00:00 GMT\r\n")
        time.advance(by: .milliseconds(1))
        #expect(line() == "Date: Mon, 30 Nov 2026 00:00:01 GMT\r\n")
        time.setWall(WallInstant(secondsSinceEpoch: 0))
        #expect(line() == "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n")
    }
}
