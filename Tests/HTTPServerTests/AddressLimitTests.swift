import EventLoop
import TestSupport
import Testing

@testable import HTTPServer

/// `max_connections_per_address`.
struct AddressCounterTests {
    private static func peer(_ text: String) throws -> SocketAddress { try #require(SocketAddress(text)) }

    /// Two peers, and whether they are one address to the counter.
    @Test(arguments: [
        ("192.0.2.1:1", "192.0.2.1:2", true), ("192.0.2.1:1", "192.0.2.2:1", false),
        ("127.0.0.1:1", "127.0.0.1:2", true), ("[::1]:1", "[::1]:2", true),
        ("[::ffff:192.0.2.1]:1", "192.0.2.1:2", true),
        ("[2001:db8::1]:1", "[2001:db8::2]:1", true), ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false),
        ("[::1]:1", "192.0.2.1:1", false),
    ])
    func anAddressIsAnIPv4AddressOrAnIPv6Network(first: String, second: String, isSame: Bool) throws {
        let counter = AddressCounter(limit: 1, exempt: [])
        #expect(counter.enter(try Self.peer(first)) == .counted)
        #expect(counter.enter(try Self.peer(second)) == (isSame ? .refused : .counted))
    }

    @Test(arguments: [1, 2, 255])
    func asManyAsTheLimitComeInAndOneMoreForEachThatLeft(limit: Int) throws {
        let counter = AddressCounter(limit: limit, exempt: [])
        let peer = try Self.peer("192.0.2.1:1")
        for _ in 0..<limit { #expect(counter.enter(peer) == .counted) }
        #expect(counter.enter(peer) == .refused)
        counter.leave(peer)
        #expect(counter.enter(peer) == .counted)
        #expect(counter.enter(peer) == .refused)
        for _ in 0..<limit { counter.leave(peer) }
        #expect(counter.addressCount == 0)
    }

    @Test(arguments: ["10.1.2.3:1", "[::ffff:10.1.2.3]:1", "unix:/run/x.sock"])
    func aPeerThatStandsForManyIsNotCounted(text: String) throws {
        let counter = AddressCounter(limit: 1, exempt: [try #require(AddressRange("10.0.0.0/8"))])
        let peer = try Self.peer(text)
        for _ in 0..<3 { #expect(counter.enter(peer) == .exempt) }
        #expect(counter.addressCount == 0)
    }

    @Test func anotherLimitCountsWhoIsThereAlready() throws {
        let counter = AddressCounter(limit: 2, exempt: [])
        let peer = try Self.peer("10.1.2.3:1")
        for _ in 0..<2 { #expect(counter.enter(peer) == .counted) }
        counter.replace(limit: 3, exempt: [])
        #expect(counter.enter(peer) == .counted)
        #expect(counter.enter(peer) == .refused)
        counter.replace(limit: 1, exempt: [try #require(AddressRange("10.0.0.0/8"))])
        #expect(counter.enter(peer) == .exempt)
        for _ in 0..<3 { counter.leave(peer) }
        #expect(counter.addressCount == 0)
    }
}

@Suite(.serialized)
struct AddressLimitTests {
    private static let request = "POST /echo HTTP/1.1\r\nHost: x\r\n"

    @Test
    func oneMoreConnectionOfAnAddressIsClosedAndOthersAreServed() async throws {
        let server = try await TestServer { $0.maxConnectionsPerAddress = 2 }
        let port = server.port
        let answers = try await onOwnThread {
            let first = try RawClient(port: port, source: "127.0.0.2")
            let second = try RawClient(port: port, source: "127.0.0.2")
            for client in [first, second] {
                try client.send("\(Self.request)\r\n")
                _ = try client.receiveResponses()
            }
            let third = try RawClient(port: port, source: "127.0.0.2")
            var answers = [statuses(String(decoding: try third.receiveAll(allowingReset: true), as: UTF8.self))]
            let other = try RawClient(port: port, source: "127.0.0.3")
            try other.send("\(Self.request)Connection: close\r\n\r\n")
            answers.append(statuses(String(decoding: try other.receiveAll(), as: UTF8.self)))
            // One of them goes, and there is room for its next one.
            try first.send("\(Self.request)Connection: close\r\n\r\n")
            _ = try first.receiveAll()
            let next = try RawClient(port: port, source: "127.0.0.2")
            try next.send("\(Self.request)Connection: close\r\n\r\n")
            answers.append(statuses(String(decoding: try next.receiveAll(), as: UTF8.self)))
            return answers
        }
        #expect(answers == [[], [201], [201]])
        #expect(server.server.counters.refusedForAddress.load() == 1)
        #expect(server.server.counters.refusedForMaxConnections.load() == 0)
        try await server.endsBalanced()
    }

    /// It must not push out the connections of others by opening more than it may.
    @Test
    func anAddressAtItsLimitMakesNoRoomForItself() async throws {
        let server = try await TestServer {
            $0.maxConnections = 3
            $0.maxConnectionsPerAddress = 2
        }
        let port = server.port
        let answer = try await onOwnThread {
            let honest = try RawClient(port: port)
            try honest.send("\(Self.request)\r\n")
            _ = try honest.receiveResponses()
            let greedy = try (0..<20).map { _ in try RawClient(port: port, source: "127.0.0.2") }
            for client in greedy.dropFirst(2) { _ = try client.receiveAll(allowingReset: true) }
            try honest.send("\(Self.request)Connection: close\r\n\r\n")
            return String(decoding: try honest.receiveAll(), as: UTF8.self)
        }
        #expect(statuses(answer) == [201])
        #expect(server.server.counters.closedForRoom.load() == 0)
        #expect(server.server.counters.refusedForAddress.load() == 18)
        try await server.endsBalanced()
    }

    @Test
    func connectionsThatAProxyOpensForManyAreNotBounded() async throws {
        let proxy = try #require(AddressRange("127.0.0.2/32"))
        let server = try await TestServer {
            $0.maxConnectionsPerAddress = 1
            $0.proxies = [proxy]
        }
        let port = server.port
        let count = try await onOwnThread {
            let clients = try (0..<5).map { _ in try RawClient(port: port, source: "127.0.0.2") }
            var count = 0
            for client in clients {
                try client.send("\(Self.request)Connection: close\r\n\r\n")
                count += statuses(String(decoding: try client.receiveAll(), as: UTF8.self)).count
            }
            return count
        }
        #expect(count == 5)
        try await server.endsBalanced()
    }
}
