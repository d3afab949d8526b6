import JanuarySimulator
import TestSupport
import Testing

@testable import TokenEndpoint

/// Several key sets, not all of which can be loaded, on a clock that stands still.
@Suite(.serialized)
struct ReadinessScenarioTests {
    /// The fixture's key set and another issuer's, which is nowhere.
    private static let verifiers = """
        \(EndpointFixture.keySetVerifier("      namespace: people"))
            - type: jwt
              name: other
              issuer: https://other.test
              audience: \(EndpointFixture.audience)
              jwks_url: ORIGIN/nowhere/jwks.json
              algorithms: [ES256]
              namespace: people
        """

    private static func fixture(_ prepare: (Simulator) -> Void = { _ in }) async throws -> EndpointFixture {
        try await EndpointFixture(
            sessions: verifiers, simulator: EndpointFixture.simulatorWithKeys, isTimeFrozen: true, prepare: prepare)
    }

    private static func readyz(_ fixture: EndpointFixture) async throws -> String {
        let answer = try await fixture.get("/readyz")
        return "\(answer.status) \(answer.body)"
    }

    @Test
    func oneKeySetIsEnoughWhenTheOthersHaveFailedFor30Seconds() async throws {
        let fixture = try await Self.fixture()
        let failures = #"jwks_refreshes_total{source="other",result="status"}"#
        let starting = #"503 {"status":"starting","waiting_for":["jwks:other"]}"#
        try await fixture.awaitMetric(failures, 1)
        try await eventually("the other set alone is missing") { (try? await Self.readyz(fixture)) == starting }
        await fixture.advance(by: .seconds(30) - .nanoseconds(1))
        // It was due again, and is not under way when the clock goes on.
        try await fixture.awaitMetric(failures, 2)
        #expect(try await Self.readyz(fixture) == starting)
        let session = try fixture.session(algorithm: .es256)
        let early = try await fixture.mint(session)
        #expect(early.status == 201, "who asks all the same is served")
        await fixture.advance(by: .nanoseconds(1))
        #expect(try await Self.readyz(fixture) == #"200 {"status":"degraded","reasons":["jwks:other"]}"#)
        let minted = try await fixture.mint(session)
        #expect(minted.status == 201)
        let other = try await fixture.mint(try fixture.session(algorithm: .es256) { $0.issuer = "https://other.test" })
        #expect(other.status == 503)
        #expect(other.code == "session_backend_unavailable")
    }

    /// However long it lasts: who sends sessions here gets nothing but 503.
    @Test
    func withoutAnyKeySetPatienceDoesNotHelp() async throws {
        let fixture = try await Self.fixture {
            $0.addFault(FaultRule(.refused(500, "internal_error"), on: .keySet, times: nil))
        }
        let sources = ["jwt", "other"].map { #"jwks_refreshes_total{source="\#($0)",result="status"}"# }
        for source in sources { try await fixture.awaitMetric(source, 1) }
        await fixture.advance(by: .seconds(31))
        for source in sources { try await fixture.awaitMetric(source, 2) }
        #expect(
            try await Self.readyz(fixture) == #"503 {"status":"starting","waiting_for":["jwks:jwt","jwks:other"]}"#)
    }
}
