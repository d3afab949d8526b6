import JanuarySimulator
import TestSupport
import Testing

/// From an app's session to January's token.
@Suite(.serialized)
struct MintTests {
    @Test
    func aGoodSessionGetsJanuarysOwnAnswer() async throws {
        let fixture = try await EndpointFixture()
        let answer = try await fixture.mint(try fixture.session("user-1"))
        #expect(answer.status == 201)
        #expect(answer.json["end_user_id"] as? String == "user-1")
        #expect(answer.json["scopes"] as? [String] == ["foods:read"])
        #expect(answer.json["expires_in"] as? Int == 1800)
        #expect((answer.json["token"] as? String)?.hasPrefix("ct-") ?? false)
        #expect(answer.fields["cache-control"] == "no-store")
        #expect(answer.fields["x-content-type-options"] == "nosniff")
        #expect(answer.fields["x-request-id"]?.count == 32)
        #expect(answer.fields["january-request-id"] != nil)
        #expect(answer.fields["date"] != nil)
        #expect(answer.fields["server"] == nil)
        let recorded = try #require(fixture.simulator.requests(of: .mint).last)
        #expect(recorded.bodyText == #"{"end_user_id":"user-1","scopes":["foods:read"],"ttl_seconds":1800}"#)
        #expect(recorded.field(.authorization) == "Bearer \(SimulatorSettings.developmentKey)")
    }

    @Test
    func withoutASessionJanuaryIsNeverAsked() async throws {
        let fixture = try await EndpointFixture()
        let answer = try await fixture.mint(nil)
        #expect(answer.status == 401)
        #expect(answer.code == "invalid_session")
        #expect(answer.fields["www-authenticate"] == #"Bearer realm="january""#)
        #expect(fixture.simulator.requests(of: .mint).isEmpty)
    }
}
