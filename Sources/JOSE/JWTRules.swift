import Primitives
import StrictJSON

/// What a token must say to be accepted, besides a good signature (RFC 7519 section 4.1, RFC 8725). Compared byte for byte.
package struct JWTRules: Sendable, Equatable {
    /// Any of these; `nil` accepts any issuer and none.
    package var issuers: [String]?
    /// `aud` must hold one of these; `nil` accepts any audience and none.
    package var audience: [String]?
    package var algorithms: Set<JWSAlgorithm> {
        didSet { allowedAlgorithms = Self.bits(algorithms) }
    }
    /// Clocks may differ by this much, 0 to 300 s.
    package var clockSkew: Duration {
        didSet { clockSkewSeconds = clockSkew.fractionalSeconds }
    }
    /// The longest time from `iat` (where absent: from now) to `exp`.
    package var maxLifetime: Duration?
    /// Accepted values of `typ`, without regard to case and to a leading `application/`; `none` stands for a token without `typ`.
    package var types: Set<String> {
        didSet {
            normalizedTypes = Self.normalized(types)
            allowsNoType = normalizedTypes.contains("none")
            allowsJWT = normalizedTypes.contains("jwt")
        }
    }
    package var requiresSubject: Bool
    /// Accept tokens with `cnf` although nobody proves possession of the key.
    package var allowBoundTokens: Bool

    private var normalizedTypes: Set<String>
    /// ``algorithms`` by ``JWSAlgorithm/index``, and the two most frequent types: what is asked for every token costs no hashing.
    private var allowedAlgorithms: UInt32
    private var allowsNoType: Bool
    private var allowsJWT: Bool
    private var clockSkewSeconds: Double

    package static let defaultTypes: Set<String> = ["none", "JWT", "at+jwt"]

    package init(
        issuers: [String]?, audience: [String]?, algorithms: Set<JWSAlgorithm>, clockSkew: Duration = .seconds(60),
        maxLifetime: Duration? = nil, types: Set<String> = JWTRules.defaultTypes, requiresSubject: Bool = true,
        allowBoundTokens: Bool = false
    ) {
        self.issuers = issuers
        self.audience = audience
        self.algorithms = algorithms
        self.clockSkew = clockSkew
        self.maxLifetime = maxLifetime
        self.types = types
        self.requiresSubject = requiresSubject
        self.allowBoundTokens = allowBoundTokens
        normalizedTypes = Self.normalized(types)
        allowedAlgorithms = Self.bits(algorithms)
        allowsNoType = normalizedTypes.contains("none")
        allowsJWT = normalizedTypes.contains("jwt")
        clockSkewSeconds = clockSkew.fractionalSeconds
    }

    private static func bits(_ algorithms: Set<JWSAlgorithm>) -> UInt32 { algorithms.reduce(0) { $0 | 1 << UInt32($1.index) } }

    private static func normalized(_ types: Set<String>) -> Set<String> { Set(types.map(normalized)) }

    /// RFC 7515 section 4.1.9: `application/` may be left out, and media types have no case.
    private static func normalized(_ type: String) -> String {
        let lower = String(decoding: type.utf8.map(ASCII.lowercased), as: UTF8.self)
        return lower.hasPrefix("application/") ? String(lower.dropFirst("application/".count)) : lower
    }

    private enum Finding {
        case ok
        case skipped
        case failed(JWTRefusal)
    }

    // MARK: Header

    private static let headerSteps: [JWTStep] = [.critical, .algorithm, .type]

    /// Checks everything about the header that needs no key. The algorithm it returns is allowed, but must still fit the key.
    package func check(_ header: JOSEHeader, trace: JWTTrace? = nil) throws(JWTRefusal) -> JWSAlgorithm {
        for (index, step) in Self.headerSteps.enumerated() {
            let finding = evaluate(step, of: header)
            trace.map { record(step, finding, text(step, finding, header), in: $0) }
            if case .failed(let refusal) = finding {
                trace?.skip(Self.headerSteps[(index + 1)...])
                throw refusal
            }
        }
        guard let algorithm = header.algorithm else { throw .algorithmNotAllowed }
        return algorithm
    }

    private func evaluate(_ step: JWTStep, of header: JOSEHeader) -> Finding {
        switch step {
        case .critical: return header.hasCritical || header.changesPayload ? .failed(.criticalHeader) : .ok
        case .algorithm:
            guard let algorithm = header.algorithm, allowedAlgorithms >> UInt32(algorithm.index) & 1 == 1 else {
                return .failed(.algorithmNotAllowed)
            }
            return .ok
        case .type: return allows(type: header.type) ? .ok : .failed(.typeNotAllowed)
        case .format, .keyID, .signature, .issuer, .audience, .expiration, .notBefore, .lifetime, .subject, .binding:
            return .skipped
        }
    }

    private func allows(type: String?) -> Bool {
        // The usual three cost no new string.
        guard let type else { return allowsNoType }
        if type == "JWT" { return allowsJWT }
        let normal = Self.normalized(type)
        return normal != "none" && normalizedTypes.contains(normal)
    }

    private func text(_ step: JWTStep, _ finding: Finding, _ header: JOSEHeader) -> String {
        let isOK = if case .ok = finding { true } else { false }
        switch step {
        case .critical where isOK: return "no critical extension"
        case .critical: return header.hasCritical ? "crit is present; no extension is supported" : "zip or b64 is not supported"
        case .algorithm:
            let allowed = JWSAlgorithm.allCases.filter(algorithms.contains).map(\.rawValue).joined(separator: ", ")
            return isOK ? header.algorithmName : "\(header.algorithmName.debugDescription) is not one of \(allowed)"
        case .type:
            guard let type = header.type else { return isOK ? "none given" : "none given, but one is required" }
            return isOK
                ? type.debugDescription : "\(type.debugDescription) is not one of \(types.sorted().joined(separator: ", "))"
        case .format, .keyID, .signature, .issuer, .audience, .expiration, .notBefore, .lifetime, .subject, .binding: return ""
        }
    }

    // MARK: Claims

    private static let claimSteps: [JWTStep] = [
        .issuer, .audience, .expiration, .notBefore, .lifetime, .subject, .binding,
    ]

    /// Checks the claims of a token whose signature is good, at `now` on the wall clock. A token is refused from the second of `exp`
    /// on (RFC 7519 section 4.1.4), `clockSkew` later.
    package func check(_ claims: JWTClaims, now: WallInstant, trace: JWTTrace? = nil) throws(JWTRefusal) {
        let now = now.fractionalSeconds
        for (index, step) in Self.claimSteps.enumerated() {
            let finding = evaluate(step, of: claims, now: now)
            trace.map { record(step, finding, text(step, finding, claims, now: now, showsClaims: $0.showsClaims), in: $0) }
            if case .failed(let refusal) = finding {
                trace?.skip(Self.claimSteps[(index + 1)...])
                throw refusal
            }
        }
    }

    private func evaluate(_ step: JWTStep, of claims: JWTClaims, now: Double) -> Finding {
        switch step {
        case .issuer:
            guard let issuers else { return .skipped }
            guard let issuer = claims.issuer, issuers.contains(where: issuer.hasSameBytes) else { return .failed(.issuer) }
        case .audience:
            guard let audience else { return .skipped }
            let isMeant = claims.audience.contains { one in audience.contains(where: one.hasSameBytes) }
            guard isMeant else { return .failed(.audience) }
        case .expiration:
            guard let expiration = claims.expiration else { return .failed(.missingExpiration) }
            guard now < expiration + clockSkewSeconds else { return .failed(.expired) }
        case .notBefore:
            guard let notBefore = claims.notBefore else { return .skipped }
            guard now >= notBefore - clockSkewSeconds else { return .failed(.notYetValid) }
        case .lifetime:
            guard let maxLifetime, let expiration = claims.expiration else { return .skipped }
            let limit = maxLifetime.fractionalSeconds
            // Also from now, so that an `iat` in the future cannot stretch it.
            let fromNow = expiration - now <= limit + clockSkew.fractionalSeconds
            let fromIssue = claims.issuedAt.map { expiration - $0 <= limit } ?? true
            guard fromNow, fromIssue else { return .failed(.lifetimeTooLong) }
        case .subject:
            if claims.subject == nil { return requiresSubject ? .failed(.missingSubject) : .skipped }
        case .binding:
            guard claims.isBound else { return .skipped }
            guard allowBoundTokens else { return .failed(.boundToken) }
        case .format, .critical, .algorithm, .type, .keyID, .signature: return .skipped
        }
        return .ok
    }

    private func text(_ step: JWTStep, _ finding: Finding, _ claims: JWTClaims, now: Double, showsClaims: Bool) -> String {
        let isOK = if case .ok = finding { true } else { false }
        func shown(_ value: String) -> String { showsClaims ? " (\(value))" : "" }
        func date(_ value: Double?) -> String { value.map { shown("\($0), \($0 - now) s from now") } ?? "" }
        switch step {
        case .issuer:
            guard let issuers else { return "any issuer is accepted" }
            guard let issuer = claims.issuer else { return "there is no iss; configured: \(Self.list(issuers))" }
            return (isOK ? "as configured" : "not as configured: \(Self.list(issuers))") + shown(issuer.debugDescription)
        case .audience:
            guard let audience else { return "any audience is accepted" }
            guard !claims.audience.isEmpty else { return "there is no aud; configured: \(Self.list(audience))" }
            return (isOK ? "as configured" : "does not hold what is configured: \(Self.list(audience))")
                + shown(claims.audience.map(\.debugDescription).joined(separator: ", "))
        case .expiration:
            guard claims.expiration != nil else { return "there is no exp, which is required" }
            return (isOK ? "not expired" : "expired, \(clockSkew.fractionalSeconds) s of clock skew allowed")
                + date(claims.expiration)
        case .notBefore:
            guard claims.notBefore != nil else { return "there is no nbf" }
            return (isOK ? "valid already" : "not yet valid, \(clockSkew.fractionalSeconds) s of clock skew allowed")
                + date(claims.notBefore)
        case .lifetime:
            guard let maxLifetime else { return "no longest lifetime is configured" }
            return "\(isOK ? "at most" : "longer than") \(maxLifetime.fractionalSeconds) s" + date(claims.expiration)
        case .subject:
            guard let subject = claims.subject else {
                return requiresSubject ? "there is no sub" : "there is no sub, and none is needed"
            }
            return "a non-empty string" + shown(subject.debugDescription)
        case .binding:
            guard claims.isBound else { return "the token is not bound to a key" }
            return isOK
                ? "bound to a key that nobody proves, allowed by configuration" : "bound to a key, which cannot be proven here"
        case .format, .critical, .algorithm, .type, .keyID, .signature: return ""
        }
    }

    private static func list(_ values: [String]) -> String { values.map(\.debugDescription).joined(separator: ", ") }

    private func record(_ step: JWTStep, _ finding: Finding, _ text: String, in trace: JWTTrace) {
        switch finding {
        case .ok: trace.record(step, .ok, text)
        case .skipped: trace.record(step, .skipped, text)
        case .failed: trace.record(step, .failed, text)
        }
    }
}

extension JWTTrace {
    fileprivate func skip(_ steps: some Sequence<JWTStep>) {
        for step in steps { record(step, .skipped, "not reached") }
    }
}
