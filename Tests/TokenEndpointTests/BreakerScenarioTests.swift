import JanuarySimulator
import Primitives
import TestSupport
import Testing

/// When January is left alone, key by key and reason by reason.
@Suite(.serialized)
struct BreakerScenarioTests {
    struct Account: Sendable {
        let reason: String
        let status: Int
        let code: String
        let change: @Sendable (inout SimulatorSettings) -> Void
    }

    static let accountWide: [Account] = [
        Account(reason: "key", status: 502, code: "january_key_rejected") { $0.keys = [:] },
        Account(reason: "forbidden", status: 403, code: "january_forbidden") { $0.clientTokensEnabled = false },
        Account(reason: "forbidden", status: 403, code: "january_forbidden") {
            $0.keys = [SimulatorSettings.developmentKey: .otherVersion]
        },
        Account(reason: "quota", status: 403, code: "january_quota_exhausted") { $0.spentCeiling = .requests },
        Account(reason: "quota", status: 403, code: "january_quota_exhausted") { $0.spentCeiling = .credits },
    ]

    @Test
    func anAnswerAboutTheAccountIsEverybodysForFiveSecondsAtATime() async throws {
        for row in Self.accountWide {
            let fixture = try await EndpointFixture(isTimeFrozen: true)
            let what = Comment(rawValue: row.reason)
            fixture.simulator.configure(row.change)
            for user in 1...6 {
                let answer = try await fixture.mint(try fixture.session("user-\(user)"))
                #expect(answer.status == row.status, what)
                #expect(answer.code == row.code, what)
            }
            #expect(fixture.mintsReceived == 1, what)
            try await fixture.awaitMetric(#"breaker_state{reason="\#(row.reason)"}"#, 1)
            await fixture.advance(by: .seconds(5))
            for user in 1...3 { _ = try await fixture.mint(try fixture.session("user-\(user)")) }
            #expect(fixture.mintsReceived == 2, what)
            // Cured: the next probe's success lets everybody in at once.
            fixture.simulator.configure { $0 = SimulatorSettings() }
            await fixture.advance(by: .seconds(5))
            for user in 1...3 {
                let answer = try await fixture.mint(try fixture.session("user-\(user)"))
                #expect(answer.status == 201, what)
            }
            let closed = try await fixture.metric(#"breaker_state{reason="\#(row.reason)"}"#)
            #expect(closed == 0, what)
        }
    }

    static let runs: [(String, Fault, Int)] = [
        ("500", .refused(500, "internal_error"), 503),
        ("broken", .disrupted(.resetAfterCommit), 503),
        ("fails the checks", .notJSON, 502),
        ("redirect", .redirect(307, to: "/elsewhere"), 502),
    ]

    @Test
    func fiveFailuresInARowFromThreePeopleStopTheMintsButForOneProbeASecond() async throws {
        for (name, fault, status) in Self.runs {
            let fixture = try await EndpointFixture(isTimeFrozen: true)
            let what = Comment(rawValue: name)
            let rule = fixture.simulator.addFault(FaultRule(fault, on: .mint, times: nil))
            for count in 0..<5 {
                let answer = try await fixture.mint(try fixture.session("user-\(count % 3)"))
                #expect(answer.status == status, what)
            }
            #expect(fixture.mintsReceived == 5, what)
            for user in 10...14 {
                let answer = try await fixture.mint(try fixture.session("user-\(user)"))
                #expect(answer.status == 503, what)
                #expect(answer.code == "january_unavailable", what)
                #expect(answer.fields["retry-after"] == "1", what)
            }
            #expect(fixture.mintsReceived == 5, what)
            let open = try await fixture.metric(#"breaker_state{reason="unavailable"}"#)
            #expect(open == 1, what)
            await fixture.advance(by: .seconds(1))
            _ = try await fixture.mint(try fixture.session("probe"))
            #expect(fixture.mintsReceived == 6, what)
            fixture.simulator.removeFault(id: rule)
            await fixture.advance(by: .seconds(1))
            for user in 1...3 {
                let answer = try await fixture.mint(try fixture.session("user-\(user)"))
                #expect(answer.status == 201, what)
            }
        }
    }

    @Test
    func twoPeoplesFailuresStopNobody() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .mint, times: 12))
        for count in 0..<12 { _ = try await fixture.mint(try fixture.session("user-\(count % 2)")) }
        #expect(fixture.mintsReceived == 12)
        let answer = try await fixture.mint(try fixture.session("user-3"))
        #expect(answer.status == 201)
    }

    @Test
    func aSuccessBetweenStartsTheCountAnew() async throws {
        let fixture = try await EndpointFixture()
        for round in 0..<3 {
            fixture.simulator.addFault(FaultRule(.refused(500, "internal_error"), on: .mint, times: 4))
            for user in 0..<4 { _ = try await fixture.mint(try fixture.session("user-\(user)")) }
            let answer = try await fixture.mint(try fixture.session("good-\(round)"))
            #expect(answer.status == 201)
        }
    }

    @Test
    func otherRefusalsOfJanuaryStopNobody() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(FaultRule(.refused(400, "invalid_request"), on: .mint, times: 8))
        for user in 0..<8 {
            let answer = try await fixture.mint(try fixture.session("user-\(user)"))
            #expect(answer.code == "january_rejected_request")
        }
        #expect(fixture.mintsReceived == 8)
    }

    @Test
    func anUnreachableJanuaryIsAskedOnceASecond() async throws {
        let fixture = try await EndpointFixture(baseURL: "http://127.0.0.1:1", isTimeFrozen: true)
        for user in 0..<7 {
            let answer = try await fixture.mint(try fixture.session("user-\(user)"))
            #expect(answer.status == 502)
            #expect(answer.code == "january_unreachable")
            #expect(answer.fields["retry-after"] == (user < 5 ? nil : "1"))
        }
        let open = try await fixture.metric(#"breaker_state{reason="unreachable"}"#)
        #expect(open == 1)
    }

    @Test(arguments: [("3", 3), (nil, 2)] as [(String?, Int)])
    func afterARateLimitNothingIsSentUntilItHasPassed(_ wait: String?, _ seconds: Int) async throws {
        let fixture = try await EndpointFixture(isTimeFrozen: true)
        fixture.simulator.addFault(FaultRule(.refused(429, "rate_limited", retryAfter: wait), on: .mint))
        for user in 1...4 {
            let answer = try await fixture.mint(try fixture.session("user-\(user)"))
            #expect(answer.status == 503)
            #expect(answer.code == "january_rate_limited")
            let shown = Int(answer.fields["retry-after"] ?? "") ?? 0
            #expect((1...seconds).contains(shown))
        }
        #expect(fixture.mintsReceived == 1)
        let open = try await fixture.metric(#"breaker_state{reason="rate_limited"}"#)
        #expect(open == 1)
        await fixture.advance(by: .seconds(seconds))
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 201)
    }

    // MARK: The next key

    static let nextKey = "sk-next-000000000000000000000000000000000000000"

    @Test
    func aRejectedKeyFailsOverOnceAndTheOtherStaysCurrent() async throws {
        let fixture = try await EndpointFixture(secondKey: Self.nextKey) { $0.configure { $0.keys = [Self.nextKey: .valid] } }
        let first = try await fixture.mint(try fixture.session())
        #expect(first.status == 201)
        #expect(fixture.mintsReceived == 2)
        let second = try await fixture.mint(try fixture.session())
        #expect(second.status == 201)
        #expect(fixture.mintsReceived == 3)
        #expect(fixture.simulator.requests(of: .mint).last?.field(.authorization) == "Bearer \(Self.nextKey)")
        let current = try await fixture.metric(#"api_key_current{slot="next"}"#)
        #expect(current == 1)
        let before = try await fixture.metric(#"api_key_current{slot="first"}"#)
        #expect(before == 0)
        let switches = try await fixture.metric(#"api_key_switches_total{slot="next"}"#)
        #expect(switches == 1)
        let lines = fixture.logLines("January rejects the current API key; the other one is in use now")
        #expect(lines.count == 1)
        #expect(lines.first?["slot"]?.string == "next")
    }

    @Test
    func twoRejectedKeysAre502AndTheFirstStaysCurrent() async throws {
        let fixture = try await EndpointFixture(secondKey: Self.nextKey) { $0.configure { $0.keys = [:] } }
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.status == 502)
        #expect(answer.code == "january_key_rejected")
        #expect(fixture.mintsReceived == 2)
        let current = try await fixture.metric(#"api_key_current{slot="first"}"#)
        #expect(current == 1)
    }

    @Test
    func theOtherKeyIsNeverTriedOn403() async throws {
        let fixture = try await EndpointFixture(secondKey: Self.nextKey) {
            $0.configure { $0.keys = [SimulatorSettings.developmentKey: .otherVersion, Self.nextKey: .valid] }
        }
        let answer = try await fixture.mint(try fixture.session())
        #expect(answer.code == "january_forbidden")
        #expect(fixture.mintsReceived == 1)
    }

    @Test
    func theOtherKeyIsTriedWithinTheBudget() async throws {
        let fixture = try await EndpointFixture(january: "budget_seconds: 8", secondKey: Self.nextKey) {
            $0.configure { $0.keys = [Self.nextKey: .valid] }
        }
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        let session = try fixture.session()
        async let answer = fixture.mint(session)
        try await fixture.awaitMintsReceived(1)
        await fixture.advance(by: .milliseconds(7_600))
        fixture.simulator.release()
        let got = try await answer
        #expect(got.status == 504)
        #expect(fixture.mintsReceived == 1)
    }
}
