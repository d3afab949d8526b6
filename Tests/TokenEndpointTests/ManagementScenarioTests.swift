import JanuarySimulator
import Primitives
import Revocations
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The management API, the state and January together: what an operator does, and what the app then sees.
@Suite(.serialized)
struct ManagementScenarioTests {
    private static func revoke(_ fixture: EndpointFixture, _ body: String) async throws -> EndpointFixture.Answer {
        try await fixture.manage(
            "POST /january/client-token-revocations", fields: ["Content-Type: application/json"], body: body)
    }

    private static func records(_ audit: LogMemory) -> [JSONObject] {
        audit.lines.compactMap { try? JSONValue.parse($0) }.compactMap(\.object)
    }

    @Test func anAccountIsDeletedAndMadeAnew() async throws {
        let audit = LogMemory()
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed, files: EndpointFixture.managementFiles, auditOutput: audit)
        let session = try fixture.session("user-1")
        for _ in 0..<2 { #expect(try await fixture.mint(session).status == 201) }
        let revoked = try await Self.revoke(fixture, #"{"end_user_id":"user-1","reason":"account deleted"}"#)
        #expect(revoked.status == 200)
        #expect(revoked.json["revoked_count"] as? Int == 2 && revoked.json["blocked"] as? String == "user")
        let id = try #require(revoked.json["id"] as? String)
        #expect(fixture.simulator.tokens(of: "user-1").allSatisfy { $0.revoked != nil })
        let refused = try await fixture.mint(session)
        #expect(refused.status == 403 && refused.code == "access_revoked")
        // Somebody else does not notice.
        #expect(try await fixture.mint(try fixture.session("user-2")).status == 201)
        let shown = try await fixture.manage("GET /january/client-token-revocations/\(id)")
        #expect(shown.json["status"] as? String == "complete")
        // Once it is complete, only the hash is known.
        #expect(shown.json["end_user_id"] as? String != "user-1")
        let person = try await fixture.manage("GET /january/end-users/user-1")
        #expect(person.json["blocked"] as? String == "user")
        let lifted = try await fixture.manage("DELETE /january/end-users/user-1/block")
        #expect(lifted.status == 200 && lifted.json["blocked"] as? String == "none")
        #expect(try await fixture.mint(session).status == 201)

        // And all of it can be read afterwards, without a plain ID.
        let records = Self.records(audit)
        let messages = records.compactMap { $0["message"]?.string }
        for message in ["revocation requested", "revocation swept", "revocation completed", "revocation lifted", "mint refused"] {
            #expect(messages.contains(message), "\(message)")
        }
        let requested = try #require(records.first { $0["message"] == "revocation requested" })
        #expect(requested["requested_by"] == "token" && requested["reason"] == "account deleted" && requested["id"]?.string == id)
        #expect(requested["request_id"]?.string == revoked.fields["x-request-id"])
        let refusal = try #require(records.first { $0["message"] == "mint refused" })
        #expect(refusal["code"] == "access_revoked" && refusal["end_user"] == requested["end_user"])
        #expect(!audit.text.contains("user-1"))
    }

    @Test func aPersonSignsOutAndIn() async throws {
        let fixture = try await EndpointFixture(
            more: "state: \"sqlite:state.db\"\nrevocations: { self_service: true }")
        let session = try fixture.session("user-1")
        #expect(try await fixture.mint(session).status == 201)
        let request =
            "DELETE /january/client-token HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer \(session)\r\n\r\n"
        let answer = try await fixture.exchange(request, port: fixture.port)
        #expect(answer.status == 200 && answer.json["revoked_count"] as? Int == 1)
        #expect(answer.json["blocked"] as? String == "none")
        #expect(fixture.simulator.tokens(of: "user-1").allSatisfy { $0.revoked != nil })
        // Nothing stands in the way of the next one.
        #expect(try await fixture.mint(session).status == 201)
    }

    @Test func requestsToTheManagementListenerHaveTheirLines() async throws {
        let fixture = try await EndpointFixture(more: EndpointFixture.managed, files: EndpointFixture.managementFiles)
        let page = try await fixture.manage("GET /january/client-token-revocations")
        let denied = try await fixture.manage("GET /january/end-users/user-1", token: nil)
        let unknown = try await fixture.get("/nothing")
        #expect(!unknown.body.contains("revocation"), "it is the path that is not there")
        let found = try await fixture.requestLine(of: page)
        #expect(found["route"] == "revocations" && found["listener"] == "management" && found["token_name"] == "token")
        #expect(found["code"] == "ok" && found["status"]?.number?.integer == 200 && found["duration_ms"] != nil)
        let refused = try await fixture.requestLine(of: denied)
        #expect(refused["code"] == "management_unauthorized" && refused["route"] == "end_users" && refused["token_name"] == nil)
        #expect(try await fixture.requestLine(of: unknown)["code"] == "not_found")
        let status = try await fixture.get("/status.json")
        #expect(try await fixture.requestLine(of: status)["route"] == "status")
        #expect(!fixture.logs.lines.contains { $0.contains("user-1") })
    }

    /// It is no error, and certainly not "ok".
    @Test func aProbeThatIsToldNotNowHasALineWithoutACode() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys
        ) {
            $0.addFault(FaultRule(.refused(500, "internal_error"), on: .keySet, times: nil))
        }
        let probe = try await fixture.get("/readyz")
        #expect(probe.status == 503)
        let line = try await fixture.requestLine(of: probe)
        #expect(line["code"] == nil && line["status"]?.number?.integer == 503 && line["route"] == "ready")
        #expect(try await fixture.requestLine(of: try await fixture.get("/healthz"))["code"] == "ok")
    }
}
