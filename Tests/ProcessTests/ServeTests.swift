import Foundation
import Glibc
import JanuarySimulator
import TestSupport
import Testing

/// `serve` as operators start and end it.
@Suite(.serialized) struct ServeTests {
    @Test func anAppGetsJanuarysOwnAnswer() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            let answer = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            #expect(answer.hasPrefix("HTTP/1.1 201 "))
            let token = try #require(scenario.simulator.liveTokens(of: "user-1").first?.token)
            #expect(answer.contains(token))
            #expect(scenario.simulator.requests(of: .mint).count == 1)
            #expect(!answer.lowercased().contains("connection: close"))
        }
    }

    @Test func theEnvironmentAloneIsAConfiguration() async throws {
        try await onOwnThread {
            var configuration = Simulator.Configuration()
            configuration.algorithms = [.es256]
            let simulator = try Simulator(configuration)
            try simulator.start()
            defer { simulator.stop() }
            let server = try Child(
                [],
                environment: [
                    "JANUARY_API_KEY": SimulatorSettings.developmentKey, "JANUARY_BASE_URL": simulator.origin,
                    "LISTEN": "127.0.0.1:0", "MANAGEMENT_LISTEN": "off", "FEATURES": "food_search,glucose",
                    "AUTH_PROVIDER": "oidc", "OIDC_ISSUER": simulator.origin + "/idp", "OIDC_AUDIENCE": "app",
                ])
            let address = try #require(try server.logLine("listening")["listen"] as? String)
            let client = try RawClient(port: try #require(UInt16(address.split(separator: ":").last ?? "")))
            try client.send(ServerScenario.mint(try simulator.session(SessionOrder(subject: "u", audience: ["app"]))))
            let answer = try client.receiveResponses().joined()
            #expect(answer.hasPrefix("HTTP/1.1 201 "))
            server.send(SIGINT)
            #expect(try server.wait() == 0)
        }
    }

    @Test func theLogSaysWhatThisVersionDoesNotDo() async throws {
        try await ServerScenario.run(
            {
                $0 = $0.replacingOccurrences(of: "rate_limits: {", with: "rate_limits: { mode: shadow,")
                $0 +=
                    "grants: [{ when: { claim: upn, exists: false }, features: [glucose] }]\n"
            },
            environment: ["HTTPS_PROXY": "http://user:PROXYMARKER@proxy.example:3128", "https_proxy": ""]
        ) { scenario in
            let server = scenario.server
            let limits = try server.logLine("rate limits are in shadow mode: they are counted and nobody is refused")
            #expect(limits["level"] as? String == "warning")
            let proxies = server.logLines("a proxy is set in the environment; it is ignored")
            #expect(proxies.map { $0["variable"] as? String } == ["HTTPS_PROXY"])
            let warnings = server.logLines("the configuration is accepted with a warning").compactMap { $0["warning"] as? String }
            #expect(warnings.contains { $0.hasPrefix("\(scenario.folder)config.yaml:10: grants[0].when.claim: ") })
            #expect(!server.output.contains("PROXYMARKER"))
        }
    }

    @Test func metricsKnowTheProcess() async throws {
        try await ServerScenario.run { scenario in
            let text = try scenario.get("/metrics")
            for name in ["process_open_fds ", "january_endpoint_build_info{version=\"", "january_endpoint_log_dropped_total 0"] {
                #expect(text.contains("\n" + name))
            }
        }
    }

    // MARK: Start

    @Test func aTakenAddressIs69AndOneLine() async throws {
        try await ServerScenario.run { scenario in
            for (key, port) in [("listen", scenario.port), ("management.listen", scenario.managementPort)] {
                var text = ServerScenario.configuration(scenario.simulator)
                if key == "listen" {
                    text = text.replacing(
                        "listen: \"127.0.0.1:0\"\nmanagement", with: "listen: \"127.0.0.1:\(port)\"\nmanagement")
                } else {
                    text = text.replacing("{ listen: \"127.0.0.1:0\" }", with: "{ listen: \"127.0.0.1:\(port)\" }")
                }
                try ServerScenario.write(scenario.folder + "second.yaml", text)
                let run = try Finished(["serve", "--config", scenario.folder + "second.yaml"])
                #expect(run.code == 69)
                #expect(
                    run.errors == "january-token-endpoint: \(key): cannot listen on 127.0.0.1:\(port): Address already in use\n")
            }
            // The first one is not disturbed.
            #expect(try scenario.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").hasPrefix("HTTP/1.1 200 "))
        }
    }

    private static let environment = [
        "JANUARY_API_KEY": SimulatorSettings.developmentKey, "MANAGEMENT_LISTEN": "off", "FEATURES": "food_search",
        "AUTH_PROVIDER": "firebase", "FIREBASE_PROJECT_ID": "acme",
    ]

    @Test func aPathThatIsNoSocketIs69AndIsLeftAlone() async throws {
        try await onOwnThread {
            let path = "/tmp/january-\(UUID().uuidString.prefix(8))"
            try ServerScenario.write(path, "precious")
            defer { try? FileManager.default.removeItem(atPath: path) }
            let run = try Finished([], environment: Self.environment.merging(["LISTEN": "unix:\(path)"]) { $1 })
            #expect(run.code == 69)
            #expect(
                run.errors
                    == "january-token-endpoint: listen: cannot listen on unix:\(path): there is something at this path that is not a socket; it is left alone\n"
            )
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
        }
    }

    @Test func theSocketFileIsGoneAfterTheDrain() async throws {
        try await onOwnThread {
            let path = "/tmp/january-\(UUID().uuidString.prefix(8)).sock"
            let config = FileManager.default.temporaryDirectory.appending(path: "january-\(UUID().uuidString).yaml").path
            try ServerScenario.write(config, "drain: { delay_seconds: 0 }\n")
            defer { try? FileManager.default.removeItem(atPath: config) }
            let server = try Child(
                ["--config", config],
                environment: Self.environment.merging(
                    ["LISTEN": "unix:\(path)", "JANUARY_BASE_URL": "http://127.0.0.1:1"]
                ) { $1 })
            _ = try server.logLine("listening")
            #expect(FileManager.default.fileExists(atPath: path))
            server.send(SIGTERM)
            #expect(try server.wait() == 0)
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test func anAddressOfSomebodyElseIs69() async throws {
        try await onOwnThread {
            let run = try Finished([], environment: Self.environment.merging(["LISTEN": "192.0.2.1:1"]) { $1 })
            #expect(run.code == 69)
            #expect(run.errors.hasPrefix("january-token-endpoint: listen: cannot listen on 192.0.2.1:1: "))
            #expect(run.errors.split(separator: "\n").count == 1)
        }
    }

    @Test func fewOpenFilesAreSaidAndServedWith() async throws {
        try await ServerScenario.run(shell: "ulimit -n 400; exec \"$@\"") { scenario in
            let line = try scenario.server.logLine("the limit of open files is too low for max_connections; fewer are accepted")
            #expect(line["open_files"] as? Int == 400)
            #expect(line["needed"] as? Int == 10_320)
            #expect(line["accepted_connections"] as? Int == 80)
            #expect(try scenario.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func theSoftLimitOfOpenFilesIsRaised() async throws {
        try await ServerScenario.run(shell: "ulimit -S -n 64; exec \"$@\"") { scenario in
            let text = try String(contentsOfFile: "/proc/\(scenario.server.id)/limits", encoding: .utf8)
            let words = try #require(text.split(separator: "\n").first { $0.hasPrefix("Max open files") }).split(separator: " ")
            #expect(words[3] == words[4])
        }
    }

    /// Otherwise a connection could get the number of standard output, and read the log.
    @Test func aClosedStandardStreamIsNotTakenByAConnection() async throws {
        try await onOwnThread {
            let socket = "/tmp/january-\(UUID().uuidString.prefix(8)).sock"
            defer { try? FileManager.default.removeItem(atPath: socket) }
            let environment = [
                "JANUARY_API_KEY": SimulatorSettings.developmentKey, "LISTEN": "127.0.0.1:0",
                "MANAGEMENT_LISTEN": "unix:\(socket)",
                "FEATURES": "food_search", "SESSION_ISSUER": "https://i.example", "SESSION_AUDIENCE": "a",
                "SESSION_ALGORITHMS": "HS256", "SESSION_HMAC_SECRET": String(repeating: "s", count: 32),
            ]
            let server = try Child([], environment: environment, shell: "exec \"$@\" <&- >&- 2>&-")
            let end = ContinuousClock.now + .seconds(20)
            while try Finished(["healthcheck"], environment: environment).code != 0 {
                guard ContinuousClock.now < end else { throw Child.Failure(what: "not ready") }
            }
            for descriptor in 0...2 {
                let target = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(server.id)/fd/\(descriptor)")
                #expect(target == "/dev/null")
            }
            server.send(SIGTERM)
            let code = try server.wait()
            #expect(code == 0)
        }
    }

    // MARK: End

    @Test(arguments: [SIGTERM, SIGINT])
    func aSignalEndsAnIdleServerWith0(signal: Int32) async throws {
        try await ServerScenario.run { scenario in
            scenario.server.send(signal)
            let code = try scenario.server.wait()
            #expect(code == 0)
            #expect(scenario.server.errors == "")
            #expect(scenario.server.logLines("drained").count == 1)
        }
    }

    @Test func aMaskInheritedFromTheParentDoesNotHideTheSignal() async throws {
        try await ServerScenario.run(blocked: [SIGTERM, SIGINT, SIGHUP]) { scenario in
            scenario.server.send(SIGTERM)
            let code = try scenario.server.wait()
            #expect(code == 0)
        }
    }

    @Test func aSignalDuringTheStartIsNotLost() async throws {
        try await onOwnThread {
            // However early it comes: before the program is there to catch it, it ends the process like any other.
            for milliseconds: UInt32 in [0, 5, 10, 20, 40, 80, 160] {
                let server = try Child(
                    [],
                    environment: [
                        "JANUARY_API_KEY": SimulatorSettings.developmentKey, "LISTEN": "127.0.0.1:0", "MANAGEMENT_LISTEN": "off",
                        "FEATURES": "food_search", "AUTH_PROVIDER": "oidc", "OIDC_ISSUER": "http://127.0.0.1:1",
                        "OIDC_AUDIENCE": "a",
                    ])
                usleepMilliseconds(milliseconds)
                server.send(SIGTERM)
                let code = try server.wait()
                #expect(code == 0 || code == -SIGTERM)
            }
        }
    }

    @Test func theDrainAnswersWhatWasAccepted() async throws {
        try await ServerScenario.run({ $0 = $0.replacing("delay_seconds: 0", with: "delay_seconds: 1") }) { scenario in
            try scenario.becomesReady()
            scenario.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
            let client = try RawClient(port: scenario.port, receiveTimeoutSeconds: 20)
            try client.send(ServerScenario.mint(try scenario.session()))
            try scenario.eventually("not held") { scenario.simulator.heldCount == 1 }
            scenario.server.send(SIGTERM)
            try scenario.eventually("still ready") { try scenario.get("/readyz").hasPrefix("HTTP/1.1 503 ") }
            #expect(try scenario.get("/healthz").hasPrefix("HTTP/1.1 200 "))
            // While the listener is still open, proxies learn that it is going.
            let health = try scenario.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(health.hasPrefix("HTTP/1.1 503 ") && health.contains("{\"status\":\"draining\"}"))
            #expect(health.contains("Connection: close\r\n"))
            scenario.simulator.release()
            let answer = String(decoding: try client.receiveAll(), as: UTF8.self)
            #expect(answer.hasPrefix("HTTP/1.1 201 "))
            #expect(answer.contains("Connection: close\r\n"))
            #expect(try scenario.server.wait() == 0)
        }
    }

    @Test func aSecondSignalCutsWhatIsOpen() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            scenario.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
            let client = try RawClient(port: scenario.port, receiveTimeoutSeconds: 20)
            try client.send(ServerScenario.mint(try scenario.session()))
            try scenario.eventually("not held") { scenario.simulator.heldCount == 1 }
            scenario.server.send(SIGTERM)
            _ = try scenario.server.logLine("draining")
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait(within: 5) == 1)
            #expect(scenario.server.logLines("signal").count == 2)
        }
    }

    @Test func aSecondSignalWithNothingOpenIs0() async throws {
        try await ServerScenario.run({ $0 = $0.replacing("delay_seconds: 0", with: "delay_seconds: 15") }) { scenario in
            scenario.server.send(SIGTERM)
            _ = try scenario.server.logLine("draining")
            scenario.server.send(SIGINT)
            #expect(try scenario.server.wait(within: 5) == 0)
        }
    }

    // MARK: Secrets

    @Test func theLogHoldsNoSecretAtAnyLevel() async throws {
        try await ServerScenario.run({ $0 += "log: { level: debug, requests: all }\n" }) { scenario in
            try scenario.becomesReady()
            let session = try scenario.session("subject-MARKER")
            _ = try scenario.exchange(ServerScenario.mint(session))
            _ = try scenario.exchange(ServerScenario.mint(session + "x"))
            _ = try scenario.exchange(
                "POST /january/client-token?q=MARKER HTTP/1.1\r\nHost: a\r\nCookie: app=MARKER\r\nX-MARKER: MARKER\r\nContent-Length: 6\r\n\r\nMARKER"
            )
            _ = try scenario.exchange("MARKER /MARKER HTTP/1.1\r\nHost: MARKER.example\r\n\r\n")
            let token = try #require(scenario.simulator.tokens(of: "subject-MARKER").first?.token)
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
            let said = scenario.server.output + scenario.server.errors
            #expect(said.contains("\"type\":\"request\""))
            for secret in ["MARKER", token, SimulatorSettings.developmentKey] { #expect(!said.contains(secret)) }
            for part in session.split(separator: ".") { #expect(!said.contains(part)) }
        }
    }
}
