import EventLoop
import HTTPMessage
import JOSE
import Primitives
import StrictJSON
import Telemetry

/// All verifiers of one configuration and the key sets they share. Immutable after `init`; used by every loop.
package final class SessionVerifiers: Sendable {
    package let config: SessionsConfig
    let verifiers: [JWTSessionVerifier]
    /// In the order of the configuration, each source once.
    package let keySets: [KeySetCache]
    /// By the issuer's bytes: two spellings of one text are two issuers.
    private let byIssuer: [NameKey: [Int]]
    /// Where only one issuer is configured, which is the rule: found without hashing.
    private let onlyIssuer: (name: String, indices: [Int])?
    private let anyIssuer: Int?

    /// - Parameter previous: the verifiers of the configuration before: an unchanged key set goes on, loaded and with its limits.
    package init(_ config: SessionsConfig, previous: SessionVerifiers? = nil) {
        self.config = config
        var keySets: [KeySetCache] = []
        var byIssuer: [NameKey: [Int]] = [:]
        var anyIssuer: Int?
        var verifiers: [JWTSessionVerifier] = []
        var names: [String] = []
        for (index, verifier) in config.verifiers.enumerated() {
            let remote = verifier.keys.remote.map { remote in
                if let shared = keySets.first(where: { $0.config == remote }) { return shared }
                let cache =
                    previous?.keySets.first { $0.config == remote && $0.name == verifier.name }
                    ?? KeySetCache(name: verifier.name, config: remote)
                keySets.append(cache)
                return cache
            }
            verifiers.append(JWTSessionVerifier(config: verifier, remote: remote))
            if let issuers = verifier.rules.issuers {
                names += issuers
                for issuer in issuers { byIssuer[NameKey(issuer), default: []].append(index) }
            } else if anyIssuer == nil {
                anyIssuer = index
            }
        }
        self.verifiers = verifiers
        self.keySets = keySets
        self.byIssuer = byIssuer
        onlyIssuer = byIssuer.count == 1 ? names.first.flatMap { name in byIssuer[NameKey(name)].map { (name, $0) } } : nil
        self.anyIssuer = anyIssuer
    }

    /// Loads every key set and keeps it fresh.
    ///
    /// - Parameters:
    ///   - loop: where loads, timers and waiters live. Requests stay on their own loops.
    ///   - makeExchange: called on `loop`, once per key set.
    ///   - current: whose key sets the metrics show: those in force, where reloads put others in the place of these.
    package func start(
        on loop: EventLoop, makeExchange: @escaping KeySetCache.MakeExchange, log: Log, metrics: Metrics,
        current: (@Sendable () -> SessionVerifiers?)? = nil
    ) {
        load(on: loop, makeExchange: makeExchange, log: log, metrics: metrics)
        let current = current ?? { [weak self] in self }
        metrics.gauges("jwks_age_seconds", help: "Age of the key set in use.", labels: ["source"]) {
            [time = loop.time] in
            let now = time.monotonic()
            return (current()?.keySets ?? []).compactMap { keySet in
                keySet.state.snapshot.map { ([keySet.name], (now - $0.loadedAt).fractionalSeconds) }
            }
        }
        metrics.gauges("jwks_keys", help: "Keys of the set in use.", labels: ["source"]) {
            (current()?.keySets ?? []).compactMap { keySet in
                keySet.state.snapshot.map { ([keySet.name], Double($0.set.keys.count)) }
            }
        }
        metrics.gauges("jwks_last_used_seconds", help: "Since a session was last verified with the set.", labels: ["source"]) {
            [time = loop.time] in
            let now = time.monotonic()
            return (current()?.keySets ?? []).compactMap { keySet in
                keySet.state.snapshot?.lastUsed.map { ([keySet.name], (now - $0).fractionalSeconds) }
            }
        }
    }

    /// Begins to load the key sets that nobody loads yet.
    package func load(on loop: EventLoop, makeExchange: @escaping KeySetCache.MakeExchange, log: Log, metrics: Metrics) {
        for keySet in keySets { keySet.start(on: loop, makeExchange: makeExchange, log: log, metrics: metrics) }
    }

    /// Ends all loads but those of key sets that `next` goes on with.
    package func stop(inFavourOf next: SessionVerifiers? = nil) {
        for keySet in keySets where !(next?.keySets.contains { $0 === keySet } ?? false) { keySet.stop() }
    }

    /// The verifiers that may accept a token with this unverified issuer. The choice is made once: what they refuse is refused.
    func choose(for claims: JWTClaims) -> [Int] {
        if let issuer = claims.issuer, let indices = indices(ofIssuer: issuer) {
            guard indices.count > 1 else { return indices }
            // Each would refuse another audience than its own anyway: no signature has to be verified for that.
            let meant = indices.filter { verifiers[$0].config.mayAccept(audience: claims.audience) }
            return meant.isEmpty ? Array(indices.prefix(1)) : meant
        }
        return anyIssuer.map { [$0] } ?? []
    }

    private func indices(ofIssuer issuer: String) -> [Int]? {
        guard let onlyIssuer else { return byIssuer[NameKey(issuer)] }
        return onlyIssuer.name.hasSameBytes(as: issuer) ? onlyIssuer.indices : nil
    }
}

extension JWTVerifierConfig {
    fileprivate func mayAccept(audience: [String]) -> Bool {
        guard let allowed = rules.audience else { return true }
        return audience.contains { one in allowed.contains { $0.hasSameBytes(as: one) } }
    }
}

extension SessionsConfig {
    /// The verifiers that a token of this issuer may come to, before its audience is looked at. Who asks once (commands, policy tests)
    /// asks here; requests ask ``SessionVerifiers``.
    package func verifiers(forIssuer issuer: String?) -> [JWTVerifierConfig] {
        let named = verifiers.filter { $0.rules.issuers?.contains { $0.hasSameBytes(as: issuer ?? "") } ?? false }
        return named.isEmpty ? Array(verifiers.filter { $0.rules.issuers == nil }.prefix(1)) : named
    }

    /// The one whose namespace, prefix and person rules count for claims that nobody signed.
    package func verifier(forClaims claims: JSONObject) -> JWTVerifierConfig? {
        let found = verifiers(forIssuer: claims["iss"]?.string)
        let audience = claims["aud"].map { $0.array?.compactMap(\.string) ?? [$0.string].compactMap(\.self) } ?? []
        return found.first { $0.mayAccept(audience: audience) } ?? found.first
    }
}

/// The verifiers as one loop uses them: with its own scratch memory and its own handles of the counters. Confined to its loop.
package final class LoopSessionVerifier {
    private let shared: SessionVerifiers
    private let loop: EventLoop
    private let signatures = SignatureVerifier()
    private let headers = JOSEHeaderMemo()
    private var counters: SessionCounters

    package init(_ shared: SessionVerifiers, loop: EventLoop, metrics: Metrics) {
        self.shared = shared
        self.loop = loop
        counters = SessionCounters(verifierNames: shared.verifiers.map(\.name), metrics: metrics)
    }

    /// The credential of a request, from the places of the configuration.
    package func findCredential(in fields: Fields) throws(SessionRefusal) -> SessionCredential {
        do throws(SessionRefusal) {
            return try SessionCredential.find(in: fields, places: shared.config.from)
        } catch {
            counters.count(.refused(error), verifier: nil)
            throw error
        }
    }

    /// Says whether the session is good.
    ///
    /// - Parameters:
    ///   - now: this turn's time.
    ///   - requestArrived: when the head of the request was complete. A key set loaded since then settles an unknown key.
    ///   - later: called once, on the loop, within the 2 s that a request waits for a key set, when this returns `nil`; else never.
    /// - Returns: the verdict where nothing has to be waited for.
    package func verify(
        _ credential: SessionCredential, now: MonotonicInstant, requestArrived: MonotonicInstant,
        trace: SessionTrace? = nil, later: @escaping (SessionVerdict) -> Void
    ) -> SessionVerdict? {
        let token: ParsedToken
        switch parse(credential, trace: trace) {
        case .success(let parsed): token = parsed
        case .failure(let refusal): return count(.refused(refusal), verifier: nil)
        }
        let chosen = shared.choose(for: token.claims)
        guard let first = chosen.first else {
            trace?.record("verifier", .failed, "no verifier is configured for this issuer\(Self.issuer(token, trace))")
            return count(.refused(.noVerifierForIssuer), verifier: nil)
        }
        trace?.record("verifier", .ok, Self.names(chosen.map { shared.verifiers[$0] }))
        guard chosen.count == 1 else {
            return run(
                PendingSession(token: token, chosen: chosen, arrived: requestArrived, trace: trace, later: later), now: now)
        }
        switch shared.verifiers[first].verify(token, now: now, wall: loop.time.wall(), signatures: signatures, trace: trace) {
        case .verdict(let verdict): return count(verdict, verifier: first)
        case .keyMissing(let cache):
            wait(for: cache, PendingSession(token: token, chosen: chosen, arrived: requestArrived, trace: trace, later: later))
            return nil
        }
    }

    private func parse(_ credential: SessionCredential, trace: SessionTrace?) -> Result<ParsedToken, SessionRefusal> {
        let jws: CompactJWS
        do throws(JWSFormatError) {
            jws = try CompactJWS.parse(credential.bytes.span.bytes, headers)
        } catch {
            trace?.record("format", .failed, "\(error)")
            return .failure(error.isOpaque ? .notAJWT : SessionRefusal(.format(error)))
        }
        do throws(JWTClaimsError) {
            let claims = try JWTClaims.parse(jws.payload.span.bytes)
            trace?.record("format", .ok, "a JWT")
            return .success(ParsedToken(jws: jws, claims: claims))
        } catch {
            trace?.record("format", .failed, "\(error)")
            return .failure(SessionRefusal(.claims(error)))
        }
    }

    private func count(_ verdict: SessionVerdict, verifier: Int?) -> SessionVerdict {
        counters.count(verdict, verifier: verifier)
        return verdict
    }

    // MARK: Several verifiers, and waiting

    /// Asks the chosen verifiers in turn: one that accepts decides, then one that cannot know, then the first refusal. `nil`: it waits.
    private func run(_ pending: PendingSession, now: MonotonicInstant) -> SessionVerdict? {
        while let index = pending.chosen.first {
            switch shared.verifiers[index].verify(
                pending.token, now: now, wall: loop.time.wall(), signatures: signatures, trace: pending.trace)
            {
            case .verdict(let verdict): pending.take(verdict)
            case .keyMissing(let cache):
                if pending.hasWaited {
                    // The set that had the key has been replaced by one that has not.
                    pending.take(.unavailable(SessionUnavailable(.keyNotYetKnown, retryAfter: .seconds(1))))
                } else {
                    wait(for: cache, pending)
                    return nil
                }
            }
        }
        return count(pending.outcome.verdict, verifier: pending.outcome.verifier)
    }

    private func wait(for cache: KeySetCache, _ pending: PendingSession) {
        let bound = LoopBound((verifier: self, pending: pending), on: loop)
        cache.awaitKey(
            pending.token.jws.header.keyID, issuedAt: pending.token.claims.issuedAt, arrived: pending.arrived, on: loop
        ) { answer in
            let (verifier, pending) = bound.value
            verifier.resume(pending, answer)
        }
    }

    private func resume(_ pending: PendingSession, _ answer: KeySetStateMachine.Answer) {
        switch answer {
        case .lookAgain:
            pending.trace?.record("key set", .ok, "loaded again, the key is there")
            pending.hasWaited = true
        case .unknownKey:
            pending.trace?.record("key set", .ok, "loaded again; the key is not there either")
            pending.take(.refused(SessionRefusal(.unknownKeyID)))
        case .unavailable(let retryAfter):
            pending.trace?.record("key set", .failed, "cannot be loaded now")
            let hasKeys = pending.chosen.first.flatMap { shared.verifiers[$0].remote?.snapshot(now: loop.now) } != nil
            pending.take(
                .unavailable(SessionUnavailable(hasKeys ? .keyNotYetKnown : .keysUnavailable, retryAfter: retryAfter)))
        }
        if let verdict = run(pending, now: loop.now) { pending.later(verdict) }
    }

    private static func issuer(_ token: ParsedToken, _ trace: SessionTrace?) -> String {
        guard let trace, trace.showsClaimValues else { return "" }
        return " (\(token.claims.issuer?.debugDescription ?? "none"))"
    }

    private static func names(_ verifiers: [JWTSessionVerifier]) -> String {
        verifiers.map { "\($0.name) (\($0.config.path))" }.joined(separator: ", ")
    }
}

/// A verification that asks more than one verifier or waits for a key. Confined to its loop.
private final class PendingSession {
    let token: ParsedToken
    /// Not asked yet, in order.
    var chosen: ArraySlice<Int>
    let arrived: MonotonicInstant
    let trace: SessionTrace?
    let later: (SessionVerdict) -> Void
    /// A request waits for one load of a verifier's keys, never for a second.
    var hasWaited = false
    private(set) var outcome: (verdict: SessionVerdict, verifier: Int?) = (.refused(.noVerifierForIssuer), nil)

    init(
        token: ParsedToken, chosen: [Int], arrived: MonotonicInstant, trace: SessionTrace?,
        later: @escaping (SessionVerdict) -> Void
    ) {
        self.token = token
        self.chosen = chosen[...]
        self.arrived = arrived
        self.trace = trace
        self.later = later
    }

    /// The verdict of the verifier that is first in ``chosen``; it is done then. An acceptance ends the asking.
    func take(_ verdict: SessionVerdict) {
        guard let verifier = chosen.popFirst() else { return }
        hasWaited = false
        switch (verdict, outcome.verdict) {
        case (.accepted, _):
            outcome = (verdict, verifier)
            chosen = []
        case (.unavailable, .refused), (.unavailable, .accepted): outcome = (verdict, verifier)
        case (.refused, .refused) where outcome.verifier == nil: outcome = (verdict, verifier)
        case (.refused, _), (.unavailable, .unavailable): break
        }
    }
}

/// `sessions_total{verifier,verdict,reason}`, each series looked up once per loop.
private struct SessionCounters {
    private static let refusals = SessionRefusal.Reason.allCases
    private static let refusalIndices = Dictionary(uniqueKeysWithValues: refusals.enumerated().map { ($1, $0) })
    private static let unavailable = SessionUnavailable.Reason.allCases
    private static let persons: [PersonVerdict] = [.person, .machine, .anonymous, .unfinished]
    private static let width = persons.count + refusals.count + unavailable.count

    private let metrics: Metrics
    /// The last name stands for: no verifier was chosen.
    private let names: [String]
    private var handles: [Counter?]

    init(verifierNames: [String], metrics: Metrics) {
        self.metrics = metrics
        names = verifierNames + ["none"]
        handles = Array(repeating: nil, count: names.count * Self.width)
    }

    mutating func count(_ verdict: SessionVerdict, verifier: Int?) {
        let verifier = verifier ?? names.count - 1
        let (column, label, reason) = Self.series(of: verdict)
        let slot = verifier * Self.width + column
        if let counter = handles[slot] { return counter.add() }
        let counter = metrics.counter(
            "sessions_total", help: "Sessions looked at, by verdict.",
            labels: [("verifier", names[verifier]), ("verdict", label), ("reason", reason)])
        handles[slot] = counter
        counter.add()
    }

    private static func series(of verdict: SessionVerdict) -> (column: Int, label: String, reason: String) {
        switch verdict {
        case .accepted(let session):
            (persons.firstIndex(of: session.personRule) ?? 0, "accepted", session.personRule.reason)
        case .refused(let refusal):
            (persons.count + (refusalIndices[refusal.reason] ?? 0), "refused", refusal.reason.rawValue)
        case .unavailable(let unavailable):
            (
                persons.count + refusals.count + (Self.unavailable.firstIndex(of: unavailable.reason) ?? 0), "unavailable",
                unavailable.reason.rawValue
            )
        }
    }
}
