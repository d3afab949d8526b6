import EventLoop
import Foundation
import Primitives
import TestSupport
import Testing

@testable import Redis

/// Against a real server.
@Suite(.serialized, .enabled(if: RedisServer.isInstalled)) struct RedisClientTests {
    private static let counting = RedisScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")

    private func server(
        _ settings: [String] = [], tls: TestCertificates.Identity? = nil, login: String? = nil
    ) async throws -> RedisServer {
        try await onOwnThread { try RedisServer(settings, tls: tls, login: login) }
    }

    @Test func commandsAreAnsweredInTheirOrder() async throws {
        let server = try await server()
        let fixture = try ClientFixture(server.url)
        let binary = (0...255).map { UInt8($0) }
        var set = RedisCommand("SET")
        set.append("key")
        set.append(binary)
        let replies = try await fixture.send([set, ClientFixture.command("GET key"), ClientFixture.command("GET none")])
        #expect(replies == .success([ok, .string(binary), .null]))
        #expect(try await fixture.ask("LPUSH key x") == .failure(.server(.wrongType)))
        // The error of one is among the replies of all.
        let mixed = try await fixture.send([ClientFixture.command("LPUSH key x"), ClientFixture.command("INCR n")])
        #expect(mixed == .success([.error(.wrongType), .integer(1)]))
    }

    @Test func manyCallsShareOneConnection() async throws {
        let server = try await server()
        let fixture = try ClientFixture(server.url)
        let sum = Promise<[Int64]>("a thousand replies")
        await fixture.onLoop { client in
            var values: [Int64] = []
            for _ in 0..<1000 {
                client.send(ClientFixture.command("INCR n"), deadline: client.loop.now + .seconds(20)) { result in
                    values.append((try? result.get().integer) ?? -1)
                    if values.count == 1000 { sum.fulfil(values) }
                }
            }
        }
        #expect(try await sum.value() == Array(1...1000))
        let info = try await onOwnThread { try server.ask("INFO stats") }
        // Ours, those of the server's start and the one that asks.
        #expect(info.contains("total_connections_received:"))
        #expect(await fixture.onLoop { $0.openConnectionCount } == 1)
    }

    @Test func theDatabaseOfTheURLIsUsed() async throws {
        let server = try await server()
        let fixture = try ClientFixture(server.url + "/3")
        #expect(try await fixture.ask("SET a b") == .success(ok))
        #expect(try await onOwnThread { try server.ask("GET a") } == "$-1\r\n")
        let other = try ClientFixture(server.url + "/3")
        #expect(try await other.ask("GET a") == .success(text("b")))
        // There are sixteen.
        let none = try ClientFixture(server.url + "/16")
        #expect(try await none.ask("GET a") == .failure(.refusedGreeting(.other)))
    }

    // MARK: Passwords and users

    @Test func aPasswordIsSentAndAWrongOneIsTold() async throws {
        let server = try await server(["--requirepass", "hush"], login: "AUTH hush")
        let base = server.url.dropFirst("redis://".count)
        #expect(try await ClientFixture("redis://:hush@\(base)/1").ask("SET a b") == .success(ok))
        #expect(try await ClientFixture("redis://:wrong@\(base)").ask("GET a") == .failure(.refusedGreeting(.wrongPassword)))
        #expect(try await ClientFixture("redis://\(base)").ask("GET a") == .failure(.server(.notAuthenticated)))
    }

    /// What the limits need, and no `SCRIPT`.
    @Test func aUserThatMayNotUseSCRIPTRunsScripts() async throws {
        let server = try await server()
        try await onOwnThread {
            try server.ask("ACL SETUSER app on >hush ~january-endpoint:* +eval +evalsha +incrby")
            try server.ask("ACL SETUSER reader on >hush ~january-endpoint:* +evalsha +eval +get")
        }
        let base = server.url.dropFirst("redis://".count)
        let app = try ClientFixture("redis://app:hush@\(base)")
        for expected in 1...2 {
            let reply = try await app.run(Self.counting, keys: ["january-endpoint:n"], arguments: ["1"])
            #expect(reply == .success(.integer(Int64(expected))))
        }
        #expect(try await app.run(Self.counting, keys: ["other"], arguments: ["1"]) == .failure(.server(.noPermission)))
        #expect(try await app.ask("SCRIPT FLUSH") == .failure(.server(.noPermission)))
        let reader = try ClientFixture("redis://reader:hush@\(base)")
        #expect(
            try await reader.run(Self.counting, keys: ["january-endpoint:n"], arguments: ["1"])
                == .failure(.server(.noPermission)))
        #expect(
            try await ClientFixture("redis://nobody:hush@\(base)").ask("GET a") == .failure(.refusedGreeting(.wrongPassword)))
    }

    // MARK: TLS

    @Test func redissVerifiesTheServersCertificate() async throws {
        let certificates = try TestCertificates.shared.get()
        let server = try await server(tls: certificates.issue("IP:127.0.0.1,DNS:localhost"))
        let trusting = try ClientFixture(server.url + "/2", authority: certificates.authority)
        #expect(try await trusting.ask("SET a b") == .success(ok))
        let big = [UInt8](repeating: 0x61, count: 300_000)
        #expect(
            try await trusting.send([RedisCommand("SET", [[0x62], big]), RedisCommand("GET", [[0x62]])])
                == .success([ok, .string(big)]))
        let other = try certificates.selfSigned("IP:127.0.0.1")
        let doubting = try ClientFixture(server.url, authority: other.certificate)
        #expect(try await doubting.ask("GET a") == .failure(.unreachable(.tls)))
        let plain = try ClientFixture("redis://127.0.0.1:\(server.port)")
        #expect(try await plain.ask("GET a") == .failure(.broken))
        let wrongName = try await self.server(tls: certificates.issue("DNS:other.example"))
        let strict = try ClientFixture(wrongName.url, authority: certificates.authority)
        #expect(try await strict.ask("GET a") == .failure(.unreachable(.tls)))
    }

    // MARK: Scripts

    @Test func aScriptThatRedisHasForgottenIsSentAgainAndRunsOnce() async throws {
        let server = try await server()
        let fixture = try ClientFixture(server.url)
        for expected in 1...2 {
            #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .success(.integer(Int64(expected))))
        }
        _ = try await onOwnThread { try server.ask("SCRIPT FLUSH") }
        for expected in 3...4 {
            #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .success(.integer(Int64(expected))))
        }
        let stats = try await onOwnThread { try server.ask("INFO commandstats") }
        #expect(stats.contains("cmdstat_eval:calls=2,"))
        #expect(stats.contains("cmdstat_evalsha:calls=3,"))
        #expect(stats.contains("cmdstat_incrby:calls=4,"))
        // And while several are under way.
        let sum = Promise<[Int64]>("replies")
        _ = try await onOwnThread { try server.ask("SCRIPT FLUSH") }
        await fixture.onLoop { client in
            var values: [Int64] = []
            for _ in 0..<20 {
                client.run(
                    Self.counting, keys: [Array("n".utf8)], arguments: [Array("1".utf8)], deadline: client.loop.now + .seconds(10)
                ) { result in
                    values.append((try? result.get().integer) ?? -1)
                    if values.count == 20 { sum.fulfil(values.sorted()) }
                }
            }
        }
        #expect(try await sum.value() == Array(5...24))
    }

    @Test func aRestartCostsOneConnectionAndTheScriptsText() async throws {
        let server = try await server()
        var settings = RedisClientSettings()
        settings.reconnectInterval = .milliseconds(50)
        let fixture = try ClientFixture(server.url, settings: settings)
        #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["5"]) == .success(.integer(5)))
        try await onOwnThread { server.kill() }
        try await eventually("noticed") { await fixture.onLoop { $0.openConnectionCount } == 0 }
        try await eventually("refused") { (try? await fixture.ask("GET n")) == .failure(.unreachable(.refused)) }
        try await onOwnThread { try server.start() }
        try await eventually("back") { (try? await fixture.ask("PING")) == .success(.status(Array("PONG".utf8))) }
        #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .success(.integer(1)))
    }

    // MARK: Failures

    @Test func aFrozenServerCostsEachCallItsDeadlineAndNoLateReplyIsMistaken() async throws {
        let server = try await server()
        let fixture = try ClientFixture(server.url)
        #expect(try await fixture.ask("SET a 1") == .success(ok))
        server.freeze()
        #expect(try await fixture.ask("INCR a", seconds: 0.05) == .failure(.timedOut(wasSent: true)))
        // The late reply to INCR comes first and is dropped.
        async let second = fixture.ask("APPEND a x")
        try await eventually("under way") { await fixture.onLoop { $0.inFlightCount } == 2 }
        server.thaw()
        #expect(try await second == .success(.integer(2)))
        #expect(try await fixture.ask("GET a") == .success(text("2x")))
        #expect(await fixture.onLoop { $0.openConnectionCount } == 1)
    }

    @Test func aConnectionThatStaysSilentIsGivenUp() async throws {
        let server = try await server()
        var settings = RedisClientSettings()
        settings.stallTimeout = .milliseconds(100)
        settings.reconnectInterval = .milliseconds(10)
        let fixture = try ClientFixture(server.url, settings: settings)
        #expect(try await fixture.ask("SET a 1") == .success(ok))
        server.freeze()
        #expect(try await fixture.ask("INCR a", seconds: 0.05) == .failure(.timedOut(wasSent: true)))
        #expect(try await fixture.ask("INCR a", seconds: 30) == .failure(.broken))
        #expect(await fixture.onLoop { $0.openConnectionCount } == 0)
        server.thaw()
        try await eventually("back") { (try? await fixture.ask("PING")) == .success(.status(Array("PONG".utf8))) }
    }

    @Test func aReplicaIsReadOnlyAndLeftForTheNextLookUp() async throws {
        let primary = try await server()
        let replica = try await server(["--replicaof", "127.0.0.1 \(primary.port)"])
        var settings = RedisClientSettings()
        settings.reconnectInterval = .zero
        let fixture = try ClientFixture(replica.url, settings: settings)
        #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .failure(.server(.readOnly)))
        #expect(await fixture.onLoop { $0.openConnectionCount } == 0)
        _ = try await onOwnThread { try replica.ask("REPLICAOF NO ONE") }
        #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .success(.integer(1)))
    }

    @Test func aFullServerSaysSo() async throws {
        let server = try await server(["--maxmemory-policy", "noeviction"])
        let fixture = try ClientFixture(server.url)
        #expect(try await fixture.ask("PING") == .success(.status(Array("PONG".utf8))))
        _ = try await onOwnThread { try server.ask("CONFIG SET maxmemory 1") }
        #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .failure(.server(.outOfMemory)))
        #expect(try await fixture.ask("GET n") == .success(.null))
        _ = try await onOwnThread { try server.ask("CONFIG SET maxmemory 0") }
        #expect(try await fixture.run(Self.counting, keys: ["n"], arguments: ["1"]) == .success(.integer(1)))
    }

    @Test func aServerWithoutRoomForUsSaysSo() async throws {
        let server = try await server(["--maxclients", "1"])
        var settings = RedisClientSettings()
        settings.reconnectInterval = .zero
        let first = try ClientFixture(server.url, settings: settings)
        // The one place may still be that of who looked whether the server is there.
        try await eventually("connected") { (try? await first.ask("PING")) == .success(.status(Array("PONG".utf8))) }
        let result = try await ClientFixture(server.url).ask("PING")
        #expect(result == .failure(.server(.tooManyClients)) || result == .failure(.broken))
    }

    @Test func afterStopNothingIsSent() async throws {
        let server = try await server()
        let fixture = try ClientFixture(server.url)
        server.freeze()
        async let pending = fixture.ask("PING")
        try await eventually("under way") { await fixture.onLoop { $0.inFlightCount } == 1 }
        await fixture.onLoop { $0.stop() }
        #expect(try await pending == .failure(.broken))
        #expect(try await fixture.ask("PING") == .failure(.stopped))
    }
}

/// Against a peer that does what no server should.
@Suite(.serialized) struct RedisConnectionTests {
    private func fixture(_ peer: ScriptedPeer, _ path: String = "", _ change: (inout RedisClientSettings) -> Void = { _ in })
        throws -> ClientFixture
    {
        var settings = RedisClientSettings()
        settings.reconnectInterval = .seconds(600)
        change(&settings)
        return try ClientFixture("redis://127.0.0.1:\(peer.port)\(path)", settings: settings)
    }

    @Test func aReplyThatBelongsToNothingEndsTheConnection() async throws {
        let peer = try ScriptedPeer { connection, _ in
            try connection.readCommands()
            try connection.send("+OK\r\n+OK\r\n")
            connection.readToEnd()
        }
        defer { peer.stop() }
        let fixture = try fixture(peer)
        #expect(try await fixture.ask("PING") == .success(ok))
        try await eventually("closed") { await fixture.onLoop { $0.openConnectionCount } == 0 }
        #expect(try await fixture.ask("PING") == .failure(.unreachable(.backingOff)))
    }

    @Test func bytesThatAreNoReplyFailWhatIsUnderWay() async throws {
        let peer = try ScriptedPeer { connection, _ in
            try connection.readCommands()
            try connection.send("HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.readToEnd()
        }
        defer { peer.stop() }
        #expect(try await fixture(peer).ask("PING") == .failure(.protocolViolation))
    }

    @Test func aConnectionThatBreaksFailsItsCallsAndNothingIsSentTwice() async throws {
        let peer = try ScriptedPeer { connection, number in
            if number == 0 {
                try connection.readCommands(3)
                try connection.send("+OK\r\n")
            } else {
                try connection.readCommands(1)
                try connection.send("+AGAIN\r\n")
                connection.readToEnd()
            }
        }
        defer { peer.stop() }
        let fixture = try fixture(peer) { $0.reconnectInterval = .zero }
        let results = Promise<[Result<RedisReply, RedisError>]>("three")
        await fixture.onLoop { client in
            var seen: [Result<RedisReply, RedisError>] = []
            for _ in 0..<3 {
                client.send(ClientFixture.command("INCR n"), deadline: client.loop.now + .seconds(10)) { result in
                    seen.append(result)
                    if seen.count == 3 { results.fulfil(seen) }
                }
            }
        }
        #expect(try await results.value() == [.success(ok), .failure(.broken), .failure(.broken)])
        #expect(try await fixture.ask("PING") == .success(.status(Array("AGAIN".utf8))))
        #expect(peer.connectionCount == 2)
    }

    @Test func anAttemptIsMadeOnceInAWhileAndCallsFailAtOnceMeanwhile() async throws {
        let peer = try ScriptedPeer { _, _ in }
        let port = peer.port
        peer.stop()
        let fixture = try ClientFixture("redis://127.0.0.1:\(port)")
        #expect(try await fixture.ask("PING") == .failure(.unreachable(.refused)))
        let first: [Result<RedisReply, RedisError>] = await fixture.onLoop { client in
            var seen: [Result<RedisReply, RedisError>] = []
            for _ in 0..<100 {
                client.send(ClientFixture.command("PING"), deadline: client.loop.now + .seconds(10)) { seen.append($0) }
            }
            // Inside the calls.
            return seen
        }
        #expect(first == Array(repeating: .failure(.unreachable(.refused)), count: 100))
    }

    @Test func theGreetingIsAuthThenSelectThenCalls() async throws {
        let seen = Lock<[String]>([])
        let peer = try ScriptedPeer { connection, _ in
            for reply in ["+OK\r\n", "+OK\r\n", ":7\r\n"] {
                let text = try connection.readText()
                seen.withLock { $0.append(text) }
                try connection.send(reply)
            }
            connection.readToEnd()
        }
        defer { peer.stop() }
        var settings = RedisClientSettings()
        settings.reconnectInterval = .seconds(600)
        let fixture = try ClientFixture("redis://app:hush@127.0.0.1:\(peer.port)/4", settings: settings)
        #expect(try await fixture.ask("INCR n") == .success(.integer(7)))
        #expect(seen.withLock { $0 } == ["AUTH app hush", "SELECT 4", "INCR n"])
    }

    @Test(arguments: [
        ("-LOADING Redis is loading\r\n", RedisError.refusedGreeting(.loading)), (":1\r\n", .refusedGreeting(.other)),
        ("HTTP/1.1 400\r\n", .refusedGreeting(.other)),
        ("-ERR invalid password\r\n", .refusedGreeting(.wrongPassword)), ("", .unreachable(.refused)),
    ])
    func aGreetingThatIsNotAnsweredWithOKIsNoConnection(answer: String, expected: RedisError) async throws {
        let peer = try ScriptedPeer { connection, _ in
            try connection.readCommands()
            try connection.send(answer)
            if !answer.isEmpty { connection.readToEnd() }
        }
        defer { peer.stop() }
        #expect(try await fixture(peer, "/1").ask("PING") == .failure(expected))
    }

    @Test func aPeerThatDoesNotGreetIsGivenUp() async throws {
        let peer = try ScriptedPeer { connection, _ in connection.readToEnd() }
        defer { peer.stop() }
        let fixture = try fixture(peer, "/1") { $0.connectTimeout = .milliseconds(50) }
        #expect(try await fixture.ask("PING") == .failure(.unreachable(.connectTimeout)))
        let impatient = try self.fixture(peer, "/1")
        #expect(try await impatient.ask("PING", seconds: 0.02) == .failure(.timedOut(wasSent: false)))
    }

    @Test func loadingIsAnErrorAndAnotherConnectionIsTried() async throws {
        let peer = try ScriptedPeer { connection, number in
            try connection.readCommands()
            try connection.send(number == 0 ? "-LOADING Redis is loading the dataset in memory\r\n" : "+PONG\r\n")
            connection.readToEnd()
        }
        defer { peer.stop() }
        let fixture = try fixture(peer) { $0.reconnectInterval = .zero }
        #expect(try await fixture.ask("PING") == .failure(.server(.loading)))
        #expect(try await fixture.ask("PING") == .success(.status(Array("PONG".utf8))))
        #expect(peer.connectionCount == 2)
    }

    @Test func theQueuesAreBounded() async throws {
        let peer = try ScriptedPeer { connection, _ in connection.readToEnd() }
        defer { peer.stop() }
        let fixture = try fixture(peer) {
            $0.inFlightCount = 3
            $0.waitingCount = 2
            $0.callBytes = 100
        }
        async let first = fixture.ask("PING")
        try await eventually("under way") { await fixture.onLoop { $0.inFlightCount } == 1 }
        let refused: [Result<RedisReply, RedisError>] = await fixture.onLoop { client in
            var seen: [Result<RedisReply, RedisError>] = []
            for _ in 0..<6 {
                client.send(ClientFixture.command("PING"), deadline: client.loop.now + .seconds(10)) { seen.append($0) }
            }
            client.send(RedisCommand("SET", [[UInt8](repeating: 0, count: 100)]), deadline: client.loop.now + .seconds(1)) {
                seen.append($0)
            }
            return seen
        }
        #expect(refused == [.failure(.tooManyWaiting), .failure(.tooManyWaiting), .failure(.commandTooLarge)])
        peer.stop()
        #expect(try await first == .failure(.broken))
    }

    @Test func aDeadlineThatHasPassedSendsNothing() async throws {
        let peer = try ScriptedPeer { connection, _ in connection.readToEnd() }
        defer { peer.stop() }
        #expect(try await fixture(peer).ask("PING", seconds: 0) == .failure(.timedOut(wasSent: false)))
        #expect(peer.connectionCount == 0)
    }
}
