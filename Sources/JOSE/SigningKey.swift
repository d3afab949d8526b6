import Primitives
import StrictJSON

/// A key that signs tokens, for the simulator and for tests only.
package struct SigningKey: Sendable {
    package let algorithm: JWSAlgorithm
    package let keyID: String?

    /// A fresh key; `rsaBits` counts for RS* and PS*.
    package static func generate(_ algorithm: JWSAlgorithm, keyID: String? = nil, rsaBits: Int = 2048) -> SigningKey {
        SigningKey(algorithm: algorithm, keyID: keyID)
    }

    /// A token with these claims. Without a header: `alg`, `typ` `JWT` and, if there is one, `kid`; a header given is used as it is.
    package func sign(header: JSONObject? = nil, claims: JSONObject) -> String { "" }

    /// A token around any octets, for attacks.
    package func sign(rawHeader: [UInt8], rawPayload: [UInt8], as algorithm: JWSAlgorithm? = nil) -> String { "" }

    /// The JWS signature over `signingInput`; `as` replaces the key's own algorithm by another its type can compute.
    package func signature(over signingInput: [UInt8], as algorithm: JWSAlgorithm? = nil) -> [UInt8] { [] }

    /// With `kid`, `use` and `alg`; for HMAC the `oct` key.
    package var publicJWK: JSONObject { [:] }

    /// `nil` for HMAC.
    package var publicPEM: String? { nil }
}
