import JanuarySimulator
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

/// A reload that brings other credentials for a Redis, or another Redis.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct RedisReloadTests {
    private static let refusedYet = "Redis does not take the new credentials yet; the old ones stay in use beside them"
    private static let taken = "Redis takes the new credentials"

    private static let second = "open-sesame-2"
    private static let third = "open-sesame-3"

    private func mints(_ fixture: EndpointFixture) async throws {
        let session = try fixture.session()
        try await eventually("a mint", within: 20) { (try? await fixture.mint(session))?.status == 201 }
    }

    private func change(_ redis: RedisServer, to password: String) async throws {
        try await onOwnThread {
            try redis.ask("CONFIG SET requirepass \(password)")
            redis.login = "AUTH \(password)"
        }
    }

    private func cutConnections(_ redis: RedisServer) async throws {
        _ = try await onOwnThread { try redis.ask("CLIENT KILL TYPE normal") }
    }

    /// Whoever learns of it first, our file or Redis: what is open stays, and what is opened finds the password that Redis takes.
    @Test func aChangedPasswordOfTheStateIsTakenInEitherOrder() async throws {
        let redis = try await onOwnThread { try RedisServer(["--requirepass", "first"], login: "AUTH first") }
        let fixture = try await EndpointFixture(
            more: "state: \"\(redis.url)\"\nstate_password_file: redis_password", files: ["redis_password": "first"])
        try await mints(fixture)

        // The file first: nothing is lost, and new connections still get in with the old one.
        try fixture.write("redis_password", Self.second)
        #expect(try await fixture.reload(.files) == .reloaded)
        try await eventually("said") { fixture.logLines(Self.refusedYet).count == 1 }
        let line = try #require(fixture.logLines(Self.refusedYet).first)
        #expect(line["key"]?.string == "state" && line["reason"]?.string == "wrong_password")
        // Also of a loop that has no connection yet.
        for _ in 0..<10 { #expect(try await fixture.mint(try fixture.session()).status == 201) }
        try await cutConnections(redis)
        try await mints(fixture)
        try await change(redis, to: Self.second)
        try await cutConnections(redis)
        try await mints(fixture)

        // Redis first.
        try await change(redis, to: Self.third)
        try await cutConnections(redis)
        try fixture.write("redis_password", Self.third)
        #expect(try await fixture.reload(.files) == .reloaded)
        try await eventually("said") { fixture.logLines(Self.taken).count == 1 }
        try await mints(fixture)
        #expect(!fixture.logs.text.contains("open-sesame"))
    }

    @Test func aChangedPasswordOfTheLimitsKeepsThemShared() async throws {
        let redis = try await onOwnThread { try RedisServer(["--requirepass", "first"], login: "AUTH first") }
        let fixture = try await EndpointFixture(
            more: """
                rate_limits: { store: "\(redis.url)", password_file: redis_password, per_address: false, per_session: false, per_end_user: { requests: 1, per_seconds: 3600, burst: 2 } }
                """, files: ["redis_password": "first"])
        let session = try fixture.session()
        #expect(try await fixture.mint(session).status == 201)
        try await change(redis, to: Self.second)
        try fixture.write("redis_password", Self.second)
        #expect(try await fixture.reload(.files) == .reloaded)
        try await eventually("said") { fixture.logLines(Self.taken).first?["key"]?.string == "rate_limits.store" }
        #expect(try await fixture.mint(session).status == 201)
        #expect(try await fixture.mint(session).code == "rate_limited")
        #expect(try await fixture.metric("limiter_degraded") == 0)
    }

    @Test func anotherRedisIsNotTheSameStateButTheSameLimits() async throws {
        let (first, second) = try await onOwnThread { (try RedisServer(), try RedisServer()) }
        let fixture = try await EndpointFixture(
            more: """
                state: "\(first.url)"
                rate_limits: { store: "\(first.url)/1", per_address: false, per_session: false, per_end_user: { requests: 1, per_seconds: 3600, burst: 1 } }
                """)
        let session = try fixture.session()
        #expect(try await fixture.mint(session).status == 201)
        #expect(try await fixture.mint(session).code == "rate_limited")
        for other in ["state: \"\(second.url)\"", "state: \"\(first.url)/2\"", "state: none"] {
            let result = try await fixture.reload { $0 = $0.replacing("state: \"\(first.url)\"", with: other) }
            #expect(result == .refused(["state: cannot change on reload; restart the server"]))
        }
        // Another store of the limits has counted nothing yet.
        #expect(try await fixture.reload { $0 = $0.replacing("\(first.url)/1", with: "\(second.url)/1") } == .reloaded)
        #expect(try await fixture.mint(session).status == 201)
        #expect(try await fixture.mint(session).code == "rate_limited")
        #expect(try await onOwnThread { try second.ask("INFO keyspace") }.contains("db1:keys="))
        let page = try await fixture.get("/status.json").body
        #expect(page.contains(#""degraded":false"#))
    }
}
