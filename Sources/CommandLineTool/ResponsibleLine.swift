import Configuration
import JOSE
import Sessions
import TokenEndpoint

/// Which line of the configuration decides a step of ``ExplainCommand``.
struct ResponsibleLine {
    private let loaded: LoadedConfiguration
    private let config: RootConfig
    /// The verifier that the pipeline came to.
    private let verifier: JWTVerifierConfig?

    init(_ loaded: LoadedConfiguration, _ config: RootConfig, _ trace: SessionTrace) {
        self.loaded = loaded
        self.config = config
        let chosen = trace.lines.first { $0.step == "verifier" }?.text ?? ""
        verifier = config.sessions.verifiers.first { chosen.utf8.count > 0 && chosen.contains("(\($0.path))") }
    }

    /// `config.yaml:12: sessions.verifiers[0].audience: decides this`.
    func text(for step: String) -> String? {
        guard let (section, key) = place(of: step) else { return nil }
        // A note at the key has the place that every other message about it would have.
        let message = "decides this step"
        section.warning(key, message)
        return loaded.reader.warnings.first { $0.message == message }?.description
    }

    private func place(of step: String) -> (ConfigSection, String?)? {
        let root = loaded.reader.root
        let sessions = root.section("sessions")
        switch ExplainedStep(rawValue: step) {
        case .found?, .scheme?: return (sessions, "from")
        case .verifier?: return (sessions, "verifiers")
        case .endUser?: return (root.section("end_user_id"), "from")
        case .features?, .scopes?: return (root, "features")
        case .ttl?: return (root.section("token"), "ttl_seconds")
        case .limits?: return (root, "rate_limits")
        case .person?, nil: break
        }
        switch JWTStep(rawValue: step) {
        case .format?: return (sessions, "verifiers")
        case .subject?: return (root.section("end_user_id"), "from")
        default: break
        }
        guard let verifier, let section = sessions.sections("verifiers").first(where: { $0.path == verifier.path }) else {
            return (sessions, "verifiers")
        }
        return (section, key(of: step, section, verifier))
    }

    /// The key that a preset may have filled in; then the preset itself is what decides.
    private func key(of step: String, _ section: ConfigSection, _ verifier: JWTVerifierConfig) -> String? {
        let keys: [String] =
            switch JWTStep(rawValue: step) {
            case .algorithm?: ["algorithms", "type"]
            case .type?: ["types"]
            case .keyID?, .signature?:
                ["jwks_url", "jwks_file", "public_key_files", "hmac_secret_file", "issuer", "domain", "url", "type"]
            case .issuer?: ["issuer", "domain", "url", "project_id", "type"]
            case .audience?: ["audience", "client_ids", "project_id", "type"]
            case .expiration?, .notBefore?: ["clock_skew_seconds"]
            case .lifetime?: ["max_lifetime_seconds"]
            case .binding?: ["allow_bound_tokens"]
            case .format?, .critical?, .subject?, nil:
                if step == ExplainedStep.person.rawValue {
                    ["type"]
                } else if step.hasPrefix("required claim") {
                    ["required_claims", "authorized_parties", "client_ids", "token_use", "audience", "type"]
                } else {
                    ["jwks_url", "issuer", "domain", "url", "type"]
                }
            }
        return keys.first(where: section.has) ?? keys.first
    }
}
