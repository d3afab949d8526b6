import JOSE
import StrictJSON

/// The identity providers that are `jwt` verifiers filled in. What they fill in is data, here and nowhere else.
package enum IdentityProvider: String, Sendable, Hashable, CaseIterable {
    case firebase, auth0, clerk, supabase, cognito, okta, apple, google, oidc
}

/// What a preset fills in. Every key of `jwt` that the configuration gives besides wins over it.
struct PresetExpansion: Sendable, Equatable {
    enum Keys: Sendable, Equatable {
        case jwks(url: String)
        /// From the issuer's discovery document.
        case discovery
    }

    var issuers: [String]
    var keys: Keys
    /// `nil`: `aud` is not looked at, another claim says for whom the token is.
    var audience: [String]?
    var algorithms: Set<JWSAlgorithm>
    var requiredClaims: [RequiredClaim] = []
    var personRules: [PersonRule] = []
    /// Where the beginning of the session is found; empty: unknown.
    var startedAt: [ClaimPath] = []
    /// What `end_user_id.from` is when the configuration does not say.
    var endUserClaim: String?
}

extension PresetExpansion {
    static let asymmetric = Set(JWSAlgorithm.allCases.filter { $0.family != .hmac })
    private static let authenticationTime = [ClaimPath.claim("auth_time")]

    /// https://firebase.google.com/docs/auth/admin/verify-id-tokens
    static func firebase(projectID: String) -> PresetExpansion {
        PresetExpansion(
            issuers: ["https://securetoken.google.com/\(projectID)"],
            keys: .jwks(url: "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"),
            audience: [projectID], algorithms: [.rs256],
            personRules: pointer("/firebase/sign_in_provider").map { path in
                .differs(path, from: "anonymous", otherwise: .anonymous)
            },
            startedAt: authenticationTime)
    }

    /// https://auth0.com/docs/secure/tokens/access-tokens/validate-access-tokens
    static func auth0(domain: String, audience: [String]?) -> PresetExpansion {
        PresetExpansion(
            issuers: ["https://\(domain)/"], keys: .jwks(url: "https://\(domain)/.well-known/jwks.json"),
            audience: audience, algorithms: [.rs256],
            personRules: [
                .differs(.claim("gty"), from: "client-credentials", otherwise: .machine),
                .lacksSuffix(.claim("sub"), suffix: "@clients", otherwise: .machine),
            ])
    }

    /// https://clerk.com/docs/backend-requests/manual-jwt
    static func clerk(issuer: String, authorizedParties: [String]?) -> PresetExpansion {
        PresetExpansion(
            issuers: [issuer], keys: .jwks(url: issuer.withoutTrailingSlash + "/.well-known/jwks.json"),
            audience: nil, algorithms: [.rs256],
            requiredClaims: authorizedParties.map {
                [RequiredClaim(path: .claim("azp"), allowed: $0.map(JSONValue.string), onlyIfPresent: true, isSingle: true)]
            } ?? [],
            personRules: [.differs(.claim("sts"), from: "pending", otherwise: .unfinished)])
    }

    /// https://supabase.com/docs/guides/auth/jwts
    static func supabase(url: String, hasSecret: Bool) -> PresetExpansion {
        let issuer = url.withoutTrailingSlash + "/auth/v1"
        return PresetExpansion(
            issuers: [issuer], keys: .jwks(url: issuer + "/.well-known/jwks.json"), audience: ["authenticated"],
            algorithms: hasSecret ? [.es256, .rs256, .edDSA, .hs256] : [.es256, .rs256, .edDSA],
            personRules: [.differs(.claim("is_anonymous"), from: true, otherwise: .anonymous)],
            startedAt: pointer("/amr/0/timestamp"))
    }

    enum CognitoTokenUse: String, Sendable, CaseIterable { case access, id }

    /// https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-tokens-verifying-a-jwt.html
    static func cognito(
        region: String, userPoolID: String, clientIDs: [String], tokenUse: CognitoTokenUse
    ) -> PresetExpansion {
        let issuer = "https://cognito-idp.\(region).amazonaws.com/\(userPoolID)"
        var requiredClaims = [RequiredClaim(path: .claim("token_use"), allowed: [.string(tokenUse.rawValue)], isSingle: true)]
        if tokenUse == .access {
            requiredClaims.append(
                RequiredClaim(path: .claim("client_id"), allowed: clientIDs.map(JSONValue.string), isSingle: true))
        }
        return PresetExpansion(
            issuers: [issuer], keys: .jwks(url: issuer + "/.well-known/jwks.json"),
            audience: tokenUse == .id ? clientIDs : nil, algorithms: [.rs256], requiredClaims: requiredClaims,
            personRules: [.distinct(.claim("sub"), .claim("client_id"), otherwise: .machine)],
            startedAt: authenticationTime)
    }

    /// https://developer.okta.com/docs/guides/validate-access-tokens
    static func okta(issuer: String, audience: [String]?) -> PresetExpansion {
        PresetExpansion(
            issuers: [issuer], keys: .discovery, audience: audience, algorithms: [.rs256],
            personRules: [.present(.claim("uid"), otherwise: .machine)], startedAt: authenticationTime,
            endUserClaim: "uid")
    }

    /// https://developer.apple.com/documentation/signinwithapple/verifying-a-user
    static func apple(clientIDs: [String]) -> PresetExpansion {
        PresetExpansion(
            issuers: ["https://appleid.apple.com"], keys: .jwks(url: "https://appleid.apple.com/auth/keys"),
            audience: clientIDs, algorithms: [.rs256], startedAt: authenticationTime)
    }

    /// https://developers.google.com/identity/sign-in/web/backend-auth
    static func google(clientIDs: [String]) -> PresetExpansion {
        PresetExpansion(
            issuers: ["https://accounts.google.com", "accounts.google.com"],
            keys: .jwks(url: "https://www.googleapis.com/oauth2/v3/certs"), audience: clientIDs, algorithms: [.rs256])
    }

    /// OpenID Connect Discovery 1.0. The algorithms are whatever the key set's keys allow, never HMAC.
    static func oidc(issuer: String, audience: [String]?) -> PresetExpansion {
        PresetExpansion(
            issuers: [issuer], keys: .discovery, audience: audience, algorithms: asymmetric,
            startedAt: authenticationTime)
    }

    private static func pointer(_ text: String) -> [ClaimPath] { ClaimPath(text).map { [$0] } ?? [] }
}

extension String {
    /// A path is appended to an issuer or base URL after a final `/` has been taken off (OpenID Connect Discovery 1.0 section 4.1).
    var withoutTrailingSlash: String { utf8.last == UInt8(ascii: "/") ? String(dropLast()) : self }
}
