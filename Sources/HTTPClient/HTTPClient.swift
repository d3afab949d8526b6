/// One pooled HTTP/1.1 client for everything the service asks of others.
///
/// * ``HTTPClient`` is the shell of one loop: it dials, times and moves bytes. ``ConnectionBudget`` is what the clients of all loops share.
/// * ``PoolStateMachine`` (connections and waiting requests of one origin) and ``ExchangeStateMachine`` (one request and its response on
///   one connection) are pure: events in, one action out.
/// * Sizes are bytes, times `Duration` (how long) or `MonotonicInstant` (until when). Failures are `UpstreamError`, whose question is
///   whether a byte was sent: a request is sent again, once, only when provably none was.
/// * HTTP/1.1 by RFC 9110 and 9112. Redirects are answers like any other and are not followed.
enum HTTPClientModule {}
