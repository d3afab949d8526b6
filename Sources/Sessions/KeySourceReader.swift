import Configuration
import Digests
import HTTPMessage
import JOSE
import Primitives

/// Reads where a verifier's keys come from, and which algorithms they may be used with.
struct KeySourceReader {
    private static let maxPEMBytes = 64 * 1024
    private static let maxCertificateBytes = 1024 * 1024

    private enum Source: String, CaseIterable {
        case keySetURL = "jwks_url"
        case keySetFile = "jwks_file"
        case publicKeyFiles = "public_key_files"
        case hmacSecret = "hmac_secret_file"
        /// No key of its own: the issuer's discovery document.
        case discovery = "discovery"
    }

    private enum SecretEncoding: String, CaseIterable { case text, base64, hex }

    private let section: ConfigSection
    /// The one issuer whose discovery document could be asked.
    private let issuer: String?
    /// The preset `supabase`: a secret may stand beside a key set while the project migrates from one to the other.
    private let isSupabase: Bool
    /// A preset's own key is wrong: what it would have filled in is missing, and that is said already.
    private let isIncomplete: Bool

    init(_ section: ConfigSection, issuer: String?, isSupabase: Bool, isIncomplete: Bool) {
        self.section = section
        self.issuer = issuer
        self.isSupabase = isSupabase
        self.isIncomplete = isIncomplete
    }

    func read() -> (keys: KeySourceConfig, algorithms: Set<JWSAlgorithm>) {
        let listed = section.choices("algorithms", as: JWSAlgorithm.self)
        let sources = self.sources()
        if section.has("hmac_secret_encoding"), !sources.contains(.hmacSecret) {
            section.problem("hmac_secret_encoding", "is for hmac_secret_file, which is not given")
        }
        checkAlgorithms(listed, sources)

        var keys = KeySourceConfig()
        for source in sources {
            switch source {
            case .keySetURL, .discovery: keys.remote = remote(source, hasSecret: sources.contains(.hmacSecret))
            case .keySetFile: keys.local = keySetFile()
            case .publicKeyFiles: keys.local = publicKeyFiles()
            case .hmacSecret: keys.local = hmacSecret(listed)
            }
        }
        checkLogin(keys.remote)
        return (keys, algorithms(listed, keys.local, sources))
    }

    // MARK: Which source

    /// One; two only for Supabase. Empty where a problem says why.
    private func sources() -> [Source] {
        var given: [Source] = []
        for source in Source.allCases where source != .discovery && section.has(source.rawValue) {
            if let first = given.first, !(isSupabase && source == .hmacSecret) {
                section.problem(source.rawValue, "only one key source is allowed, and \(first.rawValue) is given too")
            } else {
                given.append(source)
            }
        }
        // What a preset filled in; beside a secret that was given only for Supabase.
        if !section.has(Source.keySetURL.rawValue), section.kind(Source.keySetURL.rawValue) != nil,
            given.isEmpty || (isSupabase && given == [.hmacSecret])
        {
            given.insert(.keySetURL, at: 0)
        }
        if !given.isEmpty || isIncomplete { return given }
        guard issuer != nil else {
            // Without an issuer there is another problem already, unless it is a list or any.
            if section.has("issuer") || section.boolean("allow_any_issuer", default: false) {
                section.problem(
                    "jwks_url",
                    "a key source is required: jwks_url, jwks_file, public_key_files or hmac_secret_file (discovery needs exactly one issuer)"
                )
            }
            return []
        }
        return [.discovery]
    }

    // MARK: Algorithms

    private func checkAlgorithms(_ listed: [JWSAlgorithm]?, _ sources: [Source]) {
        guard let listed else { return }
        let secret = listed.first { $0.isSymmetric }
        let publicKey = listed.first { !$0.isSymmetric }
        if listed.isEmpty { section.problem("algorithms", "must not be empty") }
        if let secret, let publicKey, !isSupabase {
            return section.problem(
                "algorithms", "\(secret) must not be mixed with \(publicKey): a public key would become a secret")
        }
        if let secret, !sources.isEmpty, !sources.contains(.hmacSecret), !sources.contains(.keySetFile) {
            section.problem("algorithms", "\(secret) needs hmac_secret_file")
        }
        if let publicKey, sources == [.hmacSecret] {
            section.problem("algorithms", "\(publicKey) cannot be verified with hmac_secret_file")
        }
        if secret == nil, sources.contains(.hmacSecret), sources.count > 1 {
            section.problem("algorithms", "must hold HS256 where hmac_secret_file is given")
        }
    }

    /// As listed, else what the keys themselves fix: a curve has one algorithm, an RSA key or a secret has three or more.
    private func algorithms(_ listed: [JWSAlgorithm]?, _ local: LocalKeys?, _ sources: [Source]) -> Set<JWSAlgorithm> {
        if let listed {
            let set = Set(listed)
            if let local, sources.count == 1, !local.set.keys.isEmpty,
                !local.set.keys.contains(where: { key in set.contains(where: key.fits) })
            {
                section.problem("algorithms", "no key of \(sources[0].rawValue) fits \(Self.list(set))")
            }
            return set
        }
        guard section.kind("algorithms") == nil else { return [] }
        if let local, sources.first != .hmacSecret {
            let fixed = local.set.keys.map(\.onlyAlgorithm)
            if !fixed.isEmpty, !fixed.contains(nil) {
                let set = Set(fixed.compactMap { $0 })
                section.record("algorithms", .texts(JWSAlgorithm.allCases.filter(set.contains).map(\.rawValue)))
                return set
            }
            if fixed.isEmpty { return [] }
        }
        if !sources.isEmpty && !isIncomplete {
            section.problem("algorithms", "required: the algorithms the issuer signs with, for example [\(example(sources))]")
        }
        return []
    }

    private func example(_ sources: [Source]) -> String { sources == [.hmacSecret] ? "HS256" : "RS256" }

    private static func list(_ algorithms: Set<JWSAlgorithm>) -> String {
        JWSAlgorithm.allCases.filter(algorithms.contains).map(\.rawValue).joined(separator: " or ")
    }

    // MARK: Over HTTP

    private func remote(_ source: Source, hasSecret: Bool) -> RemoteKeySetConfig? {
        let allowHTTP = section.boolean("allow_http", default: false)
        if allowHTTP {
            section.warning(
                "allow_http", "keys are loaded without TLS: whoever can change traffic in that network can sign in as anybody")
        }
        let refresh = section.seconds("refresh_seconds", default: .seconds(600), in: .seconds(1) ... .seconds(86_400))
        let maxStale = section.seconds("max_stale_seconds", default: .seconds(86_400), in: .zero ... .seconds(2_592_000))
        let authority = certificateAuthority()
        var login = section.basicLogin()
        let location: RemoteKeySetConfig.Location
        switch source {
        case .keySetURL:
            guard let text = section.string("jwks_url"), let url = url(text, "jwks_url", allowHTTP: allowHTTP) else { return nil }
            if let user = url.userInfo {
                if login != nil { section.problem("username", "must not be given where the URL has a user name") }
                login = BasicLogin(username: user.user, password: user.password ?? Secret(""))
            }
            location = .keySet(url)
        case .discovery:
            guard let issuer else { return nil }
            let text = issuer.withoutTrailingSlash + "/.well-known/openid-configuration"
            guard let url = url(text, "issuer", allowHTTP: allowHTTP) else { return nil }
            location = .discovery(url, issuer: issuer)
        case .keySetFile, .publicKeyFiles, .hmacSecret: return nil
        }
        return RemoteKeySetConfig(
            location: location, allowHTTP: allowHTTP, certificateAuthority: authority, login: login, refreshInterval: refresh,
            maxStale: maxStale, mayBeEmpty: hasSecret)
    }

    private func url(_ text: String, _ key: String, allowHTTP: Bool) -> HTTPURL? {
        let fromEnvironment = if case .environment = section.source(key) { true } else { false }
        do throws(VerifierURL.Problem) {
            return try VerifierURL.parse(text, allowHTTP: allowHTTP, allowUserInfo: fromEnvironment)
        } catch {
            // A value with a password in it is not repeated.
            if error == .userInformation { section.problem(key, error.message) } else { section.invalid(key, error.message) }
            return nil
        }
    }

    private func certificateAuthority() -> RemoteKeySetConfig.CertificateAuthority? {
        guard let file = section.file("ca_file", maxBytes: Self.maxCertificateBytes) else { return nil }
        guard String(decoding: file.bytes, as: UTF8.self).contains("-----BEGIN CERTIFICATE-----") else {
            section.problem("ca_file", "\(file.path) holds no certificate in PEM")
            return nil
        }
        return .init(path: file.path, pem: file.bytes)
    }

    private func checkLogin(_ remote: RemoteKeySetConfig?) {
        guard remote == nil else { return }
        for key in ["username", "password_file"] where section.has(key) {
            if section.has("jwks_url") {
                _ = section.kind(key)
            } else {
                section.problem(key, "is for a key set that is loaded over HTTP")
            }
        }
        for key in ["ca_file", "refresh_seconds", "max_stale_seconds", "allow_http", "jwks_url"] { _ = section.kind(key) }
    }

    // MARK: From files

    private func keySetFile() -> LocalKeys? {
        guard let file = section.file("jwks_file", maxBytes: JWKSet.maxBytes) else { return nil }
        let set: JWKSet
        do {
            set = try JWKSet.parse(file.bytes.span.bytes, source: .file)
        } catch {
            section.problem("jwks_file", "\(file.path) is no JWK set (\(error.reason))")
            return nil
        }
        if set.keys.isEmpty { section.problem("jwks_file", "\(file.path) holds no key that can be used") }
        if !set.skipped.isEmpty {
            section.warning("jwks_file", "\(set.skipped.count) of the keys in \(file.path) cannot be used")
        }
        return LocalKeys(origin: .keySetFile, fingerprint: SHA2.sha256.hash(file.bytes), set: set)
    }

    private func publicKeyFiles() -> LocalKeys? {
        let files = section.files("public_key_files", maxBytes: Self.maxPEMBytes)
        if section.kind("public_key_files") == .list, files.isEmpty {
            section.problem("public_key_files", "must name at least one file")
        }
        if files.count > JWKSet.maxCandidates {
            section.problem("public_key_files", "must name at most \(JWKSet.maxCandidates) files; use jwks_file for more keys")
        }
        var keys: [VerificationKey] = []
        var fingerprint: [UInt8] = []
        for file in files {
            do throws(KeyError) {
                keys.append(try VerificationKey.pem(file.bytes))
                fingerprint += SHA2.sha256.hash(file.bytes)
            } catch {
                section.problem("public_key_files", "\(file.path) \(error)")
            }
        }
        return LocalKeys(origin: .publicKeyFiles, fingerprint: fingerprint, set: JWKSet(keys: keys))
    }

    private func hmacSecret(_ listed: [JWSAlgorithm]?) -> LocalKeys? {
        let encoding = section.choice("hmac_secret_encoding", default: SecretEncoding.text)
        guard let file = section.secretFile("hmac_secret_file") else { return nil }
        guard let secret = Self.decode(file.secret, encoding) else {
            section.problem("hmac_secret_file", "does not hold \(encoding.rawValue), as hmac_secret_encoding says")
            return nil
        }
        let algorithms = Set((listed ?? []).filter(\.isSymmetric))
        guard !algorithms.isEmpty else { return nil }
        do throws(KeyError) {
            let key = try VerificationKey.hmac(secret, algorithms: algorithms)
            let fingerprint = secret.withUnsafeBytes { SHA2.sha256.hash($0.bytes) }
            return LocalKeys(origin: .hmacSecret, fingerprint: fingerprint, set: JWKSet(keys: [key]))
        } catch {
            section.problem("hmac_secret_file", "\(error)")
            return nil
        }
    }

    /// Line breaks and blanks around and inside encoded text are what `openssl rand -base64` and editors put there.
    private static func decode(_ secret: Secret, _ encoding: SecretEncoding) -> Secret? {
        guard encoding != .text else { return secret }
        let text = secret.copyBytes().filter { $0 > ASCII.space }
        let bytes = encoding == .hex ? Hex.decode(text) : Base64.decode(String(decoding: text, as: UTF8.self))
        guard let bytes, !bytes.isEmpty else { return nil }
        return Secret(bytes)
    }
}

extension VerificationKey {
    /// The only algorithm this key can be used with; `nil` where there are several.
    fileprivate var onlyAlgorithm: JWSAlgorithm? {
        if let algorithm { return algorithm }
        return switch kind {
        case .ec(.p256): .es256
        case .ec(.p384): .es384
        case .ec(.p521): .es512
        case .ed25519: .edDSA
        case .rsa, .hmac: nil
        }
    }
}
