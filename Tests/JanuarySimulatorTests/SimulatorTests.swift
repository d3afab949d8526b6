import HTTPMessage
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// Over real sockets, without faults.
@Suite(.serialized) struct SimulatorTests {
    @Test func aMintOverTheWireHasJanuarysFields() async throws {
        try await Scenario.run { scenario throws in
            let reply = try scenario.exchange(Scenario.mint())
            #expect(reply.status == 201)
            #expect(reply.field("Content-Type") == "application/json; charset=utf-8")
            #expect(reply.field("Date") == "Mon, 30 Nov 2026 00:00:00 GMT")
            #expect(reply.field("X-Request-Id")?.hasPrefix("req_") == true)
            #expect(reply.json["expires_at"] == "2026-11-30T00:10:00.000Z")
            let token = try #require(reply.json["token"]?.string)
            #expect(scenario.simulator.find(token: token)?.endUserID == "user-1")
            #expect(scenario.simulator.liveTokens(of: "user-1").map(\.token) == [token])
        }
    }

    @Test func aConnectionIsKeptForManyRequests() async throws {
        try await Scenario.run { scenario throws in
            let client = try scenario.client()
            for _ in 0..<3 {
                try client.send(Scenario.mint())
                #expect(Reply(try client.receiveResponses().joined()).status == 201)
            }
            // Several at once are answered in their order.
            try client.send(Scenario.mint() + Scenario.request("GET", "/v1.2/credits") + Scenario.mint("{}"))
            #expect(try client.receiveResponses(3).map { Reply($0).status } == [201, 200, 400])
            #expect(Set(scenario.simulator.requests().map(\.connection)) == [1])
            #expect(scenario.simulator.read { $0.connections }.accepted == 1)
        }
    }

    @Test func everyAnswerHasARequestIDOfItsOwn() async throws {
        try await Scenario.run { scenario throws in
            let replies = try [
                Scenario.mint(), Scenario.mint("{}"), Scenario.request("GET", "/nothing"),
                Scenario.request("GET", "/idp/jwks.json"),
                Scenario.request("GET", "/control/health"), "broken\r\n\r\n",
            ].map { try scenario.exchange($0) }
            #expect(replies.map(\.status) == [201, 400, 404, 200, 200, 400])
            #expect(Set(replies.compactMap { $0.field("X-Request-Id") }).count == 6)
            #expect(replies[0].field("X-Request-Id") == scenario.simulator.requests().first?.requestID)
        }
    }

    @Test func theLedgerHoldsWhatCameAndWhatBecameOfIt() async throws {
        try await Scenario.run { scenario throws in
            _ = try scenario.exchange(Scenario.mint(fields: "User-Agent: test/1\r\n"))
            _ = try scenario.exchange(Scenario.mint("{}"))
            _ = try scenario.control("GET", "health")
            let entries = scenario.simulator.requests()
            #expect(entries.map(\.operation) == [.mint, .mint])
            #expect(entries[0].bodyText == Scenario.mintBody)
            #expect(entries[0].field(.userAgent) == "test/1")
            #expect(entries[0].method == .post)
            #expect(entries[0].committed)
            #expect(entries[0].mintedToken == scenario.simulator.tokens(of: "user-1").first?.token)
            #expect(
                entries.map(\.outcome) == [.answered(status: 201, code: nil), .answered(status: 400, code: "invalid_request")])
            #expect(!entries[1].committed)
            #expect(scenario.simulator.counts(of: .revoke).received == 0)
            let counts = scenario.simulator.counts(of: .mint)
            #expect([counts.received, counts.committed, counts.succeeded] == [2, 1, 1])
            scenario.simulator.clearLedger()
            #expect(scenario.simulator.requests().isEmpty)
            _ = try scenario.exchange(Scenario.mint())
            #expect(scenario.simulator.requests().map(\.number) == [3])
        }
    }

    @Test func theLedgerKeepsItsNewestEntries() async throws {
        try await Scenario.run({ $0.ledgerCapacity = 3 }) { scenario throws in
            let client = try scenario.client()
            for _ in 0..<7 { try client.send(Scenario.mint()) }
            _ = try client.receiveResponses(7)
            #expect(scenario.simulator.requests().map(\.number) == [5, 6, 7])
            #expect(scenario.simulator.requests(after: 6).map(\.number) == [7])
            #expect(scenario.simulator.counts(of: .mint).received == 7)
        }
    }

    @Test func theClockCanBeMoved() async throws {
        try await Scenario.run { scenario throws in
            let token = try #require(try scenario.exchange(Scenario.mint()).json["token"]?.string)
            func status() throws -> Reply { try scenario.exchange(Scenario.request("GET", "/v1.2/foods", key: token)) }
            #expect(try status().status == 200)
            scenario.time.advance(by: .seconds(599))
            #expect(try status().status == 200)
            scenario.simulator.moveClock(by: .seconds(1))
            #expect(try status().json["code"] == "token_expired")
            #expect(try status().field("Date") == "Mon, 30 Nov 2026 00:10:00 GMT")
            #expect(scenario.simulator.liveTokens(of: "user-1").isEmpty)
        }
    }

    @Test func aBodyInChunksIsReadAndAnExpectationIsMet() async throws {
        try await Scenario.run { scenario throws in
            let client = try scenario.client()
            let head =
                "POST /v1.2/auth/client-tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(SimulatorSettings.developmentKey)\r\n"
            let size = String(Scenario.mintBody.utf8.count, radix: 16)
            try client.send(head + "Transfer-Encoding: chunked\r\n\r\n\(size)\r\n\(Scenario.mintBody)\r\n0\r\n\r\n")
            #expect(Reply(try client.receiveResponses().joined()).status == 201)
            try client.send(head + "Expect: 100-continue\r\nContent-Length: \(Scenario.mintBody.utf8.count)\r\n\r\n")
            #expect(try client.receiveResponses() == ["HTTP/1.1 100 Continue\r\n\r\n"])
            try client.send(Scenario.mintBody)
            #expect(Reply(try client.receiveResponses().joined()).status == 201)
        }
    }

    @Test func aRequestInSingleBytesIsOneRequest() async throws {
        try await Scenario.run { scenario throws in
            let client = try scenario.client()
            for byte in Scenario.mint().utf8 { try client.send([byte]) }
            #expect(Reply(try client.receiveResponses().joined()).status == 201)
            #expect(scenario.simulator.requests().count == 1)
        }
    }

    @Test func aContentOverAMegabyteIsRefusedAndTheConnectionClosed() async throws {
        try await Scenario.run { scenario throws in
            let client = try scenario.client()
            try client.send("POST /v1.2/auth/client-tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n")
            let reply = Reply(try client.receiveAll())
            #expect(reply.status == 413)
            #expect(reply.json["code"] == "payload_too_large")
            #expect(scenario.simulator.requests().isEmpty)
        }
    }

    @Test func aClientThatAsksForTheEndGetsIt() async throws {
        try await Scenario.run { scenario throws in
            let client = try scenario.client()
            try client.send(Scenario.mint(fields: "Connection: close\r\n"))
            let reply = Reply(try client.receiveAll())
            #expect(reply.status == 201)
            #expect(reply.field("Connection") == "close")
            // Half-closed: the answer still comes.
            let half = try scenario.client()
            try half.send(Scenario.mint())
            half.finishSending()
            #expect(Reply(try half.receiveAll()).status == 201)
        }
    }

    @Test func fourClientsAtOnceGetTheirOwnTokens() async throws {
        try await Scenario.run { scenario throws in
            let clients = try (0..<4).map { _ in try scenario.client() }
            for round in 0..<100 {
                for (index, client) in clients.enumerated() {
                    try client.send(Scenario.mint(#"{"end_user_id":"u\#(index)-\#(round)","scopes":["foods:read"]}"#))
                }
                for (index, client) in clients.enumerated() {
                    let reply = Reply(try client.receiveResponses().joined())
                    #expect(reply.json["end_user_id"]?.string == "u\(index)-\(round)")
                }
            }
            #expect(scenario.simulator.read { $0.january.tokens.mintedCount } == 400)
            #expect(Set(scenario.simulator.read { $0.january.tokens.all() }.map(\.token)).count == 400)
        }
    }
}
