import Foundation
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport
import Testing

/// Marker secrets through every failure there is, at the most verbose level, as the real program: no sink has one, in whatever form.
@Suite(.serialized) struct LeakTests {
    private static let management = "management-leak-marker-0123456789abcdef"
    private static let next = "sk-next-leak-marker-0123456789abcdef"
    private static let mail = "leak.marker+1@mail.example"
    private static let body = "upstream \"body\" leak/marker <é>"

    private static func configure(_ text: inout String, _ secrets: String, collector: UInt16) {
        text = text.replacing(
            "january: { api_key_file: api_key,", with: "january: { api_key_file: api_key, next_api_key_file: \"\(secrets)next\",")
        text = text.replacing(
            #"management: { listen: "127.0.0.1:0" }"#,
            with: #"management: { listen: "127.0.0.1:0", token_files: ["\#(secrets)token"] }"#)
        text += """
            state: "sqlite:state/state.db"
            revocations: { self_service: true }
            trusted_proxies: [127.0.0.1]
            log: { level: debug, requests: all, format: json }
            audit: { file: audit.jsonl }
            end_user_id: { from: mapped }
            tracing: { otlp_url: "http://127.0.0.1:\(collector)/?key=leak-marker" }
            grants: [{ when: { claim: plan, equals: nothing }, features: [], ttl_seconds: 300 }]

            """
    }

    /// Every way in which January can answer, the marker in every place for text.
    private static func faults() -> [Fault] {
        let json =
            #"{"code":"\#(encoded(body))","message":"\#(encoded(body)) ct-leak-marker-1 \#(SimulatorSettings.developmentKey)"}"#
        var faults: [Fault] = [400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503].map { .answered($0, body: json) }
        faults += [403, 500].map { .refused($0, "leak-marker-code", retryAfter: "leak-marker") }
        faults += [201, 500].map { .answered($0, contentType: "text/leak-marker", body: body) }
        faults += [
            .html502, .notJSON, .gzipped, .truncated(at: 90), .redirect(307, to: "http://127.0.0.1:1/leak-marker-place"),
            .echo(endUserID: "leak-marker-user"), .echo(scopes: ["leak-marker:read"]), .lifetime(1),
            .disrupted(.resetBeforeCommit), .disrupted(.resetAfterCommit), .disrupted(.closeBeforeCommit),
            .disrupted(.closeAfterCommit),
            .with { $0.content.token = "leak-marker-token" }, .with { $0.content.expiresInText = "\"leak-marker\"" },
            .with { $0.content.duplicateMembers = ["token"] }, .with { $0.content.missingMembers = ["token"] },
            .with { $0.content.extraMembers = #""more": "leak-marker-more""# },
            .with { $0.wire.extraFieldLines = ["Bad Field leak-marker: x"] },
            .with { $0.wire.raw = Array("leak-marker is no HTTP\r\n\r\n".utf8) },
        ]
        return faults
    }

    private static func encoded(_ text: String) -> String {
        text.replacing("\"", with: "\\\"")
    }

    @Test func noSecretIsInAnySink() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "january-leak-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try ServerScenario.write(folder + "next", Self.next)
        try ServerScenario.write(folder + "token", Self.management)
        let collector = try CollectorDouble()
        defer { collector.stop() }
        let change: @Sendable (inout String) -> Void = { Self.configure(&$0, folder, collector: collector.port) }
        try await ServerScenario.run(change) { scenario in
            var sinks: [String: String] = [:]
            var secrets: Set<String> = [
                SimulatorSettings.developmentKey, Self.next, Self.management, Self.mail, Self.body, "leak-marker", "leak marker",
                "leak/marker",
            ]
            func keep(_ name: String, _ text: String) { sinks[name, default: ""] += text + "\n" }
            func ask(_ request: String, port: UInt16? = nil, isMint: Bool = false) throws {
                let client = try RawClient(port: port ?? scenario.port, receiveTimeoutSeconds: 20)
                try client.send(request)
                let answer = String(decoding: try client.receiveAll(allowingReset: true), as: UTF8.self)
                // A minted answer is January's own, with the token: the one place where it belongs.
                if !(isMint && answer.hasPrefix("HTTP/1.1 201 ")) { keep("answers", answer) }
            }
            func session(_ mapped: String, _ more: JSONObject = [:]) throws -> String {
                var claims: JSONObject = [
                    "mapped": .string(mapped), "email": .string(Self.mail), "email_verified": .bool(true),
                    "note": .string("leak-marker-claim"),
                ]
                for member in more.members { claims[member.name] = member.value }
                let session = try scenario.simulator.session(SessionOrder(subject: Self.mail, audience: ["app"], claims: claims))
                for part in session.split(separator: ".").dropFirst() { secrets.insert(String(part)) }
                return session
            }
            func mint(_ session: String, _ fields: String = "", method: String = "POST") throws {
                try ask(
                    "\(method) /january/client-token?leak-marker=1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nAuthorization: Bearer \(session)\r\n"
                        + "Cookie: session=leak-marker-cookie\r\nJanuary-End-User-ID: leak-marker-user\r\nContent-Length: 11\r\n\(fields)\r\nleak-marker",
                    isMint: true)
            }
            try scenario.becomesReady()

            let other = ServerScenario.mint(try session("other"))
            // January's answers, each for a person of its own: no breaker of failures holds the next one back.
            for (number, fault) in Self.faults().enumerated() {
                scenario.simulator.addFault(FaultRule(fault, on: .mint, times: 2))
                try mint(try session("person-\(number)"))
                scenario.simulator.clearFaults()
                // What holds mints back ends with a good answer, or is over by itself.
                try scenario.eventually("a mint after fault \(number)") {
                    usleepMilliseconds(20)
                    return try scenario.exchange(other).hasPrefix("HTTP/1.1 201 ")
                }
            }
            // Sessions, people, policy.
            let good = try session("person")
            let parts = good.split(separator: ".").map(String.init)
            for bad in [
                parts[0] + "." + parts[1] + ".AAAA", parts[0] + ".bGVhay1tYXJrZXI." + parts[2], "leak-marker-opaque",
                good + "." + good,
                "eyJhbGciOiJub25lIn0." + parts[1] + ".", String(repeating: "leak-marker", count: 1200),
            ] { try mint(bad) }
            try mint(try session(Self.mail))
            try mint(try session(" leak-marker "))
            try mint(try session(String(repeating: "leak-marker", count: 8)))
            try mint(try session("person", ["mapped": .null]))
            try mint(try session("person", ["exp": .number(JSONNumber(1))]))
            try mint(try session("person", ["iss": .string("https://leak-marker.example")]))
            try mint(try session("person", ["aud": .string("leak-marker")]))
            try mint(good, "Authorization: Basic bGVhay1tYXJrZXI6eA==\r\n")
            try mint(good, "X-Forwarded-For: leak-marker\r\nX-Request-Id: leak marker\r\n")
            try mint(good, "traceparent: leak-marker\r\ntracestate: leak=leak-marker\r\nbaggage: leak=leak-marker\r\n")
            scenario.simulator.addFault(FaultRule(.answered(500, body: Self.body), on: .keySet, times: 1))
            let strange = Array(#"{"alg":"ES256","kid":"of-nobody"}"#.utf8)
            try mint(Data(strange).base64EncodedString().replacing("=", with: "") + "." + parts[1] + "." + parts[2])
            // HTTP.
            for request in [
                "POST /leak-marker HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "LEAK-MARKER /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "POST /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\nLeak-marker : x\r\n\r\n",
                "leak-marker\r\n\r\n",
                "POST /january/client-token HTTP/1.1\r\nHost: leak-marker@x\r\nConnection: close\r\n\r\n",
                "GET /january/client-token HTTP/9.9\r\nleak-marker: 1\r\n\r\n",
                "POST /" + String(repeating: "leak-marker", count: 1000) + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nA: " + String(repeating: "leak-marker", count: 2000)
                    + "\r\n\r\n",
                "POST /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: leak-marker\r\n\r\n",
                "POST /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: leak-marker\r\n\r\n",
                "POST /january/client-token HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nleak-marker\r\n",
            ] { try ask(request) }
            // The management API.
            func manage(_ line: String, _ token: String, _ content: String = "") throws {
                try ask(
                    "\(line) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer \(token)\r\nContent-Type: application/json\r\n"
                        + "Content-Length: \(content.utf8.count)\r\n\r\n\(content)", port: scenario.managementPort)
            }
            let route = "POST /january/client-token-revocations"
            try manage(route, "leak-marker-wrong-token-0123456789abcdef", #"{"end_user_id":"a"}"#)
            try manage(route, Self.management, #"{"end_user_id":"a","leak"#)
            try manage(route, Self.management, #"{"end_user_id":1}"#)
            scenario.simulator.addFault(FaultRule(.answered(500, body: Self.body), on: .revoke, times: 1))
            try manage(route, Self.management, #"{"end_user_id":"person-1","block":"user"}"#)
            scenario.simulator.clearFaults()
            try mint(try session("person-1"))
            try mint(try session("person-2"), method: "DELETE")
            try manage("GET /january/client-token-revocations", Self.management)
            for path in ["/metrics", "/readyz", "/healthz", "/status", "/status.json"] {
                try manage("GET \(path)", Self.management)
            }
            // Commands that read the same configuration, and ones whose secrets are wrong.
            let arguments = ["--config", scenario.folder + "config.yaml"]
            for (command, input) in [
                (["config"], ""), (["check"], ""), (["explain"], good), (["explain"], "leak-marker.e30.e30"),
            ] {
                let run = try Finished(command + arguments, input: input)
                keep("commands", run.output + run.errors)
            }
            for environment in [
                ["JANUARY_API_KEY": "leak-marker key"], ["JANUARY_API_KEY": "ct-leak-marker"],
                ["MANAGEMENT_TOKEN": "leak-marker"],
                [
                    "SESSION_HMAC_SECRET": "leak-marker", "SESSION_ALGORITHMS": "HS256", "SESSION_ISSUER": "i",
                    "SESSION_AUDIENCE": "a",
                ],
                ["REDIS_URL": "redis://user:leak-marker@127.0.0.1:1/leak"], ["STATE": "redis://user:leak-marker@127.0.0.1:1/1"],
            ] {
                for command in ["check", "config"] {
                    let run = try Finished([command] + arguments, environment: environment)
                    keep("commands", run.output + run.errors)
                }
            }
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
            keep("standard output", scenario.server.output)
            keep("standard error", scenario.server.errors)
            for request in collector.requests { keep("spans", String(decoding: request.body, as: UTF8.self)) }
            keep("audit", try String(contentsOfFile: scenario.folder + "audit.jsonl", encoding: .utf8))
            for name in try FileManager.default.contentsOfDirectory(atPath: scenario.folder + "state") {
                keep(
                    "state",
                    String(decoding: try Data(contentsOf: URL(filePath: scenario.folder + "state/" + name)), as: UTF8.self))
            }
            let tokens =
                (0..<Self.faults().count).flatMap { scenario.simulator.tokens(of: "person-\($0)") }
                + scenario.simulator.tokens(of: "other")
            #expect(tokens.count > 30)
            for token in tokens { secrets.insert(token.token) }

            // All of it happened.
            #expect(
                sinks["standard output"]?.contains("\"level\":\"debug\"") == true
                    || sinks["standard output"]?.contains("\"type\":\"request\"") == true)
            for code in [
                "january_forbidden", "january_key_rejected", "january_invalid_response", "january_unavailable",
                "january_rejected_request",
            ] {
                #expect(sinks["answers"]?.contains(code) == true, "\(code)")
                #expect(sinks["spans"]?.contains("\"\(code)\"") == true, "\(code)")
            }
            for (name, sink) in sinks {
                let text = sink.lowercased().utf8.map { $0 == 0 ? 32 : CChar(bitPattern: $0) } + [0]
                for secret in secrets {
                    for form in SecretForms(secret).all where Self.isIn(text, form) {
                        Issue.record("\(name): \(form) of \(secret)")
                    }
                }
            }
        }
    }

    /// Fast: megabytes are searched for thousands of forms. The text ends in a zero and has no other.
    private static func isIn(_ text: [CChar], _ form: String) -> Bool { strstr(text, form) != nil }

    /// The search finds what it is there for.
    @Test func theSearchFindsASecretInEveryForm() throws {
        let secret = Self.body
        for prefix in ["", "a", "ab"] {
            let base64 = Data((prefix + secret + "tail").utf8).base64EncodedString()
            for text in [base64, base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")] {
                #expect(SecretForms(secret).all.contains { text.lowercased().contains($0) }, "\(text)")
            }
        }
        let json = String(decoding: try JSONEncoder().encode(["a": secret]), as: UTF8.self)
        let address = secret.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        let hex = secret.utf8.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined()
        for text in ["x\(secret)y", json, address, hex, hex.uppercased(), secret.uppercased()] {
            #expect(SecretForms(secret).all.contains { text.lowercased().contains($0) }, "\(text)")
        }
        #expect(!SecretForms(secret).all.contains { "upstream body marker".contains($0) })
    }
}

/// A secret as it could stand in a text of lower case: as it is, in base64 at any offset, in hex, in a URL, in JSON.
private struct SecretForms {
    let all: Set<String>

    init(_ secret: String) {
        var forms: Set<String> = [secret]
        forms.insert(secret.utf8.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined())
        for offset in 0..<3 {
            // What the bytes before and behind have no part in.
            let bytes = [UInt8](repeating: 0, count: offset) + secret.utf8
            let text = Data(bytes).base64EncodedString()
            let inner = String(text.prefix(bytes.count / 3 * 4).dropFirst(offset == 0 ? 0 : offset + 1))
            if inner.count > 8 {
                forms.insert(inner)
                forms.insert(inner.replacing("+", with: "-").replacing("/", with: "_"))
            }
        }
        for allowed in [
            CharacterSet.alphanumerics, .urlQueryAllowed, .urlPathAllowed,
            CharacterSet(charactersIn: "-._~").union(.alphanumerics),
        ] {
            forms.insert(secret.addingPercentEncoding(withAllowedCharacters: allowed) ?? secret)
        }
        for slash in ["/", "\\/"] {
            let escaped = secret.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("/", with: slash)
            forms.insert(escaped)
            forms.insert(
                escaped.unicodeScalars.map { scalar in
                    scalar.isASCII ? String(scalar) : "\\u" + String(String(0x10000 + scalar.value, radix: 16).dropFirst())
                }.joined())
        }
        all = Set(forms.map { $0.lowercased() })
    }
}
