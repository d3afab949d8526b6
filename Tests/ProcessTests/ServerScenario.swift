import Foundation
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport

/// The real server in front of a simulator in this process, both on free ports of the loopback. For one test thread.
final class ServerScenario {
    let simulator: Simulator
    let folder: String
    let server: Child
    private(set) var port: UInt16 = 0
    private(set) var managementPort: UInt16 = 0

    /// Runs a blocking scenario on a thread of its own.
    static func run(
        _ change: @escaping @Sendable (inout String) -> Void = { _ in }, environment: [String: String] = [:],
        blocked: [Int32] = [], shell: String? = nil, files: [String: String] = [:], inherited: [Int32] = [],
        _ body: @escaping @Sendable (ServerScenario) throws -> Void
    ) async throws {
        try await onOwnThread {
            let scenario = try ServerScenario(change, environment, blocked, shell, files, inherited)
            try body(scenario)
        }
    }

    private init(
        _ change: (inout String) -> Void, _ environment: [String: String], _ blocked: [Int32], _ shell: String?,
        _ files: [String: String], _ inherited: [Int32]
    ) throws {
        var configuration = Simulator.Configuration()
        // Made in no time, unlike RSA keys.
        configuration.algorithms = [.es256]
        simulator = try Simulator(configuration)
        try simulator.start()
        folder = FileManager.default.temporaryDirectory.appending(path: "january-process-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var text = Self.configuration(simulator)
        change(&text)
        try Self.write(folder + "api_key", SimulatorSettings.developmentKey)
        try Self.makeMount(folder + "mount/")
        for (name, content) in files { try Self.write(folder + name, content) }
        try Self.write(folder + "config.yaml", text)
        server = try Child(
            ["serve", "--config", folder + "config.yaml"], environment: environment, blocked: blocked, shell: shell,
            inherited: inherited)
        let line = try server.logLine("listening")
        port = try Self.port(line["listen"])
        managementPort = (try? Self.port(line["management"])) ?? 0
    }

    /// The API key once more, as a kubelet mounts secrets.
    private static func makeMount(_ mount: String) throws {
        try FileManager.default.createDirectory(atPath: mount + "..v1", withIntermediateDirectories: true)
        try write(mount + "..v1/api_key", SimulatorSettings.developmentKey)
        try FileManager.default.createSymbolicLink(atPath: mount + "..data", withDestinationPath: "..v1")
        try FileManager.default.createSymbolicLink(atPath: mount + "api_key", withDestinationPath: "..data/api_key")
    }

    deinit {
        simulator.stop()
        try? FileManager.default.removeItem(atPath: folder)
    }

    static func configuration(_ simulator: Simulator) -> String {
        """
        listen: "127.0.0.1:0"
        management: { listen: "127.0.0.1:0" }
        january: { api_key_file: api_key, base_url: "\(simulator.origin)" }
        sessions:
          verifiers:
            - { type: jwt, issuer: "\(simulator.origin)/idp", audience: app, algorithms: [ES256] }
        features: [food_search]
        rate_limits: { per_address: false, per_session: false, per_end_user: false }
        drain: { delay_seconds: 0, timeout_seconds: 20 }

        """
    }

    static func write(_ path: String, _ text: String) throws {
        let created = FileManager.default.createFile(
            atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        guard created else { throw CocoaError(.fileWriteUnknown) }
    }

    private static func port(_ address: Any?) throws -> UInt16 {
        guard let text = address as? String, let port = UInt16(text.split(separator: ":").last ?? "") else {
            throw Child.Failure(what: "no port in \(String(describing: address))")
        }
        return port
    }

    func session(_ subject: String = "user-1") throws -> String {
        try simulator.session(SessionOrder(subject: subject, audience: ["app"]))
    }

    static func mint(_ session: String, closes: Bool = false) -> String {
        let close = closes ? "Connection: close\r\n" : ""
        return
            "POST /january/client-token HTTP/1.1\r\nHost: app.example\r\n\(close)Authorization: Bearer \(session)\r\nContent-Length: 0\r\n\r\n"
    }

    func exchange(_ request: String, port: UInt16? = nil) throws -> String {
        let client = try RawClient(port: port ?? self.port, receiveTimeoutSeconds: 20)
        try client.send(request)
        return try client.receiveResponses().joined()
    }

    func get(_ path: String) throws -> String {
        try exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n", port: managementPort)
    }

    /// Looks until it holds; every wait ends.
    func eventually(_ what: String, _ condition: () throws -> Bool) throws {
        let end = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < end {
            if try condition() { return }
            usleepMilliseconds(5)
        }
        throw Child.Failure(what: "\(what): \(server.output)\(server.errors)")
    }

    /// One sample of the metrics page, by its whole name; 0 where there is none.
    func metric(_ name: String) throws -> Double {
        for line in try get("/metrics").split(separator: "\n") where line.hasPrefix("january_endpoint_\(name) ") {
            return Double(line.split(separator: " ").last?.filter { $0 != "\r" } ?? "") ?? -1
        }
        return 0
    }

    func write(_ name: String, _ text: String) throws { try Self.write(folder + name, text) }

    func becomesReady() throws {
        try eventually("not ready") { try get("/readyz").hasPrefix("HTTP/1.1 200 ") }
    }
}
