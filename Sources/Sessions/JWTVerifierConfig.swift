import Configuration
import HTTPMessage
import JOSE
import Primitives
import StrictJSON

/// One `jwt` verifier, presets filled in: what is left to do is verifying.
package struct JWTVerifierConfig: Sendable, Equatable {
    /// Metric label and log field.
    package var name: String
    package var provider: IdentityProvider?
    /// The key path of the verifier in the configuration, for `explain`: `sessions.verifiers[0]`.
    package var path: String
    package var namespace: String?
    /// `namespace` was given, not taken from the issuer.
    package var hasExplicitNamespace = false
    /// `prefix`: of its people's end-user IDs, instead of `end_user_id.prefix`.
    package var endUserPrefix: String?
    package var keys: KeySourceConfig
    /// Issuers, audience, algorithms, `typ` and times.
    package var rules: JWTRules
    package var requiredClaims: [RequiredClaim] = []
    /// The first that is there names the session.
    package var sessionIDClaims: [ClaimPath] = JWTVerifierConfig.standardSessionIDClaims
    package var startedAt: [ClaimPath] = []
    package var personRules: [PersonRule] = []
    package var allowMachines = false
    package var allowAnonymous = false
    /// What `end_user_id.from` is when the configuration does not say; `nil`: the subject.
    package var endUserClaim: String?

    static let standardSessionIDClaims = [ClaimPath.claim("sid"), .claim("session_id"), .claim("origin_jti")]
}

/// Where the keys of one verifier come from.
package struct KeySourceConfig: Sendable, Equatable {
    /// Keys from files, read with the configuration.
    package var local: LocalKeys?
    /// Keys that are loaded and refreshed over HTTP. Beside local ones only in the preset `supabase`.
    package var remote: RemoteKeySetConfig?
}

package struct LocalKeys: Sendable, Equatable {
    package enum Origin: Sendable, Equatable { case hmacSecret, publicKeyFiles, keySetFile }

    package var origin: Origin
    /// Two reads of the same files give equal configurations: compared by the files' bytes (as a digest), not by the keys.
    package var fingerprint: [UInt8]
    package var set: JWKSet

    package static func == (left: LocalKeys, right: LocalKeys) -> Bool {
        left.origin == right.origin && left.fingerprint == right.fingerprint
    }
}

/// One key set on the network. Verifiers that name the same one share it.
package struct RemoteKeySetConfig: Sendable, Equatable {
    package enum Location: Sendable, Hashable {
        case keySet(HTTPURL)
        /// The issuer's discovery document names the key set (OpenID Connect Discovery 1.0 section 4).
        case discovery(HTTPURL, issuer: String)
    }

    /// The certificates that are trusted instead of the system's.
    package struct CertificateAuthority: Sendable, Hashable {
        package var path: String
        package var pem: [UInt8]
    }

    package var location: Location
    package var allowHTTP = false
    package var certificateAuthority: CertificateAuthority?
    package var login: BasicLogin?
    package var refreshInterval: Duration = .seconds(600)
    package var maxStale: Duration = .seconds(86_400)
    /// No key in an answer is no failure: another key (a secret) verifies meanwhile.
    package var mayBeEmpty = false
}

extension JWTVerifierConfig {
    /// Whether a session of this kind may mint: people always, others where the configuration says so.
    func allows(_ verdict: PersonVerdict) -> Bool {
        switch verdict {
        case .person: true
        case .machine: allowMachines
        case .anonymous: allowAnonymous
        case .unfinished: false
        }
    }

    /// What the preset's person rules come to for these claims.
    package func isPerson(_ claims: JSONObject) -> Bool {
        personRules.allSatisfy { allows($0.verdict(on: claims)) }
    }
}
