import EventLoop
import Foundation
import Primitives
import TestSupport
import Testing

@Suite(.serialized) struct ResolverTests {
    private static let good: [IPAddress] = [.v4(0x7F00_0001)]
    private static let other: [IPAddress] = [.v4(0x7F00_0002)]

    private static func resolve(_ resolver: Resolver, _ name: String, on loop: EventLoop) -> Promise<Resolver.Answer> {
        let promise = Promise<Resolver.Answer>("addresses of \(name)")
        loop.execute { resolver.resolve(name, on: loop) { promise.fulfil($0) } }
        return promise
    }

    @Test(arguments: ["127.0.0.1", "::1"]) func anAddressIsItsOwnAnswer(text: String) async throws {
        let resolver = Resolver { _ in .failure(.failed) }
        try await withLoop { loop async throws in
            let known = await loop.run {
                var answer: Resolver.Answer?
                resolver.resolve(text, on: loop) { answer = $0 }
                return answer
            }
            #expect(known == IPAddress(text).map { .success([$0]) })
        }
    }

    @Test func theSystemKnowsLocalhost() async throws {
        try await withLoop { loop async throws in
            let answer = try await Self.resolve(Resolver(), "localhost", on: loop).value().get()
            #expect(!answer.isEmpty && answer.allSatisfy(\.isLoopback))
        }
    }

    @Test func everybodyWhoAsksMeanwhileSharesOneLookUp() async throws {
        let (count, go) = (Lock(0), DispatchSemaphore(value: 0))
        let resolver = Resolver { _ in
            count.withLock { $0 += 1 }
            go.wait()
            return .success(Self.good)
        }
        try await withLoop { one async throws in
            try await withLoop { two async throws in
                let promises = (0..<10).map { Self.resolve(resolver, "name", on: $0 % 2 == 0 ? one : two) }
                await one.run {}
                await two.run {}
                go.signal()
                for promise in promises { #expect(try await promise.value() == .success(Self.good)) }
                #expect(count.withLock { $0 } == 1)
            }
        }
    }

    /// Fresh for 30 s; then asked again.
    @Test func anAnswerIsUsedWhileItIsFresh() async throws {
        let (count, time) = (Lock(0), TestTime())
        let resolver = Resolver(time: time) { _ in
            count.withLock { $0 += 1 }
            return .success(Self.good)
        }
        try await withLoop { loop async throws in
            for (advance, expected) in [(Duration.zero, 1), (.seconds(29), 1), (.seconds(1), 2)] {
                time.advance(by: advance)
                // A turn that began before still has the old time.
                for _ in 0..<2 { await loop.run {} }
                #expect(try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.good))
                #expect(count.withLock { $0 } == expected)
            }
        }
    }

    /// The last good addresses serve for 24 h from when they were got, and not longer.
    @Test func afterAFailureTheLastGoodAddressesAreUsed() async throws {
        let (fails, time) = (Lock(false), TestTime())
        let resolver = Resolver(time: time) { _ in fails.withLock { $0 } ? .failure(.failed) : .success(Self.good) }
        try await withLoop { loop async throws in
            #expect(try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.good))
            fails.withLock { $0 = true }
            time.advance(by: .seconds(24 * 3600 - 2))
            for _ in 0..<2 { await loop.run {} }
            #expect(try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.good))
            time.advance(by: .seconds(2))
            for _ in 0..<2 { await loop.run {} }
            #expect(try await Self.resolve(resolver, "name", on: loop).value() == .failure(.failed))
            fails.withLock { $0 = false }
            #expect(try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.good))
        }
    }

    @Test func aSlowAnswerIsNotWaitedForWhenThereIsAnOlderOne() async throws {
        let (count, go) = (Lock(0), DispatchSemaphore(value: 0))
        var settings = Resolver.Settings()
        settings.patience = .milliseconds(30)
        settings.freshFor = .zero
        let resolver = Resolver(settings: settings) { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number == 1 { return .success(Self.good) }
            go.wait()
            return .success(Self.other)
        }
        try await withLoop { loop async throws in
            #expect(try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.good))
            // The second look-up hangs: the first addresses come after the patience, and at once for those who ask later.
            for _ in 0..<3 { #expect(try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.good)) }
            #expect(count.withLock { $0 } == 2)
            go.signal()
            for _ in 0..<1000 where count.withLock({ $0 }) == 2 {
                if try await Self.resolve(resolver, "name", on: loop).value() == .success(Self.other) { break }
                go.signal()
            }
            go.signal()
        }
    }

    /// Four names hang, 64 wait, the next is refused at once; names that are known are answered all the same.
    @Test func aSilentNameServerExhaustsNothing() async throws {
        let go = DispatchSemaphore(value: 0)
        let resolver = Resolver { name in
            if name == "known" { return .success(Self.good) }
            go.wait()
            return .failure(.failed)
        }
        try await withLoop { loop async throws in
            #expect(try await Self.resolve(resolver, "known", on: loop).value() == .success(Self.good))
            let stuck = (0..<68).map { Self.resolve(resolver, "silent\($0)", on: loop) }
            #expect(try await Self.resolve(resolver, "one more", on: loop).value() == .failure(.tooBusy))
            #expect(try await Self.resolve(resolver, "known", on: loop).value() == .success(Self.good))
            #expect(stuck.allSatisfy { !$0.isFulfilled })
            for _ in 0..<68 { go.signal() }
            for promise in stuck { #expect(try await promise.value() == .failure(.failed)) }
        }
    }
}

@Suite(.serialized) struct DialerTests {
    private static func dial(
        _ addresses: [SocketAddress], timeout: Duration = .seconds(10), stagger: Duration = .milliseconds(250), on loop: EventLoop
    ) async throws -> Result<SocketAddress, DialError> {
        let promise = Promise<Result<SocketAddress, DialError>>("connection")
        let keep = Lock<LoopBound<Dialer>?>(nil)
        loop.execute {
            let dialer = Dialer(loop: loop, addresses: addresses, timeout: timeout, stagger: stagger) { result in
                switch consume result {
                case .connected(_, let address): promise.fulfil(.success(address))
                case .failed(let error): promise.fulfil(.failure(error))
                }
            }
            let bound = LoopBound(dialer, on: loop)
            keep.withLock { $0 = bound }
            dialer.start()
        }
        return try await promise.value()
    }

    private static func address(_ text: String) throws -> SocketAddress { try #require(SocketAddress(text)) }

    @Test func familiesTakeTurns() throws {
        let (a, b, c) = (
            try Self.address("[2001:db8::1]:1"), try Self.address("[2001:db8::2]:1"), try Self.address("[2001:db8::3]:1")
        )
        let (x, y) = (try Self.address("192.0.2.1:1"), try Self.address("192.0.2.2:1"))
        #expect(Dialer.interleaved([a, b, c, x, y]) == [a, x, b, y, c])
        #expect(Dialer.interleaved([x, a, y]) == [x, a, y])
        #expect(Dialer.interleaved([x, y]) == [x, y])
        #expect(Dialer.interleaved([]) == [])
    }

    @Test func theFirstAddressThatAnswersWins() async throws {
        try await withUpstream(script: { connection, _ in connection.waitForEnd() }) { upstream async throws in
            try await withUpstream(backlog: 0, accepts: false, script: { _, _ in }) { full async throws in
                let fillers = try (0..<4).map { _ in try RawSocket(port: full.port) }
                let good = try Self.address("127.0.0.1:\(upstream.port)")
                let refusing = try Self.address("127.0.0.99:\(upstream.port)")
                let silent = try Self.address("127.0.0.1:\(full.port)")
                try await withLoop { loop async throws in
                    #expect(try await Self.dial([good], on: loop) == .success(good))
                    #expect(try await Self.dial([refusing, good], on: loop) == .success(good))
                    #expect(
                        try await Self.dial([silent, refusing, good], stagger: .milliseconds(20), on: loop) == .success(good))
                    #expect(try await Self.dial([refusing, refusing], on: loop) == .failure(.failed(.refused)))
                    #expect(
                        try await Self.dial([silent, silent], timeout: .milliseconds(60), stagger: .milliseconds(20), on: loop)
                            == .failure(.timedOut))
                    #expect(
                        try await Self.dial([silent, refusing], timeout: .milliseconds(60), stagger: .milliseconds(5), on: loop)
                            == .failure(.timedOut))
                    #expect(try await Self.dial([], on: loop) == .failure(.noAddress))
                    let path = SocketAddress.unix(path: "/nowhere/at/all.sock")
                    #expect(try await Self.dial([path], on: loop) == .failure(.failed(.refused)))
                }
                withExtendedLifetime(fillers) {}
            }
        }
    }

    @Test func aCancelledDialerSaysNothing() async throws {
        try await withUpstream(script: { connection, _ in connection.waitForEnd() }) { upstream async throws in
            let good = try Self.address("127.0.0.1:\(upstream.port)")
            let called = Lock(false)
            try await withLoop { loop async throws in
                await loop.run {
                    let dialer = Dialer(loop: loop, addresses: [good]) { _ in called.withLock { $0 = true } }
                    dialer.start()
                    dialer.cancel()
                }
                #expect(try await Self.dial([good], on: loop) == .success(good))
                #expect(called.withLock { $0 } == false)
            }
        }
    }
}
