import JanuarySimulator
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// The wall clock is for sessions and records alone; that it jumps is said, and moves nothing.
@Suite(.serialized) struct ClockTests {
    /// Seconds that pass on each clock between two looks, and the jump in milliseconds.
    @Test(
        arguments: [
            (1_000, 1_000, nil), (1_000, 3_000, nil), (1_000, 3_001, 2_001), (1_000, -1_000, nil), (1_000, -1_001, -2_001),
            (1_000, 3_601_000, 3_600_000), (1_000, -3_599_000, -3_600_000), (60_000, 60_000, nil), (60_000, 0, -60_000),
            (0, 0, nil),
        ] as [(Int, Int, Int?)])
    func aJumpIsMoreThanTwoSecondsBetweenTwoLooks(monotonic: Int, wall: Int, jump: Int?) {
        let time = TestTime()
        var comparison = ClockComparison(monotonic: time.monotonic(), wall: time.wall())
        let found = comparison.look(
            monotonic: time.monotonic() + .milliseconds(monotonic), wall: time.wall() + .milliseconds(wall))
        #expect(found == jump.map { .milliseconds($0) })
    }

    /// Each look begins anew: a jump is told once, and what drifts slowly is none.
    @Test func aJumpIsToldOnceAndADriftNever() {
        let time = TestTime()
        var comparison = ClockComparison(monotonic: time.monotonic(), wall: time.wall())
        time.advance(by: .seconds(1))
        time.setWall(time.wall() + .seconds(3_600))
        #expect(comparison.look(monotonic: time.monotonic(), wall: time.wall()) == .seconds(3_600))
        for _ in 0..<100 {
            time.advance(by: .seconds(1))
            time.setWall(time.wall() + .milliseconds(100))
            #expect(comparison.look(monotonic: time.monotonic(), wall: time.wall()) == nil)
        }
    }

    @Test(arguments: [WallInstant(nanosecondsSinceEpoch: .min), WallInstant(nanosecondsSinceEpoch: .max)])
    func theFarthestClockIsNoTrap(wall: WallInstant) {
        let time = TestTime()
        var comparison = ClockComparison(monotonic: time.monotonic(), wall: time.wall())
        #expect(comparison.look(monotonic: time.monotonic(), wall: wall) != nil)
        #expect(comparison.look(monotonic: time.monotonic(), wall: time.wall()) != nil)
    }

    @Test func aJumpOfTheWallClockIsLogged() async throws {
        let fixture = try await EndpointFixture(isTimeFrozen: true)
        let message = "the wall clock has jumped; sessions are checked against the new time"
        await fixture.advance(by: .seconds(1))
        #expect(fixture.logLines(message).isEmpty)
        fixture.time.stepWall(by: .seconds(-7_200))
        await fixture.advance(by: .milliseconds(1_100))
        let line = try #require(fixture.logLines(message).first)
        #expect(line["level"] == "warning")
        let jump = try #require(line["jump_ms"]?.number?.double)
        #expect((-7_200_100 ... -7_199_900).contains(jump))
        await fixture.advance(by: .seconds(5))
        #expect(fixture.logLines(message).count == 1)
    }

    /// The server's head time-out, the client's idle connections and the breaker's pause stay where they were, forward and back.
    @Test(arguments: [Duration.seconds(86_400), .seconds(-86_400)])
    func aStepOfTheWallClockMovesNoTimer(step: Duration) async throws {
        let fixture = try await EndpointFixture(isTimeFrozen: true)
        // A kept connection to January, and one of a client that has sent half a request.
        let session = try fixture.session(expiresIn: .seconds(200_000))
        #expect(try await fixture.mint(session).status == 201)
        let half = try fixture.connect()
        try await onOwnThread { try half.send("POST /january/client-token HTTP/1.1\r\n") }
        try await eventually("the half request is read") { fixture.endpoint.openConnections >= 1 }
        fixture.time.stepWall(by: step)
        await fixture.advance(by: .seconds(2))
        #expect(try await fixture.metric("january_connections{state=\"idle\"}") == 1)
        #expect(fixture.endpoint.openConnections == 1)
        // The monotonic clock alone moves them.
        await fixture.advance(by: .seconds(60))
        try await eventually("the head took too long") {
            // The answer is followed by a pause in which the client may close first.
            await fixture.advance(by: .seconds(1))
            return fixture.endpoint.openConnections == 0
        }
        try await fixture.awaitMetric("january_connections{state=\"idle\"}", 0)
        withExtendedLifetime(half) {}
    }

    @Test(arguments: [Duration.seconds(86_400), .seconds(-86_400)])
    func aStepOfTheWallClockMovesNoBreaker(step: Duration) async throws {
        let fixture = try await EndpointFixture(isTimeFrozen: true)
        let session = try fixture.session(expiresIn: .seconds(200_000))
        fixture.simulator.addFault(FaultRule(.refused(429, "rate_limited"), on: .mint))
        #expect(try await fixture.mint(session).code == "january_rate_limited")
        fixture.time.stepWall(by: step)
        #expect(try await fixture.mint(session).code == "january_rate_limited")
        #expect(fixture.mintsReceived == 1)
        await fixture.advance(by: .seconds(3))
        #expect(try await fixture.mint(session).status == 201)
        #expect(fixture.mintsReceived == 2)
    }
}
