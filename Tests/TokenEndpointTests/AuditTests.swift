import JanuarySimulator
import Primitives
import Revocations
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The audit trail of what goes through the endpoint.
@Suite(.serialized)
struct AuditTests {
    private static func records(_ memory: LogMemory, _ message: String) -> [JSONObject] {
        memory.lines.compactMap { try? JSONValue.parse($0) }.compactMap(\.object).filter {
            $0["type"]?.string == "audit" && $0["message"]?.string == message
        }
    }

    private static func record(_ memory: LogMemory, of answer: EndpointFixture.Answer) async throws -> JSONObject {
        let id = try #require(answer.fields["x-request-id"])
        var found: [JSONObject] = []
        try await eventually("a record") {
            found = records(memory, "mint").filter { $0["request_id"]?.string == id }
            return !found.isEmpty
        }
        #expect(found.count == 1)
        return found[0]
    }

    @Test func everyMintHasOneRecordWithWhatWasGivenAndNotTheToken() async throws {
        let audit = LogMemory()
        let fixture = try await EndpointFixture(grants: "features: [food_diary]", auditOutput: audit)
        let answer = try await fixture.mint(try fixture.session("user-1"))
        let record = try await Self.record(audit, of: answer)
        #expect(
            record.members.map(\.name) == [
                "time", "level", "type", "message", "request_id", "end_user", "outcome", "code", "token_sha256", "scopes",
                "ttl_seconds", "verifier", "january_request_id",
            ])
        #expect(record["outcome"]?.string == "delivered" && record["code"]?.string == "ok")
        #expect(record["scopes"] == ["food_logs:read", "food_logs:write"] && record["ttl_seconds"] == 1800)
        #expect(record["end_user"]?.string?.utf8.count == 32 && record["token_sha256"]?.string?.utf8.count == 16)
        #expect(record["january_request_id"]?.string == answer.fields["january-request-id"])
        #expect(!audit.text.contains("user-1") && !audit.text.contains("ct-"))
        // In a file of its own it is not in the log, too.
        #expect(Self.records(fixture.logs, "mint").isEmpty)
    }

    @Test func withoutAFileRecordsAreLinesOfTheLog() async throws {
        let fixture = try await EndpointFixture(more: "log: { requests: none, level: error, end_user_id: plain }")
        let answer = try await fixture.mint(try fixture.session("user-1"))
        #expect(try await Self.record(fixture.logs, of: answer)["end_user"] == "user-1")
    }

    @Test func whatJanuaryWasAskedForIsRecordedWhateverCameOfIt() async throws {
        let audit = LogMemory()
        let fixture = try await EndpointFixture(auditOutput: audit)
        let rows: [(Fault, String, String)] = [
            (.refused(400, "invalid_request"), "failed", "january_rejected_request"),
            (.refused(500, "internal_error"), "failed", "january_unavailable"),
            (.echo(endUserID: "somebody"), "failed", "january_invalid_response"),
            (.disrupted(.resetAfterCommit), "lost", "january_unavailable"),
        ]
        for (fault, outcome, code) in rows {
            fixture.simulator.addFault(FaultRule(fault, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            let record = try await Self.record(audit, of: answer)
            #expect(record["outcome"]?.string == outcome, "\(fault)")
            #expect(record["code"]?.string == code, "\(fault)")
            #expect(record["token_sha256"] == nil)
        }
        let event = try #require(Self.records(audit, "security event").first)
        #expect(event["kind"]?.string == "wrong_end_user" && event["level"]?.string == "error")
        let cause = try #require(Self.records(audit, "mint").first { $0["code"]?.string == "january_invalid_response" })
        #expect(event["request_id"] == cause["request_id"] && event["request_id"] != nil)
        // Nothing was asked of January: there is nothing to record.
        let count = audit.lines.count
        _ = try await fixture.mint(nil)
        _ = try await fixture.mint(try fixture.session("a@b.example"))
        #expect(audit.lines.count == count)
    }

    @Test func theOtherKeyInUseIsRecorded() async throws {
        let audit = LogMemory()
        let next = BreakerScenarioTests.nextKey
        let fixture = try await EndpointFixture(secondKey: next, auditOutput: audit) { $0.configure { $0.keys = [next: .valid] } }
        let answer = try await fixture.mint(try fixture.session())
        try await eventually("a record") { !Self.records(audit, "API key changed").isEmpty }
        let record = Self.records(audit, "API key changed")[0]
        #expect(record["request_id"]?.string == answer.fields["x-request-id"])
        #expect(record["slot"]?.string == "next" && record["key_fingerprint"]?.string?.utf8.count == 8)
    }

    @Test func whoRevokedAndWhoLiftedIsRecordedWithTheRequestThatAsked() async throws {
        let audit = LogMemory()
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed, files: EndpointFixture.managementFiles, auditOutput: audit)
        let revoked = try await fixture.manage("POST /january/client-token-revocations", body: #"{"end_user_id":"user-1"}"#)
        let lifted = try await fixture.manage("DELETE /january/end-users/user-1/block")
        #expect(revoked.status == 200 && lifted.status == 200)
        for (message, answer) in [("revocation requested", revoked), ("revocation lifted", lifted)] {
            let record = try #require(Self.records(audit, message).first)
            #expect(record["request_id"]?.string == answer.fields["x-request-id"] && record["requested_by"] == "token")
        }
    }

    @Test func mintsAreLeftOutWhereTheyAreNotWanted() async throws {
        let audit = LogMemory()
        let fixture = try await EndpointFixture(more: "audit: { mints: false }", auditOutput: audit)
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 201)
        _ = try await fixture.requestLine(of: answer)
        #expect(audit.lines.isEmpty)
    }

    /// An output that takes nothing.
    private struct Blocked: LogOutput {
        func append(_ line: [UInt8], type: LogType) -> Bool { false }
        var isBlocked: Bool { true }
        var droppedAuditCount: Int { 7 }
    }

    @Test(arguments: [("drop", 201), ("refuse", 503)])
    func whatCannotBeRecordedIsGivenOrRefusedAsConfigured(whenBlocked: String, status: Int) async throws {
        let fixture = try await EndpointFixture(more: "audit: { when_blocked: \(whenBlocked) }", auditOutput: Blocked())
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == status)
        #expect(fixture.mintsReceived == (status == 201 ? 1 : 0))
        if status == 503 {
            #expect(answer.code == "overloaded" && (1...30).contains(Int(answer.fields["retry-after"] ?? "") ?? 0))
            #expect(try await fixture.requestLine(of: answer)["reason"]?.string == "audit_blocked")
        }
        try await fixture.awaitMetric("audit_dropped_total", 7)
    }
}
