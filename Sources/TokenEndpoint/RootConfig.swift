import Configuration
import EndUsers
import EventLoop
import HTTPServer
import January
import Policy
import Primitives
import RateLimiting
import Sessions
import StrictJSON
import TLS
import Telemetry

/// The root of the configuration. Sections are read by the targets that use them; what belongs to nobody else is read here.
package struct RootConfig: Sendable {
    package var listen: ListenAddress
    package var management: ManagementConfig
    /// `paths.token`: the first is canonical, the others are aliases.
    package var tokenPaths: [String]
    package var trustedProxies: TrustedProxies
    package var rateLimits: RateLimits
    package var http: HTTPConfig
    /// `nil`: the public listener speaks plain HTTP.
    package var tls: ListenerTLS?
    package var january: JanuaryConfig
    package var sessions: SessionsConfig
    package var endUsers: EndUserMapping
    package var policy: Policy
    package var drain: DrainConfig
    package var state: StateConfig
    package var stateRules: StateRules
    package var log: LogConfig
    package var audit: AuditConfig
    package var selfService: SelfServiceConfig
    package var tracing: TracingConfig

    /// Reads everything.
    /// - Returns: `nil` where there are problems; the reader has all of them.
    package static func read(_ reader: ConfigReader) -> RootConfig? {
        let root = reader.root
        let endUserSection = root.section("end_user_id")
        let sessions = SessionsConfig.read(
            root.section("sessions"), endUserClaim: endUserSection.has("from") ? endUserSection.string("from") : nil)
        let january = JanuaryConfig.read(root)
        let policy = Policy.read(root, ttlSeconds: january?.ttlSeconds ?? 1800)
        let endUsers = EndUserMapping.read(
            endUserSection, verifiers: sessions.verifiers.map(EndUserMapping.Verifier.init),
            defaultFrom: sessions.verifiers.count == 1 ? sessions.verifiers[0].endUserClaim ?? "subject" : "subject")
        let tests = PolicyTests.read(root)
        let state = StateConfig.read(root)
        let stateRules = StateRules.read(root)
        let listen = ListenAddress.read("listen", root, default: "127.0.0.1:8787")
        let management = ManagementConfig.read(root.section("management"), state: state)
        checkListeners(root, listen, management)
        let tokenPaths = readPaths(root.section("paths"))
        let trustedProxies = readProxies(root)
        var http = HTTPConfig.read(root, proxies: trustedProxies.ranges)
        let tls = ListenerTLS.read(root.section("tls"))
        if let tls { http.server.handshakeTimeout = tls.handshakeTimeout }
        let drain = DrainConfig.read(root.section("drain"))
        let log = LogConfig.read(root.section("log"))
        let audit = AuditConfig.read(root.section("audit"))
        let selfService = SelfServiceConfig.read(root.section("revocations"), state: state)
        let rateLimits = RateLimits.read(root.section("rate_limits"))
        let tracing = TracingConfig.read(root.section("tracing"))
        checkCertificates(root, january, sessions, tracing)
        for name in ["end_user_id", "paths", "management", "drain", "rate_limits", "http", "revocations"] {
            root.section(name).finish()
        }
        root.finish()
        // Expectations of a configuration that is wrong anyway would only bury what is wrong with it.
        guard reader.problems.isEmpty, let january else { return nil }
        let config = RootConfig(
            listen: listen, management: management, tokenPaths: tokenPaths, trustedProxies: trustedProxies,
            rateLimits: rateLimits, http: http, tls: tls, january: january, sessions: sessions, endUsers: endUsers,
            policy: policy, drain: drain, state: state, stateRules: stateRules, log: log, audit: audit,
            selfService: selfService, tracing: tracing)
        config.run(tests)
        return reader.problems.isEmpty ? config : nil
    }

    private func run(_ tests: PolicyTests) {
        tests.run(policy) { claims in
            let found = sessions.verifier(forClaims: claims)
            if found == nil, let issuer = claims["iss"] { return .notAccepted(unknownIssuer(issuer)) }
            // Claims without an issuer are about the first verifier's people.
            let verifier = found ?? sessions.verifiers.first
            if let verifier, !verifier.isPerson(claims) { return .refused(code: ProblemCode.noEndUser.rawValue) }
            do throws(EndUserError) {
                return .mapped(
                    try endUsers.map(
                        claims: claims, subject: claims["sub"]?.string, namespace: verifier?.namespace,
                        prefix: verifier?.endUserPrefix,
                        presetClaim: verifier?.endUserClaim
                    ).text)
            } catch {
                if error == .noEndUser(.missing) { return .unnamed(code: error.code.description) }
                return .refused(code: error.code.description)
            }
        }
    }

    private func unknownIssuer(_ issuer: JSONValue) -> String {
        let known = sessions.verifiers.flatMap { $0.rules.issuers ?? [] }
        let text = issuer.string ?? String(decoding: issuer.encoded(), as: UTF8.self)
        let hint = Suggestion.nearest(to: text, in: known).map { "; did you mean \(ConfigText.quoted($0))?" }
        return
            "no verifier accepts the iss \(ConfigText.quoted(text))\(hint ?? "; configured are \(known.map(ConfigText.quoted).joined(separator: ", "))")"
    }

    private static func readPaths(_ section: ConfigSection) -> [String] {
        let paths = section.strings("token", default: ["/january/client-token"])
        if paths.isEmpty { section.problem("token", "needs at least one path") }
        for (index, path) in paths.enumerated() {
            if !isPath(path) {
                section.invalid("token", at: index, "must be a path such as /january/client-token, in the form it is sent")
            } else if path == Routes.healthPath {
                section.problem("token", at: index, "must not be \(Routes.healthPath)")
            }
        }
        if Set(paths).count < paths.count { section.problem("token", "names a path twice") }
        return paths
    }

    /// Unreserved characters and `/`: what no client and no proxy writes in two ways.
    private static func isPath(_ path: String) -> Bool {
        path.utf8.first == UInt8(ascii: "/") && path.utf8.count <= 1024
            && path.utf8.allSatisfy { ASCII.isLetter($0) || ASCII.isDigit($0) || "/-._~".utf8.contains($0) }
            && !path.split(separator: "/").contains { $0 == "." || $0 == ".." }
    }

    private static func readProxies(_ root: ConfigSection) -> TrustedProxies {
        var proxies = TrustedProxies(field: root.choice("trusted_proxy_field", default: .xForwardedFor))
        for (index, text) in root.strings("trusted_proxies").enumerated() {
            if text == "unix:" {
                proxies.trustsUnixSockets = true
            } else if let range = AddressRange(text) {
                if range.isEverything { root.invalid("trusted_proxies", at: index, "would trust everybody") }
                proxies.ranges.append(range)
            } else {
                root.invalid(
                    "trusted_proxies", at: index, "must be an address or a range such as 10.0.0.0/8, or unix: for Unix sockets")
            }
        }
        return proxies
    }

    /// Certificates are tried here, so that a bad file is found with the key that names it and not at the first connection.
    private static func checkCertificates(
        _ root: ConfigSection, _ january: JanuaryConfig?, _ sessions: SessionsConfig, _ tracing: TracingConfig
    ) {
        func check(_ pem: [UInt8], _ section: ConfigSection) {
            do throws(TLSError) {
                _ = try TLSClientContext(trust: .authorities(pem: pem))
            } catch {
                section.problem("ca_file", "holds no certificates that can be used (\(error.reason))")
            }
        }
        if let file = january?.caFile { check(file.bytes, root.section("january")) }
        if let file = tracing.collector?.caFile { check(file.bytes, root.section("tracing")) }
        let sections = root.section("sessions").sections("verifiers")
        for verifier in sessions.verifiers {
            guard let authority = verifier.keys.remote?.certificateAuthority,
                let section = sections.first(where: { $0.path == verifier.path })
            else { continue }
            check(authority.pem, section)
        }
    }

    private static func checkListeners(_ root: ConfigSection, _ listen: ListenAddress, _ management: ManagementConfig) {
        guard let address = management.address else { return }
        if !address.isInherited && !listen.isInherited && address.socketAddress.overlaps(listen.socketAddress) {
            root.section("management").problem("listen", "must not be the public address (\(listen))")
        }
        if !address.isLoopbackOrLocal && management.tokens.isEmpty {
            root.section("management").problem(
                "listen", "is reachable from outside, so management.token_files is required (got \"\(address)\")")
        }
    }
}

extension EndUserMapping.Verifier {
    init(_ config: JWTVerifierConfig) {
        self.init(
            name: config.name, namespace: config.namespace, hasExplicitNamespace: config.hasExplicitNamespace,
            prefix: config.endUserPrefix)
    }
}
