import HTTPMessage

/// How long the client waits and how much it takes. The deadline of a request bounds all of it once more.
package struct HTTPClientConfig: Sendable, Equatable {
    package var pool = PoolLimits()
    /// For the addresses of a name.
    package var resolveTimeout: Duration = .seconds(2)
    /// For the TCP connection, all addresses together.
    package var connectTimeout: Duration = .seconds(2)
    /// Until the next address is tried as well (RFC 8305).
    package var connectStagger: Duration = .milliseconds(250)
    /// For the TLS handshake.
    package var handshakeTimeout: Duration = .seconds(2)
    /// For the heads of responses; `bodyBytes` is the request's own ``UpstreamRequest/maxResponseBytes``.
    package var headLimits = HTTPLimits.standard
    /// Origins with a connection or a waiting request. Requests to one more are refused (`too_many_waiting`).
    package var maxOrigins = 64

    package init() {}
}
