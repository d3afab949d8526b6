import Foundation
import JanuarySimulator
import TestSupport
import Testing

/// `doctor --through` as the real program, through proxies as `deploy/` has them and through the same with one mistake each.
@Suite(.serialized) struct DoctorThroughTests {
    /// One mistake, and the line that names it.
    struct Mistake: Sendable, CustomTestStringConvertible {
        let file: [(String, String)]
        /// Of the endpoint.
        var endpoint: [(String, String)] = []
        let line: String
        let says: String
        var testDescription: String { "\(line): \(says)" }
    }

    private static let host = "proxy_set_header Host $host;"

    private static func nginx(_ more: String, _ line: String, _ says: String) -> Mistake {
        Mistake(file: [(host, host + " " + more)], line: line, says: says)
    }

    static let nginxMistakes: [Mistake] = [
        nginx("proxy_set_header Authorization \"\";", "Authorization", "is lost on the way"),
        Mistake(file: [("proxy_intercept_errors off;", "")], line: "answers", says: "a bad session is answered with HTTP"),
        Mistake(
            file: [("proxy_intercept_errors off;", "proxy_intercept_errors on; error_page 503 =200 /error.html;")],
            line: "answers", says: "a 503 arrives as HTTP"),
        nginx("if ($request_method = PUT) { return 444; }", "answers", "a 405 does not arrive"),
        nginx("proxy_hide_header WWW-Authenticate;", "answers", "WWW-Authenticate is taken away from a 401"),
        nginx("proxy_hide_header X-Request-Id;", "answers", "X-Request-Id is taken away from a 401"),
        nginx("add_header X-Request-Id $request_id always;", "answers", "X-Request-Id arrives twice"),
        nginx("proxy_hide_header Retry-After;", "answers", "Retry-After is taken away from a 429"),
        nginx(
            "proxy_hide_header RateLimit; add_header RateLimit $sent_http_ratelimit always;", "answers",
            "RateLimit is taken away from a 429"),
        nginx("proxy_hide_header RateLimit-Policy;", "answers", "RateLimit-Policy is taken away from a 429"),
        nginx("sub_filter_types application/json; sub_filter version Version;", "answers", "the content of a 201 is changed"),
        nginx("sub_filter_types application/json; sub_filter Retry-After later;", "answers", "the content of a "),
        Mistake(
            file: [("proxy_cache off;", "proxy_cache all;")], line: "caching", says: "two requests got the same answer"),
        nginx(
            "proxy_hide_header Cache-Control; add_header Cache-Control public always;", "caching",
            "Cache-Control: no-store does not arrive alone"),
        Mistake(
            file: [("X-Forwarded-For $remote_addr", "X-Forwarded-For $http_x_forwarded_for")], line: "client address",
            says: "callers choose their own"),
        Mistake(
            file: [("X-Forwarded-For $remote_addr", "X-Forwarded-For \"\"")], line: "client address",
            says: "the proxy does not say whom it speaks for"),
        Mistake(
            file: [], endpoint: [("trusted_proxies: [127.0.0.1]", "trusted_proxies: []")], line: "client address",
            says: "the proxy (127.0.0.1) is not in trusted_proxies"),
        Mistake(
            file: [("X-Forwarded-For $remote_addr", "X-Forwarded-For \"\"")],
            endpoint: [("trusted_proxies: [127.0.0.1]", "trusted_proxies: []")], line: "client address",
            says: "the proxy (127.0.0.1) is not in trusted_proxies"),
        Mistake(
            file: [], endpoint: [("trusted_proxies:", "trusted_proxy_field: forwarded\ntrusted_proxies:")],
            line: "client address", says: "callers choose their own"),
        nginx(
            "add_header Access-Control-Allow-Origin * always; add_header Access-Control-Allow-Origin https://a.example always;",
            "CORS", "Access-Control-Allow-Origin arrives twice"),
        nginx("add_header Access-Control-Allow-Origin * always;", "CORS", "the proxy allows an origin that nobody has named"),
        Mistake(
            file: [("large_client_header_buffers", "keepalive_timeout 0; large_client_header_buffers")], line: "keep-alive",
            says: "the proxy ends the connection behind every answer"),
        Mistake(
            file: [
                ("location = /january", "location = /metrics { proxy_pass http://127.0.0.1:MANAGEMENT; }\nlocation = /january")
            ],
            line: "management", says: "/metrics of the management listener is reachable"),
        Mistake(
            file: [
                ("location = /january", "location = /readyz { proxy_pass http://127.0.0.1:MANAGEMENT; }\nlocation = /january")
            ],
            line: "management", says: "/readyz of the management listener is reachable"),
    ]

    private static let last = "http-request set-header X-Request-Id %[uuid]"

    private static func haproxy(_ more: String, _ line: String, _ says: String) -> Mistake {
        Mistake(file: [(last, last + "\n    " + more)], line: line, says: says)
    }

    static let haproxyMistakes: [Mistake] = [
        haproxy("http-request del-header Authorization", "Authorization", "is lost on the way"),
        haproxy("http-response del-header X-Request-Id", "answers", "X-Request-Id is taken away from a 401"),
        haproxy("http-response set-status 200 if { status 401 }", "answers", "a bad session is answered with HTTP 200"),
        haproxy("http-response set-status 502 if { status 503 }", "answers", "a 503 arrives as HTTP 502"),
        haproxy(
            "http-response set-header Content-Type text/html if { status 201 }", "answers", "Content-Type of a 201 is changed"),
        haproxy("http-response set-header Retry-After 1", "answers", "Retry-After of a 429 is changed"),
        haproxy("http-response set-header Cache-Control max-age=60", "caching", "Cache-Control: no-store does not arrive alone"),
        haproxy(
            "compression algo gzip\n    compression type application/json", "answers", "answers are compressed (gzip)"),
        haproxy(
            "http-request deny deny_status 404 if METH_POST", "way",
            "https://localhost:PORT/january/client-token is answered with HTTP 404, and not by the server"),
        haproxy("option httpclose", "keep-alive", "the proxy ends the connection behind every answer"),
        Mistake(
            file: [("http-request set-header X-Forwarded-For %[src]", "")], line: "client address",
            says: "callers choose their own"),
        Mistake(
            file: [("http-request set-header X-Forwarded-For %[src]", "http-request del-header X-Forwarded-For")],
            line: "client address", says: "the proxy does not say whom it speaks for"),
        Mistake(
            file: [], endpoint: [("trusted_proxies: [127.0.0.1]", "trusted_proxies: []")], line: "client address",
            says: "the proxy (127.0.0.1) is not in trusted_proxies"),
        haproxy(
            "http-response add-header Access-Control-Allow-Origin *\n    http-response add-header Access-Control-Allow-Origin *",
            "CORS", "Access-Control-Allow-Origin arrives twice"),
    ]

    /// - Parameters:
    ///   - before: what is done before doctor asks.
    ///   - body: gets the exit code, the lines by their names, and everything for a message.
    private static func run(
        _ kind: DeployedProxy.Kind, _ mistake: Mistake?, key: String? = nil,
        before: @escaping @Sendable (ServerScenario, DeployedProxy) throws -> Void = { _, _ in },
        _ body: @escaping @Sendable (Int32, [String: String], String, DeployedProxy) throws -> Void
    ) async throws {
        try await ServerScenario.run({ text in
            text += "trusted_proxies: [127.0.0.1]\n"
            for (old, new) in mistake?.endpoint ?? [] { text = text.replacing(old, with: new) }
        }) { scenario in
            try scenario.becomesReady()
            let changes = (mistake?.file ?? []).map { ($0, $1.replacing("MANAGEMENT", with: "\(scenario.managementPort)")) }
            let proxy = try DeployedProxy(kind, endpoint: scenario.port, changes: changes)
            try before(scenario, proxy)
            if let key { try scenario.write("other_key", key) }
            let config = try String(contentsOfFile: scenario.folder + "config.yaml", encoding: .utf8)
            try scenario.write(
                "doctor.yaml", key == nil ? config : config.replacing("api_key_file: api_key", with: "api_key_file: other_key"))
            let finished = try Finished(
                ["doctor", "--config", scenario.folder + "doctor.yaml", "--through", "https://localhost:\(proxy.port)"],
                environment: ["SSL_CERT_FILE": proxy.folder + "ca.pem"])
            let lines = finished.output.split(separator: "\n").reduce(into: [String: String]()) { lines, line in
                let parts = line.split(separator: ": ", maxSplits: 1).map(String.init)
                lines[parts[0]] = parts.count > 1 ? parts[1] : ""
            }
            try body(finished.code, lines, finished.output + finished.errors + proxy.log, proxy)
        }
    }

    private static func isFound(_ kind: DeployedProxy.Kind, _ mistake: Mistake) async throws {
        try await run(kind, mistake) { code, lines, text, proxy in
            #expect(code == 1, "\(text)")
            let line = try #require(lines[mistake.line], "\(text)")
            let says = mistake.says.replacing("PORT", with: "\(proxy.port)")
            #expect(line.hasPrefix("failed: \(says)") && line.contains("; fix: "), "\(text)")
        }
    }

    @Test(.enabled(if: DeployedProxy.Kind.nginx.isInstalled, "nginx is not installed"), arguments: nginxMistakes)
    func aMistakeOfNginxIsNamed(mistake: Mistake) async throws { try await Self.isFound(.nginx, mistake) }

    @Test(.enabled(if: DeployedProxy.Kind.haproxy.isInstalled, "haproxy is not installed"), arguments: haproxyMistakes)
    func aMistakeOfHAProxyIsNamed(mistake: Mistake) async throws { try await Self.isFound(.haproxy, mistake) }

    static let installed = [DeployedProxy.Kind.nginx, .haproxy, .caddy].filter(\.isInstalled)

    /// Nothing is minted, and what the probes are answered counts for no token.
    @Test(.enabled(if: !installed.isEmpty, "no proxy is installed"), arguments: installed)
    func nothingIsWrongWithOurOwnFiles(kind: DeployedProxy.Kind) async throws {
        try await Self.run(kind, nil) { code, lines, text, _ in
            #expect(code == 0, "\(text)")
            let names = ["way", "answers", "Authorization", "caching", "CORS", "client address", "keep-alive", "management"]
            for name in names { #expect(lines[name]?.hasPrefix("ok: ") == true, "\(name): \(text)") }
            #expect(lines.count == names.count)
            #expect(lines["client address"] == "ok: 127.0.0.1; a forged one is not believed")
        }
    }

    /// The proxy keeps a connection longer than the endpoint does.
    @Test(
        .enabled(if: !installed.isEmpty, "no proxy is installed"),
        arguments: [
            (DeployedProxy.Kind.nginx, [(String, String)]()), (.haproxy, [("http-reuse never", "http-reuse always")]),
        ].filter(\.0.isInstalled))
    func aProxyThatKeepsConnectionsTooLongIsNamed(kind: DeployedProxy.Kind, file: [(String, String)]) async throws {
        let mistake = Mistake(
            file: file, endpoint: [("trusted_proxies:", "http: { idle_seconds: 0.3 }\ntrusted_proxies:")], line: "keep-alive",
            says: "")
        try await Self.run(
            kind, mistake,
            before: { scenario, proxy in
                #expect(try proxy.ask(["-X", "POST"]).status == 401)
                try scenario.eventually("the server has not closed first") {
                    // HAProxy's own looks at the endpoint's health end in this way, too.
                    proxy.relay.connections.contains {
                        $0.closedFirst == .endpoint && !$0.fromProxy.starts(with: "GET ".utf8)
                    }
                }
            }
        ) { code, lines, text, _ in
            #expect(code == 1, "\(text)")
            #expect(
                lines["keep-alive"]?.contains(" connections of proxies were closed by the server after 0.3 s") == true, "\(text)")
        }
    }

    @Test(.enabled(if: DeployedProxy.Kind.nginx.isInstalled, "nginx is not installed"))
    func aServerWithAnotherKeyDoesNotAnswerProbes() async throws {
        try await Self.run(.nginx, nil, key: "sk-another-" + String(repeating: "7", count: 32)) { code, lines, text, _ in
            #expect(code == 1, "\(text)")
            #expect(
                lines["answers"]?.hasPrefix("failed: the server does not know this configuration's API key") == true, "\(text)")
            #expect(lines["Authorization"] == "ok: arrives", "\(text)")
            #expect(lines["client address"] == "skipped: the server has not seen the probe, see above", "\(text)")
        }
    }

    @Test func whatIsNoAddressToAskIsRefused() async throws {
        try await ServerScenario.run { scenario in
            let config = try String(contentsOfFile: scenario.folder + "config.yaml", encoding: .utf8)
            func doctor(_ url: String, port: UInt16 = 0) throws -> Finished {
                try scenario.write(
                    "doctor.yaml",
                    config.replacing("\nlisten: \"127.0.0.1:0\"", with: "\nlisten: \"127.0.0.1:\(port)\"")
                        .replacing(/^listen: "127.0.0.1:0"/, with: "listen: \"127.0.0.1:\(port)\""))
                return try Finished(["doctor", "--config", scenario.folder + "doctor.yaml", "--through", url])
            }
            for (url, says) in [
                ("nowhere", "--through: must be an http or https URL"),
                ("http://203.0.113.1/", "--through: must be https, or http to a loopback address"),
                ("https://a:b@localhost/", "--through: must not have user information"),
            ] {
                let finished = try doctor(url)
                #expect(finished.code == 64 && finished.errors.contains(says), "\(finished.errors)")
            }
            // Nobody stands in front of it.
            let direct = try doctor("http://127.0.0.1:\(scenario.port)", port: scenario.port)
            #expect(direct.code == 0, "\(direct.output)\(direct.errors)")
            #expect(direct.output.contains("client address: skipped: this is the server itself, without a proxy\n"))
            let nobody = try doctor("http://127.0.0.1:1")
            #expect(
                nobody.code == 1
                    && nobody.output.hasPrefix("way: failed: http://127.0.0.1:1 does not answer (refused); fix: "),
                "\(nobody.output)")
            // Speaks no TLS.
            let plain = try doctor("https://127.0.0.1:\(scenario.port)")
            #expect(
                plain.code == 1 && plain.output.contains("no TLS connection (not_tls); fix: give the proxy a certificate"),
                "\(plain.output)")
        }
    }
}
