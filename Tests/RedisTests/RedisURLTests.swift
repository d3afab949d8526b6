import Configuration
import Primitives
import Testing

@testable import Redis

@Suite struct RedisURLTests {
    struct Row: Sendable {
        let text: String
        let url: RedisURL?
        let problem: RedisURL.Problem?
        init(_ text: String, _ url: RedisURL) { (self.text, self.url, problem) = (text, url, nil) }
        init(_ text: String, _ problem: RedisURL.Problem) { (self.text, url, self.problem) = (text, nil, problem) }
    }

    static let rows: [Row] = [
        Row("redis://localhost", RedisURL(host: "localhost")),
        Row("redis://localhost/", RedisURL(host: "localhost")),
        Row("REDIS://127.0.0.1:6380/1", RedisURL(host: "127.0.0.1", port: 6380, database: 1)),
        Row("rediss://cache.example:6380/0", RedisURL(usesTLS: true, host: "cache.example", port: 6380)),
        Row("redis://[::1]:6379/15", RedisURL(host: "::1", database: 15)),
        Row("redis://[::1]", RedisURL(host: "::1")),
        Row("redis://redis_1", RedisURL(host: "redis_1")),
        Row("redis://:secret@h", RedisURL(host: "h", password: Secret("secret"))),
        Row("redis://app:s%2Fe%40c@h/2", RedisURL(host: "h", database: 2, username: "app", password: Secret("s/e@c"))),
        Row("redis://app@h", RedisURL(host: "h", username: "app")),
        Row("redis://app:@h", RedisURL(host: "h", username: "app")),
        Row("redis://a:b@c@h", RedisURL(host: "h", username: "a", password: Secret("b@c"))),
        Row("redis://a:b:c@h", RedisURL(host: "h", username: "a", password: Secret("b:c"))),
        Row("redis://h:1", RedisURL(host: "h", port: 1)), Row("redis://h:65535", RedisURL(host: "h", port: 65535)),
        Row("redis://h/1000000", RedisURL(host: "h", database: 1_000_000)),
        Row("redis://h:0", .port), Row("redis://h:65536", .port), Row("redis://h:", .port), Row("redis://h:x", .port),
        Row("redis://[::1]6379", .port), Row("redis://h/1000001", .database), Row("redis://h/x", .database),
        Row("redis://h/-1", .database), Row("redis://h/1/2", .database), Row("redis://h?db=1", .query),
        Row("redis://h/0#x", .query), Row("redis://", .host), Row("redis:///0", .host), Row("redis://a b", .host),
        Row("redis://[1.2.3.4]", .host), Row("redis://[::1", .host), Row("redis://ü", .host), Row("http://h", .scheme),
        Row("redis:h", .scheme), Row("memory", .scheme), Row("", .scheme), Row("unix:///run/redis.sock", .scheme),
        Row("redis://a:b/c@h", .userInfo), Row("redis://a%:b@h", .userInfo), Row("redis://a:%zz@h", .userInfo),
        Row("redis://a:b c@h", .userInfo), Row("redis://%ff:b@h", .userInfo),
    ]

    @Test(arguments: rows) func aURLIsReadOrRefusedForOneReason(row: Row) {
        do throws(RedisURL.Problem) {
            let url = try RedisURL.parse(row.text)
            #expect(url == row.url)
        } catch {
            #expect(error == row.problem)
        }
    }

    @Test func nothingPrintedHoldsUserOrPassword() throws {
        let url = try RedisURL.parse("rediss://hush-user:hush-word@[::1]:7000/3")
        #expect(url.description == "rediss://<redacted>@[::1]:7000/3")
        var dumped = "\(url) "
        debugPrint(url, to: &dumped)
        dump(url, to: &dumped)
        dump(RedisConfig(url: url), to: &dumped)
        #expect(!dumped.contains("hush"))
    }

    // MARK: Configuration

    private func read(_ text: String, environment: [String: String] = [:]) -> (RedisConfig?, [String]) {
        let reader = ConfigReader.parse(text, environment: environment)
        let section = reader.root.section("rate_limits")
        let store = section.string("store", default: "memory") ?? "memory"
        let config = RedisConfig.read(section, .init(url: "store"), text: RedisConfig.isURL(store) ? store : nil)
        section.finish()
        return (config, reader.problems.map(\.description))
    }

    @Test func aPasswordInTheFileIsAProblemThatNamesItsPlace() {
        let (config, problems) = read("rate_limits: { store: \"redis://app:hush@h\" }")
        #expect(config == nil)
        #expect(
            problems == [
                "config.yaml:1: rate_limits.store: must not hold a password in the file; use username and password_file beside it"
            ])
    }

    @Test func aPasswordInTheEnvironmentIsAccepted() {
        let (config, problems) = read("", environment: ["REDIS_URL": "redis://app:hush@h:7000/1"])
        #expect(problems == [])
        #expect(
            config?.url == RedisURL(host: "h", port: 7000, database: 1, username: "app", password: Secret("hush")))
    }

    @Test(arguments: [
        ("rate_limits: { store: memory, username: app }", "rate_limits.username: is for a redis:// URL at store"),
        (
            "rate_limits: { store: \"redis://h\", username: app }",
            "rate_limits.username: has a user without a password; set password_file"
        ),
        ("rate_limits: { store: \"redis://app@h\" }", "rate_limits.store: has a user without a password; set password_file"),
        (
            "rate_limits: { store: \"redis://app@h\", username: app }",
            "rate_limits.username: may not be given together with a user in store"
        ),
        ("rate_limits: { store: \"redis://h/x\" }", "rate_limits.store: " + RedisURL.Problem.database.message),
        ("rate_limits: { store: \"redis://h\", username: \"\" }", "rate_limits.username: must not be empty"),
    ])
    func whatDoesNotFitIsNamed(text: String, problem: String) {
        #expect(read(text).1.first == "config.yaml:1: \(problem)")
    }
}
