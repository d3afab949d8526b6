import HTTPClient
import HTTPMessage
import Primitives
import TestSupport
import Testing

/// One response as bytes, and what the exchange has to make of it.
struct ResponseCase: Sendable, CustomTestStringConvertible {
    enum Outcome: Sendable, Equatable {
        case response(status: Int, body: String, isReusable: Bool)
        case failed(UpstreamError)
    }

    let name: String
    var method = Method.get
    let bytes: String
    /// The server closes after the bytes.
    var ends = false
    let outcome: Outcome
    var testDescription: String { name }

    static let table: [ResponseCase] = [
        .init(
            name: "length", bytes: "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello",
            outcome: .response(status: 201, body: "hello", isReusable: true)),
        .init(
            name: "length zero", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            outcome: .response(status: 200, body: "", isReusable: true)),
        .init(
            name: "chunked", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            outcome: .response(status: 200, body: "abcde", isReusable: true)),
        .init(
            name: "chunked with trailers",
            bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
            outcome: .response(status: 200, body: "a", isReusable: true)),
        .init(
            name: "until close", bytes: "HTTP/1.1 200 OK\r\n\r\nall of it", ends: true,
            outcome: .response(status: 200, body: "all of it", isReusable: false)),
        .init(
            name: "until close, empty", bytes: "HTTP/1.1 200 OK\r\n\r\n", ends: true,
            outcome: .response(status: 200, body: "", isReusable: false)),
        .init(
            name: "1.0 until close", bytes: "HTTP/1.0 200 OK\r\n\r\nold", ends: true,
            outcome: .response(status: 200, body: "old", isReusable: false)),
        .init(
            name: "1.0 with length", bytes: "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold",
            outcome: .response(status: 200, body: "old", isReusable: false)),
        .init(
            name: "1.0 kept alive", bytes: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nold",
            outcome: .response(status: 200, body: "old", isReusable: true)),
        .init(
            name: "1.0 kept alive without a length", bytes: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nold", ends: true,
            outcome: .response(status: 200, body: "old", isReusable: false)),
        .init(
            name: "connection close", bytes: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
            outcome: .response(status: 200, body: "x", isReusable: false)),
        .init(
            name: "100 and 103 before it",
            bytes:
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            outcome: .response(status: 200, body: "ok", isReusable: true)),
        .init(
            name: "16 informational heads",
            bytes: String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: 16)
                + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            outcome: .response(status: 200, body: "ok", isReusable: true)),
        .init(
            name: "17 informational heads",
            bytes: String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: 17)
                + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "101", bytes: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", outcome: .failed(.broken(.malformed))),
        .init(
            name: "204", bytes: "HTTP/1.1 204 No Content\r\n\r\n", outcome: .response(status: 204, body: "", isReusable: true)),
        .init(
            name: "304 with a length", bytes: "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
            outcome: .response(status: 304, body: "", isReusable: true)),
        .init(
            name: "HEAD with a length", method: .head, bytes: "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n",
            outcome: .response(status: 200, body: "", isReusable: true)),
        .init(
            name: "redirect", bytes: "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
            outcome: .response(status: 302, body: "", isReusable: true)),
        .init(
            name: "both framings", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "two lengths", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "an unknown coding", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "chunked twice", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "chunked before another", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "chunked in 1.0", bytes: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a list of lengths", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a length with a sign", bytes: "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a length that is none", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "204 that announces content", bytes: "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "100 that announces content", bytes: "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nabc",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a folded field", bytes: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "white space before a colon", bytes: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a NUL in a field", bytes: "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a line that ends in LF alone", bytes: "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a CR alone", bytes: "HTTP/1.1 200 OK\r\nA: b\rContent-Length: 5\r\n\r\n", outcome: .failed(.broken(.malformed))
        ),
        .init(
            name: "an empty line before it", bytes: "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a status of two digits", bytes: "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a status beyond the classes", bytes: "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "another version", bytes: "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", outcome: .failed(.broken(.malformed))),
        .init(name: "a TLS alert", bytes: "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{28}", outcome: .failed(.broken(.malformed))),
        .init(
            name: "a trailer that is none", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT : t\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a chunk size that overflows",
            bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a chunk without its end", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a status-line without end", bytes: "HTTP/1.1 200 " + String(repeating: "x", count: 8192),
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "fields without end", bytes: "HTTP/1.1 200 OK\r\n" + String(repeating: "Set-Cookie: a=b\r\n", count: 101),
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "a chunk extension without end",
            bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + String(repeating: "a", count: 300),
            outcome: .failed(.broken(.malformed))),
        .init(name: "no HTTP", bytes: "SSH-2.0-OpenSSH_9.2\r\n\r\n", outcome: .failed(.broken(.malformed))),
        .init(
            name: "bad chunk", bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "length over the limit", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n",
            outcome: .failed(.broken(.tooLarge))),
        .init(
            name: "chunks over the limit",
            bytes:
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n\(String(repeating: "x", count: 64))\r\n1\r\ny\r\n0\r\n\r\n",
            outcome: .failed(.broken(.tooLarge))),
        .init(
            name: "until close over the limit", bytes: "HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 65), ends: true,
            outcome: .failed(.broken(.tooLarge))),
        .init(
            name: "a failure's length over the limit", bytes: "HTTP/1.1 429 No\r\nContent-Length: 65\r\n\r\n",
            outcome: .response(status: 429, body: "", isReusable: false)),
        .init(
            name: "a failure's chunks over the limit",
            bytes:
                "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n\(String(repeating: "x", count: 64))\r\n1\r\n",
            outcome: .response(status: 401, body: "", isReusable: false)),
        .init(
            name: "a failure until close over the limit", bytes: "HTTP/1.1 503 No\r\n\r\n" + String(repeating: "x", count: 65),
            ends: true, outcome: .response(status: 503, body: "", isReusable: false)),
        .init(
            name: "a failure's chunks that are no chunks", bytes: "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            outcome: .failed(.broken(.malformed))),
        .init(
            name: "until close at the limit", bytes: "HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 64), ends: true,
            outcome: .response(status: 200, body: String(repeating: "x", count: 64), isReusable: false)),
    ]
}

@Suite struct ExchangeStateMachineTests {
    private static func machine(_ method: Method = .get, sent: ExchangeStateMachine.Sending = .all) -> ExchangeStateMachine {
        var machine = ExchangeStateMachine(method: method, limits: .standard, maxResponseBytes: 64)
        if sent != .nothing { machine.requestBegins() }
        if sent == .all { machine.requestSent() }
        return machine
    }

    private static func feed(_ machine: inout ExchangeStateMachine, _ pieces: [[UInt8]], ends: Bool) -> ResponseCase.Outcome? {
        var step = ExchangeStateMachine.Step.needMore
        for piece in pieces where step == .needMore && !piece.isEmpty { step = machine.received(piece.span.bytes) }
        if step == .needMore, ends { step = machine.ended() }
        switch step {
        case .needMore: return nil
        case .failed(let error): return .failed(error)
        case .complete(let isReusable):
            guard let response = machine.takeResponse() else { return nil }
            return .response(
                status: response.status, body: String(decoding: response.body, as: UTF8.self), isReusable: isReusable)
        }
    }

    @Test(arguments: ResponseCase.table) func everyFramingEndsWhereItSays(row: ResponseCase) {
        var machine = Self.machine(row.method)
        #expect(Self.feed(&machine, [Array(row.bytes.utf8)], ends: row.ends) == row.outcome)
    }

    @Test(arguments: ResponseCase.table) func theSameInTwoPiecesAndByteByByte(row: ResponseCase) {
        let bytes = Array(row.bytes.utf8)
        for cut in 0...bytes.count {
            var machine = Self.machine(row.method)
            let outcome = Self.feed(&machine, [Array(bytes[..<cut]), Array(bytes[cut...])], ends: row.ends)
            #expect(outcome == row.outcome, "cut at \(cut)")
        }
        var machine = Self.machine(row.method)
        #expect(Self.feed(&machine, bytes.map { [$0] }, ends: row.ends) == row.outcome)
    }

    /// A response that breaks off is never a success, unless its content ends with the connection: then nobody could know.
    @Test(arguments: ResponseCase.table) func aResponseCutShortIsNeverASuccess(row: ResponseCase) throws {
        let bytes = Array(row.bytes.utf8)
        let head = row.bytes.components("\r\n\r\n").first.map { $0.utf8.count + 4 } ?? bytes.count
        for cut in 0..<bytes.count {
            var machine = Self.machine(row.method)
            let outcome = try #require(Self.feed(&machine, [Array(bytes[..<cut])], ends: true) as ResponseCase.Outcome?)
            if row.ends, cut >= head { continue }
            if case .response = outcome { Issue.record("\(row.name) cut at \(cut): \(outcome)") }
            machine = Self.machine(row.method)
            if Self.feed(&machine, [Array(bytes[..<cut])], ends: false) == nil {
                #expect(machine.reset() == .failed(.broken(.reset)), "a reset is no end")
            }
        }
    }

    /// What is known of a response that is not whole: nothing before its head, then the head, whatever ends it.
    @Test(arguments: ["Content-Length: 5", "Transfer-Encoding: chunked", "Content-Length: 65"])
    func theHeadOfAResponseThatBreaksOffIsKept(framing: String) {
        let head = Array("HTTP/1.1 201 Created\r\nX-Request-Id: r1\r\n\(framing)\r\n\r\n".utf8)
        for (count, isWhole) in [(20, false), (head.count - 1, false), (head.count, true)] {
            let bytes = Array(head[..<count])
            var waiting = Self.machine()
            let step = waiting.received(bytes.span.bytes)
            #expect(step == (isWhole && framing.hasSuffix("65") ? .failed(.broken(.tooLarge)) : .needMore))
            var (reset, ended, garbled) = (waiting, waiting, waiting)
            _ = reset.reset()
            _ = ended.ended()
            _ = garbled.received(Array("zz\r\n zz\r\n".utf8).span.bytes)
            for machine in [waiting, reset, ended] {
                #expect(machine.incompleteHead?.fields.string(.xRequestID) == (isWhole ? "r1" : nil), "\(count)")
            }
            // A length takes anything for content.
            if framing.hasSuffix("chunked") {
                #expect(garbled.incompleteHead?.status == (isWhole ? 201 : nil), "\(count)")
            }
        }
        var whole = Self.machine()
        _ = whole.received(Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8).span.bytes)
        #expect(whole.incompleteHead == nil)
    }

    /// Two framings at once: its fields are read all the same.
    @Test func aHeadWithoutAFramingIsKept() {
        var machine = Self.machine()
        let bytes = Array("HTTP/1.1 201 Created\r\nX-Request-Id: r1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".utf8)
        #expect(Self.feed(&machine, [bytes], ends: false) == .failed(.broken(.malformed)))
        #expect(machine.incompleteHead?.fields.string(.xRequestID) == "r1")
    }

    @Test(arguments: ResponseCase.table) func bytesBehindTheResponseEndTheConnection(row: ResponseCase) {
        guard case .response(let status, let body, true) = row.outcome else { return }
        var machine = Self.machine(row.method)
        let outcome = Self.feed(&machine, [Array(row.bytes.utf8) + [0x48]], ends: false)
        #expect(outcome == .response(status: status, body: body, isReusable: false))
    }

    @Test func anAnswerBeforeTheRequestIsWrittenEndsTheConnection() {
        var machine = Self.machine(.post, sent: .partly)
        let outcome = Self.feed(
            &machine, [Array("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n".utf8)], ends: false)
        #expect(outcome == .response(status: 413, body: "", isReusable: false))
    }

    /// Whether the request may be sent again depends on nothing but whether a byte of it went out.
    @Test(arguments: [
        (
            ExchangeStateMachine.Sending.nothing, UpstreamError.notSent(.closedBeforeSend),
            UpstreamError.notSent(.closedBeforeSend)
        ),
        (.partly, .broken(.closedEarly), .broken(.reset)),
        (.all, .broken(.closedEarly), .broken(.reset)),
    ])
    func anEndAndAResetBeforeTheAnswer(sent: ExchangeStateMachine.Sending, ended: UpstreamError, reset: UpstreamError) {
        var machine = Self.machine(sent: sent)
        #expect(machine.ended() == .failed(ended))
        machine = Self.machine(sent: sent)
        #expect(machine.reset() == .failed(reset))
    }

    @Test func anAnswerBeforeTheRequestBeginsIsNoAnswer() {
        var machine = Self.machine(sent: .nothing)
        let bytes = Array("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n".utf8)
        #expect(machine.received(bytes.span.bytes) == .failed(.notSent(.closedBeforeSend)))
    }

    /// Random bytes, and good responses with random changes: no crash, and the same outcome however they are cut.
    @Test(arguments: 0..<20) func randomResponsesDoNotDependOnHowTheyArrive(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        for _ in 0..<60 {
            var bytes = Array((ResponseCase.table.randomElement(using: &random)?.bytes ?? "").utf8)
            for _ in 0..<Int.random(in: 0...4, using: &random) where !bytes.isEmpty {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: place)
                default: bytes.insert(bytes[Int.random(in: 0..<bytes.count, using: &random)], at: place)
                }
            }
            var whole = Self.machine()
            let expected = Self.feed(&whole, [bytes], ends: true)
            var pieces: [[UInt8]] = []
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...rest.count, using: &random)
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            var cut = Self.machine()
            let outcome = Self.feed(&cut, pieces, ends: true)
            // Whether bytes behind the response were there at that moment is the one thing that depends on the cut.
            if case .response(let status, let body, _) = expected, case .response(let status2, let body2, _) = outcome {
                #expect(status == status2 && body == body2)
            } else {
                #expect(outcome == expected)
            }
        }
    }
}

extension String {
    /// Without Foundation.
    func components(_ separator: String) -> [Substring] {
        var parts: [Substring] = []
        var rest = self[...]
        while let range = rest.firstRange(of: separator) {
            parts.append(rest[..<range.lowerBound])
            rest = rest[range.upperBound...]
        }
        return parts + [rest]
    }
}
