import HTTPServer
import Primitives
import TestSupport
import Testing

/// The real server in this process, spoken to in raw bytes.
@Suite(.serialized)
struct ServerTests {
    private static let close = "Host: x\r\nConnection: close\r\n"

    @Test
    func aRequestIsAnsweredWithLengthAndDate() async throws {
        let server = try await TestServer()
        let answer = try await server.exchange("POST /echo HTTP/1.1\r\n\(Self.close)Content-Length: 5\r\n\r\nhello")
        #expect(answer.hasPrefix("HTTP/1.1 201 Created\r\n"))
        #expect(answer.contains("\r\nContent-Length: 5\r\n"))
        #expect(answer.contains("\r\nDate: "))
        #expect(answer.contains("\r\nConnection: close\r\n"))
        #expect(answer.hasSuffix("\r\n\r\nhello"))
    }

    /// RFC 9112 section 9.3.2: in the order of the requests.
    @Test
    func pipelinedRequestsAreAnsweredInOrder() async throws {
        let server = try await TestServer()
        let requests = (0..<50).map { number in
            let content = "request \(number)"
            return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: \(content.utf8.count)\r\n\r\n\(content)"
        }
        let answer = try await server.exchange(requests.joined() + "POST /echo HTTP/1.1\r\n\(Self.close)\r\n")
        #expect(statuses(answer) == Array(repeating: 201, count: 51))
        var rest = answer[...]
        for number in 0..<50 {
            let found = try #require(rest.firstRange(of: "request \(number)"))
            rest = rest[found.upperBound...]
        }
    }

    /// The same conversation, cut into two pieces at every byte.
    @Test
    func whereTheBytesAreCutMakesNoDifference() async throws {
        let server = try await TestServer()
        let whole = Array(
            ("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nTrailer: t\r\n\r\n"
                + "GET /none HTTP/1.1\r\n\(Self.close)\r\n").utf8)
        let port = server.port
        let outcomes = try await onOwnThread {
            try (1..<whole.count).map { cut in
                let client = try RawClient(port: port)
                try client.send(Array(whole[..<cut]))
                try client.send(Array(whole[cut...]))
                return statuses(String(decoding: try client.receiveAll(), as: UTF8.self))
            }
        }
        #expect(outcomes.allSatisfy { $0 == [201, 404] })
    }

    @Test(arguments: [
        ("GET /echo HTTP/1.1\r\n\(close)\r\n", [405]),
        ("HEAD /echo HTTP/1.1\r\n\(close)\r\n", [405]),
        ("POST /other HTTP/1.1\r\n\(close)\r\n", [404]),
        ("POST /echo HTTP/1.0\r\n\r\n", [201]),
        ("POST /echo HTTP/1.1\r\n\r\n", [400]),
        ("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", [413]),
        ("POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", [404]),
        ("POST /other HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", [400]),
        ("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400]),
        ("\r\nPOST /echo HTTP/1.1\r\n\(close)\r\n", [201]),
        ("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n", [417]),
        (
            "POST /echo HTTP/1.1\r\nHost: x\r\n\r\nPOST /echo HTTP/1.1\r\nHost : x\r\n\r\nPOST /echo HTTP/1.1\r\nHost: x\r\n\r\n",
            [201, 400]
        ),
    ])
    func aConversationEndsWithTheseStatuses(request: String, expected: [Int]) async throws {
        let server = try await TestServer()
        #expect(statuses(try await server.exchange(request)) == expected)
    }

    /// RFC 9110 section 10.1.1.
    @Test
    func aClientThatWaitsFor100GetsItBeforeItSendsItsContent() async throws {
        let server = try await TestServer()
        let port = server.port
        let answer = try await onOwnThread {
            let client = try RawClient(port: port)
            try client.send("POST /echo HTTP/1.1\r\n\(Self.close)Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            let interim = String(decoding: try client.receive(), as: UTF8.self)
            try client.send("ok")
            return interim + String(decoding: try client.receiveAll(), as: UTF8.self)
        }
        #expect(answer.hasPrefix("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n"))
    }

    @Test
    func aClientThatWaitsFor100IsRefusedByTheHeadAlone() async throws {
        let server = try await TestServer()
        let answer = try await server.exchange(
            "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        #expect(statuses(answer) == [404])
    }

    @Test
    func aHalfClosedClientStillGetsItsAnswer() async throws {
        let server = try await TestServer()
        #expect(statuses(try await server.exchange("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n", finish: true)) == [201])
    }

    @Test
    func anIncompleteMessageIsNeverServed() async throws {
        let server = try await TestServer()
        #expect(try await server.exchange("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhell", finish: true) == "")
        #expect(try await server.exchange("POST /echo HTTP/1.1\r\nHost:", finish: true) == "")
        #expect(server.log.withLock { $0 } == [])
    }

    // MARK: Time-outs, each by its own name

    @Test
    func aConnectionThatSaysNothingIsClosedWithoutAnAnswer() async throws {
        let server = try await TestServer { $0.headTimeout = .milliseconds(200) }
        #expect(try await server.exchange("") == "")
    }

    @Test(arguments: ["P", "POST /echo HTTP/1.1\r\nHost: x\r\n"])
    func anUnfinishedHeadIs408(start: String) async throws {
        let server = try await TestServer { $0.headTimeout = .milliseconds(200) }
        #expect(statuses(try await server.exchange(start)) == [408])
    }

    @Test
    func contentThatStopsComingIs408() async throws {
        let server = try await TestServer { $0.bodyIdleTimeout = .milliseconds(200) }
        let answer = try await server.exchange("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel")
        #expect(statuses(answer) == [408])
    }

    @Test
    func contentThatTakesTooLongInAllIs408() async throws {
        let server = try await TestServer { $0.bodyTimeout = .milliseconds(400) }
        let port = server.port
        let answer = try await onOwnThread {
            let client = try RawClient(port: port, receiveTimeoutSeconds: 1)
            try client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n")
            // Never idle, never finished: bounded by the 500 bytes.
            for _ in 0..<400 {
                usleepMilliseconds(5)
                if (try? client.send("x")) == nil { break }
            }
            return String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self)
        }
        #expect(statuses(answer) == [408])
    }

    @Test
    func anIdleConnectionIsClosedBetweenRequests() async throws {
        let server = try await TestServer { $0.idleTimeout = .milliseconds(200) }
        #expect(statuses(try await server.exchange("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n")) == [201])
    }

    @Test
    func aReaderThatStopsReadingIsCutOff() async throws {
        let server = try await TestServer { $0.writeIdleTimeout = .milliseconds(300) }
        let port = server.port
        let client = try RawClient(port: port)
        try client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        try await eventually("the connection to be cut") {
            server.server.openConnections == 0 && !server.log.withLock { $0.isEmpty }
        }
    }

    // MARK: Bounds

    @Test
    func theLongestWaitingConnectionMakesRoomForANewOne() async throws {
        let server = try await TestServer { $0.maxConnections = 2 }
        let port = server.port
        let answer = try await onOwnThread {
            let first = try RawClient(port: port)
            let second = try RawClient(port: port)
            try second.send("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n")
            _ = try second.receiveResponses()
            let third = try RawClient(port: port)
            try third.send("POST /echo HTTP/1.1\r\n\(Self.close)\r\n")
            let answer = String(decoding: try third.receiveAll(), as: UTF8.self)
            #expect(try first.receiveAll() == [])
            try second.send("POST /echo HTTP/1.1\r\n\(Self.close)\r\n")
            return answer + String(decoding: try second.receiveAll(), as: UTF8.self)
        }
        #expect(statuses(answer) == [201, 201])
        #expect(server.server.counters.closedForRoom.load() == 1)
    }

    @Test
    func whenEveryConnectionIsBeingServedTheNewOneIsClosed() async throws {
        let server = try await TestServer { $0.maxConnections = 1 }
        let busy = try RawClient(port: server.port)
        try busy.send("POST /late HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await server.held.arrived.value()
        #expect(try await server.exchange("") == "")
        #expect(server.server.counters.refusedForMaxConnections.load() == 1)
        _ = await server.held.release(on: server.loop)
        let answer = try await onOwnThread { try busy.receiveResponses() }
        #expect(answer[0].hasSuffix("late"))
    }

    @Test
    func aClientThatHungUpIsKnownToBeGone() async throws {
        let server = try await TestServer()
        let client = try RawClient(port: server.port)
        try client.send("POST /late HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await server.held.arrived.value()
        client.reset()
        try await eventually("the reset to be seen") { server.server.openConnections == 0 }
        #expect(await server.held.release(on: server.loop) == [true])
    }

    // MARK: Drain

    @Test
    func whileDrainingEveryResponseClosesAndNothingAcceptedIsLost() async throws {
        let server = try await TestServer()
        let port = server.port
        let idle = try RawClient(port: port)
        try idle.send("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await onOwnThread { try idle.receiveResponses() }
        let busy = try RawClient(port: port)
        try busy.send("POST /late HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await server.held.arrived.value()
        server.server.beginDraining()
        let answer = try await server.exchange("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(statuses(answer) == [201])
        #expect(answer.contains("Connection: close"))
        let stopped = Promise<Bool>("stop accepting")
        server.server.stopAccepting { stopped.fulfil(true) }
        _ = try await stopped.value()
        server.server.closeIdle(over: .milliseconds(50))
        #expect(try await onOwnThread { try idle.receiveAll() } == [])
        _ = await server.held.release(on: server.loop)
        let last = try await onOwnThread { String(decoding: try busy.receiveAll(), as: UTF8.self) }
        #expect(statuses(last) == [201])
        #expect(last.contains("Connection: close"))
        try await eventually("all connections to be closed") { server.server.openConnections == 0 }
        #expect(throws: RawClient.Failure.self) { try RawClient(port: port) }
    }
}
