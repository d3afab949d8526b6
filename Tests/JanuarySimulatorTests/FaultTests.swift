import HTTPMessage
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// Each fault over a real socket: what the client sees, and whether January did its work.
@Suite(.serialized) struct FaultTests {
    // MARK: The connection

    @Test(arguments: [
        (Fault.Disruption.resetBeforeCommit, 0), (.resetAfterCommit, 1), (.closeBeforeCommit, 0), (.closeAfterCommit, 1),
    ])
    func aBrokenConnectionSaysNothing(disruption: Fault.Disruption, minted: Int) async throws {
        try await Scenario.run { scenario throws in
            #expect(try scenario.allBytes(.disrupted(disruption)) == [])
            #expect(scenario.simulator.tokens(of: "user-1").count == minted)
            #expect(scenario.simulator.requests().map(\.outcome) == [.disrupted(disruption)])
            #expect(scenario.simulator.requests().map(\.committed) == [minted == 1])
            #expect(try scenario.exchange(Scenario.mint()).status == 201)
        }
    }

    @Test(arguments: [(Fault.Disruption.hangBeforeCommit, 0), (.hangAfterCommit, 1)])
    func aHangEndsWhenTheClientGivesUp(disruption: Fault.Disruption, minted: Int) async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.disrupted(disruption), on: .mint))
            let client = try scenario.client()
            try client.send(Scenario.mint())
            // A second connection is served meanwhile, and shows that the first was read.
            #expect(try scenario.exchange(Scenario.request("GET", "/v1.2/credits")).status == 200)
            while scenario.simulator.counts(of: .mint).received == 0 { usleepMilliseconds(1) }
            client.finishSending()
            #expect(try client.receiveAll() == [])
            #expect(scenario.simulator.tokens(of: "user-1").count == minted)
            #expect(scenario.simulator.requests(of: .mint).map(\.outcome) == [.disrupted(disruption)])
        }
    }

    @Test(arguments: [(Fault.Disruption.holdBeforeCommit, 0), (.holdAfterCommit, 1)])
    func aHeldRequestGoesOnWhenItIsReleased(disruption: Fault.Disruption, minted: Int) async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.disrupted(disruption), on: .mint))
            let client = try scenario.client()
            try client.send(Scenario.mint())
            while scenario.simulator.heldCount == 0 { usleepMilliseconds(1) }
            #expect(scenario.simulator.tokens(of: "user-1").count == minted)
            scenario.simulator.release()
            #expect(Reply(try client.receiveResponses().joined()).status == 201)
            #expect(scenario.simulator.tokens(of: "user-1").count == 1)
            #expect(scenario.simulator.heldCount == 0)
        }
    }

    @Test func ignoredConnectionsAreOpenAndSilent() async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.ignoreConnections(true)
            let client = try scenario.client()
            try client.send(Scenario.mint())
            while scenario.simulator.read({ $0.connections }).open == 0 { usleepMilliseconds(1) }
            scenario.simulator.ignoreConnections(false)
            #expect(try scenario.exchange(Scenario.mint()).status == 201)
            #expect(scenario.simulator.requests().map(\.connection) == [2])
            scenario.simulator.closeConnections()
            #expect(try client.receiveAll(allowingReset: true) == [])
        }
    }

    @Test func anIdleConnectionIsClosedAfterItsTimeAndNotBeforeTheAnswer() async throws {
        try await Scenario.run { scenario throws in
            let reply = Reply(try scenario.allBytes(.idleClose(after: .milliseconds(5)...(.milliseconds(30)))))
            #expect(reply.status == 201)
            #expect(reply.field("Connection") == nil)
            #expect(Reply(try scenario.allBytes(.idleClose(after: .zero ... .zero, withReset: true))).status == 201)
        }
    }

    @Test func aRequestInTimeKeepsAnIdleConnection() async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.idleClose(after: .seconds(3_600)...(.seconds(3_600))), on: .mint))
            let client = try scenario.client()
            try client.send(Scenario.mint() + Scenario.mint())
            #expect(try client.receiveResponses(2).map { Reply($0).status } == [201, 201])
        }
    }

    // MARK: The bytes

    @Test func anAnswerIsCutAtAnyByte() async throws {
        try await Scenario.run({ $0.algorithms = [] }) { scenario throws in
            let whole = try scenario.allBytes(.idleClose(after: .zero ... .zero))
            for cut in [0, 1, 17, whole.count - 1] {
                let bytes = try scenario.allBytes(.truncated(at: cut))
                #expect(bytes.count == cut)
                #expect(bytes.starts(with: Array("HTTP/1.1 201 Created\r\n".utf8).prefix(cut)))
            }
            let reset = try scenario.allBytes(
                .with {
                    $0.wire.truncateAt = 40
                    $0.wire.truncateWithReset = true
                })
            #expect(reset.count <= 40)
            #expect(scenario.simulator.tokens(of: "user-1").count == 6)
        }
    }

    @Test func aDrippingAnswerComesWhole() async throws {
        try await Scenario.run { scenario throws in
            let bytes = try scenario.allBytes(
                .with {
                    $0.wire.drip = Fault.Drip(bytes: 40, every: .milliseconds(1))
                    $0.wire.connectionClose = true
                })
            #expect(Reply(bytes).json["end_user_id"] == "user-1")
        }
    }

    @Test func aChunkedAnswerSaysNoLength() async throws {
        try await Scenario.run { scenario throws in
            let bytes = try scenario.allBytes(
                .with {
                    $0.wire.chunked = true
                    $0.wire.connectionClose = true
                })
            #expect(Reply(bytes).field("Content-Length") == nil)
            #expect(try Self.decode(bytes).json["end_user_id"] == "user-1")
        }
    }

    @Test func anAnswerUntilCloseAndOneOfHTTP10EndWithTheConnection() async throws {
        try await Scenario.run { scenario throws in
            let open = try scenario.allBytes(.with { $0.wire.untilClose = true })
            #expect(Reply(open).field("Content-Length") == nil)
            #expect(try Self.decode(open).json["end_user_id"] == "user-1")
            let old = try scenario.allBytes(.with { $0.wire.http10 = true })
            #expect(old.starts(with: Array("HTTP/1.0 201".utf8)))
            #expect(try Self.decode(old).json["end_user_id"] == "user-1")
        }
    }

    @Test func interimAnswersComeBeforeAndExtraBytesAfter() async throws {
        try await Scenario.run { scenario throws in
            let bytes = try scenario.allBytes(
                .with {
                    $0.wire.informational = [100, 103]
                    $0.wire.extraBytesAfter = Array("GARBAGE".utf8)
                    $0.wire.connectionClose = true
                })
            let text = String(decoding: bytes, as: UTF8.self)
            #expect(text.hasPrefix("HTTP/1.1 100 Continue\r\n"))
            #expect(text.contains("\r\n\r\nHTTP/1.1 103 Early Hints\r\n"))
            #expect(text.contains("\r\n\r\nHTTP/1.1 201 Created\r\n"))
            #expect(text.hasSuffix("}GARBAGE"))
        }
    }

    @Test func aGzippedAnswerIsGzip() async throws {
        try await Scenario.run { scenario throws in
            let plain = Fault.answered(200, body: "{}")
            var fault = plain
            fault.wire.gzip = true
            fault.wire.connectionClose = true
            let bytes = try scenario.allBytes(fault)
            let body = try #require(bytes.firstRange(of: Array("\r\n\r\n".utf8))).upperBound
            #expect(String(decoding: bytes[..<body], as: UTF8.self).contains("Content-Encoding: gzip\r\n"))
            // RFC 1952; the sum of "{}" is known from elsewhere.
            #expect(
                Array(bytes[body...]) == [
                    0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255, 1, 2, 0, 0xFD, 0xFF, 0x7B, 0x7D, 0x43, 0xBF, 0xA6, 0xA3, 2, 0, 0, 0,
                ])
        }
    }

    @Test func aWrongLengthAndBytesOfChoiceGoOutAsTheyAre() async throws {
        try await Scenario.run { scenario throws in
            let bytes = try scenario.allBytes(
                .with {
                    $0.wire.lengthOffset = 5
                    $0.wire.connectionClose = true
                    $0.wire.extraFieldLines = ["X-Bad\u{1}: 1"]
                })
            let reply = Reply(bytes)
            #expect(reply.field("Content-Length") == String(reply.body.utf8.count + 5))
            #expect(reply.head.contains("X-Bad\u{1}: 1"))
            let raw = try scenario.allBytes(
                .with {
                    $0.wire.raw = Array("NOT HTTP\n".utf8)
                    $0.wire.connectionClose = true
                })
            #expect(raw == Array("NOT HTTP\n".utf8))
        }
    }

    /// With the product's parsers: what is valid must be read by them.
    static func decode(_ bytes: [UInt8]) throws -> Reply {
        var parser = ResponseHeadParser(limits: .standard)
        let parsed = try #require(try parser.parse(bytes.span.bytes))
        var decoder = BodyDecoder(framing: try BodyFraming.ofResponse(parsed.head, to: .post), limits: .standard)
        var content: [UInt8] = []
        let rest = Array(bytes[parsed.byteCount...])
        let progress = try decoder.decode(rest.span.bytes, into: &content)
        #expect(progress.consumed == rest.count)
        #expect(try decoder.finishAtEOF())
        return Reply("HTTP/1.1 \(parsed.head.status) X\r\n\r\n" + String(decoding: content, as: UTF8.self))
    }

    // MARK: The content

    static let contents: [(Fault, Int, String)] = [
        (.echo(endUserID: "other"), 201, #""end_user_id":"other""#),
        (.echo(scopes: ["foods:read", "glucose:read"]), 201, #""scopes":["foods:read","glucose:read"]"#),
        (.lifetime(60), 201, #""expires_in":60,"#),
        (.lifetime(90_000), 201, #""expires_in":90000,"#),
        (.with { $0.content.expiresInText = "\"600\"" }, 201, #""expires_in":"600","#),
        (.with { $0.content.token = "sk-wrong" }, 201, #"{"token":"sk-wrong","#),
        (.with { $0.content.duplicateMembers = ["token"] }, 201, #","token":"ct-"#),
        (.with { $0.content.missingMembers = ["token"] }, 201, #"{"expires_in":600,"#),
        (.with { $0.content.extraMembers = #""plan": null"# }, 201, #","plan": null}"#),
        (.with { $0.content.status = 200 }, 200, #""end_user_id":"user-1""#),
        (.notJSON, 201, "{\"token\": \"ct-"),
        (.html502, 502, "<html>"),
        (.refused(500, "internal_error"), 500, #""code":"internal_error""#),
        (.refused(429, "request_limit_exceeded"), 429, #""code":"request_limit_exceeded""#),
    ]

    @Test(arguments: contents)
    func theContentIsWrongAsTold(fault: Fault, status: Int, text: String) async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(fault, on: .mint))
            let reply = try scenario.exchange(Scenario.mint())
            #expect(reply.status == status)
            #expect(reply.body.contains(text))
            #expect(reply.field("X-Request-Id") != nil)
            #expect(scenario.simulator.tokens(of: "user-1").count == (fault.content.refusal == nil ? 1 : 0))
        }
    }

    @Test func aShortLifetimeIsARealOne() async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.lifetime(30), on: .mint))
            _ = try scenario.exchange(Scenario.mint())
            scenario.time.advance(by: .seconds(30))
            #expect(scenario.simulator.liveTokens(of: "user-1").isEmpty)
        }
    }

    @Test func aRefusalMayNameATimeAndARedirectAPlace() async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.refused(429, "rate_limited", retryAfter: "soon"), on: .mint))
            #expect(try scenario.exchange(Scenario.mint()).field("Retry-After") == "soon")
            scenario.simulator.addFault(FaultRule(.redirect(302, to: "https://elsewhere.example/"), on: .mint))
            let reply = try scenario.exchange(Scenario.mint())
            #expect(reply.status == 302)
            #expect(reply.field("Location") == "https://elsewhere.example/")
            #expect(scenario.simulator.tokens(of: "user-1").isEmpty)
        }
    }

    // MARK: Which requests

    @Test func aFaultStrikesItsOperationItsNumberOfTimes() async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .mint, times: 2))
            scenario.simulator.addFault(FaultRule(.refused(503, "service_unavailable"), on: nil, times: 1))
            func mint() throws -> Int { try scenario.exchange(Scenario.mint()).status }
            #expect(try scenario.exchange(Scenario.request("GET", "/v1.2/credits")).status == 503)
            let limited = try (0..<3).map { _ in try mint() }
            #expect(limited == [500, 500, 201])
            let id = scenario.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .mint, times: nil))
            let always = try (0..<3).map { _ in try mint() }
            #expect(always == [500, 500, 500])
            #expect(scenario.simulator.removeFault(id: id))
            #expect(!scenario.simulator.removeFault(id: id))
            #expect(try mint() == 201)
        }
    }

    @Test func aChanceWithASeedIsTheSameEveryTime() async throws {
        let runs = try await Scenario.run { scenario throws in
            try (0..<2).map { _ in
                let id = scenario.simulator.addFault(
                    FaultRule(.refused(500, "internal_error"), on: .mint, times: nil, probability: 0.5), seed: 9)
                defer { scenario.simulator.removeFault(id: id) }
                return try (0..<64).map { _ in try scenario.exchange(Scenario.mint()).status }
            }
        }
        #expect(runs[0] == runs[1])
        #expect((16...48).contains(runs[0].count { $0 == 500 }))
    }

    @Test func aDelayHoldsOneAnswerAndNobodyElse() async throws {
        try await Scenario.run { scenario throws in
            scenario.simulator.addFault(FaultRule(.delayed(.milliseconds(30)), on: .mint))
            scenario.simulator.addFault(FaultRule(.delayedBeforeCommit(.milliseconds(30)), on: .mint))
            let clients = try (0..<3).map { _ in try scenario.client() }
            for client in clients { try client.send(Scenario.mint()) }
            for client in clients { #expect(Reply(try client.receiveResponses().joined()).status == 201) }
        }
    }

    @Test func theIdentityProvidersDocumentsFailToo() async throws {
        try await Scenario.run { scenario throws in
            let keys = Scenario.request("GET", "/idp/jwks.json")
            scenario.simulator.addFault(FaultRule(.answered(500, body: "garbage"), on: .keySet))
            #expect(try scenario.exchange(keys).body == "garbage")
            scenario.simulator.addFault(FaultRule(.disrupted(.resetBeforeCommit), on: .keySet))
            let client = try scenario.client()
            try client.send(keys)
            #expect(try client.receiveAll(allowingReset: true) == [])
            #expect(try scenario.exchange(keys).json["keys"]?.array?.count == 1)
            #expect(scenario.simulator.counts(of: .keySet).received == 3)
        }
    }
}
