import Configuration
import EventLoop
import Foundation
import JOSE
import JanuarySimulator
import Primitives
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// The whole endpoint in this process, in front of a simulator, both on free ports of the loopback.
final class EndpointFixture: Sendable {
    let time: ShiftedTime
    let simulator: Simulator
    let endpoint: TokenEndpoint
    let logs: LogMemory
    let port: UInt16
    let managementPort: UInt16
    private let folder: URL
    private let text: String

    static let sessionSecret = "0123456789abcdef0123456789abcdef"
    static let issuer = "https://login.test"
    static let audience = "test-api"

    /// - Parameters:
    ///   - january: lines of the section `january`, beside key and URL.
    ///   - sessions: the list of verifiers; `ORIGIN` stands for the simulator's origin.
    ///   - more: further lines at the root of the configuration; sections named here replace the fixture's own.
    ///   - files: beside the configuration, by name.
    ///   - revocations: the double that stands for the state's own.
    ///   - auditOutput: of `audit.file`.
    ///   - baseURL: of January, the simulator's when `nil`.
    ///   - isTimeFrozen: only ``advance(by:)`` moves the clocks: for what may not happen in between however slow the machine is.
    ///   - prepare: done to the simulator before the endpoint starts.
    init(
        january: String = "", sessions: String? = nil, more: String = "", grants: String = "features: [food_search]",
        simulator configuration: Simulator.Configuration? = nil, secondKey: String? = nil, files: [String: String] = [:],
        revocations: RevocationDouble? = nil, auditOutput: (any LogOutput)? = nil, baseURL: String? = nil,
        isTimeFrozen: Bool = false, prepare: (Simulator) -> Void = { _ in }
    ) async throws {
        var configuration = configuration ?? Self.quickSimulator
        configuration.sharedSecret = configuration.sharedSecret ?? Secret(Self.sessionSecret)
        configuration.issuer = configuration.issuer ?? Self.issuer
        time = ShiftedTime(isFrozen: isTimeFrozen)
        simulator = try Simulator(configuration, time: time)
        try simulator.start()
        prepare(simulator)
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
        for (name, text) in files { try file(name, text) }
        let sessions =
            sessions ?? """
                    - type: jwt
                      issuer: \(Self.issuer)
                      audience: \(Self.audience)
                      hmac_secret_file: session_secret
                      algorithms: [HS256]
                """
        let defaults = Self.defaultSections.filter { !more.contains($0.key + ":") }.map { "\($0.key): \($0.value)" }
            .joined(separator: "\n")
        let text = """
            listen: "127.0.0.1:0"
            \(more.contains("management:") ? "" : #"management: { listen: "127.0.0.1:0" }"#)
            january:
              api_key_file: api_key
              base_url: \(baseURL ?? simulator.origin)
            \(secondKey == nil ? "" : "  next_api_key_file: next_key")
            \(january.split(separator: "\n").map { "  " + $0 }.joined(separator: "\n"))
            sessions:
              verifiers:
            \(sessions)
            \(grants)
            \(defaults)
            \(more)
            """.replacingOccurrences(of: "ORIGIN", with: simulator.origin)
        self.text = text
        let reader = ConfigReader.parse(text, name: "test.yaml", folder: folder.path + "/")
        guard let config = RootConfig.read(reader) else {
            throw TimedOut(what: "configuration: \(reader.problems.map(\.description).joined(separator: "\n"))\n\(text)")
        }
        logs = LogMemory()
        let log = Log(level: .debug, format: .json, time: time, output: logs)
        let ready = Promise<SystemError?>("endpoint")
        endpoint = try TokenEndpoint(
            config: config, log: log, metrics: Metrics(), time: time, auditOutput: auditOutput,
            revocations: revocations, ready: { ready.fulfil($0) })
        port = try #require(endpoint.publicAddress.port)
        managementPort = try #require(endpoint.managementAddress?.port)
        #expect(try await ready.value() == nil)
    }

    private static let defaultSections = [
        "http": "{ loops: 2 }", "drain": "{ delay_seconds: 0, timeout_seconds: 60 }", "log": "{ requests: all }",
        // Most tests mint often, with one session, from one address; those of the limits name their own.
        "rate_limits": "{ per_address: false, per_session: false, per_end_user: false }",
    ]

    /// Without asymmetric keys, which take their time to make.
    static var quickSimulator: Simulator.Configuration {
        var configuration = Simulator.Configuration()
        configuration.algorithms = []
        return configuration
    }

    static var simulatorWithKeys: Simulator.Configuration {
        var configuration = Simulator.Configuration()
        configuration.algorithms = [.es256]
        return configuration
    }

    /// A verifier that loads the simulator's key set.
    static func keySetVerifier(_ more: String = "") -> String {
        """
            - type: jwt
              issuer: \(issuer)
              audience: \(audience)
              jwks_url: ORIGIN/idp/jwks.json
              algorithms: [ES256]
        \(more)
        """
    }

    deinit {
        endpoint.stop {}
        simulator.stop()
        try? FileManager.default.removeItem(at: folder)
    }

    // MARK: Reloading

    /// Reads the configuration again, its text changed before, and puts it in force.
    func reload(_ cause: ReloadCause = .signal, _ change: (inout String) -> Void = { _ in }) async throws -> ReloadResult {
        var text = text
        change(&text)
        let reader = ConfigReader.parse(text, name: "test.yaml", folder: folder.path + "/")
        guard let config = RootConfig.read(reader) else {
            throw TimedOut(what: "configuration: \(reader.problems.map(\.description).joined(separator: "\n"))\n\(text)")
        }
        return try await onOwnThread { [endpoint] in endpoint.reload(to: config, cause: cause) }
    }

    func write(_ name: String, _ text: String) throws {
        try Data(text.utf8).write(to: folder.appendingPathComponent(name))
    }

    // MARK: Asking

    struct Answer: Sendable {
        let status: Int
        let fields: [String: String]
        let body: String
        var json: [String: Any] { (try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]) ?? [:] }
        var code: String? { json["code"] as? String }
    }

    func session(
        _ subject: String? = "user-1", claims: JSONObject = [:], expiresIn: Duration = .seconds(3_600),
        algorithm: JWSAlgorithm = .hs256, _ change: (inout SessionOrder) -> Void = { _ in }
    ) throws -> String {
        var order = SessionOrder(
            subject: subject, audience: [Self.audience], algorithm: algorithm, expiresIn: expiresIn, claims: claims)
        change(&order)
        return try simulator.session(order)
    }

    func mint(
        _ session: String?, fields: [String] = [], from source: String? = nil, port: UInt16? = nil
    ) async throws -> Answer {
        var lines = ["POST /january/client-token HTTP/1.1", "Host: localhost", "Connection: close"] + fields
        if let session { lines.append("Authorization: Bearer \(session)") }
        return try await exchange(lines.joined(separator: "\r\n") + "\r\n\r\n", port: port ?? self.port, from: source)
    }

    /// A request to the management listener with the fixture's own token.
    func manage(
        _ line: String, fields: [String] = [], token: String? = EndpointFixture.managementToken, body: String? = nil
    ) async throws -> Answer {
        var lines = ["\(line) HTTP/1.1", "Host: localhost", "Connection: close"] + fields
        if let token { lines.append("Authorization: Bearer \(token)") }
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        return try await exchange(lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? ""), port: managementPort)
    }

    static let managementToken = "management-token-0123456789abcdef"
    /// Sections of the configuration with which the management API is on; the file `token` is part of ``managementFiles``.
    static let managed = """
        management: { listen: "127.0.0.1:0", token_files: [token, token_2] }
        state: "sqlite:state.db"
        """
    static let managementFiles = ["token": managementToken, "token_2": "second-" + managementToken]

    func get(_ path: String, port: UInt16? = nil) async throws -> Answer {
        try await exchange("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", port: port ?? managementPort)
    }

    /// - Parameter source: the address the request comes from.
    func exchange(_ request: String, port: UInt16, from source: String? = nil) async throws -> Answer {
        let text = try await onOwnThread {
            let client = try RawClient(port: port, source: source, receiveTimeoutSeconds: 20)
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

    /// A connection that stays open over several requests.
    func connect() throws -> RawClient { try RawClient(port: port, receiveTimeoutSeconds: 20) }

    static func mintRequest(_ session: String?, fields: [String] = []) -> String {
        let lines = ["POST /january/client-token HTTP/1.1", "Host: localhost"] + fields
        let authorization = session.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return lines.joined(separator: "\r\n") + "\r\n" + authorization + "\r\n"
    }

    static func receive(_ client: RawClient) async throws -> Answer {
        try parse(try await onOwnThread { try client.receiveResponses().joined() })
    }

    /// One sample of the metrics page, by its whole name with labels; 0 where there is none.
    func metric(_ name: String) async throws -> Double {
        let page = try await get("/metrics").body
        for line in page.split(separator: "\n") where line.hasPrefix("january_endpoint_\(name) ") {
            return Double(line.split(separator: " ").last ?? "") ?? -1
        }
        return 0
    }

    func awaitMetric(_ name: String, _ value: Double) async throws {
        try await eventually("\(name) is \(value)") { (try? await metric(name)) == value }
    }

    // MARK: Time

    /// Both clocks go on by `duration` without anybody waiting; timers that are due then have run when this returns.
    func advance(by duration: Duration) async {
        time.advance(by: duration)
        for loop in endpoint.loops {
            // A turn takes the new time before its mailbox and runs the timers behind it.
            await loop.run {}
            await loop.run {}
        }
    }

    var mintsReceived: Int { simulator.counts(of: .mint).received }

    func awaitMintsReceived(_ count: Int) async throws {
        try await eventually("January got \(count) mints") { mintsReceived == count }
    }

    func awaitReady() async throws {
        try await eventually("ready") { (try? await get("/readyz"))?.status == 200 }
    }

    /// The line of one request. It is written right behind the response, so it may come a moment later.
    func requestLine(of answer: Answer) async throws -> JSONObject {
        let id = try #require(answer.fields["x-request-id"])
        var found: JSONObject?
        try await eventually("a line for \(id)") {
            found = logLines("request").last { $0["request_id"]?.string == id }
            return found != nil
        }
        return try #require(found)
    }

    /// Lines of the log as JSON objects.
    func logLines(_ message: String) -> [JSONObject] {
        logs.lines.compactMap { try? JSONValue.parse(Array($0.utf8).span.bytes) }.compactMap(\.object)
            .filter { $0["message"]?.string == message }
    }
}

/// The system's clocks, moved on by hand; frozen, by hand alone.
final class ShiftedTime: TimeSource {
    private let frozen: (monotonic: MonotonicInstant, wall: WallInstant)?
    private let shift = Lock(Duration.zero)
    private let step = Lock(Duration.zero)

    init(isFrozen: Bool = false) {
        let system = SystemTime()
        frozen = isFrozen ? (system.monotonic(), system.wall()) : nil
    }

    func monotonic() -> MonotonicInstant { (frozen?.monotonic ?? SystemTime().monotonic()) + shift.withLock { $0 } }
    func wall() -> WallInstant { (frozen?.wall ?? SystemTime().wall()) + shift.withLock { $0 } + step.withLock { $0 } }
    func advance(by duration: Duration) { shift.withLock { $0 += duration } }
    /// The wall clock alone is set to another time.
    func stepWall(by duration: Duration) { step.withLock { $0 += duration } }
}
