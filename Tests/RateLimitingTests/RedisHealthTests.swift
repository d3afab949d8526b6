import Primitives
import Redis
import TestSupport
import Testing

@testable import RateLimiting
@testable import Telemetry

@Suite struct RedisHealthTests {
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)

    @Test func aTimeOutIsProbedAtOnceAndEverythingElseASecondLater() {
        for (error, wait) in [
            (RedisError.timedOut(wasSent: true), Duration.zero), (.timedOut(wasSent: false), .zero),
            (.unreachable(.refused), .seconds(1)), (.server(.readOnly), .seconds(1)), (.broken, .seconds(1)),
        ] {
            var health = RedisHealth(goodAnswer: .milliseconds(20))
            #expect(health.isAnswering)
            #expect(health.failed(error, now: Self.start) == .probe(at: Self.start + wait))
            #expect(!health.isAnswering)
            // Whatever else was under way.
            #expect(health.failed(.broken, now: Self.start) == .none)
        }
    }

    @Test(arguments: [
        (nil as RedisError?, 0, RedisHealth.Action.recovered), (nil, 20, .recovered), (nil, 21, .probe(at: start + .seconds(1))),
        (nil, 1500, .probe(at: start + .milliseconds(1500))), (.server(.loading), 0, .probe(at: start + .seconds(1))),
        (.timedOut(wasSent: true), 1000, .probe(at: start + .seconds(1))),
    ])
    func aProbeEndsItOrIsRepeatedEverySecond(error: RedisError?, milliseconds: Int, expected: RedisHealth.Action) {
        var health = RedisHealth(goodAnswer: .milliseconds(20))
        _ = health.failed(.broken, now: Self.start)
        let action = health.probed(error, began: Self.start, now: Self.start + .milliseconds(milliseconds))
        #expect(action == expected)
        #expect(health.isAnswering == (expected == .recovered))
    }

    @Test func theFirstProbeOfAllDecidesLikeARequest() {
        var health = RedisHealth(goodAnswer: .milliseconds(20))
        #expect(health.probed(nil, began: Self.start, now: Self.start) == .none)
        #expect(health.isAnswering)
        #expect(
            health.probed(.unreachable(.refused), began: Self.start, now: Self.start) == .probe(at: Self.start + .seconds(1)))
        #expect(!health.isAnswering)
    }

    /// Who looks for a person in Redis asks `hash-id`.
    @Test func aPersonsCellHasTheNameOfTheLogs() {
        let secret = Secret("0123456789abcdef0123456789abcdef")
        let charge = Charge(
            .endUser, key: LimitKeyMaker(shared: secret).endUser("person-1"), rule: RateLimits.standardPerEndUser)
        let expected = "january-endpoint:{limits}:per_end_user:\(EndUserHash(secret: secret).hash("person-1"))"
        #expect(String(decoding: RedisLimitStore.key(charge), as: UTF8.self) == expected)
    }

    @Test func replicasMakeTheSameKeysAndTellAccountsApart() {
        let (one, other) = (Secret("sk-one"), Secret("sk-other"))
        #expect(SharedLimitSecret.make(hashSecret: nil, apiKey: one).equals(SharedLimitSecret.make(hashSecret: nil, apiKey: one)))
        #expect(
            !SharedLimitSecret.make(hashSecret: nil, apiKey: one).equals(SharedLimitSecret.make(hashSecret: nil, apiKey: other)))
        #expect(SharedLimitSecret.make(hashSecret: other, apiKey: one).equals(other))
        #expect(SharedLimitSecret.account(apiKey: one) != SharedLimitSecret.account(apiKey: other))
    }

    @Test func oneLineAMinuteAndOneGaugeForAllLoops() {
        let time = TestTime()
        let memory = LogMemory()
        let metrics = Metrics()
        let health = LimiterHealth(
            address: "127.0.0.1:6379", log: Log(time: time, output: memory), metrics: metrics, time: time)
        func gauge() -> Bool {
            String(decoding: metrics.prometheusText(), as: UTF8.self).contains("january_endpoint_limiter_degraded 1\n")
        }
        #expect(!gauge() && !health.isDegraded)
        health.began(.unreachable(.refused))
        health.began(.unreachable(.refused))
        #expect(gauge() && memory.lines.count == 1)
        #expect(memory.text.contains("\"reason\":\"refused\"") && memory.text.contains("\"redis\":\"127.0.0.1:6379\""))
        for _ in 0..<59 {
            time.advance(by: .seconds(1))
            health.goesOn(.server(.loading))
        }
        #expect(memory.lines.count == 1)
        time.advance(by: .seconds(1))
        health.goesOn(.server(.loading))
        #expect(memory.lines.count == 2)
        health.ended()
        #expect(gauge() && memory.lines.count == 2)
        health.ended()
        #expect(!gauge() && memory.lines.count == 3)
        // It comes and goes: what was not said is not taken back.
        health.began(.broken)
        #expect(gauge())
        health.ended()
        #expect(!gauge() && memory.lines.count == 3)
    }
}
