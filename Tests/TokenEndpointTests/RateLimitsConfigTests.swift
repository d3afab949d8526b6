import Configuration
import GCRA
import Primitives
import RateLimiting
import Redis
import Testing

@testable import TokenEndpoint

@Suite struct RateLimitsConfigTests {
    private static let second: Int64 = 1_000_000_000

    private static func read(_ text: String) -> (RateLimits, [String]) {
        let reader = ConfigReader.parse(text, name: "config.yaml")
        let section = reader.root.section("rate_limits")
        let limits = RateLimits.read(section)
        section.finish()
        return (limits, reader.problems.map(\.description))
    }

    private static func rule(_ requests: Int, _ seconds: Int64, _ burst: Int) -> GCRARule {
        GCRARule(requests: requests, periodNanoseconds: seconds * second, burst: burst)
    }

    /// The fields have whole seconds: what they promise is never more than the limit admits.
    @Test(arguments: [
        (6, Int64(60_000), "q=6;w=60"), (1, 500, "q=2;w=1"), (1000, 1, "q=1000000;w=1"), (1, 1_500, "q=1;w=2"),
        (3, 1_500, "q=4;w=2"),
        (1_000_000, 86_400_000, "q=1000000;w=86400"),
    ])
    func aWindowOfPartsOfASecondIsToldAsAWholeOne(requests: Int, milliseconds: Int64, expected: String) {
        var fields: [UInt8] = []
        let rule = GCRARule(requests: requests, periodNanoseconds: milliseconds * 1_000_000, burst: 1)
        LimitNotice(.session, rule: rule, wait: 1).append(to: &fields)
        #expect(
            String(decoding: fields, as: UTF8.self).hasPrefix(
                "RateLimit-Policy: \"\(LimitName.session.rawValue)\";\(expected)\r\n"))
    }

    @Test func theDefaults() {
        for text in ["{}", "rate_limits: {}"] {
            let (limits, problems) = Self.read(text)
            #expect(problems == [])
            #expect(limits == RateLimits())
            #expect(limits.perAddress == Self.rule(600, 60, 600))
            #expect(limits.perSession == Self.rule(6, 60, 10))
            #expect(limits.perEndUser == Self.rule(12, 60, 30))
            #expect(limits.all == nil && limits.mode == .enforce)
        }
    }

    @Test func everyKeyIsRead() {
        let (limits, problems) = Self.read(
            """
            rate_limits:
              store: memory
              mode: shadow
              per_address: { requests: 1, per_seconds: 86400, burst: 1 }
              per_session: false
              per_end_user: { burst: 1000000 }
              all: { requests: 1000000, per_seconds: 1, burst: 1000000 }
            """)
        #expect(problems == [])
        #expect(
            limits
                == RateLimits(
                    mode: .shadow, perAddress: Self.rule(1, 86_400, 1), perSession: nil, perEndUser: Self.rule(12, 60, 1_000_000),
                    all: Self.rule(1_000_000, 1, 1_000_000)))
    }

    @Test(arguments: [
        ("per_session: true", "rate_limits.per_session: must be false or a mapping (got true)"),
        ("per_session: { requests: 0 }", "rate_limits.per_session.requests: must be from 1 to 1000000 (got 0)"),
        ("per_session: { requests: 1000001 }", "rate_limits.per_session.requests: must be from 1 to 1000000 (got 1000001)"),
        ("per_session: { burst: 0 }", "rate_limits.per_session.burst: must be from 1 to 1000000 (got 0)"),
        ("per_session: { burst: 1000001 }", "rate_limits.per_session.burst: must be from 1 to 1000000 (got 1000001)"),
        ("per_session: { per_seconds: 0 }", "rate_limits.per_session.per_seconds: must be from 0.001 to 86400 seconds (got 0)"),
        (
            "per_session: { per_seconds: 86401 }",
            "rate_limits.per_session.per_seconds: must be from 0.001 to 86400 seconds (got 86401)"
        ),
        (
            "per_session: { requests: 1000000, per_seconds: 0.9 }",
            "rate_limits.per_session.requests: must not be more than 1000000 a second"
        ),
        ("per_session: { request: 5 }", #"rate_limits.per_session.request: unknown key; did you mean "requests"?"#),
        ("all: { requests: 5, per_seconds: 1 }", "rate_limits.all.burst: required"),
        ("mode: off", "rate_limits.mode: must be one of enforce, shadow (got \"off\")"),
        ("per_end_usr: false", #"rate_limits.per_end_usr: unknown key; did you mean "per_end_user"?"#),
    ])
    func whatDoesNotFitIsNamed(text: String, problem: String) {
        let (_, problems) = Self.read("rate_limits:\n  \(text)\n")
        #expect(problems == ["config.yaml:2: \(problem)"])
    }

    @Test func theStoreIsMemoryOrARedis() throws {
        let (limits, problems) = Self.read("rate_limits: { store: \"rediss://cache.example:6380/1\" }")
        #expect(problems == [])
        #expect(limits.store == .redis(RedisConfig(url: try RedisURL.parse("rediss://cache.example:6380/1"))))
        let reader = ConfigReader.parse("{}", name: "config.yaml", environment: ["REDIS_URL": "redis://a:hush@h"])
        #expect(RateLimits.read(reader.root.section("rate_limits")).store.redis?.url.password?.equals(Secret("hush")) == true)
        #expect(reader.problems.isEmpty)
        #expect(!reader.printed().contains("hush"))
    }

    @Test(arguments: [
        ("store: redis", "store: must be memory, or a URL such as redis://127.0.0.1:6379/1 (got \"redis\")"),
        ("store: \"http://h\"", "store: must be memory, or a URL such as redis://127.0.0.1:6379/1 (got \"http://h\")"),
        (
            "store: \"redis://:hush@h\"",
            "store: must not hold a password in the file; use username and password_file beside it"
        ),
        ("username: a", "username: is for a redis:// URL at store"),
    ])
    func aStoreThatIsNoneIsNamed(text: String, problem: String) {
        let (limits, problems) = Self.read("rate_limits:\n  \(text)\n")
        #expect(limits.store == .memory)
        #expect(problems == ["config.yaml:2: rate_limits.\(problem)"])
    }

    @Test(arguments: ["0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96", "example.org", "10.0.0.0/33", "unix", ""])
    func aProxyThatIsEverybodyOrNobodyIsRefused(text: String) {
        let reader = ConfigReader.parse("trusted_proxies: [\"\(text)\"]\n", name: "config.yaml")
        _ = RootConfig.read(reader)
        #expect(
            reader.problems.contains { $0.description.hasPrefix("config.yaml:1: trusted_proxies[0]: ") }, "\(reader.problems)")
    }

    @Test func theFieldOfProxiesIsOneOfTwo() {
        let reader = ConfigReader.parse("trusted_proxy_field: x-real-ip\n", name: "config.yaml")
        _ = RootConfig.read(reader)
        #expect(
            reader.problems.contains {
                $0.description
                    == #"config.yaml:1: trusted_proxy_field: must be one of x-forwarded-for, forwarded (got "x-real-ip")"#
            })
    }
}
