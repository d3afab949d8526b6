import EventLoop
import Glibc
import JOSE
import Primitives
import Sessions
import StrictJSON
import Telemetry
import TokenEndpoint

/// One session through the server's own verifiers, on a loop of its own, with key sets from the network where there are any.
struct SessionLookUp {
    /// So long a key set may take; its own time-out is a little shorter.
    private static let keySetLimit = Duration.seconds(6)

    private let config: RootConfig

    init(_ config: RootConfig) { self.config = config }

    /// Blocks, at most about 8 s.
    /// - Returns: `nil` when the machine refuses what is needed to ask.
    func verify(_ credential: SessionCredential, _ trace: SessionTrace) -> SessionVerdict? {
        let claims = Self.unverifiedClaims(credential)
        let verifiers = SessionVerifiers(SessionsConfig(from: config.sessions.from, verifiers: relevant(claims)))
        if let claims { Self.record(claims, trace) }
        do {
            let time = SystemTime()
            let loop = try EventLoop(name: "explain", time: time)
            let upstream = try UpstreamParts(config: config, time: time)
            // Before the keys are asked for: what is not in them then is in none.
            let arrived = time.monotonic()
            let metrics = Metrics()
            loop.start()
            verifiers.start(
                on: loop, makeExchange: { loop, authority in upstream.client(for: authority, on: loop) },
                log: Log(time: time, output: LogNowhere()), metrics: metrics)
            waitForKeys(verifiers, time)
            for keySet in verifiers.keySets { Self.record(keySet, trace) }
            return verify(credential, verifiers, on: loop, arrived: arrived, metrics: metrics, trace)
        } catch {
            return nil
        }
    }

    /// Only those that can be chosen: nobody else's key set is asked for.
    private func relevant(_ claims: JWTClaims?) -> [JWTVerifierConfig] {
        guard let claims else { return config.sessions.verifiers.filter { $0.keys.remote == nil } }
        return config.sessions.verifiers(forIssuer: claims.issuer)
    }

    private static func unverifiedClaims(_ credential: SessionCredential) -> JWTClaims? {
        guard let jws = try? CompactJWS.parse(credential.bytes.span.bytes) else { return nil }
        return try? JWTClaims.parse(jws.payload.span.bytes)
    }

    /// Every key set has answered once, well or badly. The state is published by the loop; nothing tells this thread about it.
    private func waitForKeys(_ verifiers: SessionVerifiers, _ time: SystemTime) {
        let end = time.monotonic() + Self.keySetLimit
        while time.monotonic() < end {
            let isWaiting = verifiers.keySets.contains { $0.state.snapshot == nil && $0.state.lastFailure == nil }
            if !isWaiting { return }
            usleep(2_000)
        }
    }

    private func verify(
        _ credential: SessionCredential, _ verifiers: SessionVerifiers, on loop: EventLoop, arrived: MonotonicInstant,
        metrics: Metrics, _ trace: SessionTrace
    ) -> SessionVerdict {
        let outcome = Outcome<(SessionVerdict, LoopBound<Explained>)>()
        let showsClaimValues = trace.showsClaimValues
        let credential = credential
        loop.execute {
            let explained = Explained(
                verifier: LoopSessionVerifier(verifiers, loop: loop, metrics: metrics),
                trace: SessionTrace(showsClaimValues: showsClaimValues))
            let finish: (SessionVerdict) -> Void = { verdict in outcome.set((verdict, LoopBound(explained, on: loop))) }
            let verdict = explained.verifier.verify(
                credential, now: loop.now, requestArrived: arrived, trace: explained.trace, later: finish)
            if let verdict { finish(verdict) }
        }
        let (verdict, explained) = outcome.wait()
        let lines = Outcome<[SessionTrace.Line]>()
        loop.execute { lines.set(explained.value.trace.lines) }
        for line in lines.wait() {
            let isUnknownIssuer = line.step == ExplainedStep.verifier.rawValue && line.outcome == .failed
            trace.record(line.step, line.outcome, isUnknownIssuer ? "\(line.text); configured: \(issuers)" : line.text)
        }
        return verdict
    }

    private var issuers: String {
        config.sessions.verifiers.flatMap { $0.rules.issuers ?? [] }.map(\.debugDescription).joined(separator: ", ")
    }

    private struct Explained {
        let verifier: LoopSessionVerifier
        let trace: SessionTrace
    }

    // MARK: Lines

    /// Names and types; values only where they are asked for.
    private static func record(_ claims: JWTClaims, _ trace: SessionTrace) {
        for member in claims.object.members.prefix(64) {
            let value = trace.showsClaimValues ? ": \(String(decoding: member.value.encoded(), as: UTF8.self))" : ""
            trace.record("claim", .ok, "\(member.name.debugDescription), not yet verified, is a \(member.value.typeName)\(value)")
        }
    }

    private static func record(_ keySet: KeySetCache, _ trace: SessionTrace) {
        let url =
            switch keySet.config.location {
            case .keySet(let url), .discovery(let url, _): url
            }
        let place = "\(keySet.name) at \(url.redacted)"
        if let failure = keySet.state.lastFailure {
            trace.record(
                "key set", .failed, "\(place) cannot be loaded: \(failure.reason)\(failure.detail.map { " (\($0))" } ?? "")")
        } else if let snapshot = keySet.state.snapshot {
            trace.record(
                "key set", .ok, "\(place): \(snapshot.set.keys.count) keys, \(snapshot.set.skipped.count) that cannot be used")
        } else {
            trace.record("key set", .failed, "\(place) does not answer")
        }
    }
}
