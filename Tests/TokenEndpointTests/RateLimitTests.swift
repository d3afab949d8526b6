import Foundation
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// The limits as apps and attackers meet them, through real sockets. Loopback addresses other than 127.0.0.1 are ordinary callers.
@Suite(.serialized) struct RateLimitTests {
    private static let off = ["per_address: false", "per_session: false", "per_end_user: false", "all: false"]

    /// All limits off but those given.
    private static func limits(_ given: String...) -> String {
        let lines = given + off.filter { line in !given.contains { $0.hasPrefix(String(line.prefix { $0 != ":" }) + ":") } }
        return "rate_limits:\n" + lines.map { "  \($0)\n" }.joined()
    }

    private static func limits(_ given: String, more: String) -> String { limits(given) + more }

    struct Row: Sendable, CustomTestStringConvertible {
        let limit: String
        let policy: String
        let source: String?
        let isSameUser: Bool
        let isSameSession: Bool
        var testDescription: String { limit }
    }

    static let rows = [
        Row(
            limit: "per_address: { requests: 1, per_seconds: 30, burst: 3 }", policy: #""per_address";q=1;w=30"#,
            source: "127.0.0.2", isSameUser: false, isSameSession: false),
        Row(
            limit: "per_session: { requests: 6, per_seconds: 180, burst: 3 }", policy: #""per_session";q=6;w=180"#, source: nil,
            isSameUser: true, isSameSession: true),
        Row(
            limit: "per_end_user: { requests: 2, per_seconds: 59.5, burst: 3 }", policy: #""per_end_user";q=2;w=60"#, source: nil,
            isSameUser: true, isSameSession: false),
        Row(
            limit: "all: { requests: 1, per_seconds: 30, burst: 3 }", policy: #""all";q=1;w=30"#, source: nil, isSameUser: false,
            isSameSession: false),
    ]

    /// RFC 6585 section 4, RFC 9110 section 10.2.3, draft-ietf-httpapi-ratelimit-headers.
    @Test(arguments: rows) func theOneBeyondTheBurstIs429AndTheTimeToldIsEnough(row: Row) async throws {
        let fixture = try await EndpointFixture(more: Self.limits(row.limit))
        func mint(_ number: Int) async throws -> EndpointFixture.Answer {
            let session = try fixture.session(
                row.isSameUser ? "user" : "user-\(number)", claims: ["sid": .string(row.isSameSession ? "s" : "s-\(number)")])
            return try await fixture.mint(session, from: row.source)
        }
        for number in 1...3 { #expect(try await mint(number).status == 201) }
        let refused = try await mint(4)
        let name = String(row.limit.prefix { $0 != ":" })
        #expect(refused.status == 429)
        #expect(refused.code == "rate_limited")
        let wait = try #require(refused.fields["retry-after"].flatMap { Int($0) })
        // The emission interval is 30 s or a little less; the request itself took less than that of a second or two.
        #expect((27...30).contains(wait))
        #expect(refused.fields["ratelimit-policy"] == row.policy)
        #expect(refused.fields["ratelimit"] == "\"\(name)\";r=0;t=\(wait)")
        #expect(refused.fields["cache-control"] == "no-store")
        #expect(try await fixture.requestLine(of: refused)["reason"] == .string(name))
        #expect(try await fixture.metric("rate_limited_total{limit=\"\(name)\"}") == 1)
        #expect(fixture.mintsReceived == 3)
        await fixture.advance(by: .seconds(wait - 6))
        #expect(try await mint(5).status == 429)
        await fixture.advance(by: .seconds(6))
        #expect(try await mint(6).status == 201)
    }

    @Test func anotherSessionUserAndAddressHaveLimitsOfTheirOwn() async throws {
        let fixture = try await EndpointFixture(
            more: Self.limits(
                "per_address: { requests: 1, per_seconds: 60, burst: 2 }",
                "per_session: { requests: 1, per_seconds: 60, burst: 1 }",
                "per_end_user: { requests: 1, per_seconds: 60, burst: 1 }"))
        for number in 1...4 {
            let session = try fixture.session("user-\(number)", claims: ["sid": .string("s-\(number)")])
            #expect(try await fixture.mint(session, from: "127.0.0.\(2 + number / 2)").status == 201)
        }
    }

    /// Without a session ID the session itself is the key; with one, a renewed token of the same session shares its limit.
    @Test func aSessionIsKnownByItsIDElseByItself() async throws {
        let fixture = try await EndpointFixture(more: Self.limits("per_session: { requests: 1, per_seconds: 60, burst: 1 }"))
        let first = try fixture.session("user", claims: ["sid": "one"])
        let renewed = try fixture.session("user", claims: ["sid": "one"], expiresIn: .seconds(1800))
        let bare = try fixture.session("user")
        let otherBare = try fixture.session("user", expiresIn: .seconds(1801))
        var statuses: [Int] = []
        for session in [first, renewed, bare, bare, otherBare] { statuses.append(try await fixture.mint(session).status) }
        #expect(statuses == [201, 429, 201, 429, 201])
    }

    @Test func aRefusedRequestCostsNothingFurtherDown() async throws {
        let fixture = try await EndpointFixture(
            more: Self.limits(
                "per_session: { requests: 1, per_seconds: 60, burst: 1 }", "all: { requests: 1, per_seconds: 60, burst: 2 }"))
        let session = try fixture.session("user", claims: ["sid": "one"])
        var statuses: [Int] = []
        for _ in 0..<4 { statuses.append(try await fixture.mint(session).status) }
        statuses.append(try await fixture.mint(try fixture.session("user", claims: ["sid": "two"])).status)
        let last = try await fixture.mint(try fixture.session("user", claims: ["sid": "three"]))
        #expect(statuses == [201, 429, 429, 429, 201])
        #expect(last.fields["ratelimit"]?.hasPrefix("\"all\"") == true)
    }

    /// What is refused by policy never reaches the limits behind it.
    @Test func aSessionWithoutFeaturesCostsItsLimitsNothing() async throws {
        let fixture = try await EndpointFixture(
            more: Self.limits("per_end_user: { requests: 1, per_seconds: 60, burst: 1 }"),
            grants: "grants: [{ when: { claim: plan, equals: pro }, features: [food_search] }]")
        let poor = try fixture.session("user")
        for _ in 0..<3 { #expect(try await fixture.mint(poor).code == "no_features") }
        #expect(try await fixture.mint(try fixture.session("user", claims: ["plan": "pro"])).status == 201)
    }

    @Test func aRefusedSessionCostsItsAddressThreeAndNoneAtAllCostsOne() async throws {
        let fixture = try await EndpointFixture(more: Self.limits("per_address: { requests: 1, per_seconds: 60, burst: 6 }"))
        var statuses: [Int] = []
        for _ in 0..<3 { statuses.append(try await fixture.mint("not.a.session", from: "127.0.0.2").status) }
        #expect(statuses == [401, 401, 429])
        statuses = []
        for _ in 0..<7 { statuses.append(try await fixture.mint(nil, from: "127.0.0.3").status) }
        #expect(statuses == [401, 401, 401, 401, 401, 401, 429])
        // It was not looked at any more, nor was it the session's fault.
        let session = try fixture.session()
        #expect(try await fixture.mint(session, from: "127.0.0.2").status == 429)
        #expect(try await fixture.mint(session, from: "127.0.0.4").status == 201)
    }

    @Test func aSessionNobodyCanJudgeNowCostsNothingExtra() async throws {
        let fixture = try await EndpointFixture(
            sessions: """
                    - type: jwt
                      issuer: \(EndpointFixture.issuer)
                      audience: \(EndpointFixture.audience)
                      jwks_url: http://127.0.0.1:1/jwks.json
                      algorithms: [ES256]
                """, more: Self.limits("per_address: { requests: 1, per_seconds: 600, burst: 3 }"),
            simulator: EndpointFixture.simulatorWithKeys)
        let session = try fixture.session(algorithm: .es256)
        var statuses: [Int] = []
        for _ in 0..<4 { statuses.append(try await fixture.mint(session, from: "127.0.0.2").status) }
        #expect(statuses == [503, 503, 503, 429])
    }

    @Test func shadowModeCountsAndNeverRefuses() async throws {
        let fixture = try await EndpointFixture(
            more: Self.limits(
                "mode: shadow", "per_session: { requests: 1, per_seconds: 60, burst: 1 }",
                "all: { requests: 1, per_seconds: 60, burst: 2 }"))
        let session = try fixture.session("user", claims: ["sid": "one"])
        for _ in 0..<5 { #expect(try await fixture.mint(session).status == 201) }
        #expect(try await fixture.metric("rate_limited_total{limit=\"per_session\"}") == 4)
        // Enforced, these four would not have come so far.
        #expect(try await fixture.metric("rate_limited_total{limit=\"all\"}") == 0)
        #expect(try await fixture.mint(try fixture.session("user", claims: ["sid": "two"])).status == 201)
        #expect(try await fixture.metric("rate_limited_total{limit=\"all\"}") == 0)
        #expect(try await fixture.metric("limiter_degraded") == 0)
    }

    /// The SDKs try again after 1, 2, 4, 8, … seconds: under the defaults an app that has used up its session's burst is served again
    /// inside of that schedule, whether or not it heeds `Retry-After`.
    @Test func theScheduleOfTheSDKsRecoversUnderTheDefaults() async throws {
        let fixture = try await EndpointFixture(more: "rate_limits: {}")
        let session = try fixture.session("user", claims: ["sid": "one"])
        for _ in 0..<10 { #expect(try await fixture.mint(session).status == 201) }
        var answer = try await fixture.mint(session)
        #expect(answer.status == 429)
        var tries = 0
        for delay in [1, 2, 4, 8, 8, 8] where answer.status == 429 {
            await fixture.advance(by: .seconds(delay))
            answer = try await fixture.mint(session)
            tries += 1
        }
        #expect(answer.status == 201)
        #expect(tries <= 4)
    }

    // MARK: Order and routes

    /// 400, 404, 405, 413, address limit, session: what is refused before is neither charged nor limited.
    @Test func onlyMintsAreCharged() async throws {
        let fixture = try await EndpointFixture(more: Self.limits("per_address: { requests: 1, per_seconds: 600, burst: 1 }"))
        let requests = [
            ("GET /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 405),
            ("OPTIONS /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 204),
            ("POST /january/client-token/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
            ("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
            ("POST /january/client-token HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", 413),
            ("POST /january/client-token HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ]
        for _ in 0..<2 {
            for (request, status) in requests {
                #expect(try await fixture.exchange(request, port: fixture.port, from: "127.0.0.2").status == status, "\(request)")
            }
        }
        #expect(try await fixture.mint("bad", from: "127.0.0.2").status == 401)
        #expect(try await fixture.mint("bad", from: "127.0.0.2").status == 429)
        for (request, status) in requests {
            #expect(try await fixture.exchange(request, port: fixture.port, from: "127.0.0.2").status == status, "\(request)")
        }
    }

    @Test func everyPipelinedRequestCounts() async throws {
        let fixture = try await EndpointFixture(more: Self.limits("per_address: { requests: 1, per_seconds: 600, burst: 5 }"))
        let request = EndpointFixture.mintRequest(nil)
        let last = request.replacingOccurrences(of: "Host: localhost", with: "Host: localhost\r\nConnection: close")
        let port = fixture.port
        let text = try await onOwnThread {
            let client = try RawClient(port: port, source: "127.0.0.2")
            try client.send(String(repeating: request, count: 9) + last)
            return String(decoding: try client.receiveAll(), as: UTF8.self)
        }
        #expect(text.components(separatedBy: "HTTP/1.1 401").count - 1 == 5)
        #expect(text.components(separatedBy: "HTTP/1.1 429").count - 1 == 5)
    }

    // MARK: Addresses

    private static let oneEach = "per_address: { requests: 1, per_seconds: 600, burst: 1 }"

    /// A request as a trusted proxy on this host passes it on.
    private func statuses(_ fixture: EndpointFixture, _ name: String, _ values: [String], from source: String? = nil) async throws
        -> [Int]
    {
        var statuses: [Int] = []
        for value in values { statuses.append(try await fixture.mint("bad", fields: ["\(name): \(value)"], from: source).status) }
        return statuses
    }

    @Test func behindATrustedProxyTheRightmostUntrustedHopIsLimited() async throws {
        let fixture = try await EndpointFixture(
            more: Self.limits(Self.oneEach, more: "trusted_proxies: [127.0.0.1, 10.0.0.0/8]\n"))
        let field = "X-Forwarded-For"
        #expect(try await statuses(fixture, field, ["203.0.113.7", "203.0.113.8"]) == [401, 401])
        // The same client, however it is written, and whatever it has put in front.
        #expect(
            try await statuses(
                fixture, field,
                [
                    "203.0.113.7", "::ffff:203.0.113.7", "::ffff:cb00:7107", "203.0.113.7:1", "1.2.3.4, 203.0.113.7",
                    "x, 203.0.113.7, 10.1.1.1",
                ])
                == Array(repeating: 429, count: 6))
        // IPv6 counts as its /64.
        #expect(
            try await statuses(fixture, field, ["2001:db8::1", "2001:db8::2", "2001:DB8:0::3", "2001:db8:0:1::1"]) == [
                401, 429, 429, 401,
            ])
        // The other field is not read.
        #expect(try await statuses(fixture, "Forwarded", ["for=203.0.113.7", "for=203.0.113.7"]) == [401, 401])
        // A peer that is not trusted is its own address whatever it sends.
        #expect(try await statuses(fixture, field, ["203.0.113.50", "203.0.113.51"], from: "127.0.0.2") == [401, 429])
    }

    @Test func forwardedIsReadWhereItIsTheConfiguredField() async throws {
        let fixture = try await EndpointFixture(
            more: Self.limits(Self.oneEach, more: "trusted_proxies: [127.0.0.1/32]\ntrusted_proxy_field: forwarded\n"))
        #expect(
            try await statuses(
                fixture, "Forwarded",
                [#"for="[2001:db8::1]:80";proto=https"#, "for=203.0.113.7", "for=1.1.1.1, for=203.0.113.7", "for=203.0.113.8"])
                == [401, 401, 429, 401])
        #expect(try await statuses(fixture, "X-Forwarded-For", ["203.0.113.7", "203.0.113.7"]) == [401, 401])
        // Garbage falls back to the peer; what only a client writes does not make it free of limits.
        #expect(try await statuses(fixture, "Forwarded", ["for=unknown", "for=unknown"]) == [401, 401])
        #expect(
            try await statuses(fixture, "Forwarded", [#"for="1.1.1.1, for=203.0.113.9"#, #"a="b, for=203.0.113.10"#]) == [
                401, 429,
            ])
    }

    @Test func aProxyNobodyNamedIsCountedAndNamedOnce() async throws {
        let fixture = try await EndpointFixture(more: Self.limits(Self.oneEach))
        #expect(try await fixture.metric("unconfigured_proxy_total") == 0)
        #expect(
            try await statuses(fixture, "X-Forwarded-For", ["203.0.113.7", "203.0.113.7", "203.0.113.7"]) == [401, 401, 401])
        #expect(try await fixture.metric("unconfigured_proxy_total") == 3)
        let message = "a proxy is not in trusted_proxies, so there is no limit per address; add it if it is yours"
        try await eventually("the warning") { fixture.logLines(message).count == 1 }
        let line = try #require(fixture.logLines(message).first)
        #expect(line["trusted_proxies"] == "127.0.0.1/32")
        #expect(line["level"] == "warning")
        // Another address of the loopback network is a caller like any other.
        #expect(try await statuses(fixture, "X-Forwarded-For", ["203.0.113.7", "203.0.113.8"], from: "127.0.0.9") == [401, 429])
        #expect(try await fixture.metric("unconfigured_proxy_total") == 3)
    }
}
