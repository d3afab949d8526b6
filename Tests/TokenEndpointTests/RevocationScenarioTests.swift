import EventLoop
import JanuarySimulator
import Primitives
import Revocations
import StrictJSON
import TestSupport
import Testing

@testable import TokenEndpoint

@Suite(.serialized) struct RevocationScenarioTests {
    private static let state = "state: \"sqlite:state/state.db\""

    private func endpoint(_ more: String = "", sessions: String? = nil) async throws -> EndpointFixture {
        try await EndpointFixture(sessions: sessions, more: Self.state + "\n" + more)
    }

    private func revoke(
        _ endpoint: EndpointFixture, _ endUserID: String = "user-1", block: RevocationBlock = .user
    ) throws -> Promise<Result<RevocationStatus, RevocationError>> {
        let answer = Promise<Result<RevocationStatus, RevocationError>>("revocation")
        let service = try #require(endpoint.endpoint.revocations)
        service.revoke(
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

    private func endUser(_ endpoint: EndpointFixture, _ endUserID: String = "user-1") async throws -> EndUserStatus {
        let answer = Promise<Result<EndUserStatus, RevocationError>>("end user")
        try #require(endpoint.endpoint.revocations).endUser(endUserID, completion: { answer.fulfil($0) })
        return try await answer.value().get()
    }

    private func isRevokedCallCount(_ endpoint: EndpointFixture, _ count: Int) -> Bool {
        endpoint.simulator.counts(of: .revoke).received == count
    }

    @Test func aBlockedUserGetsNoTokenAndTheOldOnesAreRevoked() async throws {
        let endpoint = try await endpoint()
        let session = try endpoint.session()
        for _ in 0..<3 { #expect(try await endpoint.mint(session).status == 201) }
        let status = try await revoke(endpoint).value().get()
        #expect(status.isComplete && status.revokedCount == 3 && status.block == .user && status.fenceScope == .process)
        #expect(status.endUserID == "user-1")
        #expect(endpoint.simulator.tokens(of: "user-1").allSatisfy { $0.revoked != nil })
        // Three and then none: a call each.
        #expect(isRevokedCallCount(endpoint, 2))
        let refused = try await endpoint.mint(session)
        #expect(refused.status == 403 && refused.code == "access_revoked")
        #expect(endpoint.mintsReceived == 3)
        #expect(try await endpoint.mint(try endpoint.session("user-2")).status == 201)
        #expect(try await endpoint.metric("fences") == 1)
        #expect(try await endpoint.metric("revocations_pending") == 0)
        #expect(try await endpoint.metric(#"revocation_sweeps_total{result="revoked"}"#) == 1)
        let user = try await endUser(endpoint)
        #expect(user.blocked == .user && user.blockedSince != nil && !user.isPending && user.inFlightCount == 0)
        #expect(try await lift(endpoint).isBlocked == false)
        #expect(try await endpoint.mint(session).status == 201)
        #expect(try await endpoint.metric("fences") == 0)
    }

    @Test func aTokenThatWasOnItsWayIsNotDelivered() async throws {
        let endpoint = try await endpoint()
        endpoint.simulator.addFault(FaultRule(.disrupted(.holdAfterCommit), on: .mint))
        let session = try endpoint.session()
        async let mint = endpoint.mint(session)
        try await endpoint.awaitMintsReceived(1)
        let revocation = try revoke(endpoint)
        try await eventually("the first sweep is over") { isRevokedCallCount(endpoint, 2) }
        #expect(try await endUser(endpoint).inFlightCount == 1)
        #expect(!revocation.isFulfilled)
        endpoint.simulator.clearFaults()
        endpoint.simulator.release()
        let answer = try await mint
        #expect(answer.status == 403 && answer.code == "access_revoked")
        #expect(try await revocation.value().get().isComplete)
        // Once more, after the answer.
        #expect(endpoint.simulator.counts(of: .revoke).received > 2)
        #expect(try await endpoint.metric("withheld_tokens_total") == 1)
    }

    @Test func withAnUnansweredMintUserIsAnsweredAndSweptOnceMoreAfter75Seconds() async throws {
        let endpoint = try await endpoint()
        endpoint.simulator.addFault(FaultRule(.disrupted(.resetAfterCommit), on: .mint))
        #expect(try await endpoint.mint(try endpoint.session()).status == 503)
        endpoint.simulator.clearFaults()
        #expect(try await endUser(endpoint).inFlightCount == 1)
        #expect(try await revoke(endpoint).value().get().isComplete)
        let before = endpoint.simulator.counts(of: .revoke).received
        await endpoint.advance(by: .seconds(74))
        #expect(isRevokedCallCount(endpoint, before))
        await endpoint.advance(by: .seconds(2))
        try await eventually("the late sweep") { isRevokedCallCount(endpoint, before + 1) }
    }

    @Test func aLiftCancelsTheLateSweep() async throws {
        let endpoint = try await endpoint()
        #expect(try await revoke(endpoint).value().get().isComplete)
        let before = endpoint.simulator.counts(of: .revoke).received
        #expect(try await lift(endpoint).isBlocked == false)
        await endpoint.advance(by: .seconds(80))
        let session = try endpoint.session(expiresIn: .seconds(7200))
        #expect(try await endpoint.mint(session).status == 201)
        #expect(isRevokedCallCount(endpoint, before))
    }

    @Test func noneHoldsTheUsersMintsBackUntilAMintWithoutAnswerCanNoLongerBeCommitted() async throws {
        let endpoint = try await endpoint()
        endpoint.simulator.addFault(FaultRule(.disrupted(.resetAfterCommit), on: .mint))
        #expect(try await endpoint.mint(try endpoint.session()).status == 503)
        endpoint.simulator.clearFaults()
        let revocation = try revoke(endpoint, block: .none)
        try await endpoint.awaitMetric("revocations_pending", 1)
        let session = try endpoint.session(expiresIn: .seconds(7200))
        let held = try await endpoint.mint(session)
        #expect(held.status == 503 && held.code == "revocation_in_progress" && held.fields["retry-after"] == "2")
        let heldID = try #require(held.fields["x-request-id"])
        try await eventually("its audit record") {
            endpoint.logs.lines.contains { line in
                let record = (try? JSONValue.parse(line))?.object
                return record?["type"] == "audit" && record?["message"] == "mint refused"
                    && record?["request_id"]?.string == heldID
            }
        }
        try await eventually("swept") { endpoint.simulator.counts(of: .revoke).succeeded >= 2 }
        await endpoint.advance(by: .seconds(11))
        #expect(try await revocation.value().get().isComplete == false)
        await endpoint.advance(by: .seconds(65))
        try await endpoint.awaitMetric("revocations_pending", 0)
        #expect(try await endpoint.mint(session).status == 201)
        #expect(endpoint.simulator.liveTokens(of: "user-1").count == 1)
    }

    @Test func sessionsLetsLaterSessionsInAndUnknownOnesNot() async throws {
        let endpoint = try await endpoint()
        let now = endpoint.time.wall().secondsSinceEpoch
        func session(_ began: Int64?) throws -> String {
            try endpoint.session(claims: began.map { ["auth_time": .number(JSONNumber(Int($0)))] } ?? [:])
        }
        let status = try await revoke(endpoint, block: .sessions).value().get()
        #expect(status.isComplete && status.refusesUnknownSessions)
        let old = try await endpoint.mint(try session(now - 10))
        #expect(old.status == 403 && old.code == "access_revoked")
        #expect(try await endpoint.mint(try session(now + 3)).status == 201)
    }

    @Test func januarysFailureLeavesItPendingAndItIsTriedAgain() async throws {
        let endpoint = try await endpoint()
        let session = try endpoint.session()
        #expect(try await endpoint.mint(session).status == 201)
        endpoint.simulator.addFault(FaultRule(.refused(503, "client_token_revocation_incomplete"), on: .revoke, times: nil))
        let revocation = try revoke(endpoint)
        try await eventually("asked") { endpoint.simulator.counts(of: .revoke).received >= 1 }
        try await eventually("pending") {
            await endpoint.advance(by: .milliseconds(300))
            return revocation.isFulfilled
        }
        let status = try await revocation.value().get()
        #expect(!status.isComplete && status.attempts >= 1 && status.lastError == "client_token_revocation_incomplete")
        #expect(try await endpoint.mint(session).code == "access_revoked")
        endpoint.simulator.clearFaults()
        try await eventually("done in the end") {
            await endpoint.advance(by: .seconds(5))
            return (try? await endpoint.metric("revocations_pending")) == 0
        }
        #expect(endpoint.simulator.tokens(of: "user-1").allSatisfy { $0.revoked != nil })
    }

    /// Somebody mints for the same person elsewhere, or January counts wrongly.
    @Test func whereJanuaryNeverReportsNoneItIsAskedEverMoreRarely() async throws {
        let endpoint = try await EndpointFixture(more: Self.state, isTimeFrozen: true)
        endpoint.simulator.addFault(FaultRule(.answered(200, body: #"{"revoked_count":1}"#), on: .revoke, times: nil))
        let revocation = try revoke(endpoint)
        let run = SweepMachine.maxRun
        for (round, pause) in [1, 2, 4, 8, 16, 32, 60, 60].enumerated() {
            try await eventually("round \(round)") {
                if isRevokedCallCount(endpoint, run * (round + 1)) { return true }
                // What is kept may be seen before the loop has set the time of the next look: then that counts from a later moment.
                await endpoint.advance(by: .milliseconds(pause * 5))
                return false
            }
            try await eventually("kept") { (try? await pending(endpoint).attempts) == round + 1 }
            await endpoint.advance(by: .milliseconds(pause * 740))
            #expect(try await pending(endpoint).lastError == "tokens_keep_coming")
            #expect(isRevokedCallCount(endpoint, run * (round + 1)), "not before three quarters of \(pause) s")
            await endpoint.advance(by: .milliseconds(pause * 270))
        }
        let status = try await revocation.value().get()
        #expect(!status.isComplete && status.revokedCount >= run)
        endpoint.simulator.clearFaults()
        try await eventually("done in the end") {
            await endpoint.advance(by: .seconds(10))
            return (try? await endpoint.metric("revocations_pending")) == 0
        }
    }

    private func pending(_ endpoint: EndpointFixture) async throws -> RevocationStatus {
        let page = Promise<Result<RevocationPage, RevocationError>>("page")
        try #require(endpoint.endpoint.revocations).list(pendingOnly: true, limit: 1, after: nil, completion: { page.fulfil($0) })
        return try #require(try await page.value().get().items.first)
    }

    @Test func onePoisonousEntryHoldsNobodyUp() async throws {
        let endpoint = try await endpoint()
        // More than January takes: 400 for ever.
        _ = try revoke(endpoint, String(repeating: "x", count: 65))
        for number in 0..<20 { #expect(try await revoke(endpoint, "user-\(number)").value().get().isComplete) }
        try await endpoint.awaitMetric("revocations_pending", 1)
    }

    @Test func aRepeatJoinsAndGetsTheSameID() async throws {
        let endpoint = try await endpoint()
        endpoint.simulator.addFault(FaultRule(.disrupted(.holdAfterCommit), on: .revoke, times: nil))
        let first = try revoke(endpoint, block: .none)
        try await eventually("asked") { isRevokedCallCount(endpoint, 1) }
        let second = try revoke(endpoint, block: .user)
        try await endpoint.awaitMetric("fences", 1)
        endpoint.simulator.clearFaults()
        endpoint.simulator.release()
        let one = try await first.value().get()
        let two = try await second.value().get()
        #expect(one.id == two.id && one.block == .user && one.isComplete && two.isComplete)
        // What was on its way before the repeat proves nothing: at least one call after it.
        #expect(endpoint.simulator.counts(of: .revoke).received >= 2)
    }

    @Test func withTheKeyRefusedTheOtherOneRevokes() async throws {
        let endpoint = try await EndpointFixture(
            more: Self.state, secondKey: "sk-second-key-for-tests",
            prepare: { simulator in
                simulator.configure {
                    $0.keys["sk-second-key-for-tests"] = .valid
                    $0.keys[SimulatorSettings.developmentKey] = .deleted
                }
            })
        #expect(try await revoke(endpoint).value().get().isComplete)
        #expect(try await endpoint.metric(#"api_key_current{slot="next"}"#) == 1)
    }
}
