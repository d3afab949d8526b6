import StrictJSON

/// The claims of a token (RFC 7519 section 4), typed but not yet checked against anything.
package struct JWTClaims: Sendable {
    package let object: JSONObject
    /// `iss`
    package let issuer: String?
    /// `sub`, never empty
    package let subject: String?
    /// `aud`: one string or a list of them; empty when absent
    package let audience: [String]
    /// `exp`, seconds since 1970, finite; fractions are allowed (RFC 7519 section 2, NumericDate)
    package let expiration: Double?
    /// `nbf`, as `exp`
    package let notBefore: Double?
    /// `iat`, as `exp`
    package let issuedAt: Double?
    /// `cnf` is there: the token is bound to a key that the sender would have to prove (RFC 7800)
    package let isBound: Bool

    /// A JSON object without duplicate names, at most 16 levels deep, in which every registered claim has its type.
    package static func parse(_ payload: RawSpan) throws(JWTClaimsError) -> JWTClaims {
        let value: JSONValue
        do {
            value = try JSONValue.parse(payload, limits: JSONLimits(bytes: CompactJWS.maxBytes, depth: 16))
        } catch { throw .notJSON(error.reason) }
        guard case .object(let object) = value else { throw .notObject }
        return try JWTClaims(object)
    }

    package static func parse(_ payload: [UInt8]) throws(JWTClaimsError) -> JWTClaims { try parse(payload.span.bytes) }

    package init(_ object: JSONObject) throws(JWTClaimsError) {
        var issuer: String?
        var subject: String?
        var audience: [String] = []
        var expiration: Double?
        var notBefore: Double?
        var issuedAt: Double?
        var isBound = false
        let names = Self.names
        let members = object.members
        for index in members.indices {
            switch members[index].key {
            case names.issuer: issuer = try Self.text(members[index].value, .issuer)
            case names.subject:
                let text = try Self.text(members[index].value, .subject)
                guard !text.isEmpty else { throw .invalidClaim(.subject) }
                subject = text
            case names.audience: audience = try Self.texts(members[index].value, .audience)
            case names.expiration: expiration = try Self.date(members[index].value, .expiration)
            case names.notBefore: notBefore = try Self.date(members[index].value, .notBefore)
            case names.issuedAt: issuedAt = try Self.date(members[index].value, .issuedAt)
            case names.confirmation: isBound = true
            default: break
            }
        }
        self.object = object
        self.issuer = issuer
        self.subject = subject
        self.audience = audience
        self.expiration = expiration
        self.notBefore = notBefore
        self.issuedAt = issuedAt
        self.isBound = isBound
    }

    /// The names of the registered claims that are read here, as keys: all are short, so that equal keys are equal names.
    private struct Names {
        let issuer = JSONName("iss")
        let subject = JSONName("sub")
        let audience = JSONName("aud")
        let expiration = JSONName("exp")
        let notBefore = JSONName("nbf")
        let issuedAt = JSONName("iat")
        let confirmation = JSONName("cnf")
    }
    private static let names = Names()

    private static func text(_ value: JSONValue, _ claim: JWTClaimsError.Claim) throws(JWTClaimsError) -> String {
        guard let text = value.string else { throw .invalidClaim(claim) }
        return text
    }

    private static func texts(_ value: JSONValue, _ claim: JWTClaimsError.Claim) throws(JWTClaimsError) -> [String] {
        guard let elements = value.array else { return [try text(value, claim)] }
        var texts: [String] = []
        texts.reserveCapacity(elements.count)
        for element in elements { texts.append(try text(element, claim)) }
        return texts
    }

    private static func date(_ value: JSONValue, _ claim: JWTClaimsError.Claim) throws(JWTClaimsError) -> Double {
        guard let seconds = value.number?.double else { throw .invalidClaim(claim) }
        return seconds
    }
}

/// Why a payload is not the claims of a JWT.
package enum JWTClaimsError: Error, Equatable, Sendable {
    package enum Claim: String, Sendable {
        case issuer = "iss"
        case subject = "sub"
        case audience = "aud"
        case expiration = "exp"
        case notBefore = "nbf"
        case issuedAt = "iat"
    }

    case notJSON(JSONParseError.Reason)
    case notObject
    case invalidClaim(Claim)

    /// Bounded: usable as a metric label.
    package var reason: StaticString {
        switch self {
        case .notJSON: "claims_not_json"
        case .notObject: "claims_not_object"
        case .invalidClaim: "invalid_claim"
        }
    }
}

extension JWTClaimsError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .notJSON(let reason): "the claims are not strict JSON (\(reason.rawValue))"
        case .notObject: "the claims are not a JSON object"
        case .invalidClaim(.subject): "sub is not a non-empty string"
        case .invalidClaim(.issuer): "iss is not a string"
        case .invalidClaim(.audience): "aud is neither a string nor a list of strings"
        case .invalidClaim(let claim): "\(claim.rawValue) is not a finite number"
        }
    }
}
