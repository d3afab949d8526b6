import Foundation
import JanuarySimulator
import TestSupport
import Testing

@testable import Configuration

/// nginx, HAProxy and Caddy as `deploy/` configures them, each in front of the real server: what they must leave alone and must not let through.
@Suite(.serialized, .enabled(if: DeployedProxy.Kind.nginx.isInstalled, "nginx is not installed"))
struct DeployNginxProxyTests {
    @Test func everyAnswerReachesTheClientUnchanged() async throws { try await ProxyRules(.nginx).answersAreUnchanged() }
    @Test func tokensAreKeptNowhere() async throws { try await ProxyRules(.nginx).tokensAreKeptNowhere() }
    @Test func aForgedAddressDoesNotHelp() async throws { try await ProxyRules(.nginx).forgedAddressesDoNotHelp() }
    @Test func nothingElseIsReachable() async throws { try await ProxyRules(.nginx).nothingElseIsReachable() }
    @Test func idleConnectionsAreClosedByTheProxyFirst() async throws {
        try await ProxyRules(.nginx).theProxyClosesFirst([("keepalive_timeout 4s", "keepalive_timeout 1s")])
    }
}

@Suite(.serialized, .enabled(if: DeployedProxy.Kind.haproxy.isInstalled, "haproxy is not installed"))
struct DeployHAProxyTests {
    @Test func everyAnswerReachesTheClientUnchanged() async throws { try await ProxyRules(.haproxy).answersAreUnchanged() }
    @Test func tokensAreKeptNowhere() async throws { try await ProxyRules(.haproxy).tokensAreKeptNowhere() }
    @Test func aForgedAddressDoesNotHelp() async throws { try await ProxyRules(.haproxy).forgedAddressesDoNotHelp() }
    @Test func nothingElseIsReachable() async throws { try await ProxyRules(.haproxy).nothingElseIsReachable() }
    @Test func idleConnectionsAreClosedByTheProxyFirst() async throws {
        try await ProxyRules(.haproxy).theProxyClosesFirst([("timeout http-keep-alive 4s", "timeout http-keep-alive 1s")])
    }
}

@Suite(.serialized, .enabled(if: DeployedProxy.Kind.caddy.isInstalled, "caddy is not installed"))
struct DeployCaddyProxyTests {
    @Test func everyAnswerReachesTheClientUnchanged() async throws { try await ProxyRules(.caddy).answersAreUnchanged() }
    @Test func tokensAreKeptNowhere() async throws { try await ProxyRules(.caddy).tokensAreKeptNowhere() }
    @Test func aForgedAddressDoesNotHelp() async throws { try await ProxyRules(.caddy).forgedAddressesDoNotHelp() }
    @Test func nothingElseIsReachable() async throws { try await ProxyRules(.caddy).nothingElseIsReachable() }
    @Test func idleConnectionsAreClosedByTheProxyFirst() async throws {
        try await ProxyRules(.caddy).theProxyClosesFirst([
            ("keepalive 4s", "keepalive 1s"), ("health_interval 1s", "health_interval 1h"),
        ])
    }
}

private struct ProxyRules: Sendable {
    let kind: DeployedProxy.Kind
    init(_ kind: DeployedProxy.Kind) { self.kind = kind }

    private func run(
        _ sections: String, changes: [(String, String)] = [],
        _ body: @escaping @Sendable (ServerScenario, DeployedProxy) throws -> Void
    ) async throws {
        try await ServerScenario.run({ text in
            text = text.split(separator: "\n").filter { !$0.hasPrefix("rate_limits:") }.joined(separator: "\n")
            text = text.replacing("january: {", with: "january: { budget_seconds: 3,")
            text += "\ntrusted_proxies: [127.0.0.1]\n" + sections
        }) { scenario in
            try scenario.becomesReady()
            let proxy = try DeployedProxy(kind, endpoint: scenario.port, changes: changes)
            try body(scenario, proxy)
        }
    }

    /// Whose session, if any.
    enum Session: Equatable { case none, wrong, of(String) }

    struct Case {
        var arguments: [String] = ["-X", "POST"]
        var query = ""
        var session = Session.of("user-1")
        var fault: Fault?
        let status: Int
        var code: String?
        var fields: [String] = []
    }

    /// Every kind of answer the endpoint has for a request that a proxy passes on.
    private var cases: [Case] {
        let zeros = String(repeating: "0", count: 100_000)
        return [
            Case(status: 201, fields: ["january-request-id"]),
            Case(arguments: ["-X", "OPTIONS"], status: 204, fields: ["allow"]),
            Case(session: .none, status: 401, code: "invalid_session", fields: ["www-authenticate"]),
            Case(session: .wrong, status: 401, code: "invalid_session", fields: ["www-authenticate"]),
            Case(arguments: [], status: 405, code: "method_not_allowed", fields: ["allow"]),
            Case(arguments: ["-d", zeros], status: 413, code: "content_too_large"),
            Case(query: "?" + zeros.prefix(9000), status: 414, code: "uri_too_long"),
            Case(
                arguments: ["-X", "POST", "-H", "X-Long: " + zeros.prefix(17_000)], status: 431,
                code: "header_fields_too_large"),
            Case(
                session: .of("often"), status: 429, code: "rate_limited",
                fields: ["retry-after", "ratelimit", "ratelimit-policy"]),
            Case(fault: .refused(400, "bad_request"), status: 403, code: "january_rejected_request"),
            Case(fault: .redirect(307, to: "http://127.0.0.1:1/"), status: 502, code: "january_invalid_response"),
            Case(fault: .refused(500, "internal"), status: 503, code: "january_unavailable"),
            Case(fault: .disrupted(.hangBeforeCommit), status: 504, code: "january_timeout"),
            // Holds back the mints that follow: the last.
            Case(
                fault: .refused(429, "rate_limited", retryAfter: "17"), status: 503, code: "january_rate_limited",
                fields: ["retry-after"]),
        ]
    }

    func answersAreUnchanged() async throws {
        try await run(
            """
            rate_limits:
              per_address: false
              per_session: false
              per_end_user: { requests: 1, per_seconds: 86400, burst: 200 }

            """
        ) { scenario, proxy in
            let often = try scenario.session("often")
            for _ in 0..<200 { _ = try scenario.exchange(ServerScenario.mint(often)) }
            for item in cases {
                for version in ["--http1.1", "--http2"] {
                    let what = "\(kind) \(version) \(item.status) \(item.code ?? "")"
                    if let fault = item.fault { scenario.simulator.addFault(FaultRule(fault, on: .mint, times: 1)) }
                    // Nobody on the way may compress it.
                    var arguments = item.arguments + ["-H", "Accept-Encoding: gzip"]
                    switch item.session {
                    case .none: break
                    case .wrong: arguments += ["-H", "Authorization: Bearer e30.e30.e30"]
                    case .of(let subject): arguments += ["-H", "Authorization: Bearer \(try scenario.session(subject))"]
                    }
                    let seen = try proxy.ask(arguments, path: "/january/client-token" + item.query, version: version)
                    #expect(seen.status == item.status, "\(what): \(seen.text)")
                    #expect(seen.code == item.code, "\(what): \(seen.text)")
                    let id = try #require(seen.field("x-request-id"), "\(what)")
                    let sent = try #require(proxy.relay.answer(id), "\(what)")
                    #expect(seen.status == sent.status, "\(what)")
                    #expect(seen.body == sent.body, "\(what)")
                    // The fields of one connection, and the time, which is whose message it is.
                    let own: Set<String> = ["connection", "date", "keep-alive"]
                    for field in sent.fields where !own.contains(field.name) {
                        #expect(seen.field(field.name) == field.value, "\(what): \(field.name)")
                    }
                    let added = Set(seen.fields.map(\.name)).subtracting(sent.fields.map(\.name)).subtracting(own)
                    #expect(added.isSubset(of: ["server", "alt-svc", "content-length"]), "\(what): \(added)")
                    for name in item.fields + ["x-content-type-options"] { #expect(seen.field(name) != nil, "\(what): \(name)") }
                    #expect(seen.field("cache-control") == "no-store", "\(what)")
                }
            }
            scenario.simulator.clearFaults()
        }
    }

    func tokensAreKeptNowhere() async throws {
        try await run("rate_limits: { per_address: false }\n") { scenario, proxy in
            let session = try scenario.session()
            var tokens: Set<String> = []
            for _ in 0..<3 {
                let answer = try proxy.ask(["-X", "POST", "-H", "Authorization: Bearer \(session)"])
                #expect(answer.status == 201)
                let match = try #require(answer.text.firstMatch(of: /"token": *"(ct-[^"]+)"/))
                tokens.insert(String(match.output.1))
            }
            #expect(tokens.count == 3)
            #expect(scenario.simulator.counts(of: .mint).received == 3)
            for name in FileManager.default.subpaths(atPath: proxy.folder) ?? [] {
                guard let content = FileManager.default.contents(atPath: proxy.folder + name) else { continue }
                let text = String(decoding: content, as: UTF8.self)
                #expect(!tokens.contains { text.contains($0) }, "\(name)")
            }
        }
    }

    func forgedAddressesDoNotHelp() async throws {
        try await run(
            """
            rate_limits:
              per_address: { requests: 1, per_seconds: 86400, burst: 6 }
              per_session: false
              per_end_user: false

            """
        ) { scenario, proxy in
            // A refused session costs three.
            for source in ["127.0.0.2", "127.0.0.3"] {
                var statuses: [Int] = []
                for number in 1...4 {
                    let forged = [
                        "X-Forwarded-For: 198.51.100.\(number)", "Forwarded: for=198.51.100.\(number)",
                        "X-Real-IP: 198.51.100.\(number)",
                        "X-Forwarded-For: 127.0.0.1",
                    ]
                    let fields = forged.flatMap { ["-H", $0] }
                    statuses.append(
                        try proxy.ask(["-X", "POST", "-H", "Authorization: Bearer e30.e30.e30"] + fields, from: source).status)
                }
                #expect(statuses == [401, 401, 429, 429], "\(source)")
            }
            let metrics = try scenario.get("/metrics")
            #expect(metrics.contains("\njanuary_endpoint_unconfigured_proxy_total 0\n"))
        }
    }

    func nothingElseIsReachable() async throws {
        try await run("rate_limits: { per_address: false }\n") { scenario, proxy in
            let management = "127.0.0.1:\(scenario.managementPort)"
            let before = proxy.relay.connections.count
            #expect(before > 0)
            for path in [
                "/metrics", "/readyz", "/status", "/january/client-token-revocations", "/january/end-users/user-1",
                "/january/client-token/../../metrics", "/january/client-token/..%2f..%2fmetrics", "/january/client-token/",
                "/january/client-token%00/metrics", "//\(management)/metrics",
            ] {
                for fields in [
                    [], ["-H", "Host: \(management)"], ["-H", "X-Original-URL: /metrics", "-H", "X-Rewrite-URL: /metrics"],
                ] {
                    let answer = try? proxy.ask(fields, path: path)
                    // Caddy has an empty 200 for every name that it does not serve.
                    #expect(answer?.status != 200 || answer?.body.isEmpty == true, "\(path) \(fields)")
                    #expect(answer?.text.contains("january_endpoint_") != true, "\(path) \(fields)")
                    #expect(answer?.text.contains("\"status\"") != true, "\(path) \(fields)")
                }
            }
            // What went to the endpoint was for the public listener's one path, or is the proxy's own question for its health.
            for connection in proxy.relay.connections {
                let lines = String(decoding: connection.fromProxy, as: UTF8.self).split(separator: "\r\n")
                for line in lines where line.hasSuffix(" HTTP/1.1") {
                    #expect(!line.contains("metrics") && !line.contains("readyz") && !line.contains("revocations"), "\(line)")
                }
            }
        }
    }

    /// - Parameter changes: the same times, shorter: the endpoint keeps its 75 seconds.
    func theProxyClosesFirst(_ changes: [(String, String)]) async throws {
        try await run("rate_limits: { per_address: false }\n", changes: changes) { scenario, proxy in
            let request = "POST /january/client-token HTTP/1.1\r\nHost: \(DeployedProxy.name)\r\nContent-Length: 0\r\n\r\n"
            // Several: a pool may close all but its last.
            let clients = try (0..<3).map { _ in try proxy.stayConnected(request) }
            func used() -> [RecordingRelay.Connection] {
                proxy.relay.connections.filter {
                    String(decoding: $0.fromProxy, as: UTF8.self).contains("POST /january/client-token ")
                }
            }
            func answers() -> Int {
                used().reduce(0) {
                    $0 + String(decoding: $1.fromEndpoint, as: UTF8.self).components(separatedBy: "HTTP/1.1 401 ").count - 1
                }
            }
            try scenario.eventually("\(kind): a connection stayed open \(clients.map(\.errors)) \(used().map(\.closedFirst))") {
                answers() == 3 && used().allSatisfy { $0.closedFirst != nil }
            }
            #expect(used().allSatisfy { $0.closedFirst == .proxy })
        }
    }
}

/// What the five files say, those of Traefik and Envoy too, which no test runs.
@Suite struct DeployProxyFilesTests {
    /// Per file: connections to the endpoint that nobody uses, the wait for a connection, and for an answer.
    @Test(arguments: [
        (
            "deploy/nginx/january.conf", #"\n    keepalive_timeout (\d+)s;"#, #"proxy_connect_timeout (\d+)s;"#,
            #"proxy_read_timeout (\d+)s;"#
        ),
        ("deploy/haproxy/haproxy.cfg", #"timeout http-keep-alive (\d+)s"#, #"timeout connect (\d+)s"#, #"timeout server (\d+)s"#),
        ("deploy/caddy/Caddyfile", #"keepalive (\d+)s"#, #"dial_timeout (\d+)s"#, #"response_header_timeout (\d+)s"#),
        ("deploy/traefik/january.yaml", #"idleConnTimeout: (\d+)s"#, #"dialTimeout: (\d+)s"#, #"responseHeaderTimeout: (\d+)s"#),
        (
            "deploy/envoy/envoy.yaml", #"idle_timeout: (\d+)s"#, #"connect_timeout: (\d+)s"#,
            #"\n                            timeout: (\d+)s"#
        ),
    ])
    func theTimesAreInOrder(file: String, idle: String, connect: String, answer: String) throws {
        let text = try DeploymentTests.text(file)
        func seconds(_ pattern: String) throws -> Int {
            let found = try Regex(pattern, as: (Substring, Substring).self).firstMatch(in: text)
            let match = try #require(found, "\(file): \(pattern)")
            return try #require(Int(match.output.1))
        }
        // drain.delay_seconds.
        #expect(try seconds(idle) < 5)
        // january.budget_seconds.
        #expect(try seconds(answer) > 8)
        #expect(try seconds(connect) < 8)
        // The management listener is mentioned, never named.
        for line in text.split(separator: "\n") where line.contains("8788") { #expect(line.contains("# "), "\(file): \(line)") }
    }

    /// After a burst it would keep a shared one until the endpoint closes it, which is too late.
    @Test func haproxySharesNoConnection() throws {
        #expect(try DeploymentTests.text("deploy/haproxy/haproxy.cfg").contains("\n    http-reuse never\n"))
    }

    @Test(arguments: ["deploy/traefik/january.yaml", "deploy/envoy/envoy.yaml"])
    func filesThatAreNotRunAreWellFormedAndSayWhereTheyComeFrom(file: String) throws {
        let text = try DeploymentTests.text(file)
        let tree = YAMLTree(Array(text.utf8))
        #expect(tree.isComplete && tree.problems.isEmpty, "\(tree.problems)")
        #expect(!tree.root.members.isEmpty)
        #expect(text.contains("ritten from") && text.contains("not run by our tests"))
    }
}
