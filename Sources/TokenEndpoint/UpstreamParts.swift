import EventLoop
import HTTPClient
import HTTPMessage
import Primitives
import Sessions
import TLS

/// What outgoing requests of all loops share: names, connections, certificates.
package final class UpstreamParts: Sendable {
    let januaryCounters = HTTPClientCounters()
    let resolver: Resolver
    private let januaryTLS: TLSClientContext?
    private let keySetTLS: [String: TLSClientContext]
    /// Reading the system's certificates takes some 30 ms of the start: only where something will be checked against them.
    private let systemTLS: TLSClientContext?
    private let januaryBudget: ConnectionBudget
    /// Key sets are few and small: a connection or two each.
    private let keySetBudget = ConnectionBudget(limit: 32)
    private let januaryConfig: HTTPClientConfig
    private let tracingTLS: TLSClientContext?
    /// One export at a time, and one connection that is being closed.
    private let tracingBudget = ConnectionBudget(limit: 2)

    package init(config: RootConfig, time: any TimeSource) throws(TokenEndpoint.StartError) {
        resolver = Resolver(time: time)
        januaryBudget = ConnectionBudget(limit: config.january.maxConnections)
        var client = HTTPClientConfig()
        client.connectTimeout = config.january.connectTimeout
        client.handshakeTimeout = config.january.connectTimeout
        client.pool.waitingCount = config.january.maxInFlight
        januaryConfig = client
        do throws(TLSError) {
            systemTLS = Self.needsSystemStore(config) ? try TLSClientContext(trust: .system) : nil
            januaryTLS =
                try config.january.caFile.map { file throws(TLSError) in
                    try TLSClientContext(trust: .authorities(pem: file.bytes))
                } ?? systemTLS
            var contexts: [String: TLSClientContext] = [:]
            for verifier in config.sessions.verifiers {
                guard let authority = verifier.keys.remote?.certificateAuthority else { continue }
                contexts[authority.path] = try TLSClientContext(trust: .authorities(pem: authority.pem))
            }
            keySetTLS = contexts
            tracingTLS =
                try config.tracing.collector?.caFile.map { file throws(TLSError) in
                    try TLSClientContext(trust: .authorities(pem: file.bytes))
                } ?? systemTLS
        } catch {
            throw .tls(error)
        }
    }

    private static func needsSystemStore(_ config: RootConfig) -> Bool {
        if config.january.origin.scheme == .https && config.january.caFile == nil { return true }
        if let collector = config.tracing.collector, collector.origin.scheme == .https, collector.caFile == nil { return true }
        return config.sessions.verifiers.contains { verifier in
            guard let remote = verifier.keys.remote, remote.certificateAuthority == nil else { return false }
            if case .keySet(let url) = remote.location { return url.origin.scheme == .https }
            // A discovery document may send us to another host.
            return true
        }
    }

    func januaryClient(on loop: EventLoop) -> any HTTPExchange {
        HTTPClient(
            loop: loop, tls: januaryTLS, budget: januaryBudget, config: januaryConfig, resolver: resolver,
            counters: januaryCounters)
    }

    /// For exported spans.
    func tracingClient(on loop: EventLoop) -> any HTTPExchange {
        HTTPClient(loop: loop, tls: tracingTLS, budget: tracingBudget, resolver: resolver)
    }

    /// For key sets.
    package func client(for authority: RemoteKeySetConfig.CertificateAuthority?, on loop: EventLoop) -> any HTTPExchange {
        let tls = authority.flatMap { keySetTLS[$0.path] } ?? systemTLS
        return HTTPClient(loop: loop, tls: tls, budget: keySetBudget, resolver: resolver)
    }
}
