import Primitives

/// Which environment variable sets which key. Data only; ``EnvironmentOverlay`` applies it.
package enum EnvironmentTable {
    enum Kind: Sendable {
        /// The text, read by whatever type the key wants.
        case text
        /// Comma-separated, white space around items dropped.
        case list
        /// The secret itself; `<variable>_FILE` names a file instead. Stands at the key that names the file.
        case secret
        /// The same at a key that lists files.
        case secretList
    }

    struct Rule: Sendable {
        let variable: String
        let path: [String]
        let kind: Kind

        init(_ variable: String, _ path: String, _ kind: Kind = .text) {
            self.variable = variable
            self.path = path.split(separator: ".").map(String.init)
            self.kind = kind
        }
    }

    static let rules: [Rule] = [
        Rule("JANUARY_API_KEY", "january.api_key_file", .secret),
        Rule("JANUARY_BASE_URL", "january.base_url"),
        Rule("LISTEN", "listen"),
        Rule("MANAGEMENT_LISTEN", "management.listen"),
        Rule("MANAGEMENT_TOKEN", "management.token_files", .secretList),
        Rule("FEATURES", "features", .list),
        Rule("TOKEN_TTL_SECONDS", "token.ttl_seconds"),
        Rule("ALLOWED_ORIGINS", "cors.allowed_origins", .list),
        Rule("TRUSTED_PROXIES", "trusted_proxies", .list),
        Rule("STATE", "state"),
        Rule("REDIS_URL", "rate_limits.store"),
        Rule("LOG_LEVEL", "log.level"),
    ]

    /// `SESSION_…`: one `jwt` verifier.
    static let sessionRules: [Rule] = [
        Rule("SESSION_ISSUER", "issuer", .list),
        Rule("SESSION_AUDIENCE", "audience", .list),
        Rule("SESSION_JWKS_URL", "jwks_url"),
        Rule("SESSION_ALGORITHMS", "algorithms", .list),
        Rule("SESSION_HMAC_SECRET", "hmac_secret_file", .secret),
    ]

    /// `AUTH_PROVIDER`: one verifier of that preset, with the preset's own variables.
    static let providers: [(name: String, rules: [Rule])] = [
        ("firebase", [Rule("FIREBASE_PROJECT_ID", "project_id")]),
        ("auth0", [Rule("AUTH0_DOMAIN", "domain"), Rule("AUTH0_AUDIENCE", "audience", .list)]),
        ("clerk", [Rule("CLERK_ISSUER", "issuer"), Rule("CLERK_AUTHORIZED_PARTIES", "authorized_parties", .list)]),
        ("supabase", [Rule("SUPABASE_URL", "url"), Rule("SUPABASE_JWT_SECRET", "hmac_secret_file", .secret)]),
        (
            "cognito",
            [
                Rule("COGNITO_REGION", "region"), Rule("COGNITO_USER_POOL_ID", "user_pool_id"),
                Rule("COGNITO_CLIENT_IDS", "client_ids", .list), Rule("COGNITO_TOKEN_USE", "token_use"),
            ]
        ),
        ("okta", [Rule("OKTA_ISSUER", "issuer"), Rule("OKTA_AUDIENCE", "audience", .list)]),
        ("apple", [Rule("APPLE_CLIENT_IDS", "client_ids", .list)]),
        ("google", [Rule("GOOGLE_CLIENT_IDS", "client_ids", .list)]),
        ("oidc", [Rule("OIDC_ISSUER", "issuer"), Rule("OIDC_AUDIENCE", "audience", .list)]),
    ]

    /// The variable that would set the key, for "required, or set X".
    static func variable(for path: String) -> String? {
        rules.first { $0.path.joined(separator: ".") == path }?.variable
    }

    /// Names with these are ours.
    static let prefixes = ["JANUARY_", "SESSION_", "MANAGEMENT_"]

    /// What others put there under names like ours: Kubernetes for every service (`JANUARY_TOKEN_ENDPOINT_SERVICE_HOST`,
    /// `…_PORT_8787_TCP_ADDR`), the X session manager.
    static func isSomebodyElses(_ name: String) -> Bool {
        if name == "SESSION_MANAGER" { return true }
        let words = name.split(separator: "_").map(String.init)
        if words.suffix(2) == ["SERVICE", "HOST"] || words.last == "PORT" { return true }
        return zip(words, words.dropFirst()).contains { first, second in
            (first == "SERVICE" && second == "PORT")
                || (first == "PORT" && !second.isEmpty && second.utf8.allSatisfy(ASCII.isDigit))
        }
    }

    /// Every variable that is looked at, for documentation and its test.
    package static var variables: [String] {
        (rules + sessionRules + providers.flatMap(\.rules)).flatMap(\.names) + ["PORT", "STATE_DIRECTORY", "AUTH_PROVIDER"]
    }

    /// One rule as help and the manual page show it.
    package struct Entry: Sendable {
        /// Two for a secret: itself, and the name of its file.
        package let names: [String]
        /// The key it sets; of a verifier without the way to it.
        package let key: String
    }

    package static var entries: [Entry] { rules.map(\.entry) }
    package static var sessionEntries: [Entry] { sessionRules.map(\.entry) }
    package static var providerEntries: [(provider: String, entries: [Entry])] {
        providers.map { ($0.name, $0.rules.map(\.entry)) }
    }
}

extension EnvironmentTable.Rule {
    fileprivate var names: [String] {
        switch kind {
        case .text, .list: [variable]
        case .secret, .secretList: [variable, "\(variable)_FILE"]
        }
    }

    fileprivate var entry: EnvironmentTable.Entry { .init(names: names, key: path.joined(separator: ".")) }
}
