import EventLoop
import JanuarySimulator
import Primitives
import Revocations
import TestSupport
import Testing

@testable import TokenEndpoint

/// A real Redis that fails, and what the state in it keeps and refuses.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled, "redis-server is not installed"))
struct SharedStateFailureTests {
    private func server(
        _ settings: [String] = [], tls: TestCertificates.Identity? = nil, login: String? = nil
    ) async throws -> RedisServer {
        try await onOwnThread { try RedisServer(settings, tls: tls, login: login) }
    }

    private func endpoint(
        _ redis: RedisServer, _ more: String = "", files: [String: String] = [:], january: EndpointFixture? = nil,
        prepare: (Simulator) -> Void = { _ in }
    ) async throws -> EndpointFixture {
        try await EndpointFixture(
            january: january == nil ? "" : "budget_seconds: 8", more: "state: \"\(redis.url)\"\n\(more)", files: files,
            baseURL: january?.simulator.origin, prepare: prepare)
    }

    private func revoke(
        _ endpoint: EndpointFixture, _ endUserID: String = "user-1", block: RevocationBlock = .user
    ) async throws -> Result<RevocationStatus, RevocationError> {
        let answer = Promise<Result<RevocationStatus, RevocationError>>("revocation")
        try #require(endpoint.endpoint.revocations).revoke(
            RevocationRequest(endUserID: endUserID, block: block, reason: nil, requestedBy: "token-1"),
            completion: { answer.fulfil($0) })
        return try await answer.value()
    }

    private func lift(_ endpoint: EndpointFixture, _ endUserID: String = "user-1") async throws -> EndUserStatus {
        let answer = Promise<Result<EndUserStatus, RevocationError>>("lift")
        try #require(endpoint.endpoint.revocations).lift(
            endUserID, requestedBy: "token-1", requestID: nil, completion: { answer.fulfil($0) })
        return try await answer.value().get()
    }

    private func page(_ endpoint: EndpointFixture, pendingOnly: Bool, limit: Int, after: String?) async throws -> RevocationPage {
        let answer = Promise<Result<RevocationPage, RevocationError>>("page")
        try #require(endpoint.endpoint.revocations).list(
            pendingOnly: pendingOnly, limit: limit, after: after, completion: { answer.fulfil($0) })
        return try await answer.value().get()
    }

    // MARK: What is kept

    @Test func withAnAppendOnlyFileARestartKeepsBlocksAndUnfinishedWork() async throws {
        let redis = try await server(["--appendonly", "yes", "--appendfsync", "always"])
        let endpoint = try await endpoint(redis)
        #expect(try await endpoint.metric("state_append_only") == 1)
        #expect(try await revoke(endpoint).get().isComplete)
        let failing = FaultRule(.refused(503, "service_unavailable"), on: .revoke, times: nil)
        let fault = endpoint.simulator.addFault(failing)
        let pending = Promise<Result<RevocationStatus, RevocationError>>("pending")
        try #require(endpoint.endpoint.revocations).revoke(
            RevocationRequest(endUserID: "user-2", block: .none, reason: nil, requestedBy: "token-1"),
            completion: { pending.fulfil($0) })
        try await eventually("tried") { endpoint.simulator.counts(of: .revoke).received >= 3 }
        try await onOwnThread {
            redis.kill()
            try redis.start()
        }
        endpoint.simulator.removeFault(id: fault)
        try await eventually("read again", within: 20) {
            (try? await endpoint.mint(try endpoint.session()))?.code == "access_revoked"
        }
        try await eventually("done after all", within: 30) {
            await endpoint.advance(by: .seconds(1))
            return (try? await endpoint.mint(try endpoint.session("user-2")))?.status == 201
        }
    }

    @Test func withoutOneTheStartWarnsAndStrictRefuses() async throws {
        let redis = try await server()
        let endpoint = try await endpoint(redis)
        let warning = "Redis keeps no append-only file: its restart loses fences and unfinished revocations"
        #expect(endpoint.logLines(warning).count == 1)
        #expect(try await endpoint.metric("state_append_only") == 0)
        #expect(try await endpoint.metric("state_readable") == 1)
        await #expect(throws: TokenEndpoint.StartError.self) { try await self.endpoint(redis, "state_durability: strict") }
    }

    @Test func aRedisThatLosesItsMemoryIsAnotherStore() async throws {
        let redis = try await server()
        let endpoint = try await endpoint(redis)
        #expect(try await revoke(endpoint).get().isComplete)
        try await onOwnThread {
            redis.kill()
            try redis.start()
        }
        // Another replica makes a state of its own there.
        let other = try await self.endpoint(redis)
        #expect(try await other.mint(try other.session("user-2")).status == 201)
        for _ in 0..<3 {
            let answer = try await endpoint.mint(try endpoint.session("user-2"))
            #expect(answer.status == 503 && answer.code == "state_unavailable")
            await endpoint.advance(by: .seconds(2))
        }
        try await eventually("said") {
            endpoint.logLines("the state in Redis cannot be used").contains { "\($0)".contains("another_store") }
        }
        #expect(try await endpoint.metric("state_readable") == 0)
        guard case .failure(.stateUnavailable) = try await revoke(endpoint, "user-3") else {
            Issue.record("promised on another store")
            return
        }
    }

    @Test func aStateThatMustExistIsNotMade() async throws {
        let redis = try await server()
        await #expect(throws: TokenEndpoint.StartError.self) { try await self.endpoint(redis, "state_must_exist: true") }
        _ = try await endpoint(redis)
        _ = try await endpoint(redis, "state_must_exist: true")
    }

    @Test func anotherMappingIsRefusedUntilItIsAccepted() async throws {
        let redis = try await server()
        let first = try await endpoint(redis)
        await #expect(throws: TokenEndpoint.StartError.self) {
            try await self.endpoint(redis, "end_user_id: { prefix: other- }")
        }
        #expect(try await first.mint(try first.session()).status == 201)
        _ = try await endpoint(redis, "end_user_id: { prefix: other-, accept_new_mapping: true }")
        // Whoever still has the old one knows nobody by the names of the new one's blocks.
        await first.advance(by: .seconds(61))
        try await eventually("refused") { (try? await first.mint(try first.session()))?.code == "state_unavailable" }
    }

    // MARK: What is refused

    @Test func aPolicyThatBeginsToThrowKeysAwayStopsMinting() async throws {
        let redis = try await server()
        let endpoint = try await endpoint(redis)
        #expect(try await endpoint.mint(try endpoint.session()).status == 201)
        try redis.ask("CONFIG SET maxmemory-policy allkeys-lru")
        await endpoint.advance(by: .seconds(61))
        try await eventually("stopped") { (try? await endpoint.mint(try endpoint.session()))?.code == "state_unavailable" }
        try redis.ask("CONFIG SET maxmemory-policy noeviction")
        try await eventually("goes on", within: 20) { (try? await endpoint.mint(try endpoint.session()))?.status == 201 }
    }

    @Test func aFrozenRedisCostsAMintASecondAndNobodyTheirBlock() async throws {
        let redis = try await server()
        let endpoint = try await endpoint(redis)
        #expect(try await revoke(endpoint).get().isComplete)
        #expect(try await endpoint.mint(try endpoint.session("user-2")).status == 201)
        redis.freeze()
        for user in ["user-1", "user-2"] {
            let answer = try await endpoint.mint(try endpoint.session(user))
            #expect(answer.status == 503 && answer.code == "state_unavailable" && answer.fields["retry-after"] != nil)
        }
        redis.thaw()
        try await eventually("goes on", within: 20) { (try? await endpoint.mint(try endpoint.session("user-2")))?.status == 201 }
        #expect(try await endpoint.mint(try endpoint.session()).code == "access_revoked")
    }

    @Test func whileItWasFrozenATokenIsNotDelivered() async throws {
        let redis = try await server()
        let endpoint = try await endpoint(redis)
        endpoint.simulator.addFault(FaultRule(.disrupted(.holdAfterCommit), on: .mint))
        let session = try endpoint.session()
        async let mint = endpoint.mint(session)
        try await endpoint.awaitMintsReceived(1)
        redis.freeze()
        endpoint.simulator.release()
        let answer = try await mint
        #expect(answer.status == 503 && answer.code == "state_unavailable" && answer.fields["january-request-id"] != nil)
        #expect(try await endpoint.metric("withheld_tokens_total") == 1)
        redis.thaw()
    }

    @Test func withAnAclUserAndItsPasswordFromFiles() async throws {
        // The commands that docs/revocations.md names.
        let commands =
            "info time eval evalsha get set del pttl pexpire hget hgetall hmget hset hincrby zadd zrem zscore zcard zrange"
            + " zrangebyscore zremrangebyscore"
        let allowed = commands.split(separator: " ").map { "+" + $0 }
        let redis = try await server(["--user", "january", "on", ">open-sesame", "~january-endpoint:*", "-@all"] + allowed)
        let files = ["redis_password": "open-sesame\n"]
        let endpoint = try await endpoint(
            redis, "state_username: january\nstate_password_file: redis_password", files: files)
        #expect(try await endpoint.mint(try endpoint.session()).status == 201)
        #expect(try await revoke(endpoint).get().isComplete)
    }

    @Test func aWrongPasswordIsNotReadyAndSaysWhy() async throws {
        let redis = try await server(["--requirepass", "right"], login: "AUTH right")
        let endpoint = try await endpoint(redis, "state_password_file: redis_password", files: ["redis_password": "wrong"])
        let answer = try await endpoint.get("/readyz")
        #expect(answer.status == 503 && answer.body.contains("state"))
        #expect(try await endpoint.mint(try endpoint.session()).code == "state_unavailable")
        let lines = endpoint.logLines("the state in Redis cannot be used")
        #expect(lines.first?["reason"]?.string == "wrong_password")
        try redis.ask("CONFIG SET requirepass wrong")
        try await eventually("ready", within: 20) { (try? await endpoint.get("/readyz"))?.status == 200 }
        let minted = try await endpoint.mint(try endpoint.session())
        #expect(minted.status == 201)
        // Lines and records have taken on the state's key, which was not there at the start.
        let hash = try #require(endpoint.endpoint.state.shared?.state.hash)
        #expect(try await endpoint.requestLine(of: minted)["end_user"]?.string == hash.hash("user-1"))
    }

    @Test func redissVerifiesTheServer() async throws {
        let certificates = try TestCertificates.shared.get()
        let redis = try await server(tls: certificates.issue("IP:127.0.0.1,DNS:localhost"))
        let authority = String(decoding: certificates.authority, as: UTF8.self)
        let endpoint = try await endpoint(redis, "state_ca_file: ca.pem", files: ["ca.pem": authority])
        #expect(try await endpoint.mint(try endpoint.session()).status == 201)
        let doubting = try await self.endpoint(redis)
        #expect(try await doubting.get("/readyz").status == 503)
        #expect(doubting.logLines("the state in Redis cannot be used").first?["reason"]?.string == "tls")
    }

    // MARK: Replicas

    /// A mint is in flight at a replica that then stands still until everything has been done without it.
    @Test func aMintThatWasWrittenOffIsNotDeliveredByAReplicaThatWakesUpLater() async throws {
        let redis = try await server()
        let first = try await endpoint(redis)
        let second = try await endpoint(redis, january: first)
        let loop = second.endpoint.loops[0]
        let shared = try #require(second.endpoint.state.shared)
        let gate = await loop.run { LoopBound(shared.makeGate(on: loop), on: loop) }
        let ticket = Promise<LoopBound<RedisMintGate.Ticket>>("entered")
        loop.execute {
            gate.value.enter("user-1", sessionStartedAt: nil, deadline: loop.now + .milliseconds(300)) { decision, entered in
                #expect(decision == .free)
                if let entered { ticket.fulfil(LoopBound(entered, on: loop)) }
            }
        }
        let entered = try await ticket.value()
        // It is waited for until its deadline; then one more sweep, and the answer.
        #expect(try await revoke(first).get().isComplete)
        #expect(first.simulator.counts(of: .revoke).received >= 2)
        #expect(try await lift(first).isBlocked == false)
        #expect(try await first.mint(try first.session()).status == 201)
        let decision = Promise<FenceDecision>("looked")
        loop.execute { gate.value.look(entered.value, then: .leave) { decision.fulfil($0) } }
        #expect(try await decision.value() == .inProgress)
    }

    @Test func aLiftWaitsForTheReplicaThatSweeps() async throws {
        let redis = try await server()
        let first = try await endpoint(redis)
        let second = try await endpoint(redis, january: first)
        #expect(try await first.mint(try first.session()).status == 201)
        #expect(try await revoke(first).get().isComplete)
        // The late sweep is under way at one of them.
        first.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .revoke))
        let before = first.simulator.counts(of: .revoke).received
        try await eventually("late sweep", within: 20) {
            await first.advance(by: .seconds(76))
            // Not once more while the call is on its way: its own time would be over.
            try? await eventually("a call", within: 1) { first.simulator.counts(of: .revoke).received > before }
            return first.simulator.counts(of: .revoke).received > before
        }
        let status = try await lift(second)
        #expect(status.isPending && status.isBlocked)
        #expect(try await second.mint(try second.session()).code == "access_revoked")
        first.simulator.release()
        try await eventually("lifted", within: 20) { (try? await second.mint(try second.session()))?.status == 201 }
        #expect(second.simulator.counts(of: .revoke).received == 0)
    }

    @Test func everyReplicaShowsAllRevocationsOldestFirst() async throws {
        let redis = try await server()
        let first = try await endpoint(redis)
        let second = try await endpoint(redis, january: first)
        for number in 0..<5 { #expect(try await revoke(number % 2 == 0 ? first : second, "user-\(number)").get().isComplete) }
        first.simulator.addFault(FaultRule(.refused(503, "service_unavailable"), on: .revoke, times: nil))
        for number in 5..<8 {
            let replica = number % 2 == 0 ? first : second
            try #require(replica.endpoint.revocations).revoke(
                RevocationRequest(endUserID: "user-\(number)", block: .none, reason: nil, requestedBy: "token-1")
            ) { _ in }
            try await eventually("\(number) is pending") {
                let page = try? await self.page(first, pendingOnly: true, limit: 10, after: nil)
                return page?.items.count == number - 4
            }
        }
        let some = try await page(second, pendingOnly: false, limit: 6, after: nil)
        #expect(some.items.count == 6 && some.items.map(\.isComplete) == [true, true, true, true, true, false])
        let rest = try await page(first, pendingOnly: false, limit: 6, after: some.next)
        #expect(rest.items.map(\.endUserID) == ["user-6", "user-7"] && rest.next == nil)
        let pending = try await page(second, pendingOnly: true, limit: 2, after: nil)
        #expect(pending.items.map(\.endUserID) == ["user-5", "user-6"])
        #expect(try await page(first, pendingOnly: true, limit: 2, after: pending.next).items.map(\.endUserID) == ["user-7"])
        await second.advance(by: .seconds(10))
        try await eventually("counted") { (try? await second.metric("revocations_pending")) == 3 }
        #expect(try await second.metric("fences") == 5)
    }

    @Test func oldBlocksAreForgottenWhereThatIsWanted() async throws {
        let redis = try await server()
        let first = try await endpoint(redis)
        #expect(try await revoke(first).get().isComplete)
        #expect(try await first.mint(try first.session()).code == "access_revoked")
        // A day and the late sweep later.
        let late = try await EndpointFixture(
            more: "state: \"\(redis.url)\"\nfences: { keep_days: 1 }", baseURL: first.simulator.origin)
        await late.advance(by: .seconds(80))
        try await eventually("swept late", within: 20) {
            await late.advance(by: .seconds(6))
            try? await eventually("a call", within: 1) { first.simulator.counts(of: .revoke).received >= 2 }
            return first.simulator.counts(of: .revoke).received >= 2
        }
        try await eventually("forgotten", within: 20) {
            await late.advance(by: .seconds(90_000))
            return (try? await first.mint(try first.session()))?.status == 201
        }
        #expect(try await page(first, pendingOnly: false, limit: 10, after: nil).items.isEmpty)
    }
}
