import Foundation
import JanuarySimulator
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// `/status.json`, through the management listener.
@Suite(.serialized)
struct StatusTests {
    private static func status(_ fixture: EndpointFixture) async throws -> [String: Any] {
        let answer = try await fixture.get("/status.json")
        #expect(answer.status == 200 && answer.fields["content-type"] == "application/json")
        #expect(answer.fields["cache-control"] == "no-store")
        return answer.json
    }

    private static func part(_ status: [String: Any], _ name: String) throws -> [String: Any] {
        try #require(status[name] as? [String: Any], "\(name)")
    }

    @Test func itSaysHowTheProcessDoes() async throws {
        let fixture = try await EndpointFixture(
            january: "max_connections: 7\nmax_in_flight: 9",
            more: EndpointFixture.managed + "\nmax_connections: 50",
            files: EndpointFixture.managementFiles, isTimeFrozen: true)
        let minted = try await fixture.mint(try fixture.session())
        #expect(minted.status == 201)
        await fixture.advance(by: .milliseconds(1_500))
        let status = try await Self.status(fixture)
        #expect(
            Set(status.keys) == [
                "status", "reasons", "version", "time", "started_at", "uptime_seconds", "drain_ends_in_seconds", "loops",
                "answers",
                "connections", "mints", "january", "sessions", "key_sets", "limits", "state", "reloads",
            ])
        #expect(status["status"] as? String == "ready")
        #expect(status["version"] as? String == TokenEndpoint.version)
        #expect(status["uptime_seconds"] as? Double == 1.5)
        #expect(status["loops"] as? Int == 2)
        let connections = try Self.part(status, "connections")
        #expect(connections["most"] as? Int == 50 && connections["accepted_total"] as? Int == 1)
        let mints = try Self.part(status, "mints")
        #expect(mints["in_flight"] as? Int == 0 && mints["most"] as? Int == 9 && mints["waiting"] as? Int == 0)
        #expect(mints["at_january"] as? Int == 0 && mints["service_seconds"] as? Double == 0)
        #expect(mints["overloaded_total"] as? Int == 0)
        let january = try Self.part(status, "january")
        #expect((january["connections"] as? [String: Int]) == ["idle": 1, "leased": 0, "connecting": 0, "most": 7])
        #expect((january["held_back_for"] as? [String]) == [])
        let key = try Self.part(january, "api_key")
        #expect(key["slot"] as? String == "first" && (key["fingerprint"] as? String)?.count == 8)
        #expect((status["key_sets"] as? [Any])?.count == 0)
        let state = try Self.part(status, "state")
        #expect(state["store"] as? String == "sqlite" && state["writable"] as? Bool == true)
        #expect(state["revocations_pending"] as? Int == 0 && state["fences"] as? Int == 0)
    }

    @Test func keySetsSayHowOldTheyAre() async throws {
        let fixture = try await EndpointFixture(
            sessions: EndpointFixture.keySetVerifier(), simulator: EndpointFixture.simulatorWithKeys)
        try await fixture.awaitReady()
        let status = try await Self.status(fixture)
        let sets = try #require(status["key_sets"] as? [[String: Any]])
        #expect(sets.count == 1)
        #expect(sets[0]["name"] as? String == "jwt" && sets[0]["keys"] as? Int == 1)
        let keyID = try #require((sets[0]["key_ids"] as? [String])?.first)
        #expect(
            try await fixture.exchange(
                "GET /idp/jwks.json HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                port: try #require(UInt16(fixture.simulator.origin.split(separator: ":").last ?? ""))
            ).body.contains("\"\(keyID)\""))
        #expect(sets[0]["age_seconds"] is Double || sets[0]["age_seconds"] is Int)
        #expect(sets[0]["failing_seconds"] is NSNull && sets[0]["last_used_seconds"] is NSNull)
    }

    /// Which limit refused, how often, and how full its cell is now.
    @Test func aLimitSaysHowFullTheCellIsThatRefusedLast() async throws {
        let fixture = try await EndpointFixture(
            more: """
                rate_limits:
                  per_address: false
                  per_session: { requests: 6, per_seconds: 60, burst: 3 }
                """, isTimeFrozen: true)
        let session = try fixture.session("private-person", claims: ["sid": "private-session"])
        for _ in 0..<3 {
            let minted = try await fixture.mint(session)
            #expect(minted.status == 201)
        }
        let before = try await Self.rule("per_session", fixture)
        #expect(before["refused_total"] as? Int == 0 && before["last_refused"] is NSNull)
        let limited = try await fixture.mint(session)
        #expect(limited.status == 429)
        let full = try await Self.rule("per_session", fixture)
        #expect(full["requests"] as? Int == 6 && full["per_seconds"] as? Double == 60 && full["burst"] as? Int == 3)
        #expect(full["refused_total"] as? Int == 1)
        var last = try Self.part(full, "last_refused")
        #expect(last["used"] as? Double == 3 && last["of"] as? Int == 3)
        #expect(last["seconds_ago"] as? Double == 0 && last["admits_again_in_seconds"] as? Double == 10)
        await fixture.advance(by: .seconds(15))
        last = try Self.part(try await Self.rule("per_session", fixture), "last_refused")
        #expect(last["used"] as? Double == 1.5 && last["seconds_ago"] as? Double == 15)
        #expect(last["admits_again_in_seconds"] as? Double == 0)
        await fixture.advance(by: .seconds(3_600))
        last = try Self.part(try await Self.rule("per_session", fixture), "last_refused")
        #expect(last["used"] as? Double == 0)
        // Nobody's name, and no key of a cell.
        let page = try await fixture.get("/status.json").body
        #expect(!page.contains("private"))
        let status = try await Self.status(fixture)
        let limits = try Self.part(status, "limits")
        #expect(limits["store"] as? String == "memory" && limits["degraded"] as? Bool == false)
        #expect(limits["mode"] as? String == "enforce" && limits["most_cells"] as? Int == 1_000_000)
        #expect((limits["rules"] as? [[String: Any]])?.compactMap { $0["limit"] as? String } == ["per_session", "per_end_user"])
    }

    private static func rule(_ name: String, _ fixture: EndpointFixture) async throws -> [String: Any] {
        let limits = try part(try await status(fixture), "limits")
        let rules = try #require(limits["rules"] as? [[String: Any]])
        return try #require(rules.first { $0["limit"] as? String == name })
    }

    @Test func itSaysWhatIsUnderWayAndWhatIsHeldBack() async throws {
        let fixture = try await EndpointFixture(january: "max_connections: 1")
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        let sessions = try (1...2).map { try fixture.session("user-\($0)") }
        async let first = fixture.mint(sessions[0])
        try await fixture.awaitMintsReceived(1)
        async let second = fixture.mint(sessions[1])
        try await fixture.awaitMetric("mints_waiting", 1)
        let mints = try Self.part(try await Self.status(fixture), "mints")
        #expect(mints["in_flight"] as? Int == 2 && mints["waiting"] as? Int == 1 && mints["at_january"] as? Int == 1)
        #expect(mints["service_seconds"] is NSNull)
        fixture.simulator.release()
        let statuses = try await [first, second].map(\.status)
        #expect(statuses == [201, 201])
        fixture.simulator.addFault(FaultRule(.refused(403, "request_limit_exceeded"), on: .mint))
        let refused = try await fixture.mint(sessions[0])
        #expect(refused.code == "january_quota_exhausted")
        let january = try Self.part(try await Self.status(fixture), "january")
        #expect((january["held_back_for"] as? [String]) == ["quota"])
    }
}
