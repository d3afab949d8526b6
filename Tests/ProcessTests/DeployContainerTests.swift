import Foundation
import TestSupport
import Testing

/// `deploy/compose.yaml`: what it starts is what the endpoint needs.
@Suite struct DeployContainerTests {
    private func services() throws -> YAMLValue {
        let documents = try YAMLValue.documents(DeploymentTests.text("deploy/compose.yaml"), "compose.yaml")
        return try #require(documents.first?["services"])
    }

    @Test func theEndpointMayWriteNowhereAndHasTimeForItsDrain() throws {
        let endpoint = try #require(try services()["endpoint"])
        #expect(endpoint["read_only"] == .boolean(true))
        #expect(endpoint["cap_drop"] == .list([.text("ALL")]))
        #expect(endpoint["security_opt"] == .list([.text("no-new-privileges:true")]))
        #expect(endpoint["user"] == nil, "the image's own")
        let grace = try #require(endpoint["stop_grace_period"]?.text)
        // drain.timeout_seconds.
        #expect(try #require(Int(grace.dropLast())) > 20 && grace.hasSuffix("s"))
        // The image's volume, and the only port that is published is the proxy's.
        #expect(endpoint["volumes"] == .list([.text("state:/var/lib/january-token-endpoint")]))
        #expect(endpoint["ports"] == .list([.text("443:443")]))
        #expect(try services()["nginx"]?["network_mode"]?.text == "service:endpoint")
        #expect(try services()["nginx"]?["ports"] == nil && services()["redis"]?["ports"] == nil)
        #expect(try services()["redis"]?["command"]?.items?.contains(.text("noeviction")) == true)
    }

    @Test func filesThatItMountsAreThere() throws {
        let mounts = try #require(try services()["nginx"]?["volumes"]?.items).compactMap(\.text)
        #expect(mounts.count == 3)
        for mount in mounts {
            let path = String(mount.split(separator: ":")[0])
            // What its user puts there, and git ignores.
            if path.hasPrefix("./secrets/") { continue }
            #expect(
                FileManager.default.fileExists(atPath: DeploymentTests.root.appending(path: "deploy/" + path).path), "\(path)")
        }
        #expect(try DeploymentTests.text(".gitignore").contains("/deploy/secrets/\n"))
        #expect(try DeploymentTests.text(".dockerignore").contains("deploy/secrets\n"))
    }

    /// With the image's own variables below the service's, and files in the place of the secrets.
    @Test func itsVariablesAreAConfigurationThatTheProgramAccepts() async throws {
        guard case .mapping(let variables)? = try services()["endpoint"]?["environment"] else {
            Issue.record("no environment")
            return
        }
        var environment = variables.compactMapValues(\.text)
        #expect(environment.count == variables.count)
        let image = try DeploymentTests.text("Dockerfile").split(separator: "\n").first { $0.hasPrefix("ENV ") }
        for pair in try #require(image).dropFirst(4).split(separator: " ") {
            let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
            environment[parts[0], default: parts[1]] += ""
        }
        let given = environment
        try await onOwnThread {
            let folder = FileManager.default.temporaryDirectory.appending(path: "january-compose-\(UUID().uuidString)").path + "/"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            var environment = given
            for (name, value) in environment where value.hasPrefix("/run/secrets/") {
                environment[name] = folder + name
                try ServerScenario.write(folder + name, "sk-" + String(repeating: "0", count: 40))
            }
            let run = try Finished(["check"], environment: environment)
            #expect(run.code == 0, "\(run.errors)")
            #expect(run.errors == "")
            let shown = try Finished(["config"], environment: environment).output
            #expect(shown.contains("sqlite:/var/lib/january-token-endpoint/state.db"), "\(shown)")
            #expect(shown.contains("redis://redis:6379/1"))
        }
    }
}
