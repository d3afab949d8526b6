import EventLoop
import HTTPMessage
import Primitives

/// What a server allows and how long it waits. Each time-out ends one named wait.
package struct ServerConfig: Sendable, Equatable {
    package var limits = HTTPLimits()
    package var maxConnections = 10_000
    /// Of one address, an IPv6 one being its /64; `nil`: as many as ``maxConnections``.
    package var maxConnectionsPerAddress: Int?
    /// Peers that stand for many callers, to which ``maxConnectionsPerAddress`` does not apply.
    package var proxies: [AddressRange] = []
    /// From the accept to the end of the TLS handshake, where there is one.
    package var handshakeTimeout: Duration = .seconds(10)
    /// From the accept (with TLS: from the end of the handshake) for the first request, from the first byte for later ones, to a complete head.
    package var headTimeout: Duration = .seconds(10)
    /// Between two reads of content.
    package var bodyIdleTimeout: Duration = .seconds(10)
    /// For the whole content.
    package var bodyTimeout: Duration = .seconds(30)
    /// Between two requests.
    package var idleTimeout: Duration = .seconds(75)
    /// Between two writes that made progress.
    package var writeIdleTimeout: Duration = .seconds(10)

    package init() {}
}
