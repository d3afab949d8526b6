import Foundation
import JanuarySimulator
import Primitives
import Revocations
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The management API through real sockets, in front of revocations that a test commands.
@Suite(.serialized)
struct ManagementTests {
    private static let post = "POST /january/client-token-revocations"
    private static let json = "Content-Type: application/json"

    private static func fixture(
        _ revocations: RevocationDouble = RevocationDouble(), sections: String = EndpointFixture.managed, more: String = "",
        grants: String = "features: [food_search]"
    ) async throws -> EndpointFixture {
        try await EndpointFixture(
            more: sections + "\n" + more, grants: grants, files: EndpointFixture.managementFiles, revocations: revocations)
    }

    private static func basic(_ password: String) -> String {
        "Authorization: Basic " + Data("operator:\(password)".utf8).base64EncodedString()
    }

    // MARK: Revoking

    @Test func aCompleteRevocationIs200WithExactlyItsMembers() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        let answer = try await fixture.manage(
            Self.post, fields: [Self.json], body: #"{"end_user_id":"u1","block":"sessions","reason":"deleted"}"#)
        #expect(answer.status == 200)
        let id = answer.fields["x-request-id"] ?? ""
        #expect(
            answer.body
                == #"{"id":"\#(RevocationDouble.id(1))","end_user_id":"u1","status":"complete","revoked_count":2,"blocked":"sessions","#
                + #""fence_scope":"process","requested_at":"2027-01-15T08:00:00.000Z","completed_at":"2027-01-15T08:00:01.500Z"}"#
        )
        #expect(answer.fields["location"] == nil)
        #expect(answer.fields["content-type"] == "application/json" && answer.fields["cache-control"] == "no-store")
        let request = try #require(double.requests.first)
        #expect(request.endUserID == "u1" && request.block == .sessions && request.reason == "deleted")
        #expect(request.requestedBy == "token" && request.requestID == id)
    }

    @Test func aPendingOneIs202WithItsPlace() async throws {
        let double = RevocationDouble()
        double.change {
            $0.isPending = true
            $0.lastError = "january_unavailable"
            $0.refusesUnknownSessions = true
        }
        let fixture = try await Self.fixture(double)
        let answer = try await fixture.manage(Self.post, fields: [Self.json], body: #"{"end_user_id":"u1"}"#)
        #expect(answer.status == 202)
        #expect(
            answer.body
                == #"{"id":"\#(RevocationDouble.id(1))","end_user_id":"u1","status":"pending","revoked_count":0,"blocked":"user","#
                + #""fence_scope":"process","requested_at":"2027-01-15T08:00:00.000Z","attempts":3,"last_error":"january_unavailable","#
                + #""unknown_sessions":"refused"}"#)
        let place = try #require(answer.fields["location"])
        #expect(place == "/january/client-token-revocations/\(RevocationDouble.id(1))")
        let shown = try await fixture.manage("GET \(place)")
        #expect(shown.status == 200)
        #expect(shown.json["status"] as? String == "pending" && shown.json["end_user_id"] as? String == "hash-of-u1")
    }

    @Test func aSubjectIsRevokedAsTheEndUserOfItsSessions() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(
            double,
            more: "end_user_id: { transform: hmac, secret_file: session_secret, prefix: acme- }")
        let minted = try await fixture.mint(try fixture.session("user-7"))
        #expect(minted.status == 201)
        for body in [#"{"subject":"user-7"}"#, #"{"subject":"user-7","issuer":"\#(EndpointFixture.issuer)"}"#] {
            let answer = try await fixture.manage(Self.post, fields: [Self.json], body: body)
            #expect(answer.status == 200)
            #expect(answer.json["end_user_id"] as? String == minted.json["end_user_id"] as? String)
        }
        let unknown = try await fixture.manage(
            Self.post, fields: [Self.json], body: #"{"subject":"user-7","issuer":"https://elsewhere.example"}"#)
        #expect(unknown.status == 400 && unknown.json["member"] as? String == "issuer")
        #expect(double.requests.count == 2)
    }

    @Test func aBadBodyNamesItsMemberAndRevokesNothing() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        let rows: [(String, String?)] = [
            ("", nil), ("{", nil), ("[]", nil), ("{}", "end_user_id"), (#"{"end_user_id":"u","blok":"user"}"#, "blok"),
            (#"{"end_user_id":"u","block":"everything"}"#, "block"), (#"{"end_user_id":"u","end_user_id":"v"}"#, "end_user_id"),
            (#"{"end_user_id":"u","reason":"\#(String(repeating: "r", count: 201))"}"#, "reason"),
            (#"{"end_user_id":"u","a\"b\\c":1}"#, #"a"b\c"#),
        ]
        for (body, member) in rows {
            let answer = try await fixture.manage(Self.post, fields: [Self.json], body: body)
            #expect(answer.status == 400 && answer.code == "bad_request", "\(body)")
            #expect(answer.json["member"] as? String == member, "\(body)")
            #expect(
                Set(answer.json.keys) == Set(["code", "message", "request_id"] + (member == nil ? [] : ["member"])), "\(body)")
        }
        #expect(double.requests.isEmpty)
    }

    @Test func theContentIsJSONOfAtMost64KiB() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        let good = #"{"end_user_id":"u1"}"#
        let types: [([String], Int)] = [
            ([Self.json], 200), (["Content-Type: Application/JSON"], 200),
            (["Content-Type: application/json; charset=utf-8"], 200),
            (["Content-Type: application/json;charset=\"UTF-8\""], 200), ([], 200),
            ([Self.json, "Content-Encoding: identity"], 200),
            (["Content-Type: text/plain"], 415), (["Content-Type: application/x-www-form-urlencoded"], 415),
            (["Content-Type: application/jsonp"], 415), (["Content-Type: application/json; charset=latin1"], 415),
            (["Content-Type: "], 415), ([Self.json, Self.json], 415), ([Self.json, "Content-Encoding: gzip"], 415),
        ]
        for (fields, status) in types {
            let answer = try await fixture.manage(Self.post, fields: fields, body: good)
            #expect(answer.status == status, "\(fields)")
            if status == 415 { #expect(answer.code == "unsupported_media_type", "\(fields)") }
        }
        for (size, status) in [(65_536, 200), (65_537, 413)] {
            let body = good + String(repeating: " ", count: size - good.utf8.count)
            let answer = try await fixture.manage(Self.post, fields: [Self.json], body: body)
            #expect(answer.status == status)
            if status == 413 { #expect(answer.code == "content_too_large") }
        }
        // Without a token nothing is read at all.
        let refused = try await fixture.manage(
            Self.post, fields: ["Content-Type: text/plain", "Content-Length: 99999999"], token: nil)
        #expect(refused.status == 401)
    }

    @Test func aStateThatCannotBeUsedIs503AndNothingIsPromised() async throws {
        let double = RevocationDouble()
        double.change { $0.error = .stateUnavailable(retryAfter: 7) }
        let fixture = try await Self.fixture(double)
        for (line, body) in [
            (Self.post, #"{"end_user_id":"u1"}"#), ("GET /january/client-token-revocations", nil),
            ("GET /january/client-token-revocations/\(RevocationDouble.id(1))", nil), ("GET /january/end-users/u1", nil),
            ("DELETE /january/end-users/u1/block", nil),
        ] as [(String, String?)] {
            let answer = try await fixture.manage(line, fields: body == nil ? [] : [Self.json], body: body)
            #expect(answer.status == 503 && answer.code == "state_unavailable", "\(line)")
            #expect(answer.fields["retry-after"] == "7", "\(line)")
        }
    }

    // MARK: Looking and lifting

    @Test func revocationsAreListedInPages() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        for number in 1...5 {
            double.change { $0.isPending = number > 3 }
            _ = try await fixture.manage(Self.post, fields: [Self.json], body: #"{"end_user_id":"u\#(number)"}"#)
        }
        func page(_ query: String) async throws -> ([String], String?) {
            let answer = try await fixture.manage("GET /january/client-token-revocations\(query)")
            #expect(answer.status == 200)
            #expect(Set(answer.json.keys) == ["items", "next"])
            let items = try #require(answer.json["items"] as? [[String: Any]])
            return (items.compactMap { $0["id"] as? String }, answer.json["next"] as? String)
        }
        let ids = (1...5).map(RevocationDouble.id)
        #expect(try await page("") == (ids, nil))
        #expect(try await page("?limit=2") == (Array(ids[..<2]), ids[1]))
        #expect(try await page("?limit=2&after=\(ids[1])") == (Array(ids[2..<4]), ids[3]))
        #expect(try await page("?limit=2&after=\(ids[3])") == ([ids[4]], nil))
        #expect(try await page("?status=pending") == (Array(ids[3...]), nil))
        for (query, member) in [
            ("?limit=0", "limit"), ("?status=done", "status"), ("?after=\(RevocationDouble.id(99))", "after"),
        ] {
            let answer = try await fixture.manage("GET /january/client-token-revocations\(query)")
            #expect(answer.status == 400 && answer.json["member"] as? String == member, "\(query)")
        }
    }

    @Test func endUsersAreShownAndBlocksLifted() async throws {
        let double = RevocationDouble()
        let fixture = try await Self.fixture(double)
        let nobody = try await fixture.manage("GET /january/end-users/nobody")
        #expect(nobody.status == 200)
        #expect(
            nobody.body
                == #"{"end_user_id":"nobody","blocked":"none","blocked_since":null,"pending":false,"in_flight":0}"#)
        _ = try await fixture.manage(Self.post, fields: [Self.json], body: #"{"end_user_id":"auth0|a/b"}"#)
        let blocked = try await fixture.manage("GET /january/end-users/auth0%7Ca%2Fb")
        #expect(
            blocked.body
                == #"{"end_user_id":"auth0|a/b","blocked":"user","blocked_since":"2027-01-15T08:00:00.000Z","pending":false,"in_flight":0}"#
        )
        let lifted = try await fixture.manage("DELETE /january/end-users/auth0%7Ca%2Fb/block")
        #expect(lifted.status == 200 && lifted.json["blocked"] as? String == "none")
        #expect(double.lifts.map(\.endUserID) == ["auth0|a/b"])
        #expect(double.lifts.map(\.requestedBy) == ["token"])
        double.change { $0.isPending = true }
        _ = try await fixture.manage(Self.post, fields: [Self.json], body: #"{"end_user_id":"u2"}"#)
        let later = try await fixture.manage("DELETE /january/end-users/u2/block")
        #expect(later.status == 202 && later.json["pending"] as? Bool == true && later.json["blocked"] as? String == "user")
    }

    @Test func pathsAndMethodsAreMatchedExactly() async throws {
        let fixture = try await Self.fixture()
        let id = RevocationDouble.id(1)
        let rows: [(String, Int, String?)] = [
            ("GET /january/client-token-revocations/\(id)", 404, nil),
            ("GET /january/client-token-revocations/\(id.uppercased())", 404, nil),
            ("GET /january/client-token-revocations/", 404, nil), ("GET /january/client-token-revocations/a/b", 404, nil),
            ("GET /january/client-token%2Drevocations", 404, nil), ("GET /january/end-users", 404, nil),
            ("GET /january/end-users/", 404, nil), ("GET /january/end-users//block", 404, nil),
            ("GET /january/end-users/a/b", 404, nil), ("DELETE /january/end-users/block", 405, "GET, HEAD, OPTIONS"),
            ("GET /january/end-users/u1/block", 405, "DELETE, OPTIONS"),
            ("POST /january/end-users/u1/block", 405, "DELETE, OPTIONS"),
            ("DELETE /january/client-token-revocations", 405, "GET, HEAD, POST, OPTIONS"),
            ("PUT /january/client-token-revocations", 405, "GET, HEAD, POST, OPTIONS"),
            ("DELETE /january/client-token-revocations/\(id)", 405, "GET, HEAD, OPTIONS"),
            ("POST /january/client-token", 404, nil), ("POST /metrics", 405, "GET, HEAD, OPTIONS"),
            ("OPTIONS /january/client-token-revocations", 204, "GET, HEAD, POST, OPTIONS"),
            ("OPTIONS /january/end-users/u1/block", 204, "DELETE, OPTIONS"), ("OPTIONS /healthz", 204, "GET, HEAD, OPTIONS"),
            ("OPTIONS *", 204, "GET, HEAD, POST, DELETE, OPTIONS"), ("OPTIONS /nothing", 404, nil),
            ("HEAD /january/client-token-revocations", 200, nil), ("HEAD /january/end-users/u1", 200, nil),
            ("GET /january/end-users/u1?anything", 200, nil), ("GET /january/end-users/%FF", 400, nil),
            ("GET /january/end-users/%20", 400, nil), ("GET /january/end-users/a%00b", 400, nil),
            ("GET /january/end-users/\(String(repeating: "x", count: 65))", 400, nil),
            ("GET /january/end-users/\(String(repeating: "x", count: 64))", 200, nil),
        ]
        for (line, status, allow) in rows {
            let answer = try await fixture.manage(line)
            #expect(answer.status == status, "\(line)")
            #expect(answer.fields["allow"] == allow, "\(line)")
            if line.hasPrefix("HEAD") { #expect(answer.body.isEmpty, "\(line)") }
            if status == 404 { #expect(answer.code == "not_found", "\(line)") }
            if status == 400 { #expect(answer.json["member"] as? String == "end_user_id", "\(line)") }
        }
        // And none of it is on the public listener.
        let outside = try await fixture.exchange(
            "\(Self.post) HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", port: fixture.port)
        #expect(outside.status == 404)
    }

    // MARK: Tokens

    @Test func aRightTokenOpensAndNothingElseDoes() async throws {
        let fixture = try await Self.fixture()
        let token = EndpointFixture.managementToken
        let rows: [([String], get: Int, post: Int, challenged: Bool)] = [
            (["Authorization: Bearer \(token)"], 200, 200, false), (["authorization: bEaReR \(token)"], 200, 200, false),
            (["Authorization: Bearer second-\(token)"], 200, 200, false), ([Self.basic(token)], 200, 401, false),
            ([], 401, 401, false), (["Authorization: Bearer \(token)x"], 401, 401, true),
            (["Authorization: Bearer \(token.dropLast())"], 401, 401, true), ([Self.basic("x" + token)], 401, 401, true),
        ]
        for (fields, get, post, challenged) in rows {
            let seen = try await fixture.manage("GET /january/end-users/u1", fields: fields, token: nil)
            #expect(seen.status == get, "\(fields)")
            let changed = try await fixture.manage(
                Self.post, fields: fields + [Self.json], token: nil, body: #"{"end_user_id":"u1"}"#)
            #expect(changed.status == post, "\(fields)")
            for answer in [seen, changed] where answer.status == 401 {
                #expect(answer.code == "management_unauthorized", "\(fields)")
                #expect(answer.fields["www-authenticate"]?.contains("january-management") == true, "\(fields)")
                #expect(answer.body.contains(token) == false)
            }
            if challenged { #expect(changed.fields["www-authenticate"]?.contains("invalid_token") == true, "\(fields)") }
            await fixture.advance(by: .seconds(60))
        }
        // Several fields are two readings: refused though one of them is right.
        let two = try await fixture.manage(
            "GET /january/end-users/u1", fields: ["Authorization: Bearer wrong", "Authorization: Bearer \(token)"], token: nil)
        #expect(two.status == 401)
    }

    @Test func wrongTokensCostTheirAddressAndARightOnePassesAlways() async throws {
        let fixture = try await Self.fixture()
        func ask(_ token: String?) async throws -> EndpointFixture.Answer {
            try await fixture.manage("GET /january/end-users/u1", token: token)
        }
        // Without a token nothing is guessed, so it costs nothing.
        for _ in 0..<12 { #expect(try await ask(nil).status == 401) }
        for _ in 0..<10 { #expect(try await ask("wrong").status == 401) }
        let limited = try await ask("wrong")
        #expect(limited.status == 429 && limited.code == "rate_limited")
        let seconds = try #require(Int(limited.fields["retry-after"] ?? ""))
        #expect((1...6).contains(seconds))
        #expect(try await ask(EndpointFixture.managementToken).status == 200)
        #expect(try await ask(nil).status == 401)
        await fixture.advance(by: .seconds(seconds))
        #expect(try await ask("wrong").status == 401)
        #expect(try await ask("wrong").status == 429)
        #expect(fixture.logLines("a wrong management token was sent").first?["address"]?.string == "127.0.0.1")
    }

    @Test func withoutATokenTheRoutesAreSwitchedOff() async throws {
        let fixture = try await Self.fixture(sections: "state: \"sqlite:state.db\"")
        for line in [
            Self.post, "GET /january/client-token-revocations", "GET /january/end-users/u1", "DELETE /january/end-users/u1/block",
        ] {
            let answer = try await fixture.manage(line)
            #expect(answer.status == 403 && answer.code == "management_disabled", "\(line)")
        }
        #expect(try await fixture.get("/metrics").status == 200)
        #expect(try await fixture.manage("GET /january/end-users").status == 404)
    }

    @Test func offLoopbackEverythingButHealthNeedsAToken() async throws {
        let fixture = try await Self.fixture(
            sections: EndpointFixture.managed.replacingOccurrences(of: "127.0.0.1:0", with: "0.0.0.0:0"))
        for (path, status) in [
            ("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/status.json", 401), ("/status", 401),
            ("/january/end-users/u1", 401),
        ] {
            #expect(try await fixture.get(path).status == status, "\(path)")
        }
        let token = EndpointFixture.managementToken
        #expect(try await fixture.manage("GET /metrics").status == 200)
        #expect(try await fixture.manage("GET /metrics", fields: [Self.basic(token)], token: nil).status == 200)
    }

    // MARK: What stays secret

    @Test func noTokenAndNoPlainIDIsEverLoggedOrShown() async throws {
        let double = RevocationDouble()
        let audit = LogMemory()
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed + "\nrevocations: { self_service: true }\nlog: { requests: all, level: debug }",
            files: EndpointFixture.managementFiles, revocations: double, auditOutput: audit)
        let session = try fixture.session("person-marker")
        _ = try await fixture.mint(session)
        _ = try await fixture.manage(
            Self.post, fields: [Self.json], body: #"{"end_user_id":"person-marker","reason":"reason-marker"}"#)
        _ = try await fixture.manage("GET /january/end-users/person-marker")
        _ = try await fixture.manage("GET /january/end-users/person-marker", token: "wrong-marker-0123456789abcdef0123456")
        _ = try await fixture.manage("GET /january/end-users/u", fields: [Self.basic("basic-marker")], token: nil)
        _ = try await fixture.exchange(
            "DELETE /january/client-token HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer \(session)\r\n\r\n",
            port: fixture.port)
        let page = try await fixture.get("/metrics").body
        let text = fixture.logs.text + audit.text + page
        #expect(audit.lines.count == 1)
        for secret in [EndpointFixture.managementToken, "marker", "ct-"]
            + session.split(separator: ".").dropFirst().map(String.init)
        {
            #expect(!text.contains(secret), "\(secret)")
        }
    }
}
