import Configuration
import EventLoop
import Primitives
import TestSupport
import Testing

@testable import Redis

/// A client on a loop of its own.
final class ClientFixture: Sendable {
    let loop: EventLoop
    private let client: LoopBound<RedisClient>

    init(_ url: String, authority: [UInt8]? = nil, settings: RedisClientSettings = RedisClientSettings()) throws {
        let loop = try EventLoop(name: "redis-test")
        loop.start()
        self.loop = loop
        let config = RedisConfig(
            url: try RedisURL.parse(url), caFile: authority.map { ConfigFile(path: "ca.pem", bytes: $0) })
        let service = try RedisService(config, resolver: Resolver())
        client = LoopBound(RedisClient(loop: loop, service: service, settings: settings), on: loop)
    }

    deinit { loop.stop() }

    func onLoop<Value: Sendable>(_ work: @escaping @Sendable (RedisClient) -> Value) async -> Value {
        let client = client
        return await loop.run { work(client.value) }
    }

    func send(_ commands: [RedisCommand], seconds: Double = 10) async throws -> Result<[RedisReply], RedisError> {
        let promise = Promise<Result<[RedisReply], RedisError>>("replies")
        await onLoop { client in
            client.send(commands, deadline: client.loop.now + .seconds(seconds)) { promise.fulfil($0) }
        }
        return try await promise.value()
    }

    /// Words separated by spaces.
    func ask(_ line: String, seconds: Double = 10) async throws -> Result<RedisReply, RedisError> {
        let command = Self.command(line)
        let promise = Promise<Result<RedisReply, RedisError>>("reply to \(line)")
        await onLoop { client in
            client.send(command, deadline: client.loop.now + .seconds(seconds)) { promise.fulfil($0) }
        }
        return try await promise.value()
    }

    func run(
        _ script: RedisScript, keys: [String] = [], arguments: [String] = [], seconds: Double = 10
    ) async throws -> Result<RedisReply, RedisError> {
        let promise = Promise<Result<RedisReply, RedisError>>("reply to a script")
        await onLoop { client in
            client.run(
                script, keys: keys.map { Array($0.utf8) }, arguments: arguments.map { Array($0.utf8) },
                deadline: client.loop.now + .seconds(seconds)
            ) { promise.fulfil($0) }
        }
        return try await promise.value()
    }

    static func command(_ line: String) -> RedisCommand {
        RedisCommand(words: line.split(separator: " ").map(String.init))
    }
}

func text(_ text: String) -> RedisReply { .string(Array(text.utf8)) }
let ok = RedisReply.status(Array("OK".utf8))
