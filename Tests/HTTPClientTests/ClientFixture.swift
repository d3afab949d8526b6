import EventLoop
import HTTPClient
import HTTPMessage
import Primitives
import TLS
import TestSupport
import Testing

typealias Outcome = Result<UpstreamResponse, UpstreamError>

/// A client on a loop of its own, called from tests.
struct ClientFixture: Sendable {
    let loop: EventLoop
    let client: LoopBound<HTTPClient>
    let counters: HTTPClientCounters

    func send(
        _ request: UpstreamRequest, within limit: Duration = .seconds(15), beforeSend: (@Sendable () -> Bool)? = nil
    ) async throws -> Outcome {
        try await begin(request, within: limit, beforeSend: beforeSend).value(within: 40)
    }

    func begin(
        _ request: UpstreamRequest, within limit: Duration = .seconds(15), beforeSend: (@Sendable () -> Bool)? = nil
    ) -> Promise<Outcome> {
        let promise = Promise<Outcome>("answer to \(request.target)")
        let (client, loop) = (client, loop)
        loop.execute {
            client.value.send(request, deadline: loop.now + limit, beforeSend: beforeSend) { promise.fulfil($0) }
        }
        return promise
    }

    /// Waits until the loop has seen what already happened: true as soon as the condition is.
    func eventually(_ condition: @escaping @Sendable () -> Bool) async -> Bool {
        for _ in 0..<20_000 {
            if condition() { return true }
            await loop.run {}
            await Task.yield()
        }
        return condition()
    }
}

func withClient<Value>(
    tls: TLSClientContext? = nil, places: Int = 256, budget: ConnectionBudget? = nil,
    config: HTTPClientConfig = HTTPClientConfig(),
    resolver: Resolver = Resolver(), _ body: (ClientFixture) async throws -> Value
) async throws -> Value {
    try await withLoop { loop in
        let counters = HTTPClientCounters()
        let budget = budget ?? ConnectionBudget(limit: places)
        let client = await loop.run {
            LoopBound(
                HTTPClient(loop: loop, tls: tls, budget: budget, config: config, resolver: resolver, counters: counters), on: loop
            )
        }
        let fixture = ClientFixture(loop: loop, client: client, counters: counters)
        do {
            let value = try await body(fixture)
            await loop.run { client.value.close() }
            #expect(counters.leased + counters.idle + counters.connecting + counters.waiting == 0)
            return value
        } catch {
            await loop.run { client.value.close() }
            throw error
        }
    }
}

func withUpstream<Value>(
    tls: TLSServerContext? = nil, backlog: Int32 = 512, accepts: Bool = true,
    script: @escaping @Sendable (UpstreamConnection, Int) throws -> Void, _ body: (ScriptedUpstream) async throws -> Value
) async throws -> Value {
    let upstream = try ScriptedUpstream(tls: tls, backlog: backlog, accepts: accepts, script: script)
    defer { upstream.stop() }
    return try await body(upstream)
}

func request(
    _ upstream: ScriptedUpstream, _ method: Method = .get, target: String = "/", host: String = "127.0.0.1",
    scheme: Origin.Scheme = .http, body: String = "", retries: Bool = true, maxBytes: Int = 65536
) throws -> UpstreamRequest {
    let origin = try #require(Origin(scheme: scheme, host: host, port: Int(upstream.port)))
    return UpstreamRequest(
        method: method, origin: origin, target: target, body: Array(body.utf8), retriesWhenUnsent: retries,
        maxResponseBytes: maxBytes)
}

extension Outcome {
    var error: UpstreamError? {
        if case .failure(let error) = self { error } else { nil }
    }
    var text: String? {
        if case .success(let response) = self { String(decoding: response.body, as: UTF8.self) } else { nil }
    }
    var status: Int? {
        if case .success(let response) = self { response.status } else { nil }
    }
}
