import JOSE
import Primitives
import StrictJSON

/// A token taken apart. Nothing in it has been verified.
struct ParsedToken: Sendable {
    let jws: CompactJWS
    let claims: JWTClaims
}

/// One `jwt` verifier: header, key, signature, claims, required claims, person; the first step that fails ends it. Immutable, used by
/// every loop with that loop's own ``SignatureVerifier``.
final class JWTSessionVerifier: Sendable {
    let config: JWTVerifierConfig
    /// Where ``KeySourceConfig/remote`` is loaded; shared with other verifiers of the same source.
    let remote: KeySetCache?

    init(config: JWTVerifierConfig, remote: KeySetCache?) {
        self.config = config
        self.remote = remote
    }

    enum Attempt {
        case verdict(SessionVerdict)
        /// The key is not in the set, and nothing else is wrong that can be seen without it.
        case keyMissing(KeySetCache)
    }

    private enum KeyLookup {
        case keys([VerificationKey])
        case refused(JWTRefusal)
        case missing(KeySetCache)
    }

    var name: String { config.name }

    /// - Parameters:
    ///   - now: for ages of keys.
    ///   - wall: for the token's times.
    func verify(
        _ token: ParsedToken, now: MonotonicInstant, wall: WallInstant, signatures: SignatureVerifier, trace: SessionTrace?
    ) -> Attempt {
        do throws(JWTRefusal) {
            let algorithm = try trace.joined { details throws(JWTRefusal) in
                try config.rules.check(token.jws.header, trace: details)
            }
            switch keys(for: token.jws.header, algorithm, now: now, trace: trace) {
            case .refused(let refusal): throw refusal
            case .missing(let cache):
                trace?.record("signature", .skipped, "there is no key to verify it with")
                // A token that would be refused with any key needs none, and must not make anybody load one.
                try checkClaims(token.claims, wall: wall, trace: trace)
                return .keyMissing(cache)
            case .keys(let keys):
                guard keys.contains(where: { signatures.verify(token.jws, algorithm: algorithm, key: $0) }) else {
                    trace?.record("signature", .failed, "not made by any of the keys")
                    throw .signature
                }
                trace?.record(
                    "signature", .ok, "\(algorithm.rawValue), made by \(keys.count == 1 ? "the key" : "one of the keys")")
            }
            try checkClaims(token.claims, wall: wall, trace: trace)
        } catch {
            return .verdict(.refused(SessionRefusal(error)))
        }
        guard requiredClaimsHold(in: token.claims.object, trace: trace) else { return .verdict(.refused(.requiredClaim)) }
        return .verdict(.accepted(session(of: token.claims, trace: trace)))
    }

    // MARK: Key

    private func keys(
        for header: JOSEHeader, _ algorithm: JWSAlgorithm, now: MonotonicInstant, trace: SessionTrace?
    ) -> KeyLookup {
        // Beside a remote set a local key is a secret, for HMAC only: no algorithm ever has two sources.
        if let local = config.keys.local, remote == nil || algorithm.isSymmetric {
            // Keys from PEM files and secrets have no ID; whatever the token calls its key, there are only these.
            let keyID = local.origin == .keySetFile ? header.keyID : nil
            return found(local.set.candidates(keyID: keyID, algorithm: algorithm), header, in: local.origin.text, trace: trace)
        }
        guard let remote else { return .refused(.noFittingKey) }
        guard let snapshot = remote.snapshot(now: now) else {
            trace?.record("kid", .failed, "the key set of \(remote.name) has never been loaded, or too long ago")
            return .missing(remote)
        }
        snapshot.markUsed(now)
        let candidates = snapshot.set.candidates(keyID: header.keyID, algorithm: algorithm)
        if case .unknownKeyID = candidates, !snapshot.knows(header.keyID) {
            trace?.record("kid", .failed, "\(Self.quoted(header.keyID)) is not in \(Self.place(remote, snapshot, now))")
            return .missing(remote)
        }
        return found(candidates, header, in: trace == nil ? "" : Self.place(remote, snapshot, now), trace: trace)
    }

    private func found(
        _ candidates: JWKSet.Candidates, _ header: JOSEHeader, in place: String, trace: SessionTrace?
    ) -> KeyLookup {
        switch candidates {
        case .keys(let keys):
            trace?.record("kid", .ok, "\(Self.quoted(header.keyID)): \(keys.count) of the keys in \(place)")
            return .keys(keys)
        case .unknownKeyID:
            trace?.record("kid", .failed, "\(Self.quoted(header.keyID)) is not usable or not in \(place)")
            return .refused(.unknownKeyID)
        case .tooMany:
            trace?.record("kid", .failed, "\(Self.quoted(header.keyID)): more keys fit in \(place) than are tried")
            return .refused(.ambiguousKey)
        case .none:
            trace?.record("kid", .failed, "\(Self.quoted(header.keyID)): no key in \(place) fits \(header.algorithmName)")
            return .refused(.noFittingKey)
        }
    }

    private static func quoted(_ keyID: String?) -> String { keyID?.debugDescription ?? "no kid" }

    private static func place(_ cache: KeySetCache, _ snapshot: KeySetSnapshot, _ now: MonotonicInstant) -> String {
        "the key set at \(cache.config.url.redacted), loaded \((now - snapshot.loadedAt).components.seconds) s ago"
    }

    // MARK: Claims

    private func checkClaims(_ claims: JWTClaims, wall: WallInstant, trace: SessionTrace?) throws(JWTRefusal) {
        try trace.joined { details throws(JWTRefusal) in try config.rules.check(claims, now: wall, trace: details) }
    }

    private func requiredClaimsHold(in claims: JSONObject, trace: SessionTrace?) -> Bool {
        for required in config.requiredClaims {
            let holds = required.holds(in: claims)
            if let trace {
                let value = required.path.value(in: claims)
                let shown =
                    trace.showsClaimValues ? value.map { " (\(String(decoding: $0.encoded(), as: UTF8.self)))" } ?? "" : ""
                let text =
                    value.map { "a \($0.typeName)\(holds ? "" : " that is not one of \(Self.list(required.allowed))")\(shown)" }
                    ?? "absent"
                trace.record("required claim \(required.path)", holds ? .ok : .failed, text)
            }
            guard holds else { return false }
        }
        return true
    }

    private static func list(_ values: [JSONValue]) -> String {
        values.map { String(decoding: $0.encoded(), as: UTF8.self) }.joined(separator: ", ")
    }

    private func session(of claims: JWTClaims, trace: SessionTrace?) -> VerifiedSession {
        VerifiedSession(
            verifierName: config.name, namespace: config.namespace, claims: claims.object, subject: claims.subject,
            sessionID: sessionID(in: claims.object), startedAt: startedAt(in: claims.object),
            expiresAt: claims.expiration.map(WallInstant.init(clampingSeconds:)),
            personRule: personVerdict(on: claims.object, trace: trace), endUserClaim: config.endUserClaim,
            endUserPrefix: config.endUserPrefix)
    }

    private func personVerdict(on claims: JSONObject, trace: SessionTrace?) -> PersonVerdict {
        for rule in config.personRules {
            let verdict = rule.verdict(on: claims)
            let isAllowed = config.allows(verdict)
            guard !isAllowed else {
                trace?.record("person", .ok, verdict == .person ? rule.summary : "\(verdict.reason), which is allowed here")
                continue
            }
            trace?.record("person", .failed, "\(verdict.reason): the rule is that \(rule.summary)")
            return verdict
        }
        if config.personRules.isEmpty { trace?.record("person", .skipped, "the verifier has no such rule") }
        return .person
    }

    private func sessionID(in claims: JSONObject) -> String? {
        for path in config.sessionIDClaims {
            switch path.value(in: claims) {
            case .string(let text) where !text.isEmpty: return text
            case .number(let number): return number.text
            default: continue
            }
        }
        return nil
    }

    /// The first claim that is there decides. One that is no number says that there is a beginning and not which: another claim, such as
    /// an `iat` that every refresh renews, must not stand in for it.
    private func startedAt(in claims: JSONObject) -> Double? {
        for path in config.startedAt {
            if let value = path.value(in: claims) { return value.number?.double }
        }
        return nil
    }
}

extension LocalKeys.Origin {
    fileprivate var text: String {
        switch self {
        case .hmacSecret: "hmac_secret_file"
        case .publicKeyFiles: "public_key_files"
        case .keySetFile: "jwks_file"
        }
    }
}

extension WallInstant {
    /// `exp` may be any finite number; beyond the year 2262 is the same as never.
    init(clampingSeconds seconds: Double) {
        let nanoseconds = seconds * 1e9
        self.init(nanosecondsSinceEpoch: Int64(exactly: nanoseconds.rounded(.down)) ?? (seconds < 0 ? .min : .max))
    }
}

extension SessionTrace? {
    /// Runs a check of the target JOSE and takes its steps over, whether it throws or not. Without a trace it costs nothing.
    fileprivate func joined<Result>(_ check: (JWTTrace?) throws(JWTRefusal) -> Result) throws(JWTRefusal) -> Result {
        guard let self else { return try check(nil) }
        let details = JWTTrace(showsClaims: self.showsClaimValues)
        defer {
            for entry in details.entries {
                self.record(entry.step.rawValue, SessionTrace.Outcome(entry.verdict), entry.text)
            }
        }
        return try check(details)
    }
}

extension SessionTrace.Outcome {
    fileprivate init(_ verdict: JWTTrace.Verdict) {
        self =
            switch verdict {
            case .ok: .ok
            case .failed: .failed
            case .skipped: .skipped
            }
    }
}
