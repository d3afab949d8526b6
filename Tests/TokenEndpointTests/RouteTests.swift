import JanuarySimulator
import TestSupport
import Testing

/// Paths, methods, malformed messages, and what every response carries.
@Suite(.serialized)
struct RouteTests {
    /// Holds of every response on the public listener.
    private func checkCommonFields(_ answer: EndpointFixture.Answer, _ what: Comment) {
        #expect(answer.fields["cache-control"] == "no-store", what)
        #expect(answer.fields["x-content-type-options"] == "nosniff", what)
        let id = answer.fields["x-request-id"] ?? ""
        #expect(id.utf8.count == 32 && id.allSatisfy { $0.isHexDigit && !$0.isUppercase }, what)
        #expect(answer.fields["date"]?.hasSuffix(" GMT") ?? false, what)
        #expect(answer.fields["server"] == nil, what)
        if answer.code != nil {
            #expect(answer.fields["content-type"] == "application/json", what)
            #expect(answer.json["request_id"] as? String == id, what)
            #expect((answer.json["message"] as? String)?.isEmpty == false, what)
            #expect(Set(answer.json.keys) == ["code", "message", "request_id"], what)
        }
    }

    static let paths = "paths: { token: [/january/client-token, /api/january/client-token] }"

    @Test
    func pathsAndMethodsAreMatchedExactly() async throws {
        let fixture = try await EndpointFixture(more: Self.paths)
        let session = try fixture.session()
        let rows: [(String, Int, String?, String?)] = [
            ("POST /january/client-token", 201, nil, nil),
            ("POST /api/january/client-token", 201, nil, nil),
            ("POST /january/client-token?ct=1&x=%00", 201, nil, nil),
            ("POST http://elsewhere.test/january/client-token", 201, nil, nil),
            ("POST /january/client-token/", 404, "not_found", nil),
            ("POST /january//client-token", 404, "not_found", nil),
            ("POST /January/client-token", 404, "not_found", nil),
            ("POST /january/client%2Dtoken", 404, "not_found", nil),
            ("POST /", 404, "not_found", nil),
            ("GET /metrics", 404, "not_found", nil),
            ("GET /readyz", 404, "not_found", nil),
            ("GET /january/client-token", 405, "method_not_allowed", "POST, OPTIONS"),
            ("HEAD /january/client-token", 405, nil, "POST, OPTIONS"),
            ("DELETE /january/client-token", 405, "method_not_allowed", "POST, OPTIONS"),
            ("PUT /api/january/client-token", 405, "method_not_allowed", "POST, OPTIONS"),
            ("post /january/client-token", 405, "method_not_allowed", "POST, OPTIONS"),
            ("BREW /january/client-token", 405, "method_not_allowed", "POST, OPTIONS"),
            ("OPTIONS /january/client-token", 204, nil, "POST, OPTIONS"),
            ("OPTIONS /healthz", 204, nil, "GET, HEAD, OPTIONS"),
            ("OPTIONS *", 204, nil, "GET, HEAD, POST, OPTIONS"),
            ("OPTIONS /elsewhere", 404, "not_found", nil),
            ("GET /healthz", 200, nil, nil),
            ("HEAD /healthz", 200, nil, nil),
            ("GET /healthz?x", 200, nil, nil),
            ("GET /healthz/", 404, "not_found", nil),
            ("POST /healthz", 405, "method_not_allowed", "GET, HEAD, OPTIONS"),
        ]
        for (line, status, code, allow) in rows {
            let host = line.contains("elsewhere.test") ? "elsewhere.test" : "localhost"
            let answer = try await fixture.exchange(
                "\(line) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\nAuthorization: Bearer \(session)\r\n\r\n",
                port: fixture.port)
            let what = Comment(rawValue: line)
            #expect(answer.status == status, what)
            #expect(answer.code == code, what)
            #expect(answer.fields["allow"] == allow, what)
            if line.hasPrefix("HEAD") { #expect(answer.body.isEmpty, what) }
            checkCommonFields(answer, what)
        }
        #expect(fixture.mintsReceived == 4)
        let health = try await fixture.get("/healthz", port: fixture.port)
        #expect(health.body == #"{"status":"ok"}"#)
    }

    static let bodies: [[String]] = [
        [], ["Content-Length: 0"], ["Content-Type: application/x-www-form-urlencoded", "Content-Length: 0"],
        ["Content-Type: application/x-www-form-urlencoded"], ["Content-Type: text/plain;charset=UTF-8", "Content-Length: 0"],
    ]

    @Test
    func everyWayToSendAnEmptyPostMints() async throws {
        let fixture = try await EndpointFixture()
        for fields in Self.bodies {
            let answer = try await fixture.mint(try fixture.session(), fields: fields)
            #expect(answer.status == 201, "\(fields)")
        }
        let old = try await fixture.exchange(
            "POST /january/client-token HTTP/1.0\r\nAuthorization: Bearer \(try fixture.session())\r\n\r\n", port: fixture.port)
        #expect(old.status == 201)
        let chunked = try await fixture.exchange(
            EndpointFixture.mintRequest(
                try fixture.session(), fields: ["Transfer-Encoding: chunked", "Connection: close"]) + "3\r\na=b\r\n0\r\n\r\n",
            port: fixture.port)
        #expect(chunked.status == 201)
    }

    @Test
    func malformedMessagesAreRefusedInTheirOrderAndNothingBehindThemIsServed() async throws {
        let fixture = try await EndpointFixture()
        let start = "POST /january/client-token HTTP/1.1\r\nHost: localhost\r\n"
        let rows: [(String, Int, String)] = [
            ("POST /january/client-token HTTP/1.1\r\n\r\n", 400, "bad_request"),
            (start + "Host: other\r\n\r\n", 400, "bad_request"),
            (start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_request"),
            (start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"),
            (start + "Content-Length: +1\r\n\r\n", 400, "bad_request"),
            (start + "X : 1\r\n\r\n", 400, "bad_request"),
            (start + "X: 1\r\n folded\r\n\r\n", 400, "bad_request"),
            (start + "Transfer-Encoding: gzip\r\n\r\n", 501, "not_implemented"),
            (start + "Expect: something\r\n\r\n", 417, "expectation_failed"),
            (start + "Content-Length: 65537\r\n\r\n", 413, "content_too_large"),
            (start + "X: \(String(repeating: "x", count: 17_000))\r\n\r\n", 431, "header_fields_too_large"),
            ("POST /\(String(repeating: "x", count: 9_000)) HTTP/1.1\r\n", 414, "uri_too_long"),
            ("POST /january/client-token HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, "http_version_not_supported"),
        ]
        let behind = EndpointFixture.mintRequest(try fixture.session())
        for (request, status, code) in rows {
            let text = try await onOwnThread { [port = fixture.port] in
                let client = try RawClient(port: port, receiveTimeoutSeconds: 20)
                try client.send(request + behind)
                client.finishSending()
                return String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self)
            }
            let what = Comment(rawValue: "\(status) \(request.prefix(120).debugDescription)")
            #expect(text.components(separatedBy: "X-Request-Id: ").count == 2, what)
            let answer = try EndpointFixture.parse(text)
            #expect(answer.status == status, what)
            #expect(answer.code == code, what)
            #expect(answer.fields["connection"] == "close", what)
            checkCommonFields(answer, what)
        }
        #expect(fixture.mintsReceived == 0)
    }

    @Test
    func aRequestThatNeverEndsIs408() async throws {
        let fixture = try await EndpointFixture()
        for part in ["POST /january/client-to", EndpointFixture.mintRequest(nil, fields: ["Content-Length: 9"]) + "1234"] {
            let client = try fixture.connect()
            try client.send(part)
            try await fixture.awaitMetric("connections", 1)
            // The bytes are read before a later connection of the same loop is; one for each loop is enough, a few are safe.
            for _ in 0..<8 { _ = try await fixture.get("/healthz", port: fixture.port) }
            await fixture.advance(by: .seconds(31))
            let answer = try await EndpointFixture.receive(client)
            #expect(answer.status == 408)
            #expect(answer.code == "request_timeout")
            #expect(answer.fields["connection"] == "close")
            checkCommonFields(answer, "408")
            // Past the time in which the rest of what the client sends is thrown away.
            await fixture.advance(by: .seconds(3))
            try await fixture.awaitMetric("connections", 0)
        }
        let silent = try fixture.connect()
        try await fixture.awaitMetric("connections", 1)
        await fixture.advance(by: .seconds(31))
        let bytes = try await onOwnThread { try silent.receiveAll() }
        #expect(bytes.isEmpty)
    }

    @Test
    func pipelinedMintsAreAnsweredInTheirOrder() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.delayed(.milliseconds(20)), on: .mint))
        let client = try fixture.connect()
        let users = ["a", "b", "c"]
        try client.send(try users.map { EndpointFixture.mintRequest(try fixture.session($0)) }.joined())
        let responses = try await onOwnThread { try client.receiveResponses(3) }
        let answers = try responses.map(EndpointFixture.parse)
        #expect(answers.map { $0.json["end_user_id"] as? String } == users)
    }
}
