import EventLoop
import JOSE
import JanuarySimulator
import Primitives
import StrictJSON
import TestSupport

/// A running simulator on a free port, and the requests tests send to it.
final class Scenario: Sendable {
    let simulator: Simulator
    let time = TestTime()

    private init(_ configuration: Simulator.Configuration) throws {
        simulator = try Simulator(configuration, time: time)
        try simulator.start()
    }

    /// Runs a blocking scenario on a thread of its own.
    static func run<Result: Sendable>(
        _ change: (inout Simulator.Configuration) -> Void = { _ in }, _ body: @escaping @Sendable (Scenario) throws -> Result
    ) async throws -> Result {
        var configuration = Simulator.Configuration()
        // EC keys are made in no time.
        configuration.algorithms = [.es256]
        configuration.seed = 42
        change(&configuration)
        let final = configuration
        return try await onOwnThread {
            let scenario = try Scenario(final)
            defer { scenario.simulator.stop() }
            return try body(scenario)
        }
    }

    func client() throws -> RawClient { try RawClient(port: UInt16(simulator.port)) }

    static let mintBody = #"{"end_user_id":"user-1","scopes":["foods:read"],"ttl_seconds":600}"#

    static func mint(_ body: String = mintBody, fields: String = "") -> String {
        request("POST", "/v1.2/auth/client-tokens", body, fields: fields)
    }

    static func request(
        _ method: String, _ path: String, _ body: String = "", key: String = SimulatorSettings.developmentKey, fields: String = ""
    ) -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: january.test\r\nAuthorization: Bearer \(key)\r\n\(fields)"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    /// One request on a connection of its own, one answer with a length.
    func exchange(_ request: String) throws -> Reply {
        let client = try client()
        try client.send(request)
        return Reply(try client.receiveResponses().joined())
    }

    /// Everything the simulator says to one mint until it ends the connection.
    func allBytes(_ fault: Fault, on operation: Operation? = .mint, request: String = Scenario.mint()) throws -> [UInt8] {
        simulator.addFault(FaultRule(fault, on: operation))
        let client = try client()
        try client.send(request)
        return try client.receiveAll(allowingReset: true)
    }

    func control(_ method: String, _ path: String, _ body: String = "") throws -> Reply {
        try exchange(Scenario.request(method, "/control/" + path, body))
    }
}

/// One answer, taken apart as simply as can be.
struct Reply {
    let status: Int
    let head: String
    let body: String

    init(_ text: String) {
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        head = parts.first.map(String.init) ?? ""
        body = parts.count == 2 ? String(parts[1]) : ""
        status = Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0
    }

    init(_ bytes: [UInt8]) { self.init(String(decoding: bytes, as: UTF8.self)) }

    var json: JSONObject { (try? JSONValue.parse(body))?.object ?? JSONObject() }

    func field(_ name: String) -> String? {
        for line in head.split(separator: "\r\n") where line.lowercased().hasPrefix(name.lowercased() + ": ") {
            return String(line.dropFirst(name.utf8.count + 2))
        }
        return nil
    }
}
