import EventLoop
import GCRA
import Primitives
import Redis
import TestSupport
import Testing

@testable import RateLimiting

/// The script against the arithmetic in Swift, on a real server.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled)) struct LimitScriptTests {
    /// The same text, but for the clock, which is a key here, and the lifetime of the cells, which would pass while time stands still.
    private static let script = RedisScript(
        LimitScript.source(clock: "redis.call('HMGET', 'clock', 's', 'us')", lifetime: "3600000"))

    private static let rules = [
        GCRARule(requests: 1, periodNanoseconds: 86_400_000_000_000, burst: 1),
        GCRARule(requests: 1, periodNanoseconds: 86_400_000_000_000, burst: 1_000_000),
        GCRARule(requests: 1_000_000, periodNanoseconds: 1_000_000_000, burst: 1),
        GCRARule(requests: 1_000_000, periodNanoseconds: 1_000_000_000, burst: 1_000_000),
        GCRARule(requests: 600, periodNanoseconds: 60_000_000_000, burst: 600),
        GCRARule(requests: 6, periodNanoseconds: 60_000_000_000, burst: 10),
        GCRARule(requests: 7, periodNanoseconds: 1_000_000_000, burst: 3),
        GCRARule(requests: 999_983, periodNanoseconds: 7_777_777_777, burst: 1_000),
    ]

    @Test(arguments: [1, 2, 3, 4]) func anyInterleavingIsDecidedAsInSwift(seed: UInt64) async throws {
        let server = try await onOwnThread { try RedisServer() }
        let redis = try RedisOnLoop(server.url)
        var random = SeededRandom(seed: seed)
        var cells: [Int: GCRACell] = [:]
        // Whole microseconds: Redis's clock has no more.
        var now: Int64 = 1_795_996_800_000_000_000
        for step in 0..<1500 {
            let jump = [0, 0, 1, 999, 1_000_000, 60_000_000, 3_600_000_000, -1_000_000].randomElement(using: &random) ?? 0
            now += (Int64(jump) + Int64.random(in: 0...1_000_000, using: &random)) * 1000
            var keys = ["january-endpoint:{limits}:hold:none"]
            var arguments: [String] = []
            var expected: [Int64] = [-2, 0, 0, 0]
            var isRefused = false
            for index in 1...Int.random(in: 1...4, using: &random) {
                let key = Int.random(in: 0..<6, using: &random)
                let rule = Self.rules[(key + Int.random(in: 0...1, using: &random)) % Self.rules.count]
                let cost = [1, 1, 1, 2, 3, 1_000_000].randomElement(using: &random) ?? 1
                let charge = Charge(.all, key: LimitKey(high: 0, low: 0), rule: rule, cost: cost)
                keys.append("cell-\(key)")
                arguments.append(String(decoding: LimitScript.argument(charge), as: UTF8.self))
                guard !isRefused else { continue }
                if case .limited(let wait) = cells[key, default: GCRACell()].charge(cost: cost, now: now, rule: rule) {
                    expected = [-2, Int64(index), wait / 1_000_000_000, wait % 1_000_000_000]
                    isRefused = true
                }
            }
            if Int.random(in: 0..<10, using: &random) == 0 {
                let rule = Self.rules[Int.random(in: 0..<Self.rules.count, using: &random)]
                let charge = Charge(.address, key: LimitKey(high: 0, low: 0), rule: rule, cost: 2)
                keys = [keys[0], "cell-0"]
                arguments = [String(decoding: LimitScript.penalty(charge), as: UTF8.self)]
                expected = [-2, 0, 0, 0]
                // Undone below: the model has charged what was not sent.
                cells = try await redis.cells()
                cells[0, default: GCRACell()].penalize(cost: 2, now: now, rule: rule)
            }
            try await redis.setClock(now)
            let reply = try await redis.run(Self.script, keys: keys, arguments: arguments)
            #expect(reply == .success(.array(expected.map { .integer($0) })), "seed \(seed), step \(step)")
        }
        let stored = try await redis.cells()
        #expect(stored.count >= 5)
        for (key, cell) in stored { #expect(cells[key] == cell, "seed \(seed), cell \(key)") }
    }

    @Test func aCellLivesUntilItIsIdle() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let redis = try RedisOnLoop(server.url)
        let charge = Charge(
            .all, key: LimitKey(high: 0, low: 0), rule: GCRARule(requests: 6, periodNanoseconds: 60_000_000_000, burst: 10))
        let argument = String(decoding: LimitScript.argument(charge), as: UTF8.self)
        for count in 1...3 {
            _ = try await redis.run(LimitScript.charge, keys: ["hold", "cell-1"], arguments: [argument])
            let left = try await redis.ask("PTTL cell-1").integer ?? 0
            #expect((1...Int64(count) * 10_000).contains(left))
            #expect(left > Int64(count) * 10_000 - 5000)
        }
    }

    /// A limit that was made smaller, or a clock that went back an hour.
    @Test func aCellThatLiesTooFarAheadIsOverWhenItWasSaidToBe() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let redis = try RedisOnLoop(server.url)
        let charge = Charge(
            .all, key: LimitKey(high: 0, low: 0), rule: GCRARule(requests: 1, periodNanoseconds: 1_000_000_000, burst: 2))
        let argument = String(decoding: LimitScript.argument(charge), as: UTF8.self)
        let start: Int64 = 1_795_996_800_000_000_000
        _ = try await redis.ask("SET cell-1 1796000400.000000500")
        for (after, wait) in [(0, 3_000_000_000), (2_999_999_000, 1_000), (3_000_000_000, 0)] as [(Int64, Int64)] {
            try await redis.setClock(start + after)
            let reply = try await redis.run(Self.script, keys: ["hold", "cell-1"], arguments: [argument])
            let expected = [-2, wait > 0 ? 1 : 0, wait / 1_000_000_000, wait % 1_000_000_000]
            #expect(reply == .success(.array(expected.map { .integer($0) })), "after \(after)")
        }
    }

    @Test func whatStandsThereAndIsNoCellCountsAsIdle() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let redis = try RedisOnLoop(server.url)
        _ = try await redis.ask("SET cell-1 nonsense")
        let charge = Charge(
            .all, key: LimitKey(high: 0, low: 0), rule: GCRARule(requests: 6, periodNanoseconds: 60_000_000_000, burst: 10))
        let argument = String(decoding: LimitScript.argument(charge), as: UTF8.self)
        let reply = try await redis.run(LimitScript.charge, keys: ["hold", "cell-1"], arguments: [argument])
        #expect(reply == .success(.array([.integer(-2), .integer(0), .integer(0), .integer(0)])))
        _ = try await redis.ask("SET hold x")
        _ = try await redis.ask("PEXPIRE hold 30000")
        guard case .success(let held) = try await redis.run(LimitScript.charge, keys: ["hold"], arguments: []) else {
            return #expect(Bool(false))
        }
        let hold = try #require(LimitScriptReply(held, chargeCount: 0)?.hold)
        #expect((.seconds(20)...(.seconds(30))).contains(hold))
    }

    @Test func aHoldIsNeverMadeShorter() async throws {
        let server = try await onOwnThread { try RedisServer() }
        let redis = try RedisOnLoop(server.url)
        for (milliseconds, least) in [("20000", 15_000), ("30000", 25_000), ("1000", 25_000)] {
            _ = try await redis.run(LimitScript.hold, keys: ["hold"], arguments: [milliseconds])
            #expect(try await redis.ask("PTTL hold").integer ?? 0 > least)
        }
    }

    @Test(arguments: [
        (RedisReply.array([.integer(-2), .integer(0), .integer(0), .integer(0)]), true),
        (.array([.integer(5), .integer(2), .integer(1), .integer(5)]), true),
        (.array([.integer(-2), .integer(3), .integer(1), .integer(0)]), false),
        (.array([.integer(-2), .integer(1), .integer(0), .integer(0)]), false),
        (.array([.integer(-2), .integer(1), .integer(-1), .integer(0)]), false),
        (.array([.integer(-2), .integer(1), .integer(0), .integer(1_000_000_000)]), false),
        (.array([.integer(-2), .integer(1), .integer(.max), .integer(1)]), false),
        (.array([.integer(-2), .integer(-1), .integer(1), .integer(1)]), false),
        (.array([.integer(-2), .integer(0), .integer(0)]), false), (.array([]), false), (.integer(0), false), (.null, false),
        (.array([.integer(-2), .string([0x31]), .integer(1), .integer(1)]), false),
    ])
    func anAnswerOfAnotherShapeIsNone(reply: RedisReply, isAnswer: Bool) {
        #expect((LimitScriptReply(reply, chargeCount: 2) != nil) == isAnswer)
    }
}

/// A client on a loop of its own.
final class RedisOnLoop: Sendable {
    let loop: EventLoop
    let client: LoopBound<RedisClient>

    init(_ url: String) throws {
        loop = try EventLoop(name: "redis-test")
        loop.start()
        let service = try RedisService(RedisConfig(url: try RedisURL.parse(url)), resolver: Resolver())
        client = LoopBound(RedisClient(loop: loop, service: service), on: loop)
    }

    deinit { loop.stop() }

    func run(_ script: RedisScript, keys: [String], arguments: [String]) async throws -> Result<RedisReply, RedisError> {
        let promise = Promise<Result<RedisReply, RedisError>>("reply to a script")
        let client = client
        loop.execute {
            let client = client.value
            client.run(
                script, keys: keys.map { Array($0.utf8) }, arguments: arguments.map { Array($0.utf8) },
                deadline: .distantFuture
            ) { promise.fulfil($0) }
        }
        return try await promise.value()
    }

    /// Words separated by spaces.
    func ask(_ line: String) async throws -> RedisReply {
        let promise = Promise<Result<RedisReply, RedisError>>("reply to \(line)")
        let client = client
        loop.execute {
            client.value.send(
                RedisCommand(words: line.split(separator: " ").map(String.init)), deadline: .distantFuture
            ) { promise.fulfil($0) }
        }
        return try await promise.value().get()
    }

    func setClock(_ nanoseconds: Int64) async throws {
        _ = try await ask("HSET clock s \(nanoseconds / 1_000_000_000) us \(nanoseconds % 1_000_000_000 / 1000)")
    }

    /// `cell-<number>` as Redis has them.
    func cells() async throws -> [Int: GCRACell] {
        var cells: [Int: GCRACell] = [:]
        for number in 0..<6 {
            guard let text = try await ask("GET cell-\(number)").text else { continue }
            let parts = text.split(separator: ".").compactMap { Int64($0) }
            cells[number] = GCRACell(theoreticalArrival: parts[0] * 1_000_000_000 + parts[1])
        }
        return cells
    }
}
