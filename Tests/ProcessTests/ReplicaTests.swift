import Foundation
import Glibc
import JanuarySimulator
import Primitives
import TestSupport
import Testing

/// Three real processes, one Redis, one January.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled)) struct ReplicaTests {
    /// A burst, and next to nothing after it: what one process would admit is known to the request.
    private static let burst = 60
    private static let limits = """
        rate_limits:
          per_address: false
          per_session: false
          per_end_user: { requests: 1, per_seconds: 86400, burst: \(burst) }

        """

    @Test func threeReplicasTogetherAdmitWhatOneWould() async throws {
        try await onOwnThread {
            let replicas = try Replicas(Self.limits)
            try replicas.areShared()
            let counts = try replicas.mintTogether(perReplica: 30)
            #expect(counts.admitted == Self.burst)
            #expect(counts.limited == 90 - Self.burst)
            // Others have cells of their own.
            #expect(try replicas.mintTogether(perReplica: 3).admitted == 9)
        }
    }

    @Test func whileRedisIsAwayEachAdmitsAtMostWhatOneAloneWouldAndNoRequestFails() async throws {
        try await onOwnThread {
            let replicas = try Replicas(Self.limits)
            try replicas.areShared()
            #expect(try replicas.mintTogether(perReplica: 3).admitted == 9)
            replicas.redis.kill()
            let alone = try replicas.mint("user-1", perReplica: Self.burst + 10)
            #expect(alone.admitted <= 3 * Self.burst)
            #expect(alone.perReplica.allSatisfy { $0 <= Self.burst })
            #expect(alone.admitted + alone.limited == 3 * (Self.burst + 10))
            #expect(try replicas.degraded() == [1, 1, 1])
            try replicas.redis.start()
            // Two seconds are promised; the rest is for a machine that does more than this.
            try replicas.areShared(within: 6)
            let counts = try replicas.mintTogether(perReplica: 30)
            #expect(counts.admitted == Self.burst)
            #expect(counts.limited == 90 - Self.burst)
            for server in replicas.servers {
                let lines = server.logLines("Redis does not answer as it should; this process counts its rate limits alone")
                #expect(lines.count == 1)
            }
        }
    }

    @Test func aFrozenRedisFailsNoRequestAndLosesNoCount() async throws {
        try await onOwnThread {
            let replicas = try Replicas(Self.limits)
            try replicas.areShared()
            replicas.redis.freeze()
            let during = try replicas.mint("user-1", perReplica: 20)
            #expect(during.admitted + during.limited == 60)
            replicas.redis.thaw()
            try replicas.areShared()
            let alone = try replicas.localDecisions()
            let after = try replicas.mint("user-1", perReplica: 30)
            // Redis charges those whose answer came too late, one per loop and replica and perhaps some when the machine was busy, once.
            if try replicas.localDecisions() == alone {
                #expect(after.admitted <= Self.burst)
                #expect(after.admitted >= Self.burst - 12)
            }
        }
    }

    /// Only the first replica is told by January; the second learns it with its next decision.
    @Test func januarysHoldReachesTheOtherReplicas() async throws {
        try await onOwnThread {
            let replicas = try Replicas(Self.limits)
            try replicas.areShared()
            replicas.simulator.addFault(FaultRule(.refused(429, "rate_limited", retryAfter: "20"), on: .mint, times: 1))
            let first = try replicas.exchange(0, "user-1")
            #expect(first.hasPrefix("HTTP/1.1 503 ") && first.contains("january_rate_limited"))
            for index in 1...2 {
                try replicas.eventually("held") { try replicas.exchange(index, "user-2").contains("january_rate_limited") }
            }
            let asked = replicas.simulator.counts(of: .mint).received
            let later = try replicas.exchange(2, "user-3")
            #expect(later.hasPrefix("HTTP/1.1 503 ") && later.contains("january_rate_limited"))
            #expect(replicas.simulator.counts(of: .mint).received == asked)
        }
    }
}

/// Three real processes, one state in Redis, one January.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled)) struct SharedStateReplicaTests {
    private static let state =
        "management: { listen: \"127.0.0.1:0\", token_files: [token] }\nstate: \"redis://127.0.0.1:PORT/2\"\n"

    @Test func aBlockHoldsOnEveryReplicaAndHashIDKnowsThePeople() async throws {
        try await onOwnThread {
            let replicas = try Replicas(Self.state)
            #expect(try replicas.exchange(1, "user-1").hasPrefix("HTTP/1.1 201 "))
            let answer = try replicas.manage(0, "POST", "/january/client-token-revocations", #"{"end_user_id":"user-1"}"#)
            #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.contains(#""fence_scope":"shared""#))
            for index in 0..<3 { #expect(try replicas.exchange(index, "user-1").contains("access_revoked")) }
            let hash = try Finished(["hash-id", "--config", replicas.config, "user-1"])
            let text = hash.output.trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(hash.code == 0 && text.count == 32, "\(hash.errors)")
            #expect(try replicas.redis.ask("INFO keyspace").contains("db2:"))
            // Under this name the person stands in Redis.
            #expect(try replicas.askState("EXISTS january-endpoint:{state}:user:\(text)").contains(":1"))
            let lifted = try replicas.manage(2, "DELETE", "/january/end-users/user-1/block")
            #expect(lifted.hasPrefix("HTTP/1.1 200 "))
            for index in 0..<3 { #expect(try replicas.exchange(index, "user-1").hasPrefix("HTTP/1.1 201 ")) }
        }
    }

    /// January holds the call of one replica, which is killed; exactly one of the others goes on, within 30 s.
    @Test func whatAKilledReplicaWasDoingIsTakenOverByOneOther() async throws {
        try await onOwnThread {
            let replicas = try Replicas(Self.state)
            #expect(try replicas.exchange(1, "user-1").hasPrefix("HTTP/1.1 201 "))
            replicas.simulator.addFault(FaultRule(.disrupted(.hangBeforeCommit), on: .revoke))
            let client = try replicas.send(0, "POST", "/january/client-token-revocations", #"{"end_user_id":"user-1"}"#)
            try replicas.eventually("called") { replicas.simulator.counts(of: .revoke).received == 1 }
            let killed = ContinuousClock.now
            replicas.servers[0].send(SIGKILL)
            _ = client
            try replicas.eventually("taken over", within: 30) { replicas.simulator.counts(of: .revoke).succeeded >= 1 }
            #expect(ContinuousClock.now - killed < .seconds(30))
            try replicas.eventually("complete") {
                try replicas.manage(1, "GET", "/january/client-token-revocations?status=pending").contains(#""items":[]"#)
            }
            // One token, and then none: two calls of one replica, and not of two.
            #expect(replicas.simulator.counts(of: .revoke).received == 3)
            #expect(replicas.simulator.tokens(of: "user-1").allSatisfy { $0.revoked != nil })
        }
    }
}

/// For one test thread.
private final class Replicas {
    struct Counts {
        var perReplica = [0, 0, 0]
        var limited = 0
        var admitted: Int { perReplica.reduce(0, +) }
    }

    let simulator: Simulator
    let redis: RedisServer
    let servers: [Child]
    var config: String { folder + "config.yaml" }
    private let folder: String
    private var ports: [UInt16] = []
    private var managementPorts: [UInt16] = []
    private var users = 0

    init(_ sections: String) throws {
        var configuration = Simulator.Configuration()
        configuration.algorithms = [.es256]
        simulator = try Simulator(configuration)
        try simulator.start()
        redis = try RedisServer()
        folder = FileManager.default.temporaryDirectory.appending(path: "january-replicas-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try ServerScenario.write(folder + "api_key", SimulatorSettings.developmentKey)
        var text = ServerScenario.configuration(simulator).split(separator: "\n").filter { !$0.hasPrefix("rate_limits:") }
            .joined(separator: "\n")
        if sections.contains("management:") {
            text = text.split(separator: "\n").filter { !$0.hasPrefix("management:") }.joined(separator: "\n")
            text += "\nrate_limits: { per_address: false, per_session: false, per_end_user: false }"
        }
        text += "\n" + sections.replacingOccurrences(of: "PORT", with: "\(redis.port)")
        try ServerScenario.write(folder + "token", RevocationCrashTests.token)
        try ServerScenario.write(folder + "config.yaml", text)
        let (arguments, environment) = (
            ["serve", "--config", folder + "config.yaml"], sections.contains("state:") ? [:] : ["REDIS_URL": redis.url + "/1"]
        )
        servers = try (0..<3).map { _ in try Child(arguments, environment: environment) }
        for server in servers {
            let line = try server.logLine("listening")
            ports.append(try Self.port(line["listen"]))
            managementPorts.append(try Self.port(line["management"]))
        }
        for port in managementPorts {
            try eventually("not ready") { try get("/readyz", port).hasPrefix("HTTP/1.1 200 ") }
        }
    }

    deinit {
        simulator.stop()
        try? FileManager.default.removeItem(atPath: folder)
    }

    private static func port(_ address: Any?) throws -> UInt16 {
        guard let text = address as? String, let port = UInt16(text.split(separator: ":").last ?? "") else {
            throw Child.Failure(what: "no port in \(String(describing: address))")
        }
        return port
    }

    /// So many requests to each, in turns.
    func mint(_ subject: String, perReplica: Int) throws -> Counts {
        let request = ServerScenario.mint(try simulator.session(SessionOrder(subject: subject, audience: ["app"])))
        let clients = try ports.map { try RawClient(port: $0, receiveTimeoutSeconds: 20) }
        var counts = Counts()
        for _ in 0..<perReplica {
            for (index, client) in clients.enumerated() {
                try client.send(request)
                let answer = try client.receiveResponses().joined()
                if answer.hasPrefix("HTTP/1.1 201 ") {
                    counts.perReplica[index] += 1
                } else if answer.hasPrefix("HTTP/1.1 429 ") {
                    counts.limited += 1
                } else {
                    throw Child.Failure(what: "\(answer)\n\(servers[index].output)")
                }
            }
        }
        return counts
    }

    /// The same for somebody new, and again if this machine was so busy that Redis was too late for one of them.
    func mintTogether(perReplica: Int) throws -> Counts {
        for _ in 0..<10 {
            users += 1
            let before = try localDecisions()
            let counts = try mint("together-\(users)", perReplica: perReplica)
            if try localDecisions() == before { return counts }
            try areShared()
        }
        throw Child.Failure(what: "Redis was too late ten times: \(servers.map(\.output))")
    }

    func localDecisions() throws -> [Int] { try metric("limiter_local_decisions_total") }

    func exchange(_ index: Int, _ subject: String) throws -> String {
        let client = try RawClient(port: ports[index], receiveTimeoutSeconds: 20)
        try client.send(ServerScenario.mint(try simulator.session(SessionOrder(subject: subject, audience: ["app"]))))
        return try client.receiveResponses().joined()
    }

    func askState(_ command: String) throws -> String {
        let login = redis.login
        defer { redis.login = login }
        redis.login = "SELECT 2"
        return try redis.ask(command)
    }

    /// Sends a request to the management API and leaves its answer.
    func send(_ index: Int, _ method: String, _ path: String, _ body: String = "") throws -> RawClient {
        let client = try RawClient(port: managementPorts[index], receiveTimeoutSeconds: 20)
        try client.send(
            "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(RevocationCrashTests.token)\r\n"
                + "Content-Type: application/json\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        return client
    }

    func manage(_ index: Int, _ method: String, _ path: String, _ body: String = "") throws -> String {
        String(decoding: try send(index, method, path, body).receiveAll(), as: UTF8.self)
    }

    func degraded() throws -> [Int] { try metric("limiter_degraded") }

    private func metric(_ name: String) throws -> [Int] {
        try managementPorts.map { port in
            let line = try get("/metrics", port).split(separator: "\n").first { $0.hasPrefix("january_endpoint_\(name) ") }
            return line.flatMap { Int($0.split(separator: " ")[1]) } ?? -1
        }
    }

    /// All three ask Redis.
    func areShared(within seconds: Double = 20) throws {
        try eventually("degraded", within: seconds) { try degraded() == [0, 0, 0] }
    }

    private func get(_ path: String, _ port: UInt16) throws -> String {
        let client = try RawClient(port: port, receiveTimeoutSeconds: 20)
        try client.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return try client.receiveResponses().joined()
    }

    func eventually(_ what: String, within seconds: Double = 20, _ condition: () throws -> Bool) throws {
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            if try condition() { return }
            usleepMilliseconds(5)
        }
        throw Child.Failure(what: "\(what): \(servers.map { $0.output + $0.errors })")
    }
}
