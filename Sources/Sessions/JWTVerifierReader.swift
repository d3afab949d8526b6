import Configuration
import JOSE
import Primitives
import StrictJSON

/// Reads one verifier of the configuration. A preset first puts what it fills in where its keys would stand; then all are read alike.
struct JWTVerifierReader {
    private enum Kind: String, CaseIterable {
        case jwt, firebase, auth0, clerk, supabase, cognito, okta, apple, google, oidc

        var provider: IdentityProvider? { IdentityProvider(rawValue: rawValue) }
    }

    /// Known, and refused.
    private static let otherKinds = ["introspection", "callout", "redis", "sql", "static"]

    private let section: ConfigSection
    private let kind: Kind
    private let name: String
    private let endUserClaim: String?

    /// `nil` where the type is not one that can be read; the problem is recorded.
    init?(_ section: ConfigSection, endUserClaim: String?, names: inout VerifierNames) {
        self.section = section
        self.endUserClaim = endUserClaim
        let other: String? = if case .scalar(let text?, _)? = section.kind("type") { text } else { nil }
        if let other, Self.otherKinds.contains(other) {
            section.problem("type", "\(other) is not available in this version")
            section.abandon()
            return nil
        }
        guard let kind = section.optionalChoice("type", as: Kind.self) else {
            // Says nothing where the getter has said already what is wrong.
            section.problem("type", "required: jwt or the name of an identity provider")
            section.abandon()
            return nil
        }
        self.kind = kind
        name = names.name(of: section, type: kind.rawValue)
    }

    func read() -> JWTVerifierConfig {
        let preset = PresetReader(section, kind.provider).read()
        let isIncomplete = kind.provider != nil && preset == nil
        let issuers = self.issuers(isIncomplete: isIncomplete)
        let audience = self.audience(preset, isIncomplete: isIncomplete)
        // A preset knows its issuer even where any is accepted.
        let candidates = issuers ?? preset?.issuers ?? []
        let (keys, algorithms) = KeySourceReader(
            section, issuer: candidates.count == 1 ? candidates[0] : nil, isSupabase: kind == .supabase,
            isIncomplete: isIncomplete
        ).read()

        var config = JWTVerifierConfig(
            name: name, provider: kind.provider, path: section.path, namespace: namespace(issuers ?? preset?.issuers),
            keys: keys,
            rules: JWTRules(
                issuers: issuers, audience: audience, algorithms: algorithms,
                clockSkew: section.seconds("clock_skew_seconds", default: .seconds(60), in: .zero ... .seconds(300)),
                maxLifetime: section.optionalSeconds("max_lifetime_seconds", in: .seconds(1) ... .seconds(315_576_000)),
                types: types(), requiresSubject: requiresSubject(preset),
                allowBoundTokens: section.boolean("allow_bound_tokens", default: false)))
        config.hasExplicitNamespace = section.has("namespace")
        config.endUserPrefix = section.string("prefix")
        config.requiredClaims = (preset?.requiredClaims ?? []) + requiredClaims()
        config.sessionIDClaims = path("session_id_claim").map { [$0] } ?? JWTVerifierConfig.standardSessionIDClaims
        config.startedAt = startedAt(preset)
        config.personRules = preset?.personRules ?? []
        config.allowMachines = section.boolean("allow_machines", default: false)
        config.allowAnonymous = section.boolean("allow_anonymous", default: false)
        config.endUserClaim = preset?.endUserClaim
        section.finish()
        return config
    }

    // MARK: Who and for whom

    private func issuers(isIncomplete: Bool) -> [String]? {
        let allowsAny = section.boolean("allow_any_issuer", default: false)
        let isGiven = section.has("issuer")
        let issuers = texts("issuer")
        // The preset's own issuer gives way, one that was given does not.
        if allowsAny {
            if isGiven && !isPresetKey("issuer") { section.problem("allow_any_issuer", "must not be true where issuer is given") }
            return nil
        }
        if issuers == nil && !isIncomplete { section.problem("issuer", "required unless allow_any_issuer is true") }
        return issuers ?? []
    }

    private func audience(_ preset: PresetExpansion?, isIncomplete: Bool) -> [String]? {
        let allowsAny = section.boolean("allow_any_audience", default: false)
        let isGiven = section.has("audience")
        let audience = texts("audience")
        if allowsAny {
            if isGiven { section.problem("allow_any_audience", "must not be true where audience is given") }
            return nil
        }
        // `azp` (Clerk) or `client_id` (Cognito) says for whom the token is.
        if kind == .clerk || kind == .cognito { return audience }
        if audience == nil && !isIncomplete { section.problem("audience", "required unless allow_any_audience is true") }
        return audience ?? []
    }

    private func isPresetKey(_ key: String) -> Bool { key == "issuer" && [.clerk, .okta, .oidc].contains(kind) }

    /// One text or several, none of them empty; `nil` where there is none, or something else was said to be wrong with it.
    private func texts(_ key: String) -> [String]? {
        guard let texts = section.stringOrStrings(key) else { return nil }
        if texts.isEmpty || texts.contains("") {
            section.problem(key, "must not be empty")
            return []
        }
        return texts
    }

    private func namespace(_ issuers: [String]?) -> String? {
        if let namespace = section.string("namespace") {
            if namespace.isEmpty { section.problem("namespace", "must not be empty") }
            return namespace
        }
        if let first = issuers?.first {
            section.record("namespace", .text(first))
            return first
        }
        return nil
    }

    // MARK: Claims

    private func types() -> Set<String> {
        guard let types = section.stringOrStrings("types") else {
            if section.kind("types") == nil { section.record("types", .texts(JWTRules.defaultTypes.sorted())) }
            return JWTRules.defaultTypes
        }
        if types.isEmpty || types.contains("") { section.problem("types", "must not be empty") }
        return Set(types)
    }

    private func requiresSubject(_ preset: PresetExpansion?) -> Bool {
        ["subject", "sub", "/sub"].contains(endUserClaim ?? preset?.endUserClaim ?? "subject")
    }

    private func requiredClaims() -> [RequiredClaim] {
        guard let claims = section.optionalSection("required_claims") else { return [] }
        return claims.names.compactMap { name in
            guard let value = claims.value(name) else { return nil }
            guard let path = ClaimPath(name) else {
                claims.problem(name, "must be the name of a claim or a JSON pointer")
                return nil
            }
            let allowed = value.array ?? [value]
            if allowed.isEmpty { claims.problem(name, "must name at least one value") }
            return RequiredClaim(path: path, allowed: allowed)
        }
    }

    private func path(_ key: String) -> ClaimPath? {
        guard let text = section.string(key) else { return nil }
        let path = ClaimPath(text)
        if path == nil { section.invalid(key, "must be the name of a claim or a JSON pointer") }
        return path
    }

    private func startedAt(_ preset: PresetExpansion?) -> [ClaimPath] {
        if let path = path("started_at") { return [path] }
        guard let preset else { return [.claim("auth_time"), .claim("iat")] }
        if let first = preset.startedAt.first { section.record("started_at", .text(first.description)) }
        return preset.startedAt
    }
}
