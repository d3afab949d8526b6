import HTTPMessage
import JanuarySimulator
import Primitives
import TLS
import TestSupport
import Testing

/// A lost answer is a live token that nobody holds: what was sent is never sent again, what was not is tried once more.
@Suite(.serialized)
struct SendOnceTests {
    static let broken: [(String, Fault)] = [
        ("reset before the work", .disrupted(.resetBeforeCommit)),
        ("reset after the work", .disrupted(.resetAfterCommit)),
        ("closed before the work", .disrupted(.closeBeforeCommit)),
        ("closed after the work", .disrupted(.closeAfterCommit)),
        ("cut in the status line", .truncated(at: 7)),
        ("cut in the fields", .truncated(at: 60)),
        ("cut in the content", .truncated(at: 260)),
        (
            "reset in the content",
            .with {
                $0.wire.truncateAt = 260; $0.wire.truncateWithReset = true
            }
        ),
        (
            "shorter than its length",
            .with {
                $0.wire.lengthOffset = 5; $0.wire.connectionClose = true
            }
        ),
    ]

    @Test
    func aConnectionThatBreaksAfterSendingIs503AndNeverASecondMint() async throws {
        let fixture = try await EndpointFixture()
        for (index, (name, fault)) in Self.broken.enumerated() {
            fixture.simulator.addFault(FaultRule(fault, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            let what = Comment(rawValue: name)
            #expect(answer.status == 503, what)
            #expect(answer.code == "january_unavailable", what)
            #expect(fixture.mintsReceived == index + 1, what)
        }
    }

    /// Each but the first has a head, and a body that cannot be used.
    static let withHead: [(String, Fault, code: String)] = [
        ("cut in the content", .truncated(at: 260), "january_unavailable"),
        (
            "reset in the content",
            .with {
                $0.wire.truncateAt = 260; $0.wire.truncateWithReset = true
            }, "january_unavailable"
        ),
        (
            "a failure that is cut",
            .with {
                $0.content.refusal = .init(status: 500, code: "internal_error"); $0.wire.lengthOffset = 5
                $0.wire.connectionClose = true
            }, "january_unavailable"
        ),
        (
            "bad chunks",
            .with {
                $0.wire.raw = Array(
                    "HTTP/1.1 201 Created\r\nX-Request-Id: req_raw\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".utf8)
            }, "january_invalid_response"
        ),
        (
            "a framing nobody can follow",
            .with {
                $0.wire.raw = Array(
                    "HTTP/1.1 201 Created\r\nX-Request-Id: req_raw\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"
                        .utf8)
            }, "january_invalid_response"
        ),
        (
            "another coding",
            .with {
                $0.wire.raw = Array(
                    "HTTP/1.1 201 Created\r\nX-Request-Id: req_raw\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}".utf8)
            }, "january_invalid_response"
        ),
        ("too large", .with { $0.content.body = [UInt8](repeating: 0x20, count: 70_000) }, "january_invalid_response"),
    ]

    @Test
    func januarysRequestIDIsPassedOnWhereItsHeadCame() async throws {
        let fixture = try await EndpointFixture()
        for (name, fault, code) in Self.withHead {
            let what = Comment(rawValue: name)
            fixture.simulator.addFault(FaultRule(fault, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            #expect(answer.code == code, what)
            let id = try #require(answer.fields["january-request-id"], what)
            #expect(id == (fault.wire.raw == nil ? fixture.simulator.requests(of: .mint).last?.requestID : "req_raw"), what)
            #expect(try await fixture.requestLine(of: answer)["january_request_id"]?.string == id, what)
        }
        // Without a head there is none, and none is left over from before.
        fixture.simulator.addFault(FaultRule(.truncated(at: 60), on: .mint))
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.code == "january_unavailable" && answer.fields["january-request-id"] == nil)
    }

    static let unreadable: [(String, Fault)] = [
        ("no HTTP", .with { $0.wire.raw = Array("ct-token\r\n\r\n".utf8) }),
        (
            "two lengths",
            .with { $0.wire.raw = Array("HTTP/1.1 201 Created\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}".utf8) }
        ),
        (
            "bad chunks",
            .with { $0.wire.raw = Array("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n".utf8) }
        ),
        (
            "another coding",
            .with { $0.wire.raw = Array("HTTP/1.1 201 Created\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}".utf8) }
        ),
        ("too large", .with { $0.content.body = [UInt8](repeating: 0x20, count: 70_000) }),
    ]

    @Test
    func anAnswerThatCannotBeReadIs502AndNeverASecondMint() async throws {
        let fixture = try await EndpointFixture()
        for (index, (name, fault)) in Self.unreadable.enumerated() {
            fixture.simulator.addFault(FaultRule(fault, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            let what = Comment(rawValue: name)
            #expect(answer.status == 502, what)
            #expect(answer.code == "january_invalid_response", what)
            #expect(fixture.mintsReceived == index + 1, what)
        }
    }

    @Test(arguments: [Fault.Disruption.hangBeforeCommit, .hangAfterCommit])
    func noAnswerWithinTheBudgetIs504(_ disruption: Fault.Disruption) async throws {
        let fixture = try await EndpointFixture(january: "budget_seconds: 8")
        fixture.simulator.addFault(FaultRule(.disrupted(disruption), on: .mint))
        let session = try fixture.session()
        async let answer = fixture.mint(session)
        try await fixture.awaitMintsReceived(1)
        await fixture.advance(by: .seconds(8))
        let got = try await answer
        #expect(got.status == 504)
        #expect(got.code == "january_timeout")
        #expect(fixture.mintsReceived == 1)
        try await fixture.awaitMetric("in_flight", 0)
    }

    /// A body that is still arriving does not stop the clock either.
    @Test
    func nothingIsSentWithLessThanHalfASecondLeft() async throws {
        let fixture = try await EndpointFixture(january: "budget_seconds: 8")
        let client = try fixture.connect()
        try client.send(
            EndpointFixture.mintRequest(try fixture.session(), fields: ["Expect: 100-continue", "Content-Length: 1"]))
        let interim = try await EndpointFixture.receive(client)
        #expect(interim.status == 100)
        await fixture.advance(by: .milliseconds(7_600))
        try client.send("x")
        let answer = try await EndpointFixture.receive(client)
        #expect(answer.status == 504)
        #expect(answer.code == "january_timeout")
        #expect(fixture.mintsReceived == 0)
    }

    @Test(arguments: [false, true])
    func aPooledConnectionThatJanuaryClosedIsReplacedUnseen(reset: Bool) async throws {
        let fixture = try await EndpointFixture()
        for count in 1...20 {
            let answer = try await fixture.mint(try fixture.session())
            #expect(answer.status == 201)
            #expect(fixture.mintsReceived == count)
            fixture.simulator.closeConnections(reset: reset)
        }
    }

    @Test
    func idleConnectionsToJanuaryAreClosedAfter50Seconds() async throws {
        let fixture = try await EndpointFixture()
        let first = try await fixture.mint(try fixture.session())
        #expect(first.status == 201)
        #expect(fixture.simulator.read { $0.connections.open } == 1)
        await fixture.advance(by: .seconds(51))
        try await eventually("closed") { fixture.simulator.read { $0.connections.open } == 0 }
        let second = try await fixture.mint(try fixture.session())
        #expect(second.status == 201)
        #expect(fixture.simulator.read { $0.connections.accepted } == 2)
    }

    // MARK: Nothing was sent

    @Test
    func aRefusedConnectionIs502() async throws {
        let fixture = try await EndpointFixture(baseURL: "http://127.0.0.1:1")
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 502)
        #expect(answer.code == "january_unreachable")
        let line = try await fixture.requestLine(of: answer)
        #expect(line["reason"]?.string == "refused")
    }

    @Test
    func aPeerThatSpeaksNoTLSIs502() async throws {
        let other = try Simulator(EndpointFixture.quickSimulator)
        try other.start()
        defer { other.stop() }
        let fixture = try await EndpointFixture(baseURL: "https://127.0.0.1:\(other.port)")
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 502)
        #expect(answer.code == "january_unreachable")
        #expect(other.counts(of: .mint).received == 0)
    }

    @Test
    func aPeerThatDoesNotAnswerTheHandshakeIs502AfterTheConnectTime() async throws {
        let identity = try TestCertificates.shared.get().issue("IP:127.0.0.1")
        var configuration = EndpointFixture.quickSimulator
        configuration.tls = try TLSServerContext(certificates: identity.certificate, privateKey: Secret(identity.privateKey))
        let fixture = try await EndpointFixture(january: "connect_seconds: 2", simulator: configuration) {
            $0.ignoreConnections(true)
        }
        let session = try fixture.session()
        async let answer = fixture.mint(session)
        try await eventually("connected") { fixture.simulator.read { $0.connections.accepted } > 0 }
        await fixture.advance(by: .seconds(2))
        let got = try await answer
        #expect(got.status == 502)
        #expect(got.code == "january_unreachable")
    }

    @Test
    func certificatesAreVerified() async throws {
        let certificates = try TestCertificates.shared.get()
        let authority = String(decoding: certificates.authority, as: UTF8.self)
        func fixture(_ names: String, january: String) async throws -> EndpointFixture {
            let identity = try certificates.issue(names)
            var configuration = EndpointFixture.quickSimulator
            configuration.tls = try TLSServerContext(
                certificates: identity.certificate, privateKey: Secret(identity.privateKey))
            return try await EndpointFixture(january: january, simulator: configuration, files: ["ca.pem": authority])
        }
        let good = try await fixture("IP:127.0.0.1", january: "ca_file: ca.pem")
        let minted = try await good.mint(try good.session())
        #expect(minted.status == 201)

        let unknownAuthority = try await fixture("IP:127.0.0.1", january: "")
        let refused = try await unknownAuthority.mint(try unknownAuthority.session())
        #expect(refused.code == "january_unreachable")
        #expect(unknownAuthority.mintsReceived == 0)
        let line = "no TLS connection to January: its certificate is not accepted, or nobody speaks TLS at this address"
        #expect(unknownAuthority.logLines(line).first?["tls"] == "unknown_issuer")

        let otherName = try await fixture("IP:127.0.0.2,DNS:localhost", january: "ca_file: ca.pem")
        let mismatch = try await otherName.mint(try otherName.session())
        #expect(mismatch.code == "january_unreachable")
        #expect(otherName.mintsReceived == 0)
        #expect(otherName.logLines(line).first?["tls"] == "host_name_mismatch")
    }

    // MARK: Clients that hang up

    enum Leaving: CaseIterable { case reset, close, onlyFinishSending }

    @Test(arguments: Leaving.allCases)
    func aClientThatIsGoneBeforeSendingCostsNoMint(_ leaving: Leaving) async throws {
        let fixture = try await EndpointFixture(january: "max_connections: 1")
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        let session = try fixture.session("first")
        async let first = fixture.mint(session)
        try await fixture.awaitMintsReceived(1)
        var client: RawClient? = try fixture.connect()
        try client?.send(EndpointFixture.mintRequest(try fixture.session("second")))
        try await fixture.awaitMetric("in_flight", 2)
        switch leaving {
        case .reset:
            client?.reset()
            try await fixture.awaitMetric("connections", 1)
        case .close: client = nil
        case .onlyFinishSending: client?.finishSending()
        }
        fixture.simulator.release()
        let answer = try await first
        #expect(answer.status == 201)
        try await fixture.awaitMetric("in_flight", 0)
        #expect(fixture.mintsReceived == 1)
        try await fixture.awaitMetric(
            #"requests_total{route="token",method="POST",status="499",code="client_gone"}"#, 1)
        let undelivered = try await fixture.metric("undelivered_tokens_total")
        #expect(undelivered == 0)
        // Nobody waits on that connection for ever, neither we nor a client that still reads.
        if let client, leaving == .onlyFinishSending {
            let bytes = try await onOwnThread { try client.receiveAll() }
            let answer = try EndpointFixture.parse(String(decoding: bytes, as: UTF8.self))
            #expect(answer.status == 499)
            #expect(answer.fields["connection"] == "close")
        }
        client = nil
        try await fixture.awaitMetric("connections", 0)
    }

    @Test(arguments: [false, true])
    func aTokenForAClientThatIsGoneIsDroppedAndCounted(reset: Bool) async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.disrupted(.holdAfterCommit), on: .mint))
        var client: RawClient? = try fixture.connect()
        try client?.send(EndpointFixture.mintRequest(try fixture.session()))
        try await eventually("minted") { fixture.simulator.counts(of: .mint).committed == 1 }
        if reset { client?.reset() } else { client = nil }
        if reset { try await fixture.awaitMetric("connections", 0) }
        fixture.simulator.release()
        try await fixture.awaitMetric("undelivered_tokens_total", 1)
        #expect(fixture.mintsReceived == 1)
        #expect(fixture.simulator.liveTokens(of: "user-1").count == 1)
        try await eventually("a line") { fixture.logLines("request").contains { $0["undelivered"]?.bool == true } }
    }

    /// Once January has the request, a client that only finished sending still gets its token.
    @Test
    func aClientThatFinishedSendingGetsItsToken() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.disrupted(.holdAfterCommit), on: .mint))
        let client = try fixture.connect()
        try client.send(EndpointFixture.mintRequest(try fixture.session()))
        try await fixture.awaitMintsReceived(1)
        client.finishSending()
        fixture.simulator.release()
        let bytes = try await onOwnThread { try client.receiveAll() }
        let answer = try EndpointFixture.parse(String(decoding: bytes, as: UTF8.self))
        #expect(answer.status == 201)
    }
}
