import HTTPMessage
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// What January says, and what the app hears.
@Suite(.serialized)
struct JanuaryAnswerTests {
    struct Row: Sendable {
        let fault: Fault
        let status: Int
        let code: String
        var retryAfter: String?

        init(_ january: Int, _ januaryCode: String, _ status: Int, _ code: String, wait: String? = nil, retryAfter: String? = nil)
        {
            fault = .refused(january, januaryCode, retryAfter: wait)
            self.status = status
            self.code = code
            self.retryAfter = retryAfter
        }

        init(_ fault: Fault, _ status: Int, _ code: String) {
            self.fault = fault
            self.status = status
            self.code = code
        }
    }

    static let rows: [Row] = [
        Row(401, "unauthorized", 502, "january_key_rejected"),
        Row(403, "forbidden", 403, "january_forbidden"),
        Row(403, "client_token_not_allowed", 403, "january_forbidden"),
        Row(403, "something_new", 403, "january_forbidden"),
        Row(429, "request_limit_exceeded", 403, "january_quota_exhausted"),
        Row(429, "credit_limit_exceeded", 403, "january_quota_exhausted"),
        Row(400, "invalid_request", 403, "january_rejected_request"),
        Row(404, "not_found", 403, "january_rejected_request"),
        Row(409, "conflict", 403, "january_rejected_request"),
        Row(422, "invalid_request", 403, "january_rejected_request"),
        Row(499, "cancelled", 403, "january_rejected_request"),
        Row(408, "internal_error", 503, "january_unavailable"),
        Row(425, "internal_error", 503, "january_unavailable"),
        Row(500, "internal_error", 503, "january_unavailable"),
        Row(501, "not_implemented", 503, "january_unavailable"),
        Row(.html502, 503, "january_unavailable"),
        Row(503, "service_unavailable", 503, "january_unavailable", wait: "600"),
        Row(504, "upstream_timeout", 503, "january_unavailable"),
        Row(429, "rate_limited", 503, "january_rate_limited", wait: "7", retryAfter: "7"),
        Row(429, "rate_limited", 503, "january_rate_limited", wait: "3600", retryAfter: "30"),
        Row(429, "rate_limited", 503, "january_rate_limited", wait: "soon", retryAfter: "2"),
        Row(429, "rate_limited", 503, "january_rate_limited", retryAfter: "2"),
        Row(.answered(200, body: "{}"), 502, "january_invalid_response"),
        Row(.answered(202, body: "{}"), 502, "january_invalid_response"),
        Row(.with { $0.content.status = 204 }, 502, "january_invalid_response"),
        Row(.redirect(302, to: "/v1.2/auth/client-tokens"), 502, "january_invalid_response"),
        Row(.redirect(307, to: "/v1.2/auth/client-tokens"), 502, "january_invalid_response"),
        Row(.redirect(308, to: "/v1.2/auth/client-tokens"), 502, "january_invalid_response"),
    ]

    @Test
    func everyAnswerOfJanuarysHasItsStatusAndCodeAndIsAskedForOnce() async throws {
        let fixture = try await EndpointFixture()
        for (index, row) in Self.rows.enumerated() {
            fixture.simulator.addFault(FaultRule(row.fault, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            let what = Comment(rawValue: "row \(index): \(row.fault.content)")
            #expect(answer.status == row.status, what)
            #expect(answer.code == row.code, what)
            #expect(answer.fields["retry-after"] == row.retryAfter, what)
            #expect(answer.fields["january-request-id"] != nil, what)
            #expect(answer.fields["www-authenticate"] == nil, what)
            #expect(fixture.mintsReceived == index + 1, what)
            // Past every hold and every pause of a breaker.
            await fixture.advance(by: .seconds(31))
        }
        let last = try await fixture.mint(try fixture.session())
        #expect(last.status == 201)
    }

    @Test
    func theOperatorReadsWhyJanuaryRefused() async throws {
        let fixture = try await EndpointFixture()
        for (code, status, message) in [
            ("unauthorized", 401, "January rejects the API key"),
            ("request_limit_exceeded", 429, "the January account's monthly quota is used up"),
            ("invalid_request", 400, "January refuses the scopes or the lifetime asked for"),
            (
                "forbidden", 403,
                "January forbids minting: client tokens are off for the account, or the key is for another API version"
            ),
        ] {
            fixture.simulator.addFault(FaultRule(.refused(status, code), on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            _ = try await fixture.requestLine(of: answer)
            let line = try #require(fixture.logLines(message).last)
            #expect(line["january_code"]?.string == code)
            #expect(line["january_status"]?.number?.integer == Int64(status))
            #expect(line["key_fingerprint"]?.string?.utf8.count == 8)
            #expect(line["january_request_id"]?.string != nil)
            await fixture.advance(by: .seconds(31))
        }
    }

    // MARK: The checks of a 201

    struct Bad: Sendable {
        let reason: String
        let isSecurityEvent: Bool
        let fault: Fault

        init(_ reason: String, security: Bool = false, _ change: @Sendable (inout Fault) -> Void) {
            self.reason = reason
            isSecurityEvent = security
            fault = .with(change)
        }
    }

    static let bad: [Bad] = [
        Bad("not_json") { $0 = .notJSON },
        Bad("not_json") { $0.content.body = [] },
        Bad("not_json") { $0.content.body = Array("<html></html>".utf8) },
        Bad("not_json") { $0.content.duplicateMembers = ["token"] },
        Bad("not_json") { $0.content.duplicateMembers = ["end_user_id"] },
        Bad("not_json") { $0.content.extraMembers = #""a": {"b": 1, "b": 2}"# },
        Bad("not_json") { $0.content.extraMembers = #""a": "\ud800""# },
        Bad("not_an_object") { $0.content.body = Array("[]".utf8) },
        Bad("token") { $0.content.missingMembers = ["token"] },
        Bad("token") { $0.content.token = "" },
        Bad("token") { $0.content.token = "ct-" },
        Bad("token") { $0.content.token = "sk-simulator" },
        Bad("lifetime") { $0.content.missingMembers = ["expires_in"] },
        Bad("lifetime") { $0.content.expiresIn = 60 },
        Bad("lifetime") { $0.content.expiresInText = "1801" },
        Bad("lifetime") { $0.content.expiresInText = "1800.5" },
        Bad("lifetime") { $0.content.expiresInText = "\"1800\"" },
        Bad("lifetime") { $0.content.expiresInText = "1e400" },
        Bad("lifetime") { $0.content.expiresInText = "-1" },
        Bad("lifetime") { $0.content.expiresInText = "null" },
        Bad("no_end_user") { $0.content.missingMembers = ["end_user_id"] },
        Bad("wrong_end_user", security: true) { $0.content.endUserID = "user-2" },
        Bad("wrong_end_user", security: true) { $0.content.endUserID = "User-1" },
        Bad("no_scopes") { $0.content.missingMembers = ["scopes"] },
        Bad("wrong_scopes", security: true) { $0.content.scopes = [] },
        Bad("wrong_scopes", security: true) { $0.content.scopes = ["foods:read", "glucose:read"] },
        Bad("wrong_scopes", security: true) { $0.content.scopes = ["glucose:read"] },
        Bad("wrong_scopes", security: true) { $0.content.scopes = ["foods:read", "foods:read"] },
    ]

    @Test
    func anAnswerThatFailsACheckIsNeverDelivered() async throws {
        let fixture = try await EndpointFixture()
        var securityEvents = 0
        for (index, bad) in Self.bad.enumerated() {
            fixture.simulator.addFault(FaultRule(bad.fault, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            let what = Comment(rawValue: "row \(index): \(bad.fault.content)")
            #expect(answer.status == 502, what)
            #expect(answer.code == "january_invalid_response", what)
            #expect(!answer.body.contains("ct-"), what)
            #expect(fixture.mintsReceived == index + 1, what)
            let line = try await fixture.requestLine(of: answer)
            #expect(line["reason"]?.string == bad.reason, what)
            if bad.isSecurityEvent { securityEvents += 1 }
            await fixture.advance(by: .seconds(2))
        }
        let events = fixture.logLines(
            "January answered with a token for somebody else or with other scopes; it was not delivered")
        #expect(events.count == securityEvents)
        let users = try await fixture.metric(#"security_events_total{kind="wrong_end_user"}"#)
        let scopes = try await fixture.metric(#"security_events_total{kind="wrong_scopes"}"#)
        #expect(Int(users + scopes) == securityEvents)
    }

    @Test(arguments: [61, 1800])
    func theBoundsOfTheLifetimeAreGood(_ seconds: Int) async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.with { $0.content.expiresInText = String(seconds) }, on: .mint))
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 201)
        #expect(answer.json["expires_in"] as? Int == seconds)
    }

    static let odd = """
         { "scopes" : ["foods:read"],\t"new":{"deep":[1,2.50,"\\u00e9"]}, "end_user_id":"user-1",
        "expires_in":1800 , "token":"ct-0000000000000000000000000000000000000000000" }

        """

    @Test
    func theOriginalBytesGoOutWithJanuarysContentType() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(
            FaultRule(.answered(201, contentType: "application/json; charset=utf-8", body: Self.odd), on: .mint))
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 201)
        #expect(answer.body == Self.odd)
        #expect(answer.fields["content-type"] == "application/json; charset=utf-8")
        #expect(answer.fields["content-length"] == String(Self.odd.utf8.count))
    }

    @Test
    func theAliasIsTheOnlyChangeOfABodyAndHasToBeAskedFor() async throws {
        let fixture = try await EndpointFixture(more: "compat: { expires_in_alias: true }")
        fixture.simulator.addFault(FaultRule(.answered(201, body: Self.odd), on: .mint))
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 201)
        #expect(answer.json["expiresIn"] as? Int == 1800)
        #expect(answer.body.replacingOccurrences(of: #""expiresIn":1800,"#, with: "") == Self.odd)
        #expect(answer.fields["content-length"] == String(answer.body.utf8.count))
    }

    // MARK: Framing

    static let framings: [(String, @Sendable (inout Fault.Wire) -> Void)] = [
        ("length", { _ in }),
        ("chunked", { $0.chunked = true }),
        ("until close", { $0.untilClose = true }),
        ("HTTP/1.0", { $0.http10 = true }),
        (
            "HTTP/1.0 until close",
            {
                $0.http10 = true; $0.untilClose = true
            }
        ),
        ("interim answers", { $0.informational = [100, 103] }),
        ("gzip", { $0.gzip = true }),
        (
            "gzip in chunks",
            {
                $0.gzip = true; $0.chunked = true
            }
        ),
        (
            "gzip until close",
            {
                $0.gzip = true; $0.untilClose = true
            }
        ),
        ("byte by byte", { $0.drip = Fault.Drip(bytes: 40, every: .milliseconds(1)) }),
        (
            "byte by byte in chunks",
            {
                $0.chunked = true; $0.drip = Fault.Drip(bytes: 7, every: .microseconds(100))
            }
        ),
        ("closed behind it", { $0.connectionClose = true }),
        ("bytes behind it", { $0.extraBytesAfter = Array("HTTP/1.1 201 Created\r\n\r\n".utf8) }),
    ]

    @Test
    func everyFramingOfAnAnswerReachesTheAppAsTheSameJSONWithTrueFields() async throws {
        let fixture = try await EndpointFixture()
        for (name, change) in Self.framings {
            fixture.simulator.addFault(
                FaultRule(
                    .with {
                        $0.content.body = Array(Self.odd.utf8)
                        change(&$0.wire)
                    }, on: .mint))
            let answer = try await fixture.mint(try fixture.session())
            let what = Comment(rawValue: name)
            #expect(answer.status == 201, what)
            #expect(answer.body == Self.odd, what)
            #expect(answer.fields["content-length"] == String(Self.odd.utf8.count), what)
            #expect(answer.fields["transfer-encoding"] == nil, what)
            #expect(answer.fields["content-encoding"] == nil, what)
            #expect(answer.fields["x-interim"] == nil, what)
        }
        #expect(fixture.mintsReceived == Self.framings.count)
    }

    @Test
    func theRequestToJanuaryIsExactlyThis() async throws {
        let fixture = try await EndpointFixture(grants: "features: [glucose, food_search, food_diary, food_diary_read]")
        _ = try await fixture.mint(
            try fixture.session("a\"b"), fields: ["Content-Type: application/x-www-form-urlencoded", "X-Secret: app"])
        let request = try #require(fixture.simulator.requests(of: .mint).last)
        #expect(
            request.bodyText
                == #"{"end_user_id":"a\"b","scopes":["food_logs:read","food_logs:write","foods:read","glucose:read"],"ttl_seconds":1800}"#
        )
        #expect(request.field(.accept) == "application/json")
        #expect(request.field(.contentType) == "application/json")
        #expect(request.field(.acceptEncoding) == "identity")
        #expect(request.field(.userAgent)?.hasPrefix("january-token-endpoint/") ?? false)
        #expect(request.field(.authorization) == "Bearer \(SimulatorSettings.developmentKey)")
        #expect(request.field(FieldName("x-secret")) == nil)
        #expect(request.target.path == "/v1.2/auth/client-tokens")
    }
}
