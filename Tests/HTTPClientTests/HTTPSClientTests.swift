import EventLoop
import HTTPClient
import HTTPMessage
import Primitives
import TLS
import TestSupport
import Testing

/// The client over TLS, against a real server on loopback.
@Suite(.serialized) struct HTTPSClientTests {
    private static func contexts(_ names: String = "DNS:localhost,IP:127.0.0.1") throws -> (TLSClientContext, TLSServerContext) {
        let certificates = try TestCertificates.shared.get()
        let identity = try certificates.issue(names)
        return (
            try TLSClientContext(trust: .authorities(pem: certificates.authority)),
            try TLSServerContext(certificates: identity.certificate, privateKey: Secret(identity.privateKey))
        )
    }

    @Test func httpsKeepsConnectionsAndResumesSessions() async throws {
        let (clientContext, serverContext) = try Self.contexts()
        try await withUpstream(
            tls: serverContext,
            script: { connection, _ in
                // The last answer says so: a request that crosses an unannounced close would be lost.
                for left in [2, 1, 0] where try connection.request() != nil {
                    try connection.answer(
                        connection.wasResumed ? "resumed" : "full", fields: left == 0 ? "Connection: close\r\n" : "")
                }
            }
        ) { upstream async throws in
            try await withClient(tls: clientContext) { client async throws in
                for index in 0..<9 {
                    let outcome = try await client.send(request(upstream, .post, scheme: .https, body: "x"))
                    #expect(outcome.text == (index < 3 ? "full" : "resumed"), "request \(index)")
                }
                #expect(upstream.connectionCount == 3)
                #expect(client.counters.resumed == 2)
                #expect(client.counters.reused == 6)
            }
        }
    }

    /// Many requests in line for few connections: those are handed on without a pause and without being taken for closed.
    @Test func httpsConnectionsAreHandedOn() async throws {
        let (clientContext, serverContext) = try Self.contexts()
        try await withUpstream(
            tls: serverContext,
            script: { connection, _ in
                while let request = try connection.request() {
                    try connection.answer(String(request.components(" ")[1]) + String(repeating: "x", count: 40_000))
                }
            }
        ) { upstream async throws in
            try await withClient(tls: clientContext, places: 2) { client async throws in
                let answers = try (0..<100).map {
                    (number: $0, promise: client.begin(try request(upstream, target: "/\($0)", scheme: .https)))
                }
                for (number, promise) in answers {
                    #expect(try await promise.value(within: 40).text?.hasPrefix("/\(number)x") == true)
                }
                #expect(upstream.connectionCount == 2)
            }
        }
    }

    /// Each request is sent out of the completion of the one before, that is inside the connection's own read.
    @Test(arguments: [Origin.Scheme.http, .https]) func aRequestOutOfACompletionReusesTheConnection(scheme: Origin.Scheme)
        async throws
    {
        let (clientContext, serverContext) = try Self.contexts()
        try await withUpstream(
            tls: scheme == .https ? serverContext : nil, script: { connection, _ in try connection.answerAll() }
        ) { upstream async throws in
            try await withClient(tls: clientContext) { client async throws in
                let template = try request(upstream, scheme: scheme)
                let done = Promise<Bool>("200 answers")
                let count = Lock(0)
                @Sendable func next() {
                    client.client.value.send(template, deadline: client.loop.now + .seconds(30), beforeSend: nil) { outcome in
                        let number = count.withLock { count in
                            count += outcome.text == "ok" ? 1 : 1000
                            return count
                        }
                        if number < 200 { next() } else { done.fulfil(number == 200) }
                    }
                }
                client.loop.execute { next() }
                #expect(try await done.value())
                #expect(upstream.connectionCount == 1)
            }
        }
    }

    @Test func aCertificateForSomebodyElseIsNotSpokenTo() async throws {
        let (clientContext, serverContext) = try Self.contexts("DNS:elsewhere.test")
        try await withUpstream(tls: serverContext, script: { connection, _ in try connection.answerAll() }) {
            upstream async throws in
            try await withClient(tls: clientContext) { client async throws in
                let outcome = try await client.send(request(upstream, .post, scheme: .https, body: "secret"))
                #expect(outcome.error == .notSent(.tls))
                #expect(upstream.requests == [])
                #expect(upstream.connectionCount == 2, "tried once more")
                let error = await client.loop.run { client.client.value.lastTLSError }
                #expect(error == .hostNameMismatch)
            }
        }
    }

    @Test func aTLSAnswerWithoutCloseNotifyIsNoEnd() async throws {
        let (clientContext, serverContext) = try Self.contexts()
        try await withUpstream(
            tls: serverContext,
            script: { connection, number in
                _ = try connection.request()
                try connection.send("HTTP/1.1 200 OK\r\n\r\nuntil close")
                if number == 0 { connection.finish() }
            }
        ) { upstream async throws in
            try await withClient(tls: clientContext) { client async throws in
                let polite = try await client.send(request(upstream, scheme: .https))
                #expect(polite.text == "until close")
                let sudden = try await client.send(request(upstream, scheme: .https))
                #expect(sudden.error == .broken(.reset))
            }
        }
    }

    @Test func anHTTPSOriginWithoutATLSContextFails() async throws {
        try await withUpstream(script: { _, _ in }) { upstream async throws in
            try await withClient { client async throws in
                let outcome = try await client.send(request(upstream, scheme: .https))
                #expect(outcome.error == .notSent(.tls))
            }
        }
    }
}
