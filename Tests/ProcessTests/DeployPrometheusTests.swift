import Foundation
import JanuarySimulator
import TestSupport
import Testing

private let prometheusIsInstalled = ["/usr/bin/prometheus", "/usr/bin/promtool"].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
}

/// The rules and the dashboard, asked of a real Prometheus that scrapes the real server.
@Suite(.serialized, .enabled(if: prometheusIsInstalled, "prometheus is not installed"))
struct DeployPrometheusTests {
    @Test func everyRuleFiresWhenItShouldAndNoneForAHealthyServer() async throws {
        let file = DeploymentTests.root.appending(path: "deploy/alerts.test.yaml").path
        let run = try await onOwnThread {
            try Finished(
                ["test", "rules", URL(filePath: file).lastPathComponent],
                shell: "cd '\(URL(filePath: file).deletingLastPathComponent().path)' && exec \"$@\"",
                program: "/usr/bin/promtool")
        }
        #expect(run.code == 0, "\(run.output)\(run.errors)")
        let tests = try DeploymentTests.text("deploy/alerts.test.yaml")
        for name in try DeployAlertFilesTests.names() {
            #expect(
                tests.contains("- name: \(name)\n") && tests.contains("alertname=\"\(name)\""), "\(name)")
        }
    }

    @Test func everyQueryOfTheDashboardHasAnAnswerAndEveryRuleAMetric() async throws {
        // With a collector that is not there: its metrics are.
        let withState: @Sendable (inout String) -> Void = {
            $0 += "state: \"sqlite:state/state.db\"\ntracing: { otlp_url: \"http://127.0.0.1:1\" }\n"
        }
        try await ServerScenario.run(withState) { scenario in
            try scenario.becomesReady()
            let prometheus = try Prometheus(scraping: scenario.managementPort, folder: scenario.folder)
            // Something of everything, while it is being watched: rates need two samples.
            try scenario.eventually("no sample") {
                try prometheus.values("count_over_time(up[1m])").contains { $0 >= 1 }
            }
            for number in 0..<3 {
                _ = try scenario.exchange(ServerScenario.mint(try scenario.session("user-\(number)")))
                _ = try scenario.exchange(ServerScenario.mint("e30.e30.e30"))
            }
            scenario.simulator.addFault(FaultRule(.refused(500, "internal"), on: .mint, times: 1))
            _ = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            scenario.simulator.clearFaults()
            try scenario.eventually("no rate") {
                _ = try scenario.exchange(ServerScenario.mint(try scenario.session()))
                return try prometheus.values(
                    "sum(rate(january_endpoint_requests_total{status=\"503\"}[20s]))"
                ).contains { $0 >= 0 }
                    && prometheus.values("count_over_time(up[1m])").contains { $0 >= 4 }
            }
            let names = try prometheus.names()
            #expect(names.contains("january_endpoint_requests_total"))

            let queries = try DeployAlertFilesTests.dashboard()
            #expect(queries.count > 20)
            for query in queries {
                let asked = query.replacing("$__rate_interval", with: "20s").replacing(
                    "$job", with: "january-token-endpoint")
                #expect(try !prometheus.values(asked).isEmpty, "\(query)")
            }
            let rules = try prometheus.rules()
            #expect(rules.map(\.name) == (try DeployAlertFilesTests.names()))
            for rule in rules {
                #expect(rule.state != "firing", "\(rule.name)")
                let metrics = rule.query.matches(of: /\b(january_endpoint_[a-z_]+|up)\b/).map {
                    String($0.output.1)
                }
                #expect(!metrics.isEmpty, "\(rule.name)")
                // Two come with a state in Redis, one with a certificate of our own.
                let elsewhere = [
                    "january_endpoint_state_readable", "january_endpoint_state_append_only",
                    "january_endpoint_certificate_expiry_timestamp_seconds",
                ]
                for metric in metrics where !elsewhere.contains(metric) {
                    #expect(names.contains(metric), "\(rule.name): \(metric)")
                }
            }
            try scenario.eventually("a rule was not evaluated") {
                try prometheus.rules().allSatisfy { $0.health == "ok" }
            }
        }
    }

    /// For one test thread.
    private final class Prometheus {
        private struct Answer<Value: Decodable>: Decodable {
            let data: Value
        }

        struct Rule: Decodable {
            let name: String
            let query: String
            let state: String
            let health: String
        }

        private let process: Child
        private let url: String

        init(scraping port: UInt16, folder: String) throws {
            let own = try LoopbackListener.freePort()
            url = "http://127.0.0.1:\(own)/api/v1/"
            try ServerScenario.write(
                folder + "prometheus.yml",
                """
                global: { scrape_interval: 500ms, evaluation_interval: 500ms }
                rule_files: ["\(DeploymentTests.root.appending(path: "deploy/alerts.yaml").path)"]
                scrape_configs:
                  - job_name: january-token-endpoint
                    static_configs: [{ targets: ["127.0.0.1:\(port)"] }]

                """)
            process = try Child(
                [
                    "--config.file=\(folder)prometheus.yml", "--storage.tsdb.path=\(folder)tsdb",
                    "--log.level=warn",
                    "--web.listen-address=127.0.0.1:\(own)",
                ], program: "/usr/bin/prometheus")
            let ready = ["-fsS", "--max-time", "5", "-o", "/dev/null", "http://127.0.0.1:\(own)/-/ready"]
            let end = ContinuousClock.now + .seconds(30)
            // It listens before it answers.
            while try Finished(ready, program: "/usr/bin/curl").code != 0 {
                guard ContinuousClock.now < end else { throw Child.Failure(what: "\(process.output)\(process.errors)") }
                usleepMilliseconds(50)
            }
        }

        private func ask<Value: Decodable>(_ path: String, _ query: String? = nil) throws -> Value {
            let arguments =
                ["-sS", "--max-time", "10", "-G", url + path]
                + (query.map { ["--data-urlencode", "query=\($0)"] } ?? [])
            let curl = try Finished(arguments, program: "/usr/bin/curl")
            do {
                return try JSONDecoder().decode(Answer<Value>.self, from: Data(curl.output.utf8)).data
            } catch {
                throw Child.Failure(what: "\(query ?? path): \(curl.output)\(curl.errors)\(process.errors)")
            }
        }

        /// The value of each series of an instant query; not-a-number, as of 0 / 0, among them.
        func values(_ query: String) throws -> [Double] {
            struct Result: Decodable {
                struct Series: Decodable {
                    let value: [Item]
                }
                enum Item: Decodable {
                    case time(Double)
                    case text(String)
                    init(from decoder: any Decoder) throws {
                        let container = try decoder.singleValueContainer()
                        if let number = try? container.decode(Double.self) {
                            self = .time(number)
                        } else {
                            self = .text(try container.decode(String.self))
                        }
                    }
                }
                let result: [Series]
            }
            let answer: Result = try ask("query", query)
            return answer.result.compactMap { series in
                if case .text(let text)? = series.value.last { Double(text) } else { nil }
            }
        }

        func names() throws -> Set<String> { Set(try ask("label/__name__/values") as [String]) }

        func rules() throws -> [Rule] {
            struct Groups: Decodable {
                struct Group: Decodable { let rules: [Rule] }
                let groups: [Group]
            }
            let answer: Groups = try ask("rules")
            return answer.groups.flatMap(\.rules)
        }
    }
}

/// What stands in the files, without a Prometheus.
@Suite struct DeployAlertFilesTests {
    static func names() throws -> [String] {
        try DeploymentTests.text("deploy/alerts.yaml").matches(of: /- alert: ([A-Za-z]+)\n/).map {
            String($0.output.1)
        }
    }

    /// Every query of the dashboard.
    static func dashboard() throws -> [String] {
        struct Dashboard: Decodable {
            struct Panel: Decodable {
                struct Target: Decodable { let expr: String }
                let id: Int
                let title: String
                let targets: [Target]?
            }
            let panels: [Panel]
        }
        let text = try DeploymentTests.text("deploy/grafana/january-token-endpoint.json")
        let dashboard = try JSONDecoder().decode(Dashboard.self, from: Data(text.utf8))
        #expect(Set(dashboard.panels.map(\.id)).count == dashboard.panels.count)
        return dashboard.panels.flatMap { ($0.targets ?? []).map(\.expr) }
    }

    /// Meaning, check and fix of each, under the heading that the alert links to; no section without an alert.
    @Test func everyAlertIsExplainedInTheRunbook() throws {
        let text = try DeploymentTests.text("docs/runbook.md")
        let alerts = try DeploymentTests.text("deploy/alerts.yaml")
        let names = try Self.names()
        #expect(names.count >= 10)
        let sections = text.components(separatedBy: "\n## ").dropFirst()
        #expect(
            sections.compactMap { $0.split(separator: "\n").first.map(String.init) }.filter {
                $0.hasPrefix("January")
            } == names)
        for name in names {
            let section = try #require(sections.first { $0.hasPrefix(name + "\n") })
            for word in ["**Means.**", "**Check.**", "**Fix.**"] {
                #expect(section.contains(word), "\(name): \(word)")
            }
            #expect(alerts.contains("runbook: docs/runbook.md#\(name.lowercased())\n"), "\(name)")
        }
    }

    /// What the texts name is there: metrics in the code, files in the repository.
    @Test(arguments: [
        "docs/runbook.md", "docs/threat-model.md", "SECURITY.md", "CHANGELOG.md", "README.md",
    ])
    func theDocumentsNameWhatIsThere(file: String) throws {
        let text = try DeploymentTests.text(file)
        let folder = DeploymentTests.root.appending(path: file).deletingLastPathComponent()
        for match in text.matches(of: /\]\(([^)#:\s]+)(#[^)]*)?\)/) {
            let path = folder.appending(path: String(match.output.1)).path
            #expect(FileManager.default.fileExists(atPath: path), "\(file): \(match.output.1)")
        }
    }
}
