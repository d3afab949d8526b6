import Digests
import JOSE
import Primitives
import StrictJSON

/// A session to be signed.
package struct SessionOrder: Sendable {
    package var subject: String?
    package var audience: [String]
    /// The identity provider's own when `nil`.
    package var issuer: String?
    package var algorithm: JWSAlgorithm
    /// Signs with this key, whatever its status; the current one of the algorithm when `nil`.
    package var keyID: String?
    /// `exp` is this long after now; none when `nil`.
    package var expiresIn: Duration?
    /// `iat` is this long before now.
    package var issuedAgo: Duration = .zero
    /// Further claims, or others in place of those above; `null` takes a claim away.
    package var claims: JSONObject
    /// Further header parameters, or others; `null` takes one away.
    package var header: JSONObject

    package init(
        subject: String?, audience: [String] = [], algorithm: JWSAlgorithm = .es256, expiresIn: Duration? = .seconds(3_600),
        claims: JSONObject = [:], header: JSONObject = [:]
    ) {
        self.subject = subject
        self.audience = audience
        self.algorithm = algorithm
        self.expiresIn = expiresIn
        self.claims = claims
        self.header = header
    }
}

package enum SessionOrderError: Error, Equatable, Sendable {
    case noKey(JWSAlgorithm)
    case unknownKeyID(String)
    case noSharedSecret
}

/// What an app's login system publishes, and the sessions it hands out. Pure: keys are made outside and given to it.
package struct IdentityProvider: Sendable {
    package enum KeyStatus: String, Sendable, CaseIterable {
        /// Published; does not sign yet.
        case upcoming
        /// Published; signs.
        case current
        /// Published; signs no more, so that sessions of yesterday are good.
        case retired
        /// Neither: sessions signed with it come from a key nobody knows.
        case withdrawn
    }

    package struct Key: Sendable {
        package let keyID: String
        package let algorithm: JWSAlgorithm
        package fileprivate(set) var status: KeyStatus
        fileprivate let signing: SigningKey
        /// Made once: a key set may be asked for under load.
        fileprivate let jwk: JSONObject
    }

    /// `iss` of its sessions and of its discovery document.
    package var issuer: String
    /// Signs HS256, HS384 and HS512; never published.
    package var sharedSecret: Secret?
    /// Members of the discovery document in place of the right ones; `null` takes one away.
    package var discoveryOverrides: JSONObject = [:]
    package private(set) var keys: [Key] = []

    init(issuer: String, sharedSecret: Secret?) {
        self.issuer = issuer
        self.sharedSecret = sharedSecret
    }

    /// A new current key of its algorithm.
    ///
    /// - Parameter status: what becomes of the current one.
    mutating func rotate(to signing: SigningKey, keyID: String, old status: KeyStatus = .retired) {
        for index in keys.indices where keys[index].algorithm == signing.algorithm && keys[index].status == .current {
            keys[index].status = status
        }
        add(signing, keyID: keyID, status: .current)
    }

    mutating func add(_ signing: SigningKey, keyID: String, status: KeyStatus) {
        keys.append(
            Key(keyID: keyID, algorithm: signing.algorithm, status: status, signing: signing, jwk: signing.publicJWK))
    }

    /// - Returns: whether there is such a key.
    mutating func set(_ status: KeyStatus, of keyID: String) -> Bool {
        guard let index = keys.firstIndex(where: { $0.keyID == keyID }) else { return false }
        if status == .current {
            for other in keys.indices where keys[other].algorithm == keys[index].algorithm && keys[other].status == .current {
                keys[other].status = .retired
            }
        }
        keys[index].status = status
        return true
    }

    package func currentKey(_ algorithm: JWSAlgorithm) -> Key? {
        keys.last { $0.algorithm == algorithm && $0.status == .current }
    }

    /// RFC 7517 section 5.
    package var keySet: JSONObject {
        ["keys": .array(keys.filter { $0.status != .withdrawn }.map { .object($0.jwk) })]
    }

    /// OpenID Connect Discovery 1.0 section 3, as far as a token verifier reads it.
    package func discovery(keySetURL: String) -> JSONObject {
        var document: JSONObject = [
            "issuer": .string(issuer),
            "jwks_uri": .string(keySetURL),
            "authorization_endpoint": .string(issuer + "/authorize"),
            "token_endpoint": .string(issuer + "/token"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": .array(
                JWSAlgorithm.allCases.filter { currentKey($0) != nil }.map { .string($0.rawValue) }),
        ]
        document.merge(discoveryOverrides)
        return document
    }

    package func sign(_ order: SessionOrder, now: WallInstant) throws(SessionOrderError) -> String {
        var claims = JSONObject()
        claims["iss"] = .string(order.issuer ?? issuer)
        if let subject = order.subject { claims["sub"] = .string(subject) }
        if let first = order.audience.first {
            claims["aud"] = order.audience.count == 1 ? .string(first) : .array(order.audience.map(JSONValue.string))
        }
        claims["iat"] = .number(JSONNumber((now - order.issuedAgo).secondsSinceEpoch))
        if let lifetime = order.expiresIn { claims["exp"] = .number(JSONNumber((now + lifetime).secondsSinceEpoch)) }
        claims.merge(order.claims)
        var header: JSONObject = ["alg": .string(order.algorithm.rawValue), "typ": "JWT"]
        if order.algorithm.isSymmetric {
            guard let sharedSecret, let hash = order.algorithm.hash else { throw .noSharedSecret }
            header.merge(order.header)
            return Self.sign(header, claims, HMACKey(hash, key: sharedSecret))
        }
        let key = try key(order)
        header["kid"] = .string(key.keyID)
        header.merge(order.header)
        return key.signing.sign(header: header, claims: claims)
    }

    private func key(_ order: SessionOrder) throws(SessionOrderError) -> Key {
        if let keyID = order.keyID {
            guard let key = keys.first(where: { $0.keyID == keyID }) else { throw .unknownKeyID(keyID) }
            return key
        }
        guard let key = currentKey(order.algorithm) else { throw .noKey(order.algorithm) }
        return key
    }

    /// RFC 7515 section 7.1 with a secret that was given, not generated.
    private static func sign(_ header: JSONObject, _ claims: JSONObject, _ key: HMACKey) -> String {
        let input = Base64URL.encode(header.encoded()) + "." + Base64URL.encode(claims.encoded())
        return input + "." + Base64URL.encode(key.authenticate(Array(input.utf8)))
    }
}

extension JSONObject {
    /// Members of `other` replace those of the same name; `null` takes a member away.
    fileprivate mutating func merge(_ other: JSONObject) {
        for member in other.members { self[member.name] = member.value.isNull ? nil : member.value }
    }
}

extension WallInstant {
    fileprivate static func - (instant: WallInstant, duration: Duration) -> WallInstant {
        instant + (.zero - duration)
    }
}
