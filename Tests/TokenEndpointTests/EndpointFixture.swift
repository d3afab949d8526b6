import Configuration
import EventLoop
import Foundation
import JanuarySimulator
import Primitives
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The whole endpoint in this process, in front of a simulator, both on free ports of the loopback.
final class EndpointFixture: Sendable {
    let simulator: Simulator
    let endpoint: TokenEndpoint
    let logs: LogMemory
    let port: UInt16
    let managementPort: UInt16
    private let folder: URL

    static let sessionSecret = "0123456789abcdef0123456789abcdef"
    static let issuer = "https://login.test"
    static let audience = "test-api"

    /// - Parameters:
    ///   - january: lines of the section `january`, beside key and URL.
    ///   - more: further lines at the root of the configuration; sections named here replace the fixture's own.
    init(
        january: String = "", sessions: String? = nil, more: String = "", grants: String = "features: [food_search]",
        simulator configuration: Simulator.Configuration = .init(), secondKey: String? = nil
    ) async throws {
        var configuration = configuration
        configuration.sharedSecret = configuration.sharedSecret ?? Secret(Self.sessionSecret)
        configuration.issuer = configuration.issuer ?? Self.issuer
        simulator = try Simulator(configuration)
        try simulator.start()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("endpoint-\(UUID().uuidString)")
        self.folder = folder
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        func file(_ name: String, _ text: String) throws {
            let url = folder.appendingPathComponent(name)
            try Data(text.utf8).write(to: url)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: url.path)
        }
        try file("api_key", SimulatorSettings.developmentKey)
        if let secondKey { try file("next_key", secondKey) }
        try file("session_secret", Self.sessionSecret)
        let sessions =
            sessions ?? """
                    - type: jwt
                      issuer: \(Self.issuer)
                      audience: \(Self.audience)
                      hmac_secret_file: session_secret
                      algorithms: [HS256]
                """
        let text = """
            listen: "127.0.0.1:0"
            management: { listen: "127.0.0.1:0" }
            january:
              api_key_file: api_key
              base_url: \(simulator.origin)
            \(secondKey == nil ? "" : "  next_api_key_file: next_key")
            \(january.split(separator: "\n").map { "  " + $0 }.joined(separator: "\n"))
            sessions:
              verifiers:
            \(sessions)
            \(grants)
            http: { loops: 2 }
            drain: { delay_seconds: 0, timeout_seconds: 10 }
            log: { requests: all }
            \(more)
            """
        let reader = ConfigReader.parse(text, name: "test.yaml", folder: folder.path + "/")
        guard let config = RootConfig.read(reader) else {
            throw TimedOut(what: "configuration: \(reader.problems.map(\.description).joined(separator: "\n"))\n\(text)")
        }
        logs = LogMemory()
        let log = Log(level: .debug, format: .json, time: SystemTime(), output: logs)
        let ready = Promise<SystemError?>("endpoint")
        endpoint = try TokenEndpoint(config: config, log: log, metrics: Metrics(), ready: { ready.fulfil($0) })
        port = try #require(endpoint.publicAddress.port)
        managementPort = try #require(endpoint.managementAddress?.port)
        #expect(try await ready.value() == nil)
    }

    deinit {
        endpoint.stop {}
        simulator.stop()
        try? FileManager.default.removeItem(at: folder)
    }

    // MARK: Asking

    struct Answer: Sendable {
        let status: Int
        let fields: [String: String]
        let body: String
        var json: [String: Any] { (try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]) ?? [:] }
        var code: String? { json["code"] as? String }
    }

    func session(_ subject: String? = "user-1", claims: [String: String] = [:], expiresIn: Duration = .seconds(300)) throws
        -> String
    {
        try simulator.session(
            SessionOrder(
                subject: subject, audience: [Self.audience], algorithm: .hs256, expiresIn: expiresIn,
                claims: .init(claims.map { .init(name: $0.key, value: .string($0.value)) })))
    }

    func mint(_ session: String?, fields: [String] = []) async throws -> Answer {
        var lines = ["POST /january/client-token HTTP/1.1", "Host: localhost", "Connection: close"] + fields
        if let session { lines.append("Authorization: Bearer \(session)") }
        return try await exchange(lines.joined(separator: "\r\n") + "\r\n\r\n", port: port)
    }

    func get(_ path: String, port: UInt16? = nil) async throws -> Answer {
        try await exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", port: port ?? managementPort)
    }

    func exchange(_ request: String, port: UInt16) async throws -> Answer {
        let text = try await onOwnThread {
            let client = try RawClient(port: port, receiveTimeoutSeconds: 20)
            try client.send(request)
            return String(decoding: try client.receiveAll(), as: UTF8.self)
        }
        return try Self.parse(text)
    }

    static func parse(_ text: String) throws -> Answer {
        let parts = try #require(text.range(of: "\r\n\r\n"), "no response: \(text.debugDescription)")
        let lines = text[..<parts.lowerBound].components(separatedBy: "\r\n")
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let pair = line.split(separator: ":", maxSplits: 1)
            fields[pair[0].lowercased()] = pair.count > 1 ? pair[1].trimmingCharacters(in: .whitespaces) : ""
        }
        return Answer(
            status: try #require(Int(lines[0].split(separator: " ")[1])), fields: fields, body: String(text[parts.upperBound...]))
    }

    /// One sample of the metrics page, by its whole name with labels.
    func metric(_ name: String) async throws -> Double? {
        let page = try await get("/metrics").body
        for line in page.split(separator: "\n") where line.hasPrefix(name + " ") { return Double(line.dropFirst(name.count + 1)) }
        return nil
    }
}
