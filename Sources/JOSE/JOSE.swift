/// Signed tokens: JWS in compact form (RFC 7515), JWK sets (RFC 7517), algorithms (RFC 7518, RFC 8037), JWT claims (RFC 7519), by the
/// advice of RFC 8725. A pure core: bytes in, verdict out; OpenSSL does the mathematics and nothing else.
///
/// Three steps, three verbs:
/// * **parse**: ``CompactJWS`` takes a token apart, ``JWTClaims`` reads its claims, ``JWKSet`` and ``VerificationKey`` read keys. Keys
///   are parsed once and then immutable: every thread may use them without a lock.
/// * **verify** a signature: ``SignatureVerifier``, one per thread, because it owns OpenSSL's scratch memory.
/// * **check** header and claims: ``JWTRules``. One failing step ends the check with one ``JWTRefusal``; a ``JWTTrace`` lists the steps.
///
/// Nothing in a token ever chooses an algorithm or a key by itself: the algorithm must be in the rules and fit the key, and `jwk`,
/// `jku`, `x5u` and `x5c` are never read. ``SigningKey`` makes tokens, for the simulator and for tests only.
///
/// Limits: a token 16 KiB, a JWK set 512 KiB, JSON 16 levels deep, RSA keys from 2048 to 8192 bits, 8 keys tried without `kid`.
enum JOSEModule {}
