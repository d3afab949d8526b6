import Foundation
import Glibc
import JanuarySimulator
import Primitives
import TestSupport
import Testing

/// The real server is reloaded, by SIGHUP and by its files, while it serves.
@Suite(.serialized) struct ReloadTests {
    private static let reloaded = "the configuration was reloaded"
    private static let refused = "a reload was refused; the old configuration stays"
    private static let newKeys = "the API keys were read again and have changed"

    @Test func reloadsUnderLoadFailNoRequest() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            let load = MintLoad(port: scenario.port, sessions: try (0..<6).map { try scenario.session("user-\($0)") })
            let text = ServerScenario.configuration(scenario.simulator)
            for round in 1...20 {
                let before = load.counts.good
                try scenario.eventually("no mints") { load.counts.good >= before + 20 }
                let feature = round % 2 == 1 ? "glucose" : "food_search"
                try scenario.write("config.yaml", text.replacing("food_search", with: feature))
                scenario.server.send(SIGHUP)
                try scenario.eventually("not reloaded") { scenario.server.logLines(Self.reloaded).count == round }
            }
            let counts = load.stop()
            #expect(counts.bad == [])
            #expect(try scenario.metric(#"reloads_total{result="ok"}"#) == 20)
            #expect(try scenario.metric(#"reloads_total{result="failed"}"#) == 0)
            #expect(try scenario.metric("last_reload_success_timestamp_seconds") > 1_600_000_000)
            let answer = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            #expect(answer.contains("foods:read"))
        }
    }

    /// The whole rotation: the new key beside the old, the old one switched off at January, the new one alone. Nobody notices.
    @Test func rotatingTheKeyUnderLoadFailsNoMint() async throws {
        let next = "sk-next-" + String(repeating: "1", count: 32)
        try await ServerScenario.run(
            { $0 = $0.replacing("api_key,", with: "api_key, next_api_key_file: api_key_next,") }, files: ["api_key_next": next]
        ) {
            scenario in
            scenario.simulator.configure { $0.keys[next] = .valid }
            try scenario.becomesReady()
            let load = MintLoad(port: scenario.port, sessions: try (0..<6).map { try scenario.session("user-\($0)") })
            func goesOn() throws {
                let before = load.counts.good
                try scenario.eventually("no mints") { load.counts.good >= before + 50 }
            }
            try goesOn()
            // January no longer takes the old one: the other takes over.
            scenario.simulator.configure { $0.keys[SimulatorSettings.developmentKey] = .deleted }
            try goesOn()
            #expect(try scenario.metric(#"api_key_current{slot="next"}"#) == 1)
            // The new one becomes the first, and one that comes after it the next.
            let third = "sk-third-" + String(repeating: "2", count: 32)
            scenario.simulator.configure { $0.keys[third] = .valid }
            try scenario.write("api_key", next)
            try scenario.write("api_key_next", third)
            _ = try scenario.server.logLine(Self.newKeys)
            try goesOn()
            #expect(try scenario.metric(#"api_key_current{slot="first"}"#) == 1)
            scenario.simulator.configure { $0.keys[next] = .deleted }
            try goesOn()
            #expect(load.stop().bad == [])
            #expect(try scenario.metric(#"api_key_current{slot="next"}"#) == 1)
            #expect(!scenario.server.output.contains("sk-"))
        }
    }

    enum Manner: CaseIterable { case inPlace, renamed, deletedAndMade, linkTurned, halfWritten }

    @Test(arguments: Manner.allCases)
    func aChangedKeyFileIsTakenHoweverItWasChanged(manner: Manner) async throws {
        try await ServerScenario.run({ text in
            if manner == .linkTurned { text = text.replacing("api_key_file: api_key", with: "api_key_file: mount/api_key") }
        }) { scenario in
            try scenario.becomesReady()
            let key = "sk-changed-" + String(repeating: "3", count: 32)
            scenario.simulator.configure { settings in
                settings.keys = [key: .valid]
            }
            // A change of the configuration's own file is none of a secret: it waits for SIGHUP.
            try scenario.write(
                "config.yaml", ServerScenario.configuration(scenario.simulator).replacing("food_search", with: "glucose"))
            let path = scenario.folder + "api_key"
            switch manner {
            case .inPlace:
                let handle = try FileHandle(forWritingTo: URL(filePath: path))
                try handle.truncate(atOffset: 0)
                try handle.write(contentsOf: Data(key.utf8))
                try handle.close()
            case .renamed:
                try scenario.write("api_key.new", key)
                #expect(rename(path + ".new", path) == 0)
            case .deletedAndMade:
                try FileManager.default.removeItem(atPath: path)
                usleepMilliseconds(300)
                try scenario.write("api_key", key)
            case .linkTurned:
                let mount = scenario.folder + "mount/"
                try FileManager.default.createDirectory(atPath: mount + "..v2", withIntermediateDirectories: false)
                try ServerScenario.write(mount + "..v2/api_key", key)
                try FileManager.default.createSymbolicLink(atPath: mount + "..tmp", withDestinationPath: "..v2")
                #expect(rename(mount + "..tmp", mount + "..data") == 0)
            case .halfWritten:
                let handle = try FileHandle(forWritingTo: URL(filePath: path))
                try handle.truncate(atOffset: 0)
                try handle.write(contentsOf: Data(key.utf8.prefix(20)))
                usleepMilliseconds(1_500)
                try handle.write(contentsOf: Data(key.utf8.dropFirst(20)))
                try handle.close()
            }
            _ = try scenario.server.logLine(Self.newKeys)
            let answer = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            #expect(answer.hasPrefix("HTTP/1.1 201 ") && answer.contains("foods:read"))
            #expect(scenario.server.logLines(Self.newKeys).count == 1)
            #expect(scenario.server.logLines(Self.refused).isEmpty)
            #expect(try scenario.server.logLine(Self.reloaded)["cause"] as? String == "files")
        }
    }

    @Test(arguments: ["", "\n", "no key at all", "ct-0123456789"])
    func aFileThatHoldsNoKeyLeavesTheOldOneInForce(content: String) async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            try scenario.write("api_key", content)
            let line = try scenario.server.logLine(Self.refused)
            #expect(line["level"] as? String == "error")
            let problem = try #require(line["problem"] as? String)
            #expect(problem.hasPrefix("\(scenario.folder)config.yaml:3: january.api_key_file: "))
            #expect(content.count < 2 || !scenario.server.output.contains(content))
            #expect(try scenario.metric(#"reloads_total{result="failed"}"#) == 1)
            #expect(try scenario.exchange(ServerScenario.mint(try scenario.session())).hasPrefix("HTTP/1.1 201 "))
            // What is good again is taken again.
            try scenario.write("api_key", SimulatorSettings.developmentKey)
            _ = try scenario.server.logLine(Self.reloaded)
        }
    }

    @Test func everyProblemOfAReloadIsSaidAndTheOldConfigurationStays() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            let text = ServerScenario.configuration(scenario.simulator)
            try scenario.write("config.yaml", text.replacing("[food_search]", with: "[food_serch]") + "january_key: sk-MARKER\n")
            scenario.server.send(SIGHUP)
            try scenario.eventually("not refused") { scenario.server.logLines(Self.refused).count == 2 }
            let problems = scenario.server.logLines(Self.refused).compactMap { $0["problem"] as? String }
            #expect(problems.contains { $0.hasPrefix("\(scenario.folder)config.yaml:7: features[0]: ") })
            #expect(problems.contains { $0.hasPrefix("\(scenario.folder)config.yaml:10: january_key: unknown key") })
            #expect(!scenario.server.output.contains("MARKER"))
            // What needs a restart is named, all of it.
            try scenario.write(
                "config.yaml", text.replacing("listen: \"127.0.0.1:0\"\n", with: "listen: \"127.0.0.1:1\"\nhttp: { loops: 7 }\n"))
            scenario.server.send(SIGHUP)
            try scenario.eventually("not refused") { scenario.server.logLines(Self.refused).count == 4 }
            let fixed = scenario.server.logLines(Self.refused).dropFirst(2).compactMap { $0["problem"] as? String }
            #expect(
                fixed == ["listen", "http.loops"].map { "\($0): cannot change on reload; restart the server" })
            #expect(try scenario.metric(#"reloads_total{result="failed"}"#) == 2)
            #expect(try scenario.exchange(ServerScenario.mint(try scenario.session())).hasPrefix("HTTP/1.1 201 "))
            try scenario.write("config.yaml", text)
            scenario.server.send(SIGHUP)
            _ = try scenario.server.logLine(Self.reloaded)
        }
    }

    @Test func theLogFollowsItsSettings() async throws {
        try await ServerScenario.run { scenario in
            let text = ServerScenario.configuration(scenario.simulator)
            try scenario.write("config.yaml", text + "log: { requests: all }\n")
            scenario.server.send(SIGHUP)
            _ = try scenario.server.logLine(Self.reloaded)
            _ = try scenario.exchange("GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n")
            let line = try scenario.server.logLine("request")
            #expect(line["status"] as? Int == 404)
        }
    }

    @Test func aReloadDuringTheDrainChangesNothing() async throws {
        try await ServerScenario.run({ $0 = $0.replacing("delay_seconds: 0", with: "delay_seconds: 15") }) { scenario in
            scenario.server.send(SIGTERM)
            _ = try scenario.server.logLine("draining")
            scenario.server.send(SIGHUP)
            _ = try scenario.server.logLine("not reloaded: the server is draining")
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait(within: 5) == 0)
        }
    }

    @Test func manySignalsAtOnceAreAtLeastOneReloadAndNoHarm() async throws {
        try await ServerScenario.run { scenario in
            try scenario.becomesReady()
            let load = MintLoad(port: scenario.port, sessions: [try scenario.session()])
            for _ in 0..<200 { scenario.server.send(SIGHUP) }
            try scenario.write(
                "config.yaml", ServerScenario.configuration(scenario.simulator).replacing("food_search", with: "glucose"))
            scenario.server.send(SIGHUP)
            try scenario.eventually("the last one counts") {
                try scenario.exchange(ServerScenario.mint(try scenario.session())).contains("glucose:read")
            }
            #expect(load.stop().bad == [])
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
        }
    }
}
