import Foundation
import JanuarySimulator
import StrictJSON
import TestSupport
import Testing

/// The commands that end by themselves, as the real program with its real streams. Their texts have tests of their own.
@Suite(.serialized) struct CommandTests {
    private static let commands: [(arguments: [String], code: Int32)] = [
        (["version"], 0), (["help"], 0), (["help", "serve"], 0), (["--help"], 0), (["serv"], 64), (["serve", "--port", "1"], 64),
        (["check", "--config", "/nonexistent"], 78), (["--config", "/nonexistent"], 78), (["relay"], 64),
    ]

    @Test(arguments: commands)
    func theExitCodeIsThatOfTheTable(arguments: [String], code: Int32) async throws {
        try await onOwnThread {
            let run = try Finished(arguments)
            #expect(run.code == code)
            #expect(run.output.isEmpty == (code != 0))
            #expect(run.errors.isEmpty == (code == 0))
            #expect(run.errors.isEmpty || run.errors.hasSuffix("\n"))
        }
    }

    @Test func aResultThatCannotBeWrittenIsAFailure() async throws {
        try await onOwnThread {
            for output in ["> /dev/full", ">&-"] {
                let run = try Finished(["version"], shell: "exec \"$@\" \(output)")
                #expect(run.code == 1)
            }
        }
    }

    @Test func explainLoadsTheKeysItNeeds() async throws {
        try await ServerScenario.run { scenario in
            let arguments = ["explain", "--config", scenario.folder + "config.yaml"]
            let session = try scenario.session()
            let good = try Finished(arguments, input: "Authorization: Bearer \(session)\n")
            #expect(good.code == 0)
            #expect(good.errors == "")
            #expect(
                good.output.contains(
                    "\nkey set: ok: jwt at \(scenario.simulator.origin)/idp/.well-known/openid-configuration: 1 keys"))
            #expect(good.output.contains("\nsignature: ok: ES256, made by the key\n"))
            #expect(good.output.hasSuffix("\nresult: ok: accepted\n"))

            let unknown = try scenario.simulator.session(
                SessionOrder(subject: "u", audience: ["app"], header: ["kid": "no-such-key"]))
            let refused = try Finished(arguments, input: unknown)
            #expect(refused.code == 1)
            #expect(refused.output.contains("\nresult: failed: refused\n"))

            scenario.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .keySet))
            scenario.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .discovery))
            let unavailable = try Finished(arguments, input: session)
            #expect(unavailable.code == 2)
            #expect(unavailable.output.contains("cannot be loaded: status (500)\n"))
        }
    }

    /// How full a limit is only the running server knows.
    @Test func explainShowsWhatTheLimitsOfTheRunningServerHaveRefused() async throws {
        try await ServerScenario.run({
            $0 = $0.replacing("per_session: false", with: "per_session: { requests: 1, per_seconds: 3600, burst: 1 }")
        }) { scenario in
            try scenario.becomesReady()
            let session = try scenario.session()
            let arguments = ["explain", "--config", scenario.folder + "config.yaml"]
            let environment = ["MANAGEMENT_LISTEN": "127.0.0.1:\(scenario.managementPort)"]
            let before = try Finished(arguments, environment: environment, input: session)
            #expect(before.output.contains("\nlimits now: ok: per_session has refused none\n"))
            for status in ["201", "429", "429"] {
                let answer = try scenario.exchange(ServerScenario.mint(session))
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
            }
            let after = try Finished(arguments, environment: environment, input: session)
            #expect(after.code == 0)
            #expect(after.output.contains("\nlimits now: ok: per_session has refused 2, the last "))
            #expect(after.output.contains(" of its 1 used\n"))
            // Where no server runs, there is nothing to show.
            let alone = try Finished(arguments, environment: ["MANAGEMENT_LISTEN": "127.0.0.1:1"], input: session)
            #expect(alone.code == 0 && !alone.output.contains("limits now"))
        }
    }

    @Test func healthcheckAsksTheRunningServer() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            let listen = { "127.0.0.1:\(scenario.managementPort)" }
            let arguments = ["healthcheck", "--config", scenario.folder + "config.yaml"]
            let good = try Finished(arguments, environment: ["MANAGEMENT_LISTEN": listen()])
            #expect(good.code == 0)
            #expect(good.output == "ready\n")
            #expect(good.errors == "")
            // A management listener on a wildcard address is asked on the loopback.
            let token = String(repeating: "t", count: 32)
            let wildcard = try Finished(
                arguments,
                environment: [
                    "MANAGEMENT_LISTEN": "0.0.0.0:\(scenario.managementPort)", "MANAGEMENT_TOKEN": token,
                    "STATE": "sqlite:/tmp/x",
                ])
            #expect(wildcard.code == 0)
            // Something else answers there: the public listener.
            let other = try Finished(
                arguments, environment: ["MANAGEMENT_LISTEN": "127.0.0.1:\(scenario.port)", "LISTEN": "127.0.0.1:1"])
            #expect(other.code == 1)
            #expect(other.errors == "127.0.0.1:\(scenario.port): not ready: HTTP 404\n")
            // Nobody.
            scenario.server.send(15)
            #expect(try scenario.server.wait() == 0)
            let gone = try Finished(arguments, environment: ["MANAGEMENT_LISTEN": listen()])
            #expect(gone.code == 1)
            #expect(gone.errors == "\(listen()): not ready: nobody listens there\n")
        }
    }

    @Test func healthcheckSaysWhatAServerWaitsFor() async throws {
        try await ServerScenario.run({ $0 = $0.replacing("/idp\"", with: "/nothing\"") }) { scenario in
            let run = try Finished(
                ["healthcheck", "--config", scenario.folder + "config.yaml"],
                environment: ["MANAGEMENT_LISTEN": "127.0.0.1:\(scenario.managementPort)"])
            #expect(run.code == 1)
            #expect(
                run.errors == "127.0.0.1:\(scenario.managementPort): not ready: HTTP 503: starting, waiting for jwks:jwt\n")
        }
    }

    @Test func healthcheckSpeaksToUnixSockets() async throws {
        let path = "/tmp/january-\(UUID().uuidString.prefix(8)).sock"
        try await ServerScenario.run(
            { $0 = $0.replacing("management: { listen: \"127.0.0.1:0\" }", with: "management: { listen: \"unix:\(path)\" }") }
        ) { scenario in
            try scenario.eventually("not ready") {
                try Finished(["healthcheck", "--config", scenario.folder + "config.yaml"]).code == 0
            }
        }
        try? FileManager.default.removeItem(atPath: path)
    }

    @Test func healthcheckDoesNotWaitForEver() async throws {
        try await ServerScenario.run { scenario in
            scenario.simulator.ignoreConnections(true)
            let run = try Finished(
                ["healthcheck", "--config", scenario.folder + "config.yaml"],
                environment: ["MANAGEMENT_LISTEN": "127.0.0.1:\(scenario.simulator.port)"])
            #expect(run.code == 1)
            #expect(run.errors == "127.0.0.1:\(scenario.simulator.port): not ready: no answer in 5 s\n")
        }
    }
}
