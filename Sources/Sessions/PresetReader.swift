import Configuration
import JOSE
import Primitives
import StrictJSON

/// Reads a preset's own keys and puts what they expand to where the keys of `jwt` would stand, unless those are given.
struct PresetReader {
    private let section: ConfigSection
    private let provider: IdentityProvider?

    init(_ section: ConfigSection, _ provider: IdentityProvider?) {
        self.section = section
        self.provider = provider
    }

    /// `nil` for plain `jwt`, and where a key of the preset is missing or wrong: then a problem is recorded.
    func read() -> PresetExpansion? {
        guard let preset = expansion() else { return nil }
        section.setDefault("issuer", preset.issuers.count == 1 ? .text(preset.issuers[0]) : .texts(preset.issuers))
        if let audience = preset.audience {
            section.setDefault("audience", audience.count == 1 ? .text(audience[0]) : .texts(audience))
        }
        if case .jwks(let url) = preset.keys, !["jwks_url", "jwks_file", "public_key_files"].contains(where: section.has) {
            section.setDefault("jwks_url", .text(url))
        }
        section.setDefault("algorithms", .texts(JWSAlgorithm.allCases.filter(preset.algorithms.contains).map(\.rawValue)))
        return preset
    }

    private func expansion() -> PresetExpansion? {
        switch provider {
        case nil: return nil
        case .firebase: return section.requiredString("project_id").map(PresetExpansion.firebase)
        case .auth0: return domain().map { .auth0(domain: $0, audience: nil) }
        case .clerk:
            let parties = section.optionalStrings("authorized_parties")
            if parties == nil, !section.boolean("allow_any_audience", default: false) {
                section.problem("authorized_parties", "required unless allow_any_audience is true")
            }
            return section.requiredString("issuer").map { .clerk(issuer: $0, authorizedParties: parties) }
        case .supabase:
            return projectURL().map { .supabase(url: $0, hasSecret: section.has("hmac_secret_file")) }
        case .cognito: return cognito()
        case .okta: return section.requiredString("issuer").map { .okta(issuer: $0, audience: nil) }
        case .oidc: return section.requiredString("issuer").map { .oidc(issuer: $0, audience: nil) }
        case .apple: return clientIDs().map(PresetExpansion.apple)
        case .google: return clientIDs().map(PresetExpansion.google)
        }
    }

    private func cognito() -> PresetExpansion? {
        // All three are looked at, so that all that is missing is said at once.
        let region = word("region")
        let pool = word("user_pool_id")
        let clientIDs = clientIDs()
        let tokenUse = section.choice("token_use", default: PresetExpansion.CognitoTokenUse.access)
        guard let region, let pool, let clientIDs else { return nil }
        return .cognito(region: region, userPoolID: pool, clientIDs: clientIDs, tokenUse: tokenUse)
    }

    private func clientIDs() -> [String]? {
        if section.kind("client_ids") == nil { section.problem("client_ids", "required") }
        guard let clientIDs = section.stringOrStrings("client_ids") else { return nil }
        if clientIDs.isEmpty || clientIDs.contains("") {
            section.problem("client_ids", "must not be empty")
            return nil
        }
        return clientIDs
    }

    /// Becomes a part of a URL.
    private func word(_ key: String) -> String? {
        guard let text = section.requiredString(key) else { return nil }
        guard text.utf8.allSatisfy({ ASCII.isLetter($0) || ASCII.isDigit($0) || $0 == 0x2D || $0 == 0x5F }) else {
            section.invalid(key, "must be letters, digits, hyphens and underscores")
            return nil
        }
        return text
    }

    /// A host name with an optional port, as the provider's pages show it.
    private func domain() -> String? {
        guard let text = section.requiredString("domain") else { return nil }
        let url = try? VerifierURL.parse("https://\(text)/", allowHTTP: false)
        guard let url, url.target == "/" else {
            section.invalid("domain", "must be a host name like acme.eu.auth0.com, without https:// and without a path")
            return nil
        }
        return text
    }

    private func projectURL() -> String? {
        guard let text = section.requiredString("url") else { return nil }
        do throws(VerifierURL.Problem) {
            _ = try VerifierURL.parse(text, allowHTTP: section.boolean("allow_http", default: false))
            return text
        } catch {
            section.invalid("url", error.message)
            return nil
        }
    }
}
