import Digests
import Foundation
import JanuarySimulator
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// `/status` as bytes and fields; what a browser makes of it is `StatusPageTests`' (ProcessTests).
@Suite(.serialized)
struct StatusDocumentTests {
    private static func between(_ start: String, _ end: String, _ text: String) throws -> String {
        let from = try #require(text.range(of: start)).upperBound
        let to = try #require(text.range(of: end, range: from..<text.endIndex)).lowerBound
        return String(text[from..<to])
    }

    @Test func itIsOneDocumentUnderAPolicyThatNamesTheHashesOfItsScriptAndStyle() async throws {
        let fixture = try await EndpointFixture()
        let page = try await fixture.manage("GET /status?x=%3Cscript%3E", token: nil)
        #expect(page.status == 200 && page.fields["content-type"] == "text/html; charset=utf-8")
        #expect(page.fields["cache-control"] == "no-store" && page.fields["x-content-type-options"] == "nosniff")
        #expect(page.fields["referrer-policy"] == "no-referrer" && page.fields["x-frame-options"] == "DENY")
        #expect(page.fields["cross-origin-opener-policy"] == "same-origin")
        #expect(page.fields["cross-origin-resource-policy"] == "same-origin")
        #expect(page.fields["vary"] == "Accept-Encoding" && page.fields["x-request-id"]?.count == 32)
        #expect(page.fields["etag"] == nil && page.fields["content-encoding"] == nil)
        func hash(_ element: String) throws -> String {
            let text = Array(try Self.between("<\(element)>", "</\(element)>", page.body).utf8)
            return "'sha256-\(Data(SHA2.sha256(of: text.span.bytes).bytes).base64EncodedString())'"
        }
        #expect(
            page.fields["content-security-policy"]
                == "default-src 'none'; script-src \(try hash("script")); style-src \(try hash("style")); connect-src 'self'; img-src data:; "
                + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
        #expect(page.body.hasPrefix("<!doctype html>\n") && page.body.hasSuffix("</html>\n"))
        // Small, and no place for anything from elsewhere or of the policy's forbidding.
        #expect(page.body.utf8.count < 36_000, "\(page.body.utf8.count) bytes")
        for word in ["http://", "https://", " src=", " style=", "/*css*/", "/*js*/", "innerHTML", "eval("] {
            let allowed = word == "http://" ? ["http://www.w3.org/2000/svg"] : []
            let rest = allowed.reduce(page.body) { $0.replacingOccurrences(of: $1, with: "") }
            #expect(!rest.contains(word), "\(word)")
        }
        #expect(page.body.firstRange(of: try Regex(#"\son[a-z]+\s*=\s*""#)) == nil)
    }

    @Test func itTakesTheMethodsOfAPageAndIsCompressedWhenAskedFor() async throws {
        let fixture = try await EndpointFixture()
        let page = try await fixture.manage("GET /status", token: nil)
        let head = try await fixture.manage("HEAD /status", token: nil)
        #expect(head.status == 200 && head.body.isEmpty && head.fields["content-length"] == "\(page.body.utf8.count)")
        #expect(head.fields["content-security-policy"] == page.fields["content-security-policy"])
        let compressed = try await fixture.manage("HEAD /status", fields: ["Accept-Encoding: br, gzip"], token: nil)
        #expect(compressed.fields["content-encoding"] == "gzip")
        #expect((5_000..<16_000).contains(try #require(Int(compressed.fields["content-length"] ?? ""))))
        for (line, status) in [
            ("POST /status", 405), ("DELETE /status", 405), ("PUT /status", 405), ("OPTIONS /status", 204), ("GET /status/", 404),
            ("GET /Status", 404), ("GET /status.html", 404), ("GET /%73tatus", 404), ("GET /", 404),
        ] {
            let answer = try await fixture.manage(line, token: nil)
            #expect(answer.status == status, "\(line)")
            if status != 404 { #expect(answer.fields["allow"] == "GET, HEAD, OPTIONS", "\(line)") }
        }
        let outside = try await fixture.exchange(
            "GET /status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", port: fixture.port)
        #expect(outside.status == 404)
    }

    @Test func offLoopbackATokenOpensItAsThePasswordOfABrowser() async throws {
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed.replacingOccurrences(of: "127.0.0.1:0", with: "0.0.0.0:0"),
            files: EndpointFixture.managementFiles)
        for path in ["/status", "/status.json"] {
            let refused = try await fixture.manage("GET \(path)", token: nil)
            #expect(refused.status == 401 && refused.fields["content-type"] == "application/json")
            #expect(refused.fields["www-authenticate"]?.contains("Basic realm=") == true)
            // To a script nothing that would make its browser ask for a password.
            let script = try await fixture.manage("GET \(path)", fields: ["X-Requested-With: XMLHttpRequest"], token: nil)
            #expect(script.status == 401 && script.fields["www-authenticate"] == #"Bearer realm="january-management""#)
            let basic = Data("anybody:\(EndpointFixture.managementToken)".utf8).base64EncodedString()
            let opened = try await fixture.manage("GET \(path)", fields: ["Authorization: Basic \(basic)"], token: nil)
            #expect(opened.status == 200)
        }
    }

    /// What the page counts with, in the numbers of the metrics.
    @Test func whatWasAnsweredIsCountedByReason() async throws {
        let fixture = try await EndpointFixture(isTimeFrozen: true)
        for number in 1...3 { #expect(try await fixture.mint(try fixture.session("user-\(number)")).status == 201) }
        #expect(try await fixture.mint("e30.e30.e30").status == 401)
        #expect(try await fixture.mint(nil).status == 401)
        fixture.simulator.addFault(FaultRule(.refused(500, "internal"), on: .mint))
        #expect(try await fixture.mint(try fixture.session()).status == 503)
        _ = try await fixture.exchange(
            "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", port: fixture.port)
        await fixture.advance(by: .seconds(2))
        let status = try await fixture.get("/status.json").json
        func rows(_ list: Any?) -> Set<String> {
            Set(
                (list as? [[String: Any]] ?? []).map { row in
                    row.sorted { $0.key < $1.key }.map { "\($0.value is NSNull ? "null" : $0.value)" }.joined(separator: " ")
                })
        }
        #expect(
            rows(status["answers"])
                == ["ok POST 201 3", "invalid_session POST 401 2", "january_unavailable POST 503 1"])
        let january = try #require(status["january"] as? [String: Any])
        #expect(rows(january["answers"]) == ["ok mint 201 3", "other mint 500 1"])
        #expect(january["security_events_total"] as? Int == 0)
        let sessions = rows(status["sessions"])
        #expect(sessions == ["no_session 1 refused none", "not_a_jwt 1 refused none", "person 4 accepted jwt"])
        for part in [status["mints"], status["january"]] {
            let seconds = try #require((part as? [String: Any])?["seconds"] as? [String: Any])
            let counts = try #require(seconds["counts"] as? [Int])
            // Time stood still: all four in the first bucket, and no probe among them.
            #expect(counts == [4] + Array(repeating: 0, count: 13))
            #expect(seconds["up_to"] as? [Double] == [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10])
            #expect(seconds["sum_seconds"] as? Double == 0)
        }
        #expect(status["reasons"] as? [String] == [] && status["drain_ends_in_seconds"] is NSNull)
        #expect(status["reloads"] as? [String: Int] == ["ok_total": 0, "failed_total": 0])
        #expect(status["uptime_seconds"] as? Double == 2 && (status["started_at"] as? String)?.hasSuffix("Z") == true)
        let page = try await fixture.get("/metrics").body
        #expect(page.contains("january_endpoint_mint_duration_seconds_count 4\n"))
        #expect(page.contains("january_endpoint_request_duration_seconds_count 7\n"))
    }
}
