/// App sessions: is this one good, and whose is it?
///
/// * **Where**: ``SessionCredential`` finds the bytes in a request's fields (`sessions.from`).
/// * **Who**: the token's unverified issuer chooses among the verifiers of ``SessionVerifiers``, once; a refusal is final.
/// * **Verdict**: accepted, refused (401) or could not find out (503), as ``SessionVerdict``. Everything a caller can do wrong is a
///   refusal with a bounded reason; only missing keys are "could not find out".
/// * **Keys** come with the configuration (files) or from a ``KeySetCache``, one per place on the network: a pure
///   ``KeySetStateMachine`` decides when to load and what callers with unknown keys are told; the shell runs on one home loop and
///   publishes immutable snapshots to all.
/// * **Threads**: ``SessionVerifiers`` is shared and immutable; a ``LoopSessionVerifier`` belongs to its loop. With the keys at hand a
///   verification is one synchronous call. A request that waits for a key goes on on its own loop.
/// * **Units**: credentials are at most 16 KiB; ages and pauses are `Duration`; claims' times are seconds since the epoch.
///
/// Sources: RFC 6750 (bearer), RFC 7515 to 7519 and 8725 (JWT), OpenID Connect Discovery 1.0, the providers' own pages (presets).
enum SessionsModule {}
