import JanuarySimulator
import Primitives
import Revocations
import TestSupport
import Testing

@testable import TokenEndpoint

/// `DELETE` on a token path: people revoke their own tokens.
@Suite(.serialized)
struct SignOutTests {
    private static func fixture(_ double: RevocationDouble, block: String = "none") async throws -> EndpointFixture {
        try await EndpointFixture(
            more: "state: \"sqlite:state.db\"\nrevocations: { self_service: true, self_service_block: \(block) }",
            revocations: double)
    }

    private static func signOut(_ fixture: EndpointFixture, _ session: String?) async throws -> EndpointFixture.Answer {
        let authorization = session.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return try await fixture.exchange(
            "DELETE /january/client-token HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\(authorization)\r\n", port: fixture.port)
    }

    @Test(arguments: [("none", RevocationBlock.none), ("sessions", .sessions)])
    func itRevokesTheCallersOwnTokens(block: String, expected: RevocationBlock) async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double, block: block)
        let answer = try await Self.signOut(fixture, try fixture.session("user-3"))
        #expect(answer.status == 200)
        #expect(answer.json["end_user_id"] as? String == "user-3" && answer.json["revoked_count"] as? Int == 2)
        #expect(answer.json["blocked"] as? String == expected.rawValue)
        #expect(answer.fields["cache-control"] == "no-store")
        let request = try #require(double.requests.first)
        #expect(request.endUserID == "user-3" && request.block == expected && request.requestedBy == "self_service")
        #expect(request.requestID == answer.fields["x-request-id"])
        #expect(fixture.mintsReceived == 0)
        try await fixture.awaitMetric(#"requests_total{route="token",method="DELETE",status="200",code="ok"}"#, 1)
    }

    @Test func whatIsNotFinishedIs202WithoutAPlaceNobodyReaches() async throws {
        let double = RevocationDouble()
        double.change { $0.isPending = true }
        let fixture = try await Self.fixture(double)
        let answer = try await Self.signOut(fixture, try fixture.session())
        #expect(answer.status == 202 && answer.json["status"] as? String == "pending")
        #expect(answer.fields["location"] == nil)
    }

    @Test func theSessionRulesAreThoseOfAMint() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        #expect(try await Self.signOut(fixture, nil).code == "invalid_session")
        #expect(try await Self.signOut(fixture, try fixture.session(expiresIn: .seconds(-120))).status == 401)
        #expect(try await Self.signOut(fixture, try fixture.session("a@b.example")).code == "invalid_end_user_id")
        double.change { $0.error = .stateUnavailable(retryAfter: 3) }
        let answer = try await Self.signOut(fixture, try fixture.session())
        #expect(answer.status == 503 && answer.code == "state_unavailable" && answer.fields["retry-after"] == "3")
        #expect(double.requests.isEmpty)
    }

    @Test func whoIsBlockedGets200WithNothingAndTheBlockStays() async throws {
        let double = RevocationDouble()
        double.change { $0.people["user-1"] = EndUserStatus(endUserID: "user-1", blocked: .user, isPending: true) }
        let fixture = try await Self.fixture(double)
        let answer = try await Self.signOut(fixture, try fixture.session("user-1"))
        #expect(answer.status == 200)
        #expect(answer.json["revoked_count"] as? Int == 0 && answer.json["status"] as? String == "complete")
        #expect(answer.json["blocked"] as? String == "user")
        #expect(double.requests.isEmpty && double.lifts.isEmpty)
    }

    @Test(
        arguments: [
            (RevocationBlock.user, nil, true), (.none, nil, false), (.sessions, nil, true), (.sessions, 999.0, true),
            (.sessions, 1000.0, true), (.sessions, 1001.0, false),
        ] as [(RevocationBlock, Double?, Bool)])
    func aFenceOfSessionsIsForThoseThatBeganBefore(block: RevocationBlock, startedAt: Double?, isFenced: Bool) {
        let status = EndUserStatus(endUserID: "u", blocked: block, blockedSince: WallInstant(secondsSinceEpoch: 1000))
        #expect(MintHandler.isFenced(startedAt: startedAt, status) == isFenced)
    }

    @Test func theSeventhInAnHourIs429AndOthersAreNotHeldBack() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        let session = try fixture.session("user-1")
        for _ in 0..<6 { #expect(try await Self.signOut(fixture, session).status == 200) }
        let limited = try await Self.signOut(fixture, session)
        #expect(limited.status == 429 && limited.code == "rate_limited")
        #expect(Int(limited.fields["retry-after"] ?? "").map { (1...600).contains($0) } == true)
        #expect(try await Self.signOut(fixture, try fixture.session("user-2")).status == 200)
        #expect(try await fixture.mint(session).status == 201)
        #expect(double.requests.count == 7)
    }

    @Test func withoutSelfServiceThereIsNoSuchMethod() async throws {
        let fixture = try await EndpointFixture(revocations: RevocationDouble())
        let answer = try await Self.signOut(fixture, try fixture.session())
        #expect(answer.status == 405 && answer.fields["allow"] == "POST, OPTIONS")
        let on = try await Self.fixture(RevocationDouble())
        let options = try await on.exchange(
            "OPTIONS /january/client-token HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", port: on.port)
        #expect(options.status == 204 && options.fields["allow"] == "POST, DELETE, OPTIONS")
    }
}
