import EventLoop
import HTTPClient
import HTTPMessage
import January
import Primitives
import Sessions
import TLS

/// What outgoing requests of all loops share: names, connections, certificates. A reload makes another one around the same names, counts
/// and, where the settings are the same, the same connections.
package final class UpstreamParts: Sendable {
    let januaryCounters: HTTPClientCounters
    let resolver: Resolver
    private let januaryTLS: TLSClientContext?
    private let keySetTLS: [String: TLSClientContext]
    /// Reading the system's certificates takes some 30 ms of the start: only where something will be checked against them.
    private let systemTLS: TLSClientContext?
    private let januaryBudget: ConnectionBudget
    /// Key sets are few and small: a connection or two each.
    private let keySetBudget: ConnectionBudget
    private let januaryConfig: HTTPClientConfig
    private let tracingTLS: TLSClientContext?
    /// One export at a time, and one connection that is being closed.
    private let tracingBudget = ConnectionBudget(limit: 2)
    private let januarySettings: JanuarySettings

    /// What a connection to January depends on. Requests name their origin themselves.
    private struct JanuarySettings: Equatable {
        let authorities: [UInt8]?
        let isEncrypted: Bool
        let connectTimeout: Duration
        let maxInFlight: Int
    }

    /// - Parameter previous: of the configuration before.
    package init(
        config: RootConfig, time: any TimeSource, previous: UpstreamParts? = nil
    ) throws(TokenEndpoint.StartError) {
        resolver = previous?.resolver ?? Resolver(time: time)
        januaryCounters = previous?.januaryCounters ?? HTTPClientCounters()
        januaryBudget = previous?.januaryBudget ?? ConnectionBudget(limit: config.january.maxConnections)
        keySetBudget = previous?.keySetBudget ?? ConnectionBudget(limit: 32)
        var client = HTTPClientConfig()
        client.connectTimeout = config.january.connectTimeout
        client.handshakeTimeout = config.january.connectTimeout
        client.pool.waitingCount = config.january.maxInFlight
        januaryConfig = client
        let settings = JanuarySettings(
            authorities: config.january.caFile?.bytes, isEncrypted: config.january.origin.scheme == .https,
            connectTimeout: config.january.connectTimeout, maxInFlight: config.january.maxInFlight)
        januarySettings = settings
        do throws(TLSError) {
            var system = previous?.systemTLS
            if system == nil && Self.needsSystemStore(config) { system = try TLSClientContext(trust: .system) }
            systemTLS = system
            if let previous, previous.januarySettings == settings {
                januaryTLS = previous.januaryTLS
            } else {
                januaryTLS =
                    try config.january.caFile.map { file throws(TLSError) in
                        try TLSClientContext(trust: .authorities(pem: file.bytes))
                    } ?? system
            }
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

    /// Whether connections to January that were made for `other` are as good as those made for this.
    func sharesJanuary(with other: UpstreamParts) -> Bool { januarySettings == other.januarySettings }

    /// Puts the count of connections in force that this configuration wants.
    func takeOver(_ config: RootConfig) { januaryBudget.setLimit(config.january.maxConnections) }

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

    func januaryClient(on loop: EventLoop) -> HTTPClient {
        HTTPClient(
            loop: loop, tls: januaryTLS, budget: januaryBudget, config: januaryConfig, resolver: resolver,
            counters: januaryCounters)
    }

    /// For exported spans.
    func tracingClient(on loop: EventLoop) -> any HTTPExchange {
        HTTPClient(loop: loop, tls: tracingTLS, budget: tracingBudget, resolver: resolver)
    }

    /// January for a command that asks a few things and ends.
    package func makeJanuaryClient(on loop: EventLoop, time: any TimeSource) -> JanuaryClient {
        JanuaryClient(exchange: januaryClient(on: loop), time: time)
    }

    /// For key sets.
    package func client(for authority: RemoteKeySetConfig.CertificateAuthority?, on loop: EventLoop) -> any HTTPExchange {
        let tls = authority.flatMap { keySetTLS[$0.path] } ?? systemTLS
        return HTTPClient(loop: loop, tls: tls, budget: keySetBudget, resolver: resolver)
    }
}
