import Primitives
import TestSupport
import Testing

@testable import EventLoop
@testable import Redis

/// Which of two users and passwords a new connection uses. No socket.
@Suite struct RedisServiceTests {
    enum Event: Equatable {
        /// A reload brings the password.
        case replaced(String)
        /// Redis lets in, or refuses, whoever has the password.
        case accepted(String)
        case refused(String)
    }

    /// What happens from `old` on, and the password that is used next.
    static let table: [(events: [Event], password: String)] = [
        ([], "old"),
        ([.refused("old")], "old"),
        ([.accepted("old"), .refused("old")], "old"),
        // The file learns first.
        ([.accepted("old"), .replaced("new")], "new"),
        ([.accepted("old"), .replaced("new"), .refused("new")], "old"),
        ([.accepted("old"), .replaced("new"), .refused("new"), .accepted("old")], "old"),
        ([.accepted("old"), .replaced("new"), .refused("new"), .accepted("old"), .refused("old")], "new"),
        ([.accepted("old"), .replaced("new"), .refused("new"), .refused("old"), .refused("new")], "old"),
        // Once the new one was taken the old one is forgotten.
        ([.accepted("old"), .replaced("new"), .accepted("new"), .refused("new")], "new"),
        ([.accepted("old"), .replaced("new"), .accepted("new"), .refused("old")], "new"),
        // A connection that was opened before the reload says something about the old one only.
        ([.replaced("new"), .accepted("old")], "new"),
        ([.replaced("new"), .refused("old")], "new"),
        // One that Redis never took is not what worked before.
        ([.accepted("old"), .replaced("wrong"), .refused("wrong"), .replaced("new"), .refused("new")], "old"),
        ([.accepted("old"), .replaced("new"), .accepted("new"), .replaced("newer"), .refused("newer")], "new"),
        // And without any that did, the first one is as good as another.
        ([.refused("old"), .replaced("new"), .refused("new")], "old"),
    ]

    @Test(arguments: table)
    func whatIsTriedNext(events: [Event], password: String) throws {
        func config(_ password: String) -> RedisConfig {
            RedisConfig(url: RedisURL(host: "redis.test", password: Secret(Array(password.utf8))))
        }
        let service = try RedisService(config("old"), resolver: Resolver())
        var accesses = ["old": service.access]
        for event in events {
            switch event {
            case .replaced(let name):
                let access = try RedisAccess(config(name))
                accesses[name] = access
                service.replace(access)
            case .accepted(let name): service.accepted(try #require(accesses[name]))
            case .refused(let name): service.refused(try #require(accesses[name]))
            }
        }
        #expect(service.access === accesses[password])
    }
}
