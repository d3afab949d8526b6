import Foundation
import JanuarySimulator
import TestSupport
import Testing

/// `revoke` and `hash-id` as the real program, and the audit file of the real server.
@Suite(.serialized) struct RevokeTests {
    private static let token = "management-token-0123456789abcdef"

    /// A configuration in a folder of its own, and somebody who listens at its `management.listen`.
    private final class Place: Sendable {
        let folder: String
        let management: FakeManagement

        init(unix: Bool = false, listen: String? = nil) throws {
            folder = FileManager.default.temporaryDirectory.appending(path: "revoke-\(UUID().uuidString)").path + "/"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            management = try FakeManagement(path: unix ? folder + "m.sock" : nil)
            let address =
                listen.map { "\($0):\(management.port)" } ?? (unix ? "unix:\(folder)m.sock" : "127.0.0.1:\(management.port)")
            try ServerScenario.write(folder + "token", token)
            try ServerScenario.write(folder + "second", "second-" + token)
            try ServerScenario.write(folder + "key", SimulatorSettings.developmentKey)
            try ServerScenario.write(folder + "session", String(repeating: "s", count: 32))
            try ServerScenario.write(folder + "hash", "hash-secret-0123456789abcdef")
            try ServerScenario.write(
                folder + "config.yaml",
                """
                management: { listen: "\(address)", token_files: [token, second] }
                state: "sqlite:state.db"
                january: { api_key_file: key }
                sessions: { verifiers: [{ type: jwt, issuer: i, audience: a, hmac_secret_file: session, algorithms: [HS256] }] }
                features: [food_search]
                log: { hash_secret_file: hash }

                """)
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        func run(_ arguments: [String], _ status: String? = nil, _ body: String = "") throws -> Finished {
            if let status {
                let management = management
                Thread.detachNewThread { management.serve(status, body) }
            }
            return try Finished(arguments + ["--config", folder + "config.yaml"])
        }
    }

    @Test func theExitCodeSaysWhatTheServerSaid() async throws {
        try await onOwnThread {
            let place = try Place()
            let rows: [(String, String, Int32, String, String)] = [
                ("200 OK", #"{"id":"rv_1","status":"complete"}"#, 0, #"{"id":"rv_1","status":"complete"}"# + "\n", ""),
                ("202 Accepted", #"{"id":"rv_1","status":"pending"}"#, 3, #"{"id":"rv_1","status":"pending"}"# + "\n", ""),
                (
                    "400 Bad Request", #"{"code":"bad_request","message":"No.","request_id":"0","member":"subject"}"#, 1, "",
                    "HTTP 400 bad_request, subject: No.\n"
                ),
                (
                    "401 Unauthorized", #"{"code":"management_unauthorized","message":"No."}"#, 1, "",
                    "HTTP 401 management_unauthorized: No.\n"
                ),
                (
                    "503 Service Unavailable", #"{"code":"state_unavailable","message":"\u001b[2J"}"#, 1, "",
                    "HTTP 503 state_unavailable: [2J\n"
                ),
                ("404 Not Found", "<html>", 1, "", "HTTP 404\n"),
            ]
            for (status, body, code, output, errors) in rows {
                let run = try place.run(["revoke", "--end-user-id", "u1"], status, body)
                #expect(run.code == code, "\(status)")
                #expect(run.output == output, "\(status)")
                #expect(run.errors == (errors.isEmpty ? "" : "127.0.0.1:\(place.management.port): \(errors)"), "\(status)")
            }
        }
    }

    @Test func theRequestSaysWhatTheFlagsSay() async throws {
        try await onOwnThread {
            let place = try Place()
            let rows: [([String], String)] = [
                (["--end-user-id", "u1"], #"{"end_user_id":"u1"}"#),
                (["--end-user-id=-x \"ü\""], #"{"end_user_id":"-x \"ü\""}"#),
                (
                    ["--subject", "s", "--issuer", "https://i", "--block", "sessions", "--reason", "account deleted"],
                    #"{"subject":"s","issuer":"https://i","block":"sessions","reason":"account deleted"}"#
                ),
            ]
            for (flags, body) in rows { #expect(try place.run(["revoke"] + flags, "200 OK", "{}").code == 0, "\(body)") }
            #expect(place.management.requests.count == rows.count)
            for (request, row) in zip(place.management.requests, rows) {
                #expect(request.hasPrefix("POST /january/client-token-revocations HTTP/1.1\r\nHost: localhost\r\n"))
                #expect(request.contains("\r\nauthorization: Bearer \(Self.token)\r\n"))
                #expect(request.contains("\r\nContent-Type: application/json\r\n"))
                #expect(request.hasSuffix("\r\n\r\n" + row.1))
            }
        }
    }

    @Test(arguments: ["0.0.0.0", "[::]", "unix"])
    func aServerOnAWildcardOrAUnixSocketIsReached(listen: String) async throws {
        try await onOwnThread {
            let place = listen == "unix" ? try Place(unix: true) : try Place(listen: listen)
            #expect(try place.run(["revoke", "--end-user-id", "u1"], "200 OK", "{}").code == 0)
        }
    }

    @Test func withoutAServerOrATokenNothingIsRevoked() async throws {
        try await onOwnThread {
            let place = try Place()
            let config = try String(contentsOfFile: place.folder + "config.yaml", encoding: .utf8)
            for (change, errors) in [
                ("127.0.0.1:\(place.management.port)", "127.0.0.1:1: nobody listens there; nothing was revoked\n"),
                (", token_files: [token, second]", "management.token_files is empty: without a token nothing can be revoked\n"),
            ] {
                let changed = config.replacingOccurrences(of: change, with: change.hasPrefix(",") ? "" : "127.0.0.1:1")
                try ServerScenario.write(place.folder + "other.yaml", changed)
                let run = try Finished(["revoke", "--end-user-id", "u1", "--config", place.folder + "other.yaml"])
                #expect(run.code == 1)
                #expect(run.errors == errors)
            }
        }
    }

    @Test func hashIDPrintsWhatLogsShow() async throws {
        try await onOwnThread {
            let place = try Place()
            let run = try place.run(["hash-id", "user-1"])
            #expect(run.code == 0)
            // HMAC-SHA256 of "user-1" under "hash-secret-0123456789abcdef", by `openssl dgst`.
            #expect(run.output == "533cbb14da7dac8f3390a7656acba8dc\n")
            let dashed = try Finished(["hash-id", "--config", place.folder + "config.yaml", "--", "-user"])
            #expect(dashed.code == 0 && dashed.output.utf8.count == 33)
        }
    }

    // MARK: The server

    private static func withAudit(_ text: inout String, _ file: String) {
        text += "audit: { file: \"\(file)\" }\n"
    }

    @Test func theAuditFileIsWrittenAndBegunAnewAfterSIGHUP() async throws {
        try await ServerScenario.run({ Self.withAudit(&$0, "audit.jsonl") }) { scenario in
            try scenario.becomesReady()
            let path = scenario.folder + "audit.jsonl"
            func text(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }
            _ = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            try scenario.eventually("a record") { text(path).contains(#""message":"mint""#) }
            #expect(!text(path).contains("user-1") && !scenario.server.output.contains(#""type":"audit""#))
            try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
            scenario.server.send(SIGHUP)
            try scenario.eventually("a new file") { FileManager.default.fileExists(atPath: path) }
            let before = text(path + ".1")
            _ = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            try scenario.eventually("a record in it") { text(path).contains(#""message":"mint""#) }
            #expect(text(path + ".1") == before)
            // What was accepted is written before the process ends.
            for _ in 0..<20 { _ = try scenario.exchange(ServerScenario.mint(try scenario.session())) }
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
            let records = text(path).split(separator: "\n")
            #expect(records.count { $0.contains(#""message":"mint""#) } == 21)
            #expect(records.count { $0.contains(#""message":"configuration reloaded""#) } == 1)
        }
    }

    @Test func withoutAFileRecordsAreOnStandardOutput() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            _ = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            let line = try scenario.server.logLine("mint")
            #expect(line["type"] as? String == "audit" && line["outcome"] as? String == "delivered")
        }
    }

    @Test func anAuditFileThatCannotBeOpenedIsABadConfiguration() async throws {
        try await onOwnThread {
            let place = try Place()
            var config = try String(contentsOfFile: place.folder + "config.yaml", encoding: .utf8)
            Self.withAudit(&config, "missing/audit.jsonl")
            try ServerScenario.write(place.folder + "config.yaml", config)
            let line = config.split(separator: "\n", omittingEmptySubsequences: false).firstIndex { $0.hasPrefix("audit:") } ?? 0
            for command in ["check", "serve"] {
                let run = try place.run([command])
                #expect(run.code == 78)
                #expect(
                    run.errors == "\(place.folder)config.yaml:\(line + 1): audit.file: cannot open"
                        + " \"\(place.folder)missing/audit.jsonl\": No such file or directory\n", "\(command)")
            }
        }
    }

    @Test func checkLooksAtTheAuditFileAndMakesNone() async throws {
        try await onOwnThread {
            let place = try Place()
            let config = try String(contentsOfFile: place.folder + "config.yaml", encoding: .utf8)
            func check(_ file: String) throws -> Finished {
                var config = config
                Self.withAudit(&config, file)
                try ServerScenario.write(place.folder + "config.yaml", config)
                return try place.run(["check"])
            }
            #expect(try check("audit.jsonl").code == 0)
            #expect(!FileManager.default.fileExists(atPath: place.folder + "audit.jsonl"))
            try ServerScenario.write(place.folder + "audit.jsonl", "")
            #expect(try check("audit.jsonl").code == 0)
            #expect(try check("/dev/null").code == 0)
            let folder = try check(".")
            #expect(folder.code == 78 && folder.errors.hasSuffix("\": Is a directory\n"))
            let below = try check("audit.jsonl/x")
            #expect(below.code == 78 && below.errors.hasSuffix("\": Not a directory\n"))
        }
    }
}
