import EventLoop
import HTTPServer
import Primitives
import TestSupport
import Testing

/// Whole conversations over real sockets: each as one piece, and each cut into two pieces at every byte.
@Suite(.serialized)
struct ConversationTests {
    struct Conversation: Sendable, CustomTestStringConvertible {
        let name: String
        let text: String
        let expected: [Int]
        var testDescription: String { name }

        init(_ name: String, _ text: String, _ expected: [Int]) {
            self.name = name
            self.text = text
            self.expected = expected
        }
    }

    private static let last = "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    private static let echo = "POST /echo HTTP/1.1\r\nHost: x\r\n"

    static let conversations: [Conversation] = [
        Conversation("one request and the end", last, [404]),
        Conversation("empty lines before each request", "\r\n\r\n\(echo)\r\n\r\n\(last)", [201, 404]),
        Conversation(
            "a length, an empty chunked body, no body",
            "\(echo)Content-Length: 3\r\n\r\nabc\(echo)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\(echo)\r\n\(last)",
            [201, 201, 201, 404]),
        Conversation(
            "chunks with extensions and trailers",
            "\(echo)Transfer-Encoding: chunked\r\n\r\n3;a=\"b\\\"c\"\r\nabc\r\n0;x\r\nT: t\r\n\r\n\(last)", [201, 404]),
        Conversation(
            "content of a request that is refused by its head",
            "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET \(last)", [404, 404]),
        Conversation(
            "absolute form wins over Host", "POST http://a.example/echo HTTP/1.1\r\nHost: x\r\n\r\n\(last)", [201, 404]),
        Conversation("HTTP/1.0 ends by itself", "POST /echo HTTP/1.0\r\n\r\n\(last)", [201]),
        Conversation(
            "HTTP/1.0 goes on when asked to", "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\nPOST /echo HTTP/1.0\r\n\r\n",
            [201, 201]),
        Conversation("nothing is served behind the client's own close", "\(echo)Connection: close\r\n\r\n\(last)", [201]),
        Conversation("nothing is served behind a malformed head", "\(echo)\r\n\(echo)A\u{0}: b\r\n\r\n\(last)", [201, 400]),
        Conversation(
            "nothing is served behind a malformed chunk",
            "\(echo)Transfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n0\r\n\r\n\(last)", [400]),
        Conversation(
            "nothing is served behind an ambiguous length",
            "\(echo)Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\(last)", [400]),
        Conversation("nothing is served behind content that is too large", "\(echo)Content-Length: 70000\r\n\r\n\(last)", [413]),
        Conversation("a chunk that is too large", "\(echo)Transfer-Encoding: chunked\r\n\r\n10001\r\n\(last)", [413]),
        Conversation(
            "the head's own refusal comes before the size",
            "POST /none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n\(last)", [404]),
        Conversation(
            "a malformed body comes before the head's refusal",
            "POST /none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n\(last)", [400]),
        Conversation(
            "an expectation of HTTP/1.0 is none", "POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
            [201]),
        Conversation(
            "a 100 comes before the response", "\(echo)Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok\(last)",
            [100, 201, 404]),
        Conversation("no 100 without content", "\(echo)Expect: 100-continue\r\nContent-Length: 0\r\n\r\n\(last)", [201, 404]),
        Conversation(
            "no 100 for what is refused",
            "POST /none HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n\(last)", [404]),
        Conversation("an unknown version", "GET / HTTP/2.0\r\nHost: x\r\n\r\n\(last)", [505]),
        Conversation("an unknown coding", "\(echo)Transfer-Encoding: gzip, chunked\r\n\r\n\(last)", [501]),
        Conversation("TLS on a plain port", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}", [400]),
    ]

    @Test(arguments: conversations)
    func aConversationIsTheSameWhereverItIsCut(conversation: Conversation) async throws {
        let server = try await TestServer()
        let bytes = Array(conversation.text.utf8)
        #expect(statuses(try await server.exchange([bytes])) == conversation.expected)
        let port = server.port
        let different = try await onOwnThread {
            try (1..<bytes.count).compactMap { cut in
                let client = try RawClient(port: port)
                try client.send(Array(bytes[..<cut]))
                // It may be over already: what comes behind a refusal meets a closed door.
                try? client.send(Array(bytes[cut...]))
                let found = statuses(String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self))
                return found == conversation.expected ? nil : "\(cut): \(found)"
            }
        }
        #expect(different == [])
        try await server.endsBalanced()
    }

    /// The end of the client's sending says nothing about what it still reads.
    @Test(arguments: conversations)
    func aHalfClosedClientGetsEveryAnswer(conversation: Conversation) async throws {
        let server = try await TestServer()
        let answer = try await server.exchange([Array(conversation.text.utf8)], finish: true)
        #expect(statuses(answer) == conversation.expected)
        try await server.endsBalanced()
    }

    @Test
    func aHalfClosedClientGetsEveryAnswerToWhatItPipelined() async throws {
        let server = try await TestServer()
        let text = String(repeating: "\(Self.echo)\r\n", count: 3)
        for _ in 0..<20 { #expect(statuses(try await server.exchange(text, finish: true)) == [201, 201, 201]) }
        try await server.endsBalanced()
    }

    @Test
    func aHalfClosedClientThatTakesALargeResponseIsClosedBehindIt() async throws {
        let server = try await TestServer()
        let answer = try await server.exchange("GET /large HTTP/1.1\r\nHost: x\r\n\r\n", finish: true)
        #expect(statuses(answer) == [200])
        #expect(answer.utf8.count > 16 << 20)
        try await server.endsBalanced()
    }

    /// More than are served in one turn.
    @Test
    func aThousandPipelinedRequestsAreAnsweredInOrder() async throws {
        let server = try await TestServer()
        let text = (0..<1000).map { "\(Self.echo)Content-Length: 4\r\n\r\n\(1000 + $0)" }.joined() + Self.last
        let answer = try await server.exchange(text)
        #expect(statuses(answer).count == 1001)
        let numbers = answer.components(after: "\r\n\r\n").compactMap { Int($0.prefix(4)) }
        #expect(numbers == Array(1000..<2000))
        try await server.endsBalanced()
    }

    /// What came of the next request while one was served is kept, and its rest is read afterwards.
    @Test(arguments: ["P", "POST /echo HTTP/1.1\r\nHo", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\no"])
    func aRequestThatBeganBehindAnotherOneIsServed(start: String) async throws {
        let server = try await TestServer()
        let whole = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
        for together in [true, false] {
            let client = try RawClient(port: server.port)
            if together {
                try client.send("POST /late HTTP/1.1\r\nHost: x\r\n\r\n" + start)
                try await server.held.next()
            } else {
                try client.send("POST /late HTTP/1.1\r\nHost: x\r\n\r\n")
                try await server.held.next()
                try client.send(start)
            }
            _ = await server.held.release(on: server.loop)
            let first = try await onOwnThread { try client.receiveResponses() }
            #expect(first[0].hasSuffix("late"))
            try client.send(String(whole.dropFirst(start.count)))
            let second = try await onOwnThread { try client.receiveResponses() }
            #expect(second[0].hasSuffix("\r\n\r\nok"))
        }
        try await server.endsBalanced()
    }

    /// Content is exactly as long as announced: what follows is the next request, whatever it looks like.
    @Test
    func bytesBehindTheContentBelongToTheNextRequest() async throws {
        let server = try await TestServer()
        let answer = try await server.exchange(
            "\(Self.echo)Content-Length: 5\r\n\r\nhello\(Self.echo)Content-Length: 1\r\n\r\n!\(Self.last)")
        #expect(statuses(answer) == [201, 201, 404])
        #expect(server.log.withLock { $0 } == ["POST /echo 5", "POST /echo 1"])
        try await server.endsBalanced()
    }
}

extension String {
    /// What follows each occurrence of `mark`.
    fileprivate func components(after mark: String) -> [Substring] {
        var found: [Substring] = []
        var rest = self[...]
        while let range = rest.firstRange(of: mark) {
            rest = rest[range.upperBound...]
            found.append(rest)
        }
        return found
    }
}
