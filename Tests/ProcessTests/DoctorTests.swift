import Foundation
import Glibc
import JanuarySimulator
import TestSupport
import Testing

/// `doctor` as the real program, against a January, an identity provider and a server that are well, or not.
@Suite(.serialized) struct DoctorTests {
    private struct Report {
        let code: Int32
        let lines: [String: String]
        let text: String

        init(_ scenario: ServerScenario, _ change: (inout String) -> Void = { _ in }) throws {
            var config = ServerScenario.configuration(scenario.simulator)
            change(&config)
            try scenario.write("doctor.yaml", config)
            let run = try Finished(["doctor", "--config", scenario.folder + "doctor.yaml"])
            code = run.code
            text = run.output + run.errors
            lines = run.output.split(separator: "\n").reduce(into: [:]) { lines, line in
                let parts = line.split(separator: ": ", maxSplits: 1).map(String.init)
                lines[parts[0]] = parts.count > 1 ? parts[1] : ""
            }
        }
    }

    @Test func everythingThatIsWellIsSaidToBe() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            let report = try Report(scenario) {
                $0 = $0.replacing(
                    "management: { listen: \"127.0.0.1:0\" }",
                    with: "management: { listen: \"127.0.0.1:\(scenario.managementPort)\" }")
            }
            #expect(report.code == 0, "\(report.text)")
            #expect(report.lines["API key"]?.hasPrefix("ok: January accepts it (fingerprint ") == true)
            #expect(report.lines["clock"]?.hasPrefix("ok: this machine is ") == true)
            #expect(report.lines["key set jwt"]?.hasPrefix("ok: 1 keys from \(scenario.simulator.origin)/idp/") == true)
            #expect(report.lines["state"] == "skipped: none: no blocks are kept")
            #expect(report.lines["redis"]?.hasPrefix("skipped: ") == true)
            #expect(report.lines["certificate"]?.hasPrefix("skipped: ") == true)
            #expect(report.lines["proxies"] == "ok: every proxy that was seen is in trusted_proxies")
            let tokens = try #require(report.lines["client tokens"])
            let user = try #require(
                tokens.firstMatch(of: /^ok: minted and revoked one for (doctor-[0-9a-f]{16}), with foods:read$/)
            ).output.1
            #expect(scenario.simulator.tokens(of: String(user)).count == 1)
            #expect(scenario.simulator.liveTokens(of: String(user)).isEmpty)
            #expect(!report.text.contains("sk-") && !report.text.contains("ct-"))
        }
    }

    @Test func aRejectedKeyHasItsFixAndEndsTheRest() async throws {
        try await ServerScenario.run { scenario in
            let wrong = "sk-wrong-" + String(repeating: "9", count: 32)
            try scenario.write("wrong", wrong)
            let report = try Report(scenario) {
                $0 = $0.replacing("api_key_file: api_key,", with: "api_key_file: wrong, next_api_key_file: api_key,")
            }
            #expect(report.code == 1)
            #expect(report.lines["API key"]?.hasPrefix("failed: January rejects it (fingerprint ") == true)
            #expect(
                report.lines["API key"]?.hasSuffix("; fix: put a key that is valid at January into january.api_key_file") == true)
            #expect(report.lines["next API key"]?.hasPrefix("ok: ") == true)
            #expect(report.lines["client tokens"] == "skipped: without an accepted key nothing can be minted")
            #expect(!report.text.contains(wrong))
        }
    }

    @Test func whatJanuaryDoesNotAllowHasItsFix() async throws {
        try await ServerScenario.run { scenario in
            scenario.simulator.configure { $0.clientTokensEnabled = false }
            let report = try Report(scenario)
            #expect(report.code == 1)
            #expect(report.lines["API key"]?.hasPrefix("ok: ") == true)
            #expect(
                report.lines["client tokens"]
                    == "failed: January does not mint (forbidden); fix: switch client tokens on for the account at January, or use its key for API version 1.2"
            )
        }
    }

    @Test(arguments: [-60, 60])
    func aClockThatIsWrongIsSaidToBe(seconds: Int) async throws {
        try await ServerScenario.run { scenario in
            scenario.simulator.setClockOffset(.seconds(seconds))
            let report = try Report(scenario)
            let line = try #require(report.lines["clock"])
            #expect(line.hasPrefix("failed: this machine is "))
            #expect(line.contains(seconds < 0 ? " s ahead of January; fix: " : " s behind January; fix: "))
        }
    }

    @Test func whoCannotBeReachedIsNamedWithItsFix() async throws {
        try await ServerScenario.run { scenario in
            let report = try Report(scenario) { text in
                text = text.replacing("base_url: \"\(scenario.simulator.origin)\"", with: "base_url: \"http://127.0.0.1:1\"")
                text = text.replacing("issuer: \"\(scenario.simulator.origin)/idp\"", with: "issuer: \"http://127.0.0.1:1\"")
                text = text.replacing("rate_limits: {", with: "rate_limits: { store: \"redis://127.0.0.1:1/0\",")
                text += "state: \"sqlite:api_key/state.db\"\n"
            }
            #expect(report.code == 1)
            for name in ["API key", "key set jwt", "redis", "state"] {
                #expect(
                    report.lines[name]?.hasPrefix("failed: ") == true && report.lines[name]?.contains("; fix: ") == true,
                    "\(name): \(report.text)")
            }
            #expect(report.lines["API key"]?.contains("(refused)") == true)
            #expect(report.lines["clock"] == "skipped: January gave no Date")
        }
    }

    /// Looked at while the server has it, after its end, and damaged.
    @Test func aStateFileIsReadAndLeftAsItIs() async throws {
        try await ServerScenario.run({ $0 += "state: \"sqlite:kept/state.db\"\n" }) { scenario in
            try scenario.becomesReady()
            let path = scenario.folder + "kept/state.db"
            let change: (inout String) -> Void = { $0 += "state: \"sqlite:kept/state.db\"\n" }
            #expect(try Report(scenario, change).lines["state"] == "ok: \(path) is whole and can be written")
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
            let files = try FileManager.default.contentsOfDirectory(atPath: scenario.folder + "kept").sorted()
            #expect(try Report(scenario, change).lines["state"] == "ok: \(path) is whole and can be written")
            var bytes = try Data(contentsOf: URL(filePath: path))
            for offset in stride(from: 4096, to: bytes.count, by: 512) {
                bytes[offset..<offset + 64] = Data(repeating: 0xEE, count: 64)
            }
            try bytes.write(to: URL(filePath: path))
            let report = try Report(scenario, change)
            #expect(report.code == 1)
            #expect(
                report.lines["state"]?.hasPrefix("failed: \(path) is damaged; fix: stop the server and restore it") == true,
                "\(report.text)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: scenario.folder + "kept").sorted() == files)
        }
    }

    @Test func anAuditFileThatCannotBeWrittenIsNamed() async throws {
        try await ServerScenario.run { scenario in
            let good = try Report(scenario) { $0 += "audit: { file: audit.jsonl }\n" }
            #expect(good.lines["audit"] == "ok: \(scenario.folder)audit.jsonl can be written", "\(good.text)")
            #expect(!FileManager.default.fileExists(atPath: scenario.folder + "audit.jsonl"))
            for (file, says) in [("nowhere/audit.jsonl", "No such file or directory"), ("mount", "Is a directory")] {
                let report = try Report(scenario) { $0 += "audit: { file: \(file) }\n" }
                #expect(report.code == 1)
                #expect(
                    report.lines["audit"]?.contains("cannot write \(scenario.folder)\(file): \(says); fix: make its folder")
                        == true,
                    "\(report.text)")
            }
        }
    }

    /// What the collector says, and what is said of it.
    @Test(arguments: [
        ("200 OK", "ok: URL takes spans"),
        ("401 Unauthorized", "failed: URL refuses us (HTTP 401); fix: check tracing.username and tracing.password_file"),
        ("404 Not Found", "failed: URL takes no OTLP over HTTP in JSON (HTTP 404); fix: name the collector's OTLP/HTTP address"),
        ("500 Oh", "failed: URL answers HTTP 500; fix: look at the collector's own log"),
        ("", "failed: URL cannot be asked (refused); fix: check tracing.otlp_url"),
    ])
    func theTraceCollectorIsAsked(status: String, line: String) async throws {
        try await ServerScenario.run { scenario in
            let collector = try CollectorDouble { _, _ in .answer(status) }
            defer { collector.stop() }
            let port = status.isEmpty ? 1 : collector.port
            let report = try Report(scenario) { $0 += "tracing: { otlp_url: \"http://127.0.0.1:\(port)\" }\n" }
            let expected = line.replacing("URL", with: "http://127.0.0.1:\(port)/v1/traces")
            #expect(report.lines["trace collector"]?.hasPrefix(expected) == true, "\(report.text)")
            #expect(report.code == (status.hasPrefix("200") ? 0 : 1))
            let request = collector.requests.first
            #expect(status.isEmpty || request?.body == Array(#"{"resourceSpans":[]}"#.utf8))
        }
    }

    /// Settings of Redis, the keys beside `state`, and what is said of it.
    @Test(
        .enabled(if: RedisServer.isInstalled, "redis-server is not installed"),
        arguments: [
            (
                ["--appendonly", "yes"], "",
                [
                    "state": "ok: Redis ", "state eviction": "ok: Redis throws nothing away (maxmemory-policy noeviction)",
                    "state durability": "ok: Redis keeps an append-only file",
                ]
            ),
            (
                ["--maxmemory-policy", "allkeys-lru"], "state_durability: strict",
                [
                    "state": "ok: Redis ",
                    "state eviction":
                        "failed: maxmemory-policy is allkeys-lru: Redis may throw blocks away; fix: set maxmemory-policy noeviction in Redis",
                    "state durability":
                        "failed: Redis keeps no append-only file: its restart loses blocks and unfinished revocations, and state_durability: strict refuses it; fix: set appendonly yes in Redis",
                ]
            ),
            (
                ["--maxmemory-policy", "volatile-ttl"], "",
                [
                    "state eviction":
                        "failed: maxmemory-policy is volatile-ttl: Redis may throw away which mints are under way; fix: set maxmemory-policy noeviction in Redis",
                    "state durability":
                        "failed: Redis keeps no append-only file: its restart loses blocks and unfinished revocations; fix: set appendonly yes in Redis",
                ]
            ),
            (
                ["--requirepass", "secret"], "",
                ["state": "failed: Redis at 127.0.0.1:PORT cannot be used: not_authenticated; fix: "]
            ),
            (
                ["--requirepass", "secret"], "state_password_file: api_key",
                ["state": "failed: Redis at 127.0.0.1:PORT cannot be used: wrong_password; fix: "]
            ),
            (
                ["--user", "default", "on", "nopass", "~*", "+@all", "-eval"], "",
                ["state": "failed: Redis at 127.0.0.1:PORT cannot be used: no_permission; fix: "]
            ),
            (
                ["--replicaof", "127.0.0.1", "1"], "",
                ["state": "failed: Redis at 127.0.0.1:PORT is a replica: it takes no writes; fix: name the primary in state"]
            ),
        ])
    func whatIsWrongWithTheStatesRedisIsSaid(settings: [String], keys: String, lines: [String: String]) async throws {
        try await ServerScenario.run { scenario in
            let redis = try RedisServer(settings)
            let report = try Report(scenario) { $0 += "state: \"\(redis.url)\"\n\(keys)\n" }
            for (name, line) in lines {
                let line = line.replacing("PORT", with: "\(redis.port)")
                #expect(report.lines[name]?.hasPrefix(line) == true, "\(name): \(report.text)")
            }
            #expect(report.code == (lines.values.contains { $0.hasPrefix("failed") } ? 1 : 0), "\(report.text)")
            #expect(!report.text.contains("secret"))
        }
    }

    @Test func aProxyThatNobodyNamedIsFound() async throws {
        try await ServerScenario.run({
            $0 = $0.replacing("listen: \"127.0.0.1:0\"\nmanagement", with: "listen: \"0.0.0.0:0\"\nmanagement")
        }) {
            scenario in
            try scenario.becomesReady()
            // A peer in private space that speaks for somebody else: the address this machine has in its own network.
            guard let own = Self.privateAddress() else { return }
            let client = try RawClient(port: scenario.port, host: own, receiveTimeoutSeconds: 20)
            try client.send(
                "POST /january/client-token HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\nContent-Length: 0\r\n\r\n")
            _ = try client.receiveResponses()
            let report = try Report(scenario) {
                $0 = $0.replacing(
                    "management: { listen: \"127.0.0.1:0\" }",
                    with: "management: { listen: \"127.0.0.1:\(scenario.managementPort)\" }")
            }
            #expect(report.code == 1)
            #expect(report.lines["proxies"]?.hasPrefix("failed: 1 requests came through a proxy") == true, "\(report.text)")
        }
    }

    private static func privateAddress() -> String? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        var next = list
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let address = entry.pointee.ifa_addr, address.pointee.sa_family == sa_family_t(AF_INET) else { continue }
            let bits = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                UInt32(bigEndian: $0.pointee.sin_addr.s_addr)
            }
            if bits >> 24 == 10 || bits >> 20 == 0xAC1 || bits >> 16 == 0xC0A8 {
                return "\(bits >> 24).\(bits >> 16 & 255).\(bits >> 8 & 255).\(bits & 255)"
            }
        }
        return nil
    }
}
