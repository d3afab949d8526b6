import EventLoop
import Foundation
import HTTPClient
import HTTPMessage
import Primitives
import TLS
import TestSupport
import Testing

/// The client against a real server on loopback.
@Suite(.serialized) struct HTTPClientTests {
    // MARK: Messages

    @Test func theRequestIsWrittenWhole() async throws {
        try await withUpstream(script: { connection, _ in try connection.answerAll() }) { upstream async throws in
            try await withClient { client async throws in
                var post = try request(upstream, .post, target: "/a?b=c", body: "{}")
                try post.fields.append(.contentType, "application/json")
                #expect(try await client.send(post).text == "ok")
                #expect(try await client.send(request(upstream)).text == "ok")
                #expect(
                    upstream.requests == [
                        "POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:\(upstream.port)\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                        "GET / HTTP/1.1\r\nHost: 127.0.0.1:\(upstream.port)\r\n\r\n",
                    ])
                #expect(upstream.connectionCount == 1)
                #expect(client.counters.opened == 1)
                #expect(client.counters.reused == 1)
                #expect(client.counters.idle == 1)
            }
        }
    }

    @Test(arguments: ["a b", "", "/\r\nX: y", "/ü"]) func aTargetThatIsNoneIsNotSent(target: String) async throws {
        try await withUpstream(script: { connection, _ in try connection.answerAll() }) { upstream async throws in
            try await withClient { client async throws in
                let outcome = try await client.send(request(upstream, target: target))
                #expect(outcome.error == .notSent(.cancelled))
                #expect(upstream.requests == [])
            }
        }
    }

    @Test(arguments: ResponseCase.table) func everyFramingOverASocket(row: ResponseCase) async throws {
        try await withUpstream(script: { connection, _ in
            guard try connection.request() != nil else { return }
            try connection.send(row.bytes)
            if !row.ends { connection.waitForEnd() }
        }) { upstream async throws in
            try await withClient { client async throws in
                let outcome = try await client.send(request(upstream, row.method, maxBytes: 64))
                switch row.outcome {
                case .failed(let error): #expect(outcome.error == error)
                case .response(let status, let body, _):
                    #expect(outcome.status == status)
                    #expect(outcome.text == body)
                }
            }
        }
    }

    /// The same table, each answer cut at every byte and the connection closed there. The target tells the server what to do.
    @Test func anAnswerCutAtAnyByteIsNeverAWrongSuccess() async throws {
        try await withUpstream(script: { connection, _ in
            guard let request = try connection.request() else { return }
            let parts = request.components(" ")[1].dropFirst().split(separator: "/").compactMap { Int($0) }
            try connection.send(Array(Array(ResponseCase.table[parts[0]].bytes.utf8)[..<parts[1]]))
            if parts[1] % 3 == 1 { connection.reset() }
        }) { upstream async throws in
            try await withClient { client async throws in
                for (index, row) in ResponseCase.table.enumerated() {
                    let bytes = Array(row.bytes.utf8)
                    let head = (row.bytes.components("\r\n\r\n").first?.utf8.count ?? 0) + 4
                    for cut in stride(from: 0, to: bytes.count, by: Effort.isSanitized ? 5 : 1) {
                        let outcome = try await client.send(
                            request(upstream, row.method, target: "/\(index)/\(cut)", maxBytes: 64))
                        if row.ends, cut >= head { continue }
                        guard case .failure(.broken) = outcome else {
                            Issue.record("\(row.name) cut at \(cut): \(outcome)")
                            continue
                        }
                    }
                }
            }
        }
    }

    @Test func anAnswerThatDripsIsReadWhole() async throws {
        try await withUpstream(script: { connection, _ in
            while try connection.request() != nil {
                for byte in "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".utf8 {
                    try connection.send([byte])
                    _ = connection.waitReadable(1)
                }
            }
        }) { upstream async throws in
            try await withClient { client async throws in
                for _ in 0..<3 { #expect(try await client.send(request(upstream)).text == "hello") }
                #expect(upstream.connectionCount == 1)
            }
        }
    }

    @Test(arguments: [
        ("gzip", gzip(Array("plain".utf8)), Outcome.success(UpstreamResponse(status: 200, body: Array("plain".utf8)))),
        ("br", Array("?".utf8), .failure(.broken(.undecodable))),
        ("gzip", Array("no gzip".utf8), .failure(.broken(.undecodable))),
        ("gzip", gzip([UInt8](repeating: 0, count: 65537)), .failure(.broken(.tooLarge))),
    ])
    func contentCodings(coding: String, body: [UInt8], expected: Outcome) async throws {
        try await withUpstream(script: { connection, _ in
            while try connection.request() != nil {
                try connection.send("HTTP/1.1 200 OK\r\nContent-Encoding: \(coding)\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.send(body)
            }
        }) { upstream async throws in
            try await withClient { client async throws in
                for _ in 0..<2 {
                    let outcome = try await client.send(request(upstream))
                    #expect(outcome.error == expected.error)
                    #expect(outcome.text == expected.text)
                }
                #expect(upstream.connectionCount == 1, "the framing was sound")
            }
        }
    }

    // MARK: Sent once

    /// Which failures are tried again: those without a sent byte, once, on a fresh connection. The script fails the first `failures`
    /// connections in the given way.
    enum Failing: String, CaseIterable, Sendable {
        case closesWhileIdle, closesAfterRequest, resetsAfterRequest, closesInHead
    }

    @Test(arguments: Failing.allCases) func onlyWhatWasNotSentIsSentAgain(way: Failing) async throws {
        try await withUpstream(script: { connection, number in
            guard number == 0, try connection.request() != nil else { return try connection.answerAll("second") }
            switch way {
            case .closesWhileIdle: try connection.answer("first")
            case .closesAfterRequest: return
            case .resetsAfterRequest: connection.reset()
            case .closesInHead: try connection.send("HTTP/1.1 200 O")
            }
        }) { upstream async throws in
            try await withClient { client async throws in
                let first = try await client.send(request(upstream, .post, body: "x"))
                switch way {
                case .closesWhileIdle:
                    #expect(first.text == "first")
                    #expect(await client.eventually { client.counters.idle == 0 })
                    #expect(try await client.send(request(upstream, .post, body: "x")).text == "second")
                    #expect(upstream.connectionCount == 2)
                case .closesAfterRequest, .closesInHead:
                    #expect(first.error == .broken(.closedEarly))
                    #expect(upstream.connectionCount == 1)
                case .resetsAfterRequest:
                    #expect(first.error == .broken(.reset))
                    #expect(upstream.connectionCount == 1)
                }
            }
        }
    }

    /// The connection is closed in the very turn in which it is to be used again, before the loop can have heard of it.
    @Test(arguments: [true, false]) func aPooledConnectionFoundClosedIsNotUsed(retries: Bool) async throws {
        let (mayClose, isClosed) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        try await withUpstream(script: { connection, number in
            guard number == 0 else { return try connection.answerAll("second") }
            _ = try connection.request()
            try connection.answer("first")
            mayClose.wait()
            connection.close()
            isClosed.signal()
        }) { upstream async throws in
            try await withClient { client async throws in
                #expect(try await client.send(request(upstream)).text == "first")
                let second = try request(upstream, .post, body: "x", retries: retries)
                let promise = Promise<Outcome>("second")
                client.loop.execute {
                    // The loop is busy in here, so the event of the close cannot have been handled before the request.
                    mayClose.signal()
                    isClosed.wait()
                    client.client.value.send(second, deadline: .distantFuture, beforeSend: nil) { promise.fulfil($0) }
                }
                let outcome = try await promise.value()
                if retries {
                    #expect(outcome.text == "second")
                } else {
                    #expect(outcome.error == .notSent(.closedBeforeSend))
                }
                #expect(upstream.requests.filter { $0.hasPrefix("POST") }.count == (retries ? 1 : 0))
            }
        }
    }

    @Test func bytesOnAnIdleConnectionAreNotTheNextAnswer() async throws {
        try await withUpstream(script: { connection, number in
            _ = try connection.request()
            try connection.answer("\(number)")
            guard number == 0 else { return connection.waitForEnd() }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            connection.waitForEnd()
        }) { upstream async throws in
            try await withClient { client async throws in
                #expect(try await client.send(request(upstream)).text == "0")
                #expect(await client.eventually { client.counters.idle == 0 || upstream.connectionCount > 1 })
                #expect(try await client.send(request(upstream)).text == "1")
            }
        }
    }

    /// Names whose first look-up or first address is bad: the retry asks again and gets the good one.
    @Test(arguments: [
        (ResolveError?.none, true, UpstreamError?.none, 2), (.none, false, .notSent(.refused), 1),
        (.failed, true, nil, 2), (.failed, false, .notSent(.dns), 1),
    ])
    func aRefusedConnectionAndAFailedLookUpAreTriedOnceMore(
        first: ResolveError?, retries: Bool, expected: UpstreamError?, lookUps: Int
    ) async throws {
        let count = Lock(0)
        var settings = Resolver.Settings()
        settings.freshFor = .zero
        let resolver = Resolver(settings: settings) { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number > 1 { return .success([IPAddress.v4(0x7F00_0001)]) }
            // Nobody listens on 127.0.0.99.
            return first.map { .failure($0) } ?? .success([.v4(0x7F00_0063)])
        }
        try await withUpstream(script: { connection, _ in try connection.answerAll() }) { upstream async throws in
            try await withClient(resolver: resolver) { client async throws in
                let outcome = try await client.send(request(upstream, host: "upstream.test", retries: retries))
                #expect(outcome.error == expected)
                #expect(count.withLock { $0 } == lookUps)
            }
        }
    }

    @Test func aHostThatRefusesTwiceHasFailed() async throws {
        let count = Lock(0)
        var settings = Resolver.Settings()
        settings.freshFor = .zero
        let resolver = Resolver(settings: settings) { _ in
            count.withLock { $0 += 1 }
            return .success([.v4(0x7F00_0063)])
        }
        try await withUpstream(script: { _, _ in }) { upstream async throws in
            try await withClient(resolver: resolver) { client async throws in
                let outcome = try await client.send(request(upstream, host: "upstream.test"))
                #expect(outcome.error == .notSent(.refused))
                #expect(count.withLock { $0 } == 2)
            }
        }
    }

    @Test func whoHasGoneBeforeTheFirstByteCostsNothing() async throws {
        try await withUpstream(script: { connection, _ in try connection.answerAll() }) { upstream async throws in
            try await withClient { client async throws in
                let asked = Lock(0)
                let outcome = try await client.send(
                    request(upstream, .post, body: "x"),
                    beforeSend: {
                        asked.withLock { $0 += 1 }
                        return false
                    })
                #expect(outcome.error == .notSent(.cancelled))
                #expect(asked.withLock { $0 } == 1)
                // The connection is free at the end of that turn.
                for _ in 0..<2 { await client.loop.run {} }
                let second = try await client.send(request(upstream), beforeSend: { true })
                #expect(second.text == "ok", "\(second)")
                #expect(upstream.requests.count == 1)
                #expect(upstream.connectionCount == 1, "the connection was kept")
            }
        }
    }

    @Test func nothingIsSentAfterItsTime() async throws {
        try await withUpstream(script: { connection, _ in try connection.answerAll() }) { upstream async throws in
            try await withClient { client async throws in
                var late = try request(upstream)
                late.sendBy = await client.loop.run { client.loop.now }
                #expect(try await client.send(late).error == .notSent(.tooLate))
                #expect(upstream.requests == [])
            }
        }
    }

    // MARK: Deadlines

    enum Stall: String, CaseIterable, Sendable {
        case lookUp, connect, handshake, place, beforeAnswer, inHead, inBody, inDrip, inRequest
    }

    @Test(arguments: Stall.allCases) func theDeadlineEndsEveryWait(stall: Stall) async throws {
        let release = DispatchSemaphore(value: 0)
        defer { for _ in 0..<8 { release.signal() } }
        let resolver = Resolver { _ in
            if stall == .lookUp { release.wait() }
            return .success([.v4(0x7F00_0001)])
        }
        let tls = stall == .handshake ? try TLSClientContext(trust: .system) : nil
        try await withUpstream(
            backlog: stall == .connect ? 0 : 64, accepts: stall != .connect,
            script: { connection, _ in
                if stall == .handshake || stall == .inRequest { return release.wait() }
                guard try connection.request() != nil else { return }
                switch stall {
                case .inHead: try connection.send("HTTP/1.1 200 OK\r\nContent-")
                case .inBody: try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345678")
                case .inDrip:
                    try connection.send("HTTP/1.1 200 OK\r\n\r\n")
                    while !connection.waitReadable(2) { try connection.send("x") }
                case .lookUp, .connect, .handshake, .place, .beforeAnswer, .inRequest: break
                }
                connection.waitForEnd()
            }
        ) { upstream async throws in
            try await withClient(tls: tls, places: stall == .place ? 1 : 8, resolver: resolver) { client async throws in
                let fillers = stall == .connect ? try (0..<4).map { _ in try RawSocket(port: upstream.port) } : []
                var stalled = try request(
                    upstream, .post, host: stall == .lookUp ? "name.test" : "127.0.0.1",
                    scheme: stall == .handshake ? .https : .http)
                if stall == .inRequest { stalled.body = [UInt8](repeating: 1, count: 30_000_000) }
                let first = stall == .place ? client.begin(stalled, within: .seconds(3)) : nil
                let outcome = try await client.send(stalled, within: .milliseconds(200))
                switch stall {
                case .lookUp, .connect, .handshake, .place: #expect(outcome.error == .timedOut(sent: false))
                case .beforeAnswer, .inHead, .inBody, .inDrip, .inRequest: #expect(outcome.error == .timedOut(sent: true))
                }
                if let first { #expect(try await first.value().error == .timedOut(sent: true)) }
                withExtendedLifetime(fillers) {}
            }
        }
    }

    @Test func openingHasTimeLimitsOfItsOwn() async throws {
        let release = DispatchSemaphore(value: 0)
        defer { for _ in 0..<8 { release.signal() } }
        var config = HTTPClientConfig()
        config.resolveTimeout = .milliseconds(50)
        config.connectTimeout = .milliseconds(100)
        config.handshakeTimeout = .milliseconds(100)
        let resolver = Resolver { _ in
            release.wait()
            return .failure(.failed)
        }
        let tls = try TLSClientContext(trust: .system)
        try await withUpstream(script: { _, _ in release.wait() }) { silent async throws in
            try await withUpstream(backlog: 0, accepts: false, script: { _, _ in }) { full async throws in
                try await withClient(tls: tls, config: config, resolver: resolver) { client async throws in
                    let fillers = try (0..<4).map { _ in try RawSocket(port: full.port) }
                    #expect(try await client.send(request(silent, host: "name.test")).error == .notSent(.dns))
                    #expect(try await client.send(request(silent, scheme: .https)).error == .notSent(.connectTimeout))
                    #expect(try await client.send(request(full)).error == .notSent(.connectTimeout))
                    withExtendedLifetime(fillers) {}
                }
            }
        }
    }
}
