import JanuarySimulator
import Primitives
import Revocations
import TestSupport
import Testing

@testable import TokenEndpoint

/// A write to a Redis with an append-only file is acknowledged when it is on its disk, and nobody else waits for that.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct WaitAOFTests {
    private func server(_ settings: [String] = []) async throws -> RedisServer {
        try await onOwnThread { try RedisServer(settings) }
    }

    /// Its clocks stand still: no time limit ends what waits for the disk.
    private func endpoint(_ relay: WaitAOFRelay) async throws -> EndpointFixture {
        try await EndpointFixture(
            more: EndpointFixture.managed.replacingOccurrences(of: "sqlite:state.db", with: "redis://127.0.0.1:\(relay.port)"),
            files: EndpointFixture.managementFiles, isTimeFrozen: true)
    }

    private func revoke(
        _ endpoint: EndpointFixture, _ endUserID: String = "user-1"
    ) throws -> Promise<Result<RevocationStatus, RevocationError>> {
        let answer = Promise<Result<RevocationStatus, RevocationError>>("revocation")
        try #require(endpoint.endpoint.revocations).revoke(
            RevocationRequest(endUserID: endUserID, block: .user, reason: nil, requestedBy: "token-1"),
            completion: { answer.fulfil($0) })
        return answer
    }

    @Test func aRevocationIsAcknowledgedWhenItIsOnRedissDisk() async throws {
        let redis = try await server()
        let relay = try WaitAOFRelay(to: redis.port)
        let endpoint = try await endpoint(relay)
        let revocation = try revoke(endpoint)
        try await eventually("its write waits for the disk") { relay.waitingCount == 1 }
        // It is written, and holds; but nobody has been told, and nothing is done about it.
        #expect(try await endpoint.mint(try endpoint.session()).code == "access_revoked")
        #expect(!revocation.isFulfilled && endpoint.simulator.counts(of: .revoke).received == 0)
        relay.answer(.onDisk)
        #expect(try await revocation.value().get().isComplete)
    }

    @Test func whatDoesNotGetToTheDiskIs503AndNothingIsPromised() async throws {
        let redis = try await server()
        let relay = try WaitAOFRelay(to: redis.port)
        relay.answer(.notOnDisk)
        let endpoint = try await endpoint(relay)
        let post = "POST /january/client-token-revocations"
        let refused = try await endpoint.manage(post, body: #"{"end_user_id":"user-1"}"#)
        #expect(refused.status == 503 && refused.code == "state_unavailable" && refused.fields["retry-after"] != nil)
        let lift = try await endpoint.manage("DELETE /january/end-users/user-1/block")
        #expect(lift.status == 503 && lift.code == "state_unavailable")
        relay.answer(.onDisk)
        let done = try await endpoint.manage(post, body: #"{"end_user_id":"user-1"}"#)
        #expect(done.status == 200)
    }

    @Test func noLookWaitsBehindAWriteThatWaitsForTheDisk() async throws {
        let redis = try await server()
        let relay = try WaitAOFRelay(to: redis.port)
        let endpoint = try await endpoint(relay)
        let revocation = try revoke(endpoint)
        try await eventually("its write waits for the disk") { relay.waitingCount == 1 }
        #expect(try await endpoint.manage("GET /january/client-token-revocations").status == 200)
        #expect(try await endpoint.manage("GET /january/end-users/user-1").json["blocked"] as? String == "user")
        #expect(try await endpoint.mint(try endpoint.session("user-2")).status == 201)
        #expect(relay.waitingCount == 1 && !revocation.isFulfilled)
        relay.answer(.onDisk)
        #expect(try await revocation.value().get().isComplete)
        // On the connections that wait there is nothing but writes, each followed by its wait.
        let writers = relay.commands.filter { $0.contains("WAITAOF") }
        #expect(!writers.isEmpty)
        for commands in writers {
            for (index, name) in commands.enumerated() {
                #expect(index % 2 == 1 ? name == "WAITAOF" : ["EVAL", "EVALSHA"].contains(name), "\(commands)")
            }
        }
    }

    @Test func writesThatComeWhileOthersWaitGoTogetherAndWaitOnce() async throws {
        let redis = try await server()
        let relay = try WaitAOFRelay(to: redis.port)
        let endpoint = try await endpoint(relay)
        var revocations = try (0..<4).map { try revoke(endpoint, "first-\($0)") }
        try await eventually("four writes wait") { relay.waitingCount == 4 }
        revocations += try (0..<20).map { try revoke(endpoint, "later-\($0)") }
        // Each has read its user's state on the way; the answer to another look behind them says that they have.
        try await eventually("the others are in line") {
            let reads = relay.commands.filter { !$0.contains("WAITAOF") }.joined().count { $0.hasPrefix("EVAL") }
            return reads >= 24
        }
        #expect(try await endpoint.manage("GET /january/end-users/somebody").status == 200)
        #expect(relay.waitingCount == 4 && revocations.allSatisfy { !$0.isFulfilled })
        relay.answer(.onDisk)
        for revocation in revocations { #expect(try await revocation.value().get().isComplete) }
        let waits = relay.commands.joined().count { $0 == "WAITAOF" }
        // One for each of the first four, and far fewer than one each for what came behind: 20 blocks and 24 completions.
        #expect(waits < 4 + 20 + 24 - 15, "\(waits)")
    }

    /// Redis's own WAITAOF, with a server that writes its file and never asks the disk.
    @Test(.enabled(if: RedisServer.hasWaitAOF, "no redis-server of 7.2 or later is installed"))
    func aRealRedisThatDoesNotSyncAcknowledgesNothing() async throws {
        let redis = try await server(["--appendonly", "yes", "--appendfsync", "no"])
        let endpoint = try await EndpointFixture(more: "state: \"\(redis.url)\"")
        #expect(try await endpoint.metric("state_append_only") == 1)
        guard case .failure(.stateUnavailable) = try await revoke(endpoint).value() else {
            Issue.record("acknowledged before it was on the disk")
            return
        }
        #expect(endpoint.simulator.counts(of: .revoke).received == 0)
        try redis.ask("CONFIG SET appendfsync always")
        #expect(try await revoke(endpoint).value().get().isComplete)
        #expect(try await endpoint.mint(try endpoint.session()).code == "access_revoked")
    }
}
