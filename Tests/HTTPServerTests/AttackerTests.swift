import EventLoop
import Primitives
import TestSupport
import Testing

@testable import HTTPServer

/// Peers that take their time or take up room. Each is cut off by the wait that has its name, and others are served meanwhile.
@Suite(.serialized)
struct AttackerTests {
    struct Attack: Sendable, CustomTestStringConvertible {
        let name: String
        /// What the peer has got in the end.
        let expected: [Int]
        let configure: @Sendable (inout ServerConfig) -> Void
        /// Goes on until it is cut off, which shows as an end, a reset, or a write that fails.
        let run: @Sendable (RawClient) throws -> Void
        var testDescription: String { name }
    }

    private static let request = "POST /echo HTTP/1.1\r\nHost: x\r\n"

    /// One piece every few milliseconds, for as long as the server takes them: a bound, in case it would never end.
    private static func trickle(_ client: RawClient, _ piece: String) {
        for _ in 0..<4000 {
            guard (try? client.send(piece)) != nil else { return }
            usleepMilliseconds(5)
        }
    }

    static let attacks: [Attack] = [
        Attack(name: "says nothing", expected: [], configure: { $0.headTimeout = .milliseconds(300) }, run: { _ in }),
        Attack(
            name: "sends empty lines only", expected: [], configure: { $0.headTimeout = .milliseconds(300) },
            run: { try $0.send("\r\n\r\n\r") }),
        Attack(
            name: "one byte of the head at a time", expected: [408], configure: { $0.headTimeout = .milliseconds(300) },
            run: { client in
                try client.send("POST /")
                trickle(client, "a")
            }),
        Attack(
            name: "one field at a time", expected: [408],
            configure: {
                $0.headTimeout = .milliseconds(300)
                $0.limits.fieldLines = 1000
            },
            run: { client in
                try client.send(request)
                trickle(client, "A: b\r\n")
            }),
        Attack(
            name: "a slow second head", expected: [201, 408], configure: { $0.headTimeout = .milliseconds(300) },
            run: { client in
                try client.send("\(request)\r\nPOST /")
                trickle(client, "a")
            }),
        Attack(
            name: "content that stops", expected: [408], configure: { $0.bodyIdleTimeout = .milliseconds(300) },
            run: { try $0.send("\(request)Content-Length: 100\r\n\r\nabc") }),
        Attack(
            name: "content byte by byte", expected: [408], configure: { $0.bodyTimeout = .milliseconds(400) },
            run: { client in
                try client.send("\(request)Content-Length: 60000\r\n\r\n")
                trickle(client, "x")
            }),
        Attack(
            name: "chunks byte by byte", expected: [408], configure: { $0.bodyTimeout = .milliseconds(400) },
            run: { client in
                try client.send("\(request)Transfer-Encoding: chunked\r\n\r\n")
                trickle(client, "1\r\nx\r\n")
            }),
        Attack(
            name: "idle between requests", expected: [201], configure: { $0.idleTimeout = .milliseconds(300) },
            run: { try $0.send("\(request)\r\n") }),
        // The kernel stops reads in front of the urgent byte, and no event tells of what is behind it.
        Attack(
            name: "idle with urgent data", expected: [201], configure: { $0.idleTimeout = .milliseconds(300) },
            run: { client in
                try client.send("\(request)\r\n")
                _ = try client.receiveResponses()
                for _ in 0..<3 { try client.sendUrgent(13) }
            }),
        Attack(
            name: "sends on behind a refusal", expected: [400], configure: { _ in },
            run: { client in
                try client.send("\(request)A : b\r\n\r\n")
                trickle(client, "x")
            }),
    ]

    @Test(arguments: attacks)
    func anAttackerIsCutOffWhileOthersAreServed(attack: Attack) async throws {
        let server = try await TestServer { attack.configure(&$0) }
        let port = server.port
        let isOver = Lock(false)
        async let honest = onOwnThread {
            // Connections of their own, so that the time-outs under test are not theirs.
            var answered = 0
            repeat {
                let client = try RawClient(port: port)
                try client.send("\(Self.request)Connection: close\r\n\r\n")
                guard statuses(String(decoding: try client.receiveAll(), as: UTF8.self)) == [201] else { return -1 }
                answered += 1
            } while !isOver.withLock { $0 }
            return answered
        }
        let answer = try await onOwnThread {
            defer { isOver.withLock { $0 = true } }
            let client = try RawClient(port: port)
            let early = attack.name == "idle with urgent data" ? "HTTP/1.1 201 " : ""
            try attack.run(client)
            return early + String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self)
        }
        #expect(statuses(answer) == attack.expected)
        #expect(try await honest > 0)
        try await server.endsBalanced()
    }

    @Test
    func aReaderThatTakesNothingIsCutOffWhileOthersAreServed() async throws {
        let server = try await TestServer { $0.writeIdleTimeout = .milliseconds(300) }
        let slow = try RawClient(port: server.port)
        try slow.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        try await eventually("the response to be begun") { !server.log.withLock { $0.isEmpty } }
        #expect(statuses(try await server.exchange("\(Self.request)Connection: close\r\n\r\n")) == [201])
        try await server.endsBalanced()
        withExtendedLifetime(slow) {}
    }

    /// As long as something is taken between two looks, a large response may take as long as it likes.
    @Test
    func aSlowReaderThatGoesOnReadingGetsItsResponse() async throws {
        let server = try await TestServer { $0.writeIdleTimeout = .milliseconds(500) }
        let port = server.port
        let count = try await onOwnThread {
            let client = try RawClient(port: port)
            try client.send("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            var count = 0
            var pieces = 0
            while case let some = try client.receive(1 << 20), !some.isEmpty {
                count += some.count
                pieces += 1
                // In all longer than the time-out, never so between two reads.
                if pieces < 40 { usleepMilliseconds(20) }
            }
            return count
        }
        #expect(count > 16 << 20)
        try await server.endsBalanced()
    }

    // MARK: Room

    /// While a request is served nothing is read, however much is sent.
    @Test
    func nothingIsReadBehindARequestThatIsBeingServed() async throws {
        let server = try await TestServer()
        let client = try RawClient(port: server.port)
        try client.send("POST /late HTTP/1.1\r\nHost: x\r\n\r\n")
        try await server.held.next()
        try client.send([UInt8](repeating: 0x58, count: 200_000))
        #expect(await server.held.inspect(on: server.loop) { $0.connection?.stream.isPaused } == true)
        #expect(await server.held.inspect(on: server.loop) { $0.connection?.bufferedBytes } == 0)
        _ = await server.held.release(on: server.loop)
        let answer = try await onOwnThread { String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self) }
        #expect(statuses(answer) == [201, 414])
        try await server.endsBalanced()
    }

    @Test
    func whatIsKeptBehindARequestIsAtMostOneRead() async throws {
        let server = try await TestServer()
        let port = server.port
        let client = try RawClient(port: port)
        let pipelined = String(repeating: "POST /late HTTP/1.1\r\nHost: x\r\n\r\n", count: 20_000)
        async let sent: Void = onOwnThread { try? client.send(pipelined) }
        try await server.held.next()
        let kept = await server.held.inspect(on: server.loop) { $0.connection?.bufferedBytes ?? 0 }
        #expect(try #require(kept) <= EventLoop.readBufferBytes)
        client.reset()
        _ = try? await sent
        try await server.endsBalanced()
    }

    /// It has its answer already; the one that waits for a request stays.
    @Test
    func aConnectionBehindItsLastResponseIsTheFirstToMakeRoom() async throws {
        let server = try await TestServer { $0.maxConnections = 2 }
        let port = server.port
        let answer = try await onOwnThread {
            let waiting = try RawClient(port: port)
            try waiting.send("\(Self.request)\r\n")
            _ = try waiting.receiveResponses()
            let refused = try RawClient(port: port)
            try refused.send("nonsense\r\n\r\n")
            _ = try refused.receiveResponses()
            let new = try RawClient(port: port)
            try new.send("\(Self.request)Connection: close\r\n\r\n")
            let answer = String(decoding: try new.receiveAll(), as: UTF8.self)
            try waiting.send("\(Self.request)Connection: close\r\n\r\n")
            return answer + String(decoding: try waiting.receiveAll(), as: UTF8.self)
        }
        #expect(statuses(answer) == [201, 201])
        #expect(server.server.counters.closedForRoom.load() == 1)
        try await server.endsBalanced()
    }

    /// However they come: in one turn, none of them looked at yet, or each with a head whose content is still to come.
    @Test
    func theBoundOfConnectionsHolds() async throws {
        let server = try await TestServer { $0.maxConnections = 10 }
        let port = server.port
        let most = try await onOwnThread {
            var most = 0
            var clients: [RawClient] = []
            for _ in 0..<200 {
                let client = try RawClient(port: port)
                try? client.send("\(Self.request)Content-Length: 5\r\n\r\n")
                clients.append(client)
                most = max(most, server.server.openConnections)
            }
            return most
        }
        #expect(most <= 10)
        #expect(server.server.counters.refusedForMaxConnections.load() > 0)
        try await server.endsBalanced()
    }

    /// The order is that in which they began to wait, not that in which they came.
    @Test
    func theConnectionThatHasWaitedLongestGoesFirst() async throws {
        let server = try await TestServer { $0.maxConnections = 3 }
        let port = server.port
        let gone = try await onOwnThread {
            let clients = try (0..<3).map { _ in try RawClient(port: port) }
            for index in [1, 0, 2] {
                try clients[index].send("\(Self.request)\r\n")
                _ = try clients[index].receiveResponses()
            }
            var gone: [Int] = []
            var new: [RawClient] = []
            for index in [1, 0, 2] {
                new.append(try RawClient(port: port))
                if try clients[index].receiveAll(allowingReset: true).isEmpty { gone.append(index) }
            }
            return gone
        }
        #expect(gone == [1, 0, 2])
        try await server.endsBalanced()
    }

    @Test
    func aFloodOfConnectionsThatCloseAtOnceLeavesNothingBehind() async throws {
        let server = try await TestServer()
        let port = server.port
        try await onOwnThread {
            for round in 0..<20 {
                let clients = try (0..<100).map { _ in try RawClient(port: port) }
                if round % 2 == 0 { for client in clients { client.reset() } }
            }
        }
        try await eventually("all of them to be accepted") { server.server.counters.accepted.load() > 1000 }
        #expect(statuses(try await server.exchange("\(Self.request)Connection: close\r\n\r\n")) == [201])
        try await server.endsBalanced()
    }

    /// A client that goes away in each state.
    @Test(arguments: [
        "", "\r\n", "PO", "\(request)", "\(request)Content-Length: 5\r\n\r\n", "\(request)Content-Length: 5\r\n\r\nab",
        "POST /late HTTP/1.1\r\nHost: x\r\n\r\n", "POST /late HTTP/1.1\r\nHost: x\r\n\r\nPOST /late",
        "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
        "nonsense\r\n\r\n", "\(request)\r\n",
    ])
    func aClientThatGoesAwayIsCountedOut(start: String) async throws {
        for resets in [true, false] {
            let server = try await TestServer { $0.writeIdleTimeout = .milliseconds(300) }
            do {
                let client = try RawClient(port: server.port)
                try client.send(start)
                try await eventually("the connection to be accepted") { server.server.counters.accepted.load() == 1 }
                if start.contains("/late") { try await server.held.next() }
                if resets { client.reset() }
            }
            if start.contains("/late") && !resets { _ = await server.held.release(on: server.loop) }
            try await server.endsBalanced()
            _ = await server.held.release(on: server.loop)
        }
    }

    // MARK: Drain

    @Test
    func whatIsPipelinedBehindTheLastAnswerOfADrainIsNotServed() async throws {
        let server = try await TestServer()
        server.server.beginDraining()
        let answer = try await server.exchange(String(repeating: "\(Self.request)\r\n", count: 3))
        #expect(statuses(answer) == [201])
        #expect(answer.contains("Connection: close"))
        #expect(server.log.withLock { $0.count } == 1)
        try await server.endsBalanced()
    }

    @Test
    func aResponseThatIsStillBeingTakenWhenTheDrainBeginsEndsItsConnection() async throws {
        let server = try await TestServer()
        let client = try RawClient(port: server.port)
        try client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        try await eventually("the response to be begun") { !server.log.withLock { $0.isEmpty } }
        server.server.beginDraining()
        let stopped = Promise<Bool>("stop accepting")
        server.server.stopAccepting { stopped.fulfil(true) }
        _ = try await stopped.value()
        server.server.closeIdle(over: .zero)
        let count = try await onOwnThread { try client.receiveAll().count }
        #expect(count > 16 << 20)
        try await server.endsBalanced()
    }

    @Test
    func idleConnectionsAreClosedOneAfterTheOther() async throws {
        let server = try await TestServer()
        let port = server.port
        let clients = try await onOwnThread {
            try (0..<20).map { _ in
                let client = try RawClient(port: port)
                try client.send("\(Self.request)\r\n")
                _ = try client.receiveResponses()
                return client
            }
        }
        let stopped = Promise<Bool>("stop accepting")
        server.server.stopAccepting { stopped.fulfil(true) }
        _ = try await stopped.value()
        server.server.beginDraining()
        server.server.closeIdle(over: .milliseconds(400))
        try await server.endsBalanced()
        for client in clients { #expect(try client.receive() == []) }
    }
}
