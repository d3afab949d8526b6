import EndUsers
import JOSE
import Primitives
import RateLimiting
import Sessions
import TokenEndpoint

/// `explain`: one app session through the steps of a mint, up to the request to January, with the same parts that the server uses.
enum ExplainCommand {
    /// A session has at most 16 KiB; more than this is not read.
    private static let maxInputBytes = 64 * 1024

    static func run(_ invocation: Invocation) -> ExitCode {
        let console = invocation.console
        let loaded = LoadedConfiguration(invocation)
        guard let config = loaded.config else { return loaded.refuse(console) }
        let trace = SessionTrace(showsClaimValues: invocation.options.has(.showClaims))
        let finding: Finding
        do throws(Finding) {
            guard let input = console.readInput(maxBytes: maxInputBytes) else { throw .refused(SeenByApp(.malformedCredential)) }
            let credential = try ExplainedInput(input, places: config.sessions.from).credential(trace)
            let found = explain(credential, config, trace)
            if case .refused = found, let mistake = ExplainedInput.mistake(credential) {
                trace.record("format", .failed, mistake)
            }
            finding = found
        } catch {
            finding = error
        }
        if trace.lines.isEmpty { trace.record("found", .failed, "more than \(maxInputBytes) bytes, or not readable") }
        report(finding, trace, loaded, config, console)
        return finding.exitCode
    }

    enum Finding: Error, Sendable {
        case accepted
        case refused(SeenByApp)
        case unknown(SeenByApp)

        var exitCode: ExitCode {
            switch self {
            case .accepted: .ok
            case .refused: .failed
            case .unknown: .unknown
            }
        }
    }

    // MARK: The pipeline

    private static func explain(_ credential: SessionCredential, _ config: RootConfig, _ trace: SessionTrace) -> Finding {
        switch SessionLookUp(config).verify(credential, trace) {
        case nil:
            trace.record("key set", .failed, "cannot be looked at: no event loop or no TLS")
            return .unknown(SeenByApp(SessionUnavailable(.keysUnavailable, retryAfter: .seconds(1))))
        case .unavailable(let unavailable)?: return .unknown(SeenByApp(unavailable))
        case .refused(let refusal)?: return .refused(SeenByApp(refusal))
        case .accepted(let session)?: return explain(session, config, trace)
        }
    }

    private static func explain(_ session: VerifiedSession, _ config: RootConfig, _ trace: SessionTrace) -> Finding {
        guard session.personRule == .person else { return .refused(.notAPerson) }
        let mapping = config.endUsers
        let way = "\(mapping.from.description.debugDescription), transform \(mapping.transform.rawValue)"
        do throws(EndUserError) {
            let id = try mapping.map(
                claims: session.claims, subject: session.subject, namespace: session.namespace, prefix: session.endUserPrefix,
                presetClaim: session.endUserClaim)
            trace.record("end user", .ok, "from \(way)" + (trace.showsClaimValues ? ": \(id.text.debugDescription)" : ""))
        } catch {
            trace.record("end user", .failed, "\(error.code): \(error.reason), from \(way)")
            return .refused(SeenByApp(error))
        }
        guard let grant = config.policy.decide(session.claims) else {
            trace.record("features", .failed, "no_features: neither features nor a grant that holds gives any")
            return .refused(.noFeatures)
        }
        trace.record("features", .ok, grant.features.joined(separator: ", "))
        trace.record("scopes", .ok, grant.scopes.joined(separator: " "))
        trace.record("ttl", .ok, "\(grant.ttlSeconds) s")
        trace.record("limits", .ok, limits(of: session, config.rateLimits))
        if let text = LiveLimits.text(config) { trace.record("limits now", .ok, text) }
        return .accepted
    }

    /// The limits a mint with this session is charged to, in their order. What was used of them only the server knows: ``LiveLimits``.
    private static func limits(of session: VerifiedSession, _ limits: RateLimits) -> String {
        let named = RateLimits.order.compactMap { name -> String? in
            guard let rule = limits.rule(of: name) else { return nil }
            let seconds = Duration.nanoseconds(rule.period).formattedSeconds
            var text = "\(name.rawValue) \(rule.requests) in \(seconds) s, burst \(rule.burst)"
            if name == .session { text += session.sessionID == nil ? ", by the session itself" : ", by its session ID" }
            return text
        }
        if named.isEmpty { return "none" }
        return named.joined(separator: "; ") + (limits.mode == .shadow ? "; shadow: counted, never refused" : "")
    }

    // MARK: The report

    private static func report(
        _ finding: Finding, _ trace: SessionTrace, _ loaded: LoadedConfiguration, _ config: RootConfig, _ console: any Console
    ) {
        for line in trace.lines { console.print(line.description) }
        let reached = Set(trace.lines.map(\.step))
        for step in ExplainedStep.names where !reached.contains(step) {
            console.print("\(step): skipped: not reached")
        }
        let isUnknown: Bool
        switch finding {
        case .accepted:
            console.print("app sees: ok: 201 and the token, where January agrees")
            return console.print("result: ok: accepted")
        case .refused(let seen):
            isUnknown = false
            console.print("app sees: failed: \(seen)")
            console.print("result: failed: refused")
        case .unknown(let seen):
            isUnknown = true
            console.print("app sees: failed: \(seen), and asks again later")
            console.print("result: failed: could not find out")
        }
        // A step that fails ends the check, so the last failure is the one that counts: before it, a key set may have failed that was
        // not needed, or a verifier that was not the only one. Where nobody can know, the first says what is missing.
        let failures = trace.lines.filter { $0.outcome == .failed }
        guard let failure = isUnknown ? failures.first : failures.last else { return }
        console.print("first failing step: failed: \(failure.step): \(failure.text)")
        if let line = ResponsibleLine(loaded, config, trace).text(for: failure.step) {
            console.print("configuration: failed: \(line)")
        }
    }
}

/// The steps in their order. `claim` and `required claim` lines stand between them; those of a JWT come from ``JWTStep``.
enum ExplainedStep: String, CaseIterable {
    case found, scheme, verifier
    case person
    case endUser = "end user"
    case features, scopes, ttl, limits

    static let names: [String] =
        [Self.found, .scheme].map(\.rawValue) + [JWTStep.format.rawValue, Self.verifier.rawValue]
        + JWTStep.allCases.filter { $0 != .format }.map(\.rawValue)
        + [Self.person, .endUser, .features, .scopes, .ttl, .limits].map(\.rawValue)
}

extension Duration {
    /// `60`, or `0.5`.
    fileprivate var formattedSeconds: String {
        let seconds = fractionalSeconds
        return seconds == seconds.rounded() ? String(Int(seconds)) : String(seconds)
    }
}
