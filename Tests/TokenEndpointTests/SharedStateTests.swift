import JanuarySimulator
import Primitives
import Revocations
import StrictJSON
import TestSupport
import Testing

@testable import TokenEndpoint

/// Replicas with one Redis and one January.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct SharedStateTests {
    private func server(_ settings: [String] = []) async throws -> RedisServer {
        try await onOwnThread { try RedisServer(settings) }
    }

    private func replica(
        _ redis: RedisServer, of first: EndpointFixture? = nil, _ more: String = ""
    ) async throws -> EndpointFixture {
        try await EndpointFixture(
            more: "state: \"redis://127.0.0.1:\(redis.port)\"\n\(more)", baseURL: first?.simulator.origin)
    }

    private func revoke(
        _ endpoint: EndpointFixture, _ endUserID: String = "user-1", block: RevocationBlock = .user
    ) throws -> Promise<Result<RevocationStatus, RevocationError>> {
        let answer = Promise<Result<RevocationStatus, RevocationError>>("revocation")
        try #require(endpoint.endpoint.revocations).revoke(
            RevocationRequest(endUserID: endUserID, block: block, reason: nil, requestedBy: "token-1"),
            completion: { answer.fulfil($0) })
        return answer
    }

    private func lift(_ endpoint: EndpointFixture, _ endUserID: String = "user-1") async throws -> EndUserStatus {
        let answer = Promise<Result<EndUserStatus, RevocationError>>("lift")
        try #require(endpoint.endpoint.revocations).lift(
            endUserID, requestedBy: "token-1", requestID: nil, completion: { answer.fulfil($0) })
        return try await answer.value().get()
    }

    @Test func aFenceHoldsOnEveryReplicaWhenTheAnswerIsOut() async throws {
        let redis = try await server()
        let first = try await replica(redis)
        let second = try await replica(redis, of: first)
        #expect(try await second.mint(try second.session()).status == 201)
        let status = try await revoke(first).value().get()
        #expect(status.isComplete && status.fenceScope == .shared && status.revokedCount == 1)
        for endpoint in [first, second] {
            let answer = try await endpoint.mint(try endpoint.session())
            #expect(answer.status == 403 && answer.code == "access_revoked")
        }
        let page = try await second.get("/status.json").body
        #expect(page.contains(#""store":"redis""#), "\(page)")
        #expect(try await second.mint(try second.session("user-2")).status == 201)
        #expect(try await lift(second).isBlocked == false)
        #expect(try await first.mint(try first.session()).status == 201)
    }

    @Test func aMintOfAnotherReplicaIsWaitedForAndWithheld() async throws {
        let redis = try await server()
        let first = try await replica(redis)
        let second = try await replica(redis, of: first)
        first.simulator.addFault(FaultRule(.disrupted(.holdAfterCommit), on: .mint))
        let session = try second.session()
        async let mint = second.mint(session)
        try await first.awaitMintsReceived(1)
        let revocation = try revoke(first)
        try await eventually("swept") { first.simulator.counts(of: .revoke).succeeded >= 2 }
        #expect(!revocation.isFulfilled)
        first.simulator.release()
        #expect(try await mint.code == "access_revoked")
        #expect(try await revocation.value().get().isComplete)
        #expect(first.simulator.counts(of: .revoke).received > 2)
    }

    /// January takes its time to refuse the one key: the last look at the fence has become too old for a request with the other one.
    private func slowlyRejected(
        _ redis: RedisServer, meanwhile: (EndpointFixture) async throws -> Void
    ) async throws -> (EndpointFixture, EndpointFixture.Answer) {
        let next = BreakerScenarioTests.nextKey
        let endpoint = try await EndpointFixture(
            more: "state: \"redis://127.0.0.1:\(redis.port)\"", secondKey: next
        ) { $0.configure { $0.keys = [next: .valid] } }
        endpoint.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        let session = try endpoint.session()
        async let mint = endpoint.mint(session)
        try await endpoint.awaitMintsReceived(1)
        try await meanwhile(endpoint)
        await endpoint.advance(by: RedisMintGate.freshFor + .milliseconds(1))
        endpoint.simulator.release()
        return (endpoint, try await mint)
    }

    @Test func aFenceThatCameUpBetweenTheTwoKeysIsSeenBeforeTheOtherOneIsAsked() async throws {
        let redis = try await server()
        let revocation = Promise<Result<RevocationStatus, RevocationError>>("revocation")
        let (endpoint, answer) = try await slowlyRejected(redis) { endpoint in
            try #require(endpoint.endpoint.revocations).revoke(
                RevocationRequest(endUserID: "user-1", block: .user, reason: nil, requestedBy: "token-1"),
                completion: { revocation.fulfil($0) })
            try await eventually("the fence is up") { await blocked(endpoint) }
        }
        #expect(answer.status == 403 && answer.code == "access_revoked")
        #expect(answer.fields["january-request-id"] == endpoint.simulator.requests(of: .mint).first?.requestID)
        #expect(endpoint.mintsReceived == 1 && endpoint.simulator.tokens(of: "user-1").isEmpty)
        #expect(try await endpoint.metric(#"january_requests_total{operation="mint",status="401",code="unauthorized"}"#) == 1)
        #expect(try await revocation.value().get().isComplete)
    }

    @Test func withoutAFenceTheOtherKeyIsAskedAndTheRejectedOneNotAgain() async throws {
        let redis = try await server()
        let (endpoint, answer) = try await slowlyRejected(redis) { _ in }
        #expect(answer.status == 201)
        let keys = endpoint.simulator.requests(of: .mint).map { $0.field(.authorization) ?? "" }
        #expect(keys == ["Bearer \(SimulatorSettings.developmentKey)", "Bearer \(BreakerScenarioTests.nextKey)"])
        #expect(try await endpoint.metric(#"january_requests_total{operation="mint",status="401",code="unauthorized"}"#) == 1)
    }

    private func blocked(_ endpoint: EndpointFixture) async -> Bool {
        let status = Promise<Result<EndUserStatus, RevocationError>>("end user")
        endpoint.endpoint.revocations?.endUser("user-1", completion: { status.fulfil($0) })
        return (try? await status.value().get())?.isBlocked == true
    }

    @Test func sessionsAndNoneAreDecidedByRedis() async throws {
        let redis = try await server()
        let first = try await replica(redis)
        let second = try await replica(redis, of: first)
        #expect(try await revoke(first, block: .sessions).value().get().isComplete)
        let now = Int(first.time.wall().secondsSinceEpoch)
        let old = try second.session(claims: ["auth_time": .number(JSONNumber(now - 10))])
        let new = try second.session(claims: ["auth_time": .number(JSONNumber(now + 3))])
        #expect(try await second.mint(old).code == "access_revoked")
        #expect(try await second.mint(new).status == 201)
        first.simulator.addFault(FaultRule(.refused(503, "service_unavailable"), on: .revoke, times: nil))
        _ = try revoke(first, block: .none)
        try await eventually("pending") { (try? await second.mint(new))?.code == "revocation_in_progress" }
    }

    @Test func withoutRedisNobodyMintsUnlessAllowed() async throws {
        let redis = try await server()
        let strict = try await replica(redis)
        let lenient = try await replica(redis, of: strict, "revocations: { when_unreadable: allow }")
        #expect(try await strict.mint(try strict.session()).status == 201)
        #expect(try await revoke(strict).value().get().isComplete)
        redis.kill()
        let refused = try await strict.mint(try strict.session("user-2"))
        #expect(refused.status == 503 && refused.code == "state_unavailable" && refused.fields["retry-after"] != nil)
        #expect(try await lenient.mint(try lenient.session("user-2")).status == 201)
        guard case .failure(.stateUnavailable) = try await revoke(strict, "user-3").value() else {
            Issue.record("promised without a state")
            return
        }
        #expect(try await strict.get("/readyz").status == 200)
    }

    @Test func aStoreThatCameBackEmptyIsUnreadable() async throws {
        let redis = try await server()
        let endpoint = try await replica(redis)
        #expect(try await endpoint.mint(try endpoint.session()).status == 201)
        try redis.ask("FLUSHALL")
        let refused = try await endpoint.mint(try endpoint.session())
        #expect(refused.status == 503 && refused.code == "state_unavailable")
        // And stays so: what it says about fences is wrong.
        await endpoint.advance(by: .seconds(3))
        #expect(try await endpoint.mint(try endpoint.session()).status == 503)
    }

    @Test func whatAnotherReplicaLeftIsTakenOver() async throws {
        let redis = try await server()
        var first: EndpointFixture? = try await replica(redis)
        // The first one's January fails, and then it is gone. Only then are there others: whoever looks first takes what is to do.
        first?.simulator.addFault(FaultRule(.refused(503, "service_unavailable"), on: .revoke, times: nil))
        if let first {
            _ = try revoke(first)
            try await eventually("tried") { first.simulator.counts(of: .revoke).received >= 1 }
        }
        first = nil
        let january = try await replica(redis)
        let second = try await replica(redis, of: january)
        try await eventually("taken over", within: 30) {
            await second.advance(by: .seconds(1))
            return january.simulator.counts(of: .revoke).succeeded >= 1
        }
        #expect(try await second.mint(try second.session()).code == "access_revoked")
    }

    @Test func aRedisThatThrowsKeysAwayIsRefused() async throws {
        let redis = try await server(["--maxmemory-policy", "allkeys-lru"])
        await #expect(throws: TokenEndpoint.StartError.self) { try await replica(redis) }
    }
}
