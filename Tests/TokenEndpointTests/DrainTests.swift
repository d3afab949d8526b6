import JanuarySimulator
import TestSupport
import Testing

@testable import TokenEndpoint

/// Too much at once, and the end of the process: nothing that was accepted is dropped.
@Suite(.serialized)
struct DrainTests {
    @Test
    func moreMintsThanAllowedAtOnceAreTurnedAway() async throws {
        let fixture = try await EndpointFixture(january: "max_in_flight: 2")
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint, times: 2))
        let sessions = try (1...3).map { try fixture.session("user-\($0)") }
        async let first = fixture.mint(sessions[0])
        async let second = fixture.mint(sessions[1])
        try await fixture.awaitMetric("in_flight", 2)
        let third = try await fixture.mint(sessions[2])
        #expect(third.status == 503)
        #expect(third.code == "overloaded")
        #expect((1...3).contains(try #require(third.fields["retry-after"].flatMap(Int.init))))
        let count = try await fixture.metric("overloaded_total")
        #expect(count == 1)
        try await fixture.awaitMintsReceived(2)
        fixture.simulator.release()
        let answers = try await [first, second]
        #expect(answers.map(\.status) == [201, 201])
        let after = try await fixture.mint(sessions[2])
        #expect(after.status == 201)
    }

    @Test
    func whatIsUnderWayIsAnsweredAndThenNothingIsOpen() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        let client = try fixture.connect()
        try client.send(EndpointFixture.mintRequest(try fixture.session()))
        try await fixture.awaitMintsReceived(1)
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        #expect(!done.isFulfilled)
        fixture.simulator.release()
        let answer = try await EndpointFixture.receive(client)
        #expect(answer.status == 201)
        #expect(answer.fields["connection"] == "close")
        try await done.value()
        #expect(fixture.endpoint.openConnections == 0)
        #expect(throws: RawClient.Failure.self) { try fixture.connect() }
    }

    @Test
    func duringTheDelayEverythingIsServedAndSaysThatItIsGoing() async throws {
        // The delay is as long as the test needs; the fixture's end cuts it.
        let fixture = try await EndpointFixture(more: "drain: { delay_seconds: 120, timeout_seconds: 600 }")
        let keptAlive = try fixture.connect()
        try keptAlive.send(EndpointFixture.mintRequest(try fixture.session()))
        let before = try await EndpointFixture.receive(keptAlive)
        #expect(before.status == 201)
        #expect(before.fields["connection"] == nil)
        fixture.endpoint.drain {}
        let health = try await fixture.exchange("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", port: fixture.port)
        #expect(health.status == 503)
        #expect(health.body == #"{"status":"draining"}"#)
        #expect(health.fields["connection"] == "close")
        let ready = try await fixture.get("/readyz")
        #expect(ready.status == 503)
        #expect(ready.body == #"{"status":"draining"}"#)
        let process = try await fixture.get("/healthz")
        #expect(process.status == 200)
        try keptAlive.send(EndpointFixture.mintRequest(try fixture.session()))
        let last = try await EndpointFixture.receive(keptAlive)
        #expect(last.status == 201)
        #expect(last.fields["connection"] == "close")
        let new = try await fixture.exchange(EndpointFixture.mintRequest(try fixture.session()), port: fixture.port)
        #expect(new.status == 201)
        #expect(new.fields["connection"] == "close")
    }

    @Test
    func whatCannotBeAnsweredBeforeTheEndIs503Draining() async throws {
        // The budget of 8 s does not fit.
        let fixture = try await EndpointFixture(more: "drain: { delay_seconds: 0, timeout_seconds: 6 }")
        let client = try fixture.connect()
        try client.send(
            EndpointFixture.mintRequest(try fixture.session(), fields: ["Expect: 100-continue", "Content-Length: 1"]))
        let interim = try await EndpointFixture.receive(client)
        #expect(interim.status == 100)
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        try client.send("x")
        let answer = try await EndpointFixture.receive(client)
        #expect(answer.status == 503)
        #expect(answer.code == "draining")
        #expect(answer.fields["retry-after"] != nil)
        #expect(answer.fields["connection"] == "close")
        #expect(fixture.mintsReceived == 0)
        try await done.value()
    }

    /// Its work is durable; January is not waited for.
    @Test
    func whoAskedForARevocationIsAnsweredBeforeTheEnd() async throws {
        let fixture = try await EndpointFixture(more: EndpointFixture.managed, files: EndpointFixture.managementFiles)
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .revoke, times: nil))
        async let asked = fixture.manage(
            "POST /january/client-token-revocations", fields: ["Content-Type: application/json"],
            body: #"{"end_user_id":"user-1"}"#)
        try await eventually("January is asked") { fixture.simulator.counts(of: .revoke).received == 1 }
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        let answer = try await asked
        #expect(answer.status == 202 && answer.json["status"] as? String == "pending")
        #expect(answer.fields["location"]?.hasPrefix("/january/client-token-revocations/rv_") == true)
        try await done.value()
        fixture.simulator.release()
    }

    /// The same when the time for the drain is up before the last connection is closed.
    @Test
    func whoAskedForARevocationIsAnsweredWhenTheTimeIsUp() async throws {
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed + "\ndrain: { delay_seconds: 0, timeout_seconds: 6 }",
            files: EndpointFixture.managementFiles)
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .revoke, times: nil))
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint, times: nil))
        let client = try fixture.connect()
        try client.send(EndpointFixture.mintRequest(try fixture.session("user-2")))
        try await fixture.awaitMintsReceived(1)
        async let asked = fixture.manage(
            "POST /january/client-token-revocations", fields: ["Content-Type: application/json"],
            body: #"{"end_user_id":"user-1"}"#)
        try await eventually("January is asked") { fixture.simulator.counts(of: .revoke).received == 1 }
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        // Before the mint's budget is used up, and before who asked would be told that it takes longer.
        fixture.time.advance(by: .seconds(7))
        try await eventually("drained") {
            // The loops may have ended: they are not waited for.
            for loop in fixture.endpoint.loops { loop.execute {} }
            return done.isFulfilled
        }
        #expect(try await asked.status == 202)
        fixture.simulator.release()
    }

    /// Half of the connections between requests are closed after half of the time, and who has not asked yet has the whole of it.
    @Test
    func idleConnectionsAreClosedOverTwoSeconds() async throws {
        #expect(DrainConfig.idleSpread == .seconds(2))
        // One loop, so that they are not dealt out among several.
        let fixture = try await EndpointFixture(more: "http: { loops: 1 }", isTimeFrozen: true)
        let count = 20
        let clients = try await onOwnThread {
            try (0..<count).map { _ in
                let client = try fixture.connect()
                try client.send("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
                _ = try client.receiveResponses()
                return client
            }
        }
        let silent = try fixture.connect()
        try await eventually("all are accepted") { fixture.endpoint.openConnections == count + 1 }
        fixture.endpoint.drain {}
        // The first one goes at once, that is with the next ticks of the timers.
        try await eventually("the first is closed") {
            fixture.time.advance(by: .milliseconds(10))
            return await fixture.endpoint.loops[0].run { fixture.endpoint.openConnections } == count
        }
        await fixture.advance(by: DrainConfig.idleSpread / 2)
        #expect((count / 2 - 2...count / 2 + 2).contains(fixture.endpoint.openConnections))
        await fixture.advance(by: DrainConfig.idleSpread / 2 - .milliseconds(250))
        #expect((1...4).contains(fixture.endpoint.openConnections))
        // The loop ends with the last one: it is not waited for.
        fixture.time.advance(by: .milliseconds(300))
        try await eventually("all are closed") {
            for loop in fixture.endpoint.loops { loop.execute {} }
            return fixture.endpoint.openConnections == 0
        }
        for client in clients + [silent] { #expect(try client.receive() == []) }
    }

    @Test
    func whatWaitsInTheListenersQueueIsServed() async throws {
        let fixture = try await EndpointFixture()
        let request = EndpointFixture.mintRequest(try fixture.session())
        let clients = try (0..<40).map { _ in
            let client = try fixture.connect()
            try client.send(request)
            return client
        }
        let done = Promise<Void>("drained")
        fixture.endpoint.drain { done.fulfil(()) }
        for client in clients {
            let answer = try await EndpointFixture.receive(client)
            #expect(answer.status == 201)
        }
        try await done.value()
    }
}
