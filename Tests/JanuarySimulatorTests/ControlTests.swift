import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

@Suite(.serialized) struct ControlTests {
    @Test func faultsComeAndGoOverHTTP() async throws {
        try await Scenario.run { scenario throws in
            let added = try scenario.control(
                "POST", "faults", #"{"operation":"mint","times":2,"status":429,"code":"rate_limited","retry_after":3}"#)
            #expect(added.status == 201)
            #expect(added.json == ["id": 1])
            let reply = try scenario.exchange(Scenario.mint())
            #expect(reply.status == 429)
            #expect(reply.field("Retry-After") == "3")
            #expect(
                try scenario.control("GET", "faults").json["faults"] == [
                    ["id": 1, "operation": "mint", "remaining": 1, "probability": 1, "struck": 1]
                ])
            #expect(try scenario.control("DELETE", "faults/1").status == 200)
            #expect(try scenario.control("DELETE", "faults/1").status == 404)
            #expect(try scenario.exchange(Scenario.mint()).status == 201)
            // Control requests are neither recorded nor struck.
            _ = try scenario.control("POST", "faults", #"{"times":null,"disruption":"reset_before_commit"}"#)
            #expect(try scenario.control("DELETE", "faults").status == 200)
            #expect(scenario.simulator.requests().count == 2)
        }
    }

    static let wrong: [(String, String, String, String)] = [
        ("POST", "faults", #"{"oops":1}"#, "oops is not known here"),
        ("POST", "faults", #"{"operation":"mnt"}"#, "operation must be one of mint, "),
        ("POST", "faults", #"{"times":0}"#, "times must be an integer in its range"),
        ("POST", "faults", #"{"delay_ms":-1}"#, "delay_ms must be a number in its range"),
        ("POST", "faults", #"{"delay_ms":1e999}"#, "delay_ms must be a number in its range"),
        ("POST", "faults", #"{"disruption":"explode"}"#, "disruption must be one of "),
        ("POST", "faults", #"{"drip":{"byte":1}}"#, "drip.byte is not known here"),
        ("POST", "faults", #"{"idle_close":{"min_ms":5,"max_ms":4}}"#, "idle_close.max_ms must not be less"),
        ("POST", "faults", "{", "the body is not JSON"),
        ("POST", "faults", "[]", "the body must be a JSON object"),
        ("PATCH", "settings", #"{"revocation_delay_seconds":61}"#, "revocation_delay_seconds must be 0 to 60"),
        ("PATCH", "settings", #"{"length_unit":"words"}"#, "length_unit must be one of characters, scalars, utf16, bytes"),
        ("PUT", "keys", "{}", "key is required"),
        ("POST", "session", #"{"alg":"none"}"#, "alg must be one of "),
        ("POST", "session", #"{"alg":"HS256"}"#, "noSharedSecret"),
        ("POST", "session", #"{"kid":"nobody"}"#, "unknownKeyID"),
        ("GET", "ledger?operation=x", "", "operation must be one of "),
    ]

    @Test func aWrongRequestIsToldWhatIsWrongAndChangesNothing() async throws {
        try await Scenario.run { scenario throws in
            for (method, path, body, message) in Self.wrong {
                let reply = try scenario.control(method, path, body)
                #expect(reply.status == 400, "\(path) \(body)")
                #expect(reply.json["code"] == "invalid_request")
                #expect(reply.json["message"]?.string?.hasPrefix(message) == true, "\(reply.body)")
            }
            #expect(try scenario.control("GET", "nowhere").status == 404)
            #expect(scenario.simulator.snapshot().faults.entries.isEmpty)
            #expect(scenario.simulator.settings == SimulatorSettings())
        }
    }

    @Test func settingsAndKeysChange() async throws {
        try await Scenario.run { scenario throws in
            let changed = try scenario.control(
                "PATCH", "settings",
                #"""
                {"client_tokens_enabled":false,"mint_check_order":["body"],"revocation_delay_seconds":2.5,"purge_delay_seconds":10,
                 "mint_limit":{"count":5},"credits_limit":null,"spent_ceiling":"credit_limit_exceeded","duplicate_scopes":"keep",
                 "unknown_members":"refuse","length_unit":"bytes","revocation_batch":7,"included_credits":null,"docs_url":"u"}
                """#)
            #expect(changed.status == 200)
            #expect(try scenario.control("GET", "settings").json == changed.json)
            var expected = SimulatorSettings()
            expected.clientTokensEnabled = false
            expected.mintCheckOrder = [.body]
            expected.revocationDelay = .milliseconds(2_500)
            expected.purgeDelay = .seconds(10)
            expected.mintLimit = RateLimit(5, per: .seconds(60))
            expected.creditsLimit = nil
            expected.spentCeiling = .credits
            expected.duplicateScopes = .keep
            expected.unknownMembers = .refuse
            expected.lengthUnit = .bytes
            expected.revocationBatch = 7
            expected.credits.includedCredits = nil
            expected.docsURL = "u"
            #expect(scenario.simulator.settings == expected)
            _ = try scenario.control("PUT", "keys", #"{"key":"sk-next"}"#)
            _ = try scenario.control("PUT", "keys", #"{"key":"sk-next","state":"other_version"}"#)
            #expect(try scenario.control("GET", "keys").json["sk-next"] == "other_version")
            _ = try scenario.control("POST", "reset")
            #expect(scenario.simulator.settings == SimulatorSettings())
        }
    }

    @Test func theClockMovesOverHTTP() async throws {
        try await Scenario.run { scenario throws in
            #expect(
                try scenario.control("POST", "clock", #"{"advance_seconds":90}"#).json
                    == ["now": "2026-11-30T00:01:30.000Z", "offset_seconds": 90])
            #expect(try scenario.control("POST", "clock", #"{"offset_seconds":-0.5}"#).json["now"] == "2026-11-29T23:59:59.500Z")
            #expect(scenario.simulator.now == WallInstant(nanosecondsSinceEpoch: 1_795_996_799_500_000_000))
        }
    }

    @Test func ledgerAndTokensAreReadOverHTTP() async throws {
        try await Scenario.run { scenario throws in
            let token = try #require(try scenario.exchange(Scenario.mint()).json["token"]?.string)
            _ = try scenario.exchange(Scenario.mint("\u{0}"))
            let ledger = try scenario.control("GET", "ledger?operation=mint&limit=1").json
            #expect(ledger["last"] == 2)
            #expect(ledger["counts"] == ["mint": ["received": 2, "committed": 1, "succeeded": 1]])
            let entry = try #require(ledger["requests"]?.array?.first?.object)
            #expect(ledger["requests"]?.array?.count == 1)
            #expect(entry["body"]?.string == Scenario.mintBody)
            #expect(entry["token"]?.string == token)
            #expect(entry["outcome"] == "answered")
            #expect(entry["status"] == 201)
            let user = try scenario.control("GET", "tokens?end_user_id=user%2D1").json
            #expect(user["live"] == [.string(token)])
            #expect(user["minted"]?.array?.count == 1)
            #expect(try scenario.control("GET", "tokens?token=\(token)").json["state"] == "live")
            #expect(try scenario.control("GET", "tokens?token=ct-x").json == ["state": "unknown"])
            _ = try scenario.exchange(
                Scenario.request("POST", "/v1.2/auth/client-token-revocations", #"{"end_user_id":"user-1"}"#))
            #expect(try scenario.control("GET", "tokens").json == ["minted": 1, "revoked": 1])
            #expect(try scenario.control("GET", "tokens?token=\(token)").json["state"] == "revoked")
            _ = try scenario.control("DELETE", "ledger")
            #expect(try scenario.control("GET", "ledger").json["requests"] == [])
        }
    }

    @Test func connectionsAreClosedButTheOneThatAsked() async throws {
        try await Scenario.run { scenario throws in
            let client = try scenario.client()
            try client.send(Scenario.mint())
            _ = try client.receiveResponses()
            #expect(try scenario.control("POST", "connections", #"{"close":"end"}"#).status == 200)
            #expect(try client.receiveAll() == [])
        }
    }

    @Test func heldRequestsAreReleasedOverHTTP() async throws {
        try await Scenario.run { scenario throws in
            _ = try scenario.control("POST", "faults", #"{"operation":"mint","disruption":"hold_before_commit"}"#)
            let client = try scenario.client()
            try client.send(Scenario.mint())
            while scenario.simulator.heldCount == 0 { usleepMilliseconds(1) }
            #expect(try scenario.control("POST", "release").status == 200)
            #expect(Reply(try client.receiveResponses().joined()).status == 201)
        }
    }
}
