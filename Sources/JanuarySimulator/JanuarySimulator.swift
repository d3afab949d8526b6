/// January's API side and an identity provider, for development and tests. Never part of a production process.
///
/// Shapes, from the inside out:
///
/// * ``JanuarySide`` is January: keys, the account switch, mint, revocation, credits, example operations, three rate limits. Pure: a
///   request and an instant in, an ``Answer`` out. The rules nobody has published (order of the checks, what "64" counts, …) are
///   settings (``SimulatorSettings``).
/// * ``TokenTable`` holds what was minted and what became of it; ``Ledger`` holds every request and its outcome, bounded.
/// * ``FaultPlan`` says what goes wrong with the next requests; ``WirePlan`` turns an answer and a fault into a list of steps (wait,
///   write these bytes, reset). Both pure.
/// * ``IdentityProvider`` owns signing keys, publishes them as a JWK Set and signs sessions on request.
/// * ``Simulator`` puts all of it on one port: `/v1.2/…` is January, `/idp/…` the identity provider, `/control/…` the remote control.
///
/// The transport is an HTTP/1.1 server of its own and not the product's: a fault must be able to break the protocol at any byte (cut,
/// drip, wrong length, bytes after the end), which a correct server exists to prevent. It reads with the product's parsers.
///
/// Time is the given `TimeSource`'s wall clock plus an offset that can be moved; timers of faults run on the monotonic clock.
/// Units: durations are `Duration` in Swift, whole or fractional seconds in members named `…_seconds`, milliseconds in `…_ms`.
/// Errors: January's own are ``Answer`` values with January's codes; a wrong control request is 400 with `{message, code}`.
enum JanuarySimulatorModule {}
