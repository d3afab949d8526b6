/// Verifies signatures. One per thread: it owns OpenSSL's scratch memory and must not be shared.
package final class SignatureVerifier {
    package init() {}

    /// Whether the signature over the token's signing input is the key's. `false` also where the key does not fit the algorithm.
    package func verify(_ jws: CompactJWS, algorithm: JWSAlgorithm, key: VerificationKey) -> Bool { false }
}
