import EventLoop
import Foundation
import HTTPClient
import HTTPMessage
import Primitives
import TLS
import TestSupport
import Testing

/// Many requests over few connections, against a real server on loopback.
@Suite(.serialized) struct ClientPoolTests {
    @Test(arguments: [1, 4]) func neverMoreConnectionsThanTheBudget(places: Int) async throws {
        try await withUpstream(script: { connection, _ in
            while let request = try connection.request() {
                _ = connection.waitReadable(1)
                try connection.answer(String(request.components(" ")[1]))
            }
        }) { upstream async throws in
            try await withClient(places: places) { client async throws in
                let answers = try (0..<200).map { (number: $0, promise: client.begin(try request(upstream, target: "/\($0)"))) }
                for (number, promise) in answers { #expect(try await promise.value(within: 40).text == "/\(number)") }
                #expect(upstream.peakCount <= places)
                #expect(upstream.connectionCount == places)
            }
        }
    }

    /// Two loops and two origins share two places: nobody starves, whoever holds idle connections gives them up.
    @Test func loopsAndOriginsShareOneBudget() async throws {
        let budget = ConnectionBudget(limit: 2)
        let script: @Sendable (UpstreamConnection, Int) throws -> Void = { connection, _ in try connection.answerAll() }
        try await withUpstream(script: script) { one async throws in
            try await withUpstream(script: script) { two async throws in
                try await withClient(budget: budget) { left async throws in
                    try await withClient(budget: budget) { right async throws in
                        for round in 0..<30 {
                            let promises = try [left, right, left, right].enumerated().flatMap { index, client in
                                try (0..<3).map { _ in client.begin(try request((index + round) % 2 == 0 ? one : two)) }
                            }
                            for promise in promises { #expect(try await promise.value(within: 40).text == "ok") }
                            #expect(budget.usedCount <= 2)
                        }
                    }
                }
                #expect(budget.usedCount == 0)
            }
        }
    }

    /// One loop that always has more to do than it has connections does not starve the other.
    @Test func aBusyLoopDoesNotKeepAllPlaces() async throws {
        let budget = ConnectionBudget(limit: 4)
        try await withUpstream(script: { connection, _ in try connection.answerAll() }) { upstream async throws in
            try await withClient(budget: budget) { busy async throws in
                try await withClient(budget: budget) { poor async throws in
                    let template = try request(upstream)
                    let isOver = Lock(false)
                    @Sendable func again() {
                        if isOver.withLock({ $0 }) { return }
                        busy.client.value.send(template, deadline: busy.loop.now + .seconds(30), beforeSend: nil) { _ in again() }
                    }
                    busy.loop.execute { for _ in 0..<32 { again() } }
                    #expect(await busy.eventually { busy.counters.leased == 4 })
                    for _ in 0..<100 { #expect(try await poor.send(template).text == "ok") }
                    isOver.withLock { $0 = true }
                }
            }
        }
    }

    @Test func theLineIsBounded() async throws {
        let release = DispatchSemaphore(value: 0)
        var config = HTTPClientConfig()
        config.pool.waitingCount = 2
        try await withUpstream(script: { connection, number in
            if number == 0 { release.wait() }
            try connection.answerAll()
        }) { upstream async throws in
            try await withClient(places: 1, config: config) { client async throws in
                // The first takes the only place; until it has connected it waits in line, too.
                let first = client.begin(try request(upstream))
                #expect(await client.eventually { client.counters.leased == 1 })
                let inLine = try (0..<2).map { _ in client.begin(try request(upstream)) }
                #expect(try await client.send(request(upstream)).error == .notSent(.tooManyWaiting))
                release.signal()
                for promise in [first] + inLine { #expect(try await promise.value().text == "ok") }
            }
        }
    }

    @Test func idleConnectionsAreClosedWhenTheirTimeIsOver() async throws {
        var config = HTTPClientConfig()
        config.pool.idleTimeout = .milliseconds(50)
        let ended = Promise<Bool>("end of the idle connection")
        try await withUpstream(script: { connection, number in
            try connection.answerAll()
            if number == 0 { ended.fulfil(true) }
        }) { upstream async throws in
            try await withClient(config: config) { client async throws in
                #expect(try await client.send(request(upstream)).text == "ok")
                #expect(try await ended.value())
                #expect(try await client.send(request(upstream)).text == "ok")
                #expect(upstream.connectionCount == 2)
            }
        }
    }

    @Test func closingEndsWhatIsUnderWay() async throws {
        try await withUpstream(script: { connection, _ in
            _ = try connection.request()
            connection.waitForEnd()
        }) { upstream async throws in
            try await withClient(places: 1) { client async throws in
                let sent = client.begin(try request(upstream))
                #expect(await client.eventually { client.counters.leased == 1 && !upstream.requests.isEmpty })
                let waiting = client.begin(try request(upstream))
                await client.loop.run { client.client.value.close() }
                #expect(try await sent.value().error == .broken(.closedEarly))
                #expect(try await waiting.value().error == .notSent(.cancelled))
                #expect(try await client.send(request(upstream)).error == .notSent(.cancelled))
            }
        }
    }

    @Test func drainingFinishesWhatIsUnderWay() async throws {
        let release = DispatchSemaphore(value: 0)
        try await withUpstream(script: { connection, _ in
            _ = try connection.request()
            release.wait()
            try connection.answer()
            connection.waitForEnd()
        }) { upstream async throws in
            try await withClient(places: 1) { client async throws in
                let sent = client.begin(try request(upstream))
                #expect(await client.eventually { !upstream.requests.isEmpty })
                await client.loop.run { client.client.value.drain() }
                release.signal()
                #expect(try await sent.value().text == "ok")
                #expect(await client.eventually { client.counters.idle + client.counters.leased == 0 })
            }
        }
    }

    /// 20,000 requests, 16 at a time, while the server finishes idle connections after a random fraction of a millisecond. A request that
    /// crosses the close on its way cannot be saved by anybody (a byte was sent); the server counts those, and there is no other failure.
    @Test func idleConnectionsClosedAtRandomLoseNoRequest() async throws {
        let crossed = Lock(0)
        let closes = Lock(0)
        try await withUpstream(script: { connection, number in
            var random = SeededRandom(seed: UInt64(number))
            while try connection.request() != nil {
                try connection.answer()
                if Int.random(in: 0..<10, using: &random) == 0, !connection.waitReadable(Int32.random(in: 0...2, using: &random))
                {
                    connection.finish()
                    closes.withLock { $0 += 1 }
                    if try connection.request() != nil { crossed.withLock { $0 += 1 } }
                    return
                }
            }
        }) { upstream async throws in
            try await withClient { client async throws in
                let template = try request(upstream, .post, body: "x")
                let failures = Lock<[UpstreamError]>([])
                let done = Promise<Bool>("20,000 answers")
                let state = Lock((started: 0, finished: 0))
                @Sendable func next() {
                    let number = state.withLock { state in
                        state.started += 1
                        return state.started
                    }
                    guard number <= 20_000 else { return }
                    client.client.value.send(template, deadline: client.loop.now + .seconds(30), beforeSend: nil) { outcome in
                        if let error = outcome.error { failures.withLock { $0.append(error) } }
                        let finished = state.withLock { state in
                            state.finished += 1
                            return state.finished
                        }
                        if finished == 20_000 { done.fulfil(true) }
                        // Half of them after the loop has gone round, so that connections become idle in between.
                        if finished.isMultiple(of: 2) { client.loop.execute { next() } } else { next() }
                    }
                }
                client.loop.execute { for _ in 0..<16 { next() } }
                #expect(try await done.value(within: 120))
                #expect(failures.withLock { $0.allSatisfy { $0 == .broken(.closedEarly) || $0 == .broken(.reset) } })
                #expect(failures.withLock { $0.count } <= crossed.withLock { $0 })
                #expect(closes.withLock { $0 } > 500)
                #expect(upstream.requests.count >= 20_000 - failures.withLock { $0.count })
            }
        }
    }
}
