import Configuration
import EventLoop
import HTTPServer
import January
import JanuarySimulator
import Primitives
import Revocations
import Sessions
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import TokenEndpoint

/// A configuration is put in place of another on loops that are serving: nobody is dropped, and who had begun ends as he began.
@Suite(.serialized)
struct GenerationTests {
    /// The public listener on two loops, with two configurations that differ in what they grant.
    private final class Served: Sendable {
        let simulator: Simulator
        let port: UInt16
        private let loops: [EventLoop]
        private let server: Server
        private let makeGeneration: @Sendable (EventLoop, String) throws -> LoopGeneration
        private let endpoints = Lock<[(loop: EventLoop, endpoint: LoopBound<LoopEndpoint>)]>([])

        init() async throws {
            var settings = EndpointFixture.quickSimulator
            settings.sharedSecret = Secret(EndpointFixture.sessionSecret)
            settings.issuer = EndpointFixture.issuer
            let simulator = try Simulator(settings)
            try simulator.start()
            self.simulator = simulator
            let time = SystemTime()
            let config = try Self.config("food_search", simulator.origin)
            let keys = KeyRing(first: config.january.apiKey, next: nil, userAgent: "test")
            let metrics = Metrics()
            let shared = SharedParts(
                config: config, lifecycle: Lifecycle(), keys: keys, log: Log(time: time, output: LogNowhere()),
                auditOutput: nil, metrics: metrics, time: time,
                mintsInFlight: MintsInFlight(maxCount: config.january.maxInFlight), fences: nil, hash: .random())
            let upstream = try UpstreamParts(config: config, time: time)
            let makeGeneration: @Sendable (EventLoop, String) throws -> LoopGeneration = {
                [origin = simulator.origin] loop, feature in
                let config = try Self.config(feature, origin)
                let january = JanuaryService(
                    origin: config.january.origin, pathPrefix: config.january.pathPrefix, keys: keys,
                    mintBreaker: shared.mintBreaker)
                let verifiers = SessionVerifiers(config.sessions)
                return LoopGeneration(
                    Generation(config: config, january: january, verifiers: verifiers),
                    sessions: LoopSessionVerifier(verifiers, loop: loop, metrics: metrics),
                    january: JanuaryClient(exchange: upstream.januaryClient(on: loop), time: time))
            }
            self.makeGeneration = makeGeneration
            loops = try [EventLoop(name: "a"), EventLoop(name: "b")]
            for loop in loops { loop.start() }
            server = Server(config: ServerConfig())
            let socket = try ListeningSocket.bind(.ip(.v4(0x7F00_0001), port: 0))
            port = try #require(socket.address.port)
            let ready = Promise<SystemError?>("server")
            let endpoints = endpoints
            server.start(
                loops: loops, sockets: [socket],
                makeHandler: { loop in
                    guard let generation = try? makeGeneration(loop, "food_search") else { return Refusing() }
                    let endpoint = LoopEndpoint(
                        loop: loop, shared: shared, limits: shared.localLimits, revocations: nil, sharedGate: nil,
                        generation: generation)
                    let bound = LoopBound(endpoint, on: loop)
                    endpoints.withLock { $0.append((loop, bound)) }
                    return endpoint
                }, ready: { ready.fulfil($0) })
            #expect(try await ready.value() == nil)
        }

        deinit {
            for loop in loops { loop.stop() }
            simulator.stop()
        }

        static func config(_ feature: String, _ origin: String) throws -> RootConfig {
            let reader = ConfigReader.load(
                file: nil,
                environment: [
                    "JANUARY_API_KEY": SimulatorSettings.developmentKey, "JANUARY_BASE_URL": origin, "FEATURES": feature,
                    "SESSION_ISSUER": EndpointFixture.issuer, "SESSION_AUDIENCE": EndpointFixture.audience,
                    "SESSION_HMAC_SECRET": EndpointFixture.sessionSecret, "SESSION_ALGORITHMS": "HS256",
                ])
            var config = try #require(RootConfig.read(reader), "\(reader.problems)")
            // Few people who mint without a pause: not what is tested here.
            config.rateLimits.perSession = nil
            config.rateLimits.perEndUser = nil
            return config
        }

        /// Every loop takes the other configuration, each when its turn comes.
        func replace(_ feature: String) async {
            for (loop, endpoint) in endpoints.withLock({ $0 }) {
                await loop.run { [makeGeneration] in
                    if let generation = try? makeGeneration(loop, feature) { endpoint.value.replace(generation) }
                }
            }
        }

        func request(_ user: String) throws -> String {
            EndpointFixture.mintRequest(
                try simulator.session(SessionOrder(subject: user, audience: [EndpointFixture.audience], algorithm: .hs256)))
        }
    }

    private final class Refusing: RequestHandler {
        func admit(_ exchange: ServerExchange) -> Admission { .answer(ServerResponse(status: 500)) }
        func handle(_ exchange: ServerExchange) { exchange.respond(ServerResponse(status: 500)) }
        func refuse(_ refusal: RequestRefusal, from peer: SocketAddress) -> ServerResponse { ServerResponse(status: 500) }
    }

    private static func scopes(_ response: String) throws -> [String] {
        let answer = try EndpointFixture.parse(response)
        #expect(answer.status == 201, "\(response)")
        return answer.json["scopes"] as? [String] ?? []
    }

    /// Budgets in seconds of generations that send through the same connections, and for how long the last one's have to stay.
    @Test(arguments: [([8], 8), ([8, 3], 8), ([3, 8, 5], 8), ([60, 1, 2], 60)] as [([Double], Double)])
    func connectionsStayForTheLongestBudgetOfAllWhoShareThem(budgets: [Double], longest: Double) async throws {
        try await withLoop("a") { loop in
            let found = try await loop.run { () -> Result<Duration?, any Error> in
                Result {
                    let time = SystemTime()
                    var last: LoopGeneration?
                    for budget in budgets {
                        var config = try Served.config("food_search", "http://127.0.0.1:1")
                        config.january.budget = .seconds(budget)
                        let keys = KeyRing(first: config.january.apiKey, next: nil, userAgent: "test")
                        let january = JanuaryService(
                            origin: config.january.origin, pathPrefix: "", keys: keys, mintBreaker: Breaker())
                        let verifiers = SessionVerifiers(config.sessions)
                        let upstream = try UpstreamParts(config: config, time: time)
                        last = LoopGeneration(
                            Generation(config: config, january: january, verifiers: verifiers),
                            sessions: LoopSessionVerifier(verifiers, loop: loop, metrics: Metrics()),
                            january: JanuaryClient(exchange: upstream.januaryClient(on: loop), time: time), previous: last)
                    }
                    return last?.longestBudget
                }
            }.get()
            #expect(found == .seconds(longest))
        }
    }

    @Test func aRequestEndsWithTheConfigurationItBeganWith() async throws {
        let served = try await Served()
        served.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint))
        let (held, later) = (try RawClient(port: served.port), try RawClient(port: served.port))
        try held.send(try served.request("early"))
        try await eventually("January has the request") { served.simulator.counts(of: .mint).received == 1 }
        await served.replace("glucose")
        try later.send(try served.request("late"))
        #expect(try Self.scopes(try await onOwnThread { try later.receiveResponses().joined() }) == ["glucose:read"])
        served.simulator.release()
        #expect(try Self.scopes(try await onOwnThread { try held.receiveResponses().joined() }) == ["foods:read"])
        // The connection of the early one is kept, and its next request belongs to the new configuration.
        try held.send(try served.request("early"))
        #expect(try Self.scopes(try await onOwnThread { try held.receiveResponses().joined() }) == ["glucose:read"])
    }

    /// Connections stay open, every answer is whole and of one of the two configurations, and after the last swap of the last.
    @Test func underLoadEveryAnswerIsOfOneConfiguration() async throws {
        let served = try await Served()
        let isOver = Lock(false)
        let results = try await withThrowingTaskGroup(of: [[String]].self) { group in
            for client in 0..<4 {
                group.addTask {
                    try await onOwnThread {
                        let connection = try RawClient(port: served.port, receiveTimeoutSeconds: 30)
                        var seen: [[String]] = []
                        while !isOver.withLock({ $0 }) {
                            try connection.send(try (0..<4).map { try served.request("user-\(client)-\($0)") }.joined())
                            for response in try connection.receiveResponses(4) { seen.append(try Self.scopes(response)) }
                        }
                        try connection.send(try served.request("user-\(client)"))
                        seen.append(try Self.scopes(try connection.receiveResponses().joined()))
                        return seen
                    }
                }
            }
            for round in 1...60 {
                // Some requests for each configuration.
                let before = served.simulator.counts(of: .mint).received
                try await eventually("the next mints") { served.simulator.counts(of: .mint).received >= before + 8 }
                await served.replace(round % 2 == 1 ? "glucose" : "food_search")
            }
            isOver.withLock { $0 = true }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for seen in results {
            #expect(seen.allSatisfy { $0 == ["foods:read"] || $0 == ["glucose:read"] })
            #expect(Set(seen).count == 2)
            #expect(seen.last == ["foods:read"])
        }
        #expect(results.count == 4)
    }
}
