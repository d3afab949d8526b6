import Configuration
import EventLoop
import Foundation
import HTTPMessage
import JOSE
import Primitives
import StrictJSON
import Telemetry
import TestSupport

@testable import Sessions

/// Verifiers on a real loop whose clock stands still until the test moves it, with a provider that answers from a script.
final class SessionRig: Sendable {
    let time: TestTime
    let loop: EventLoop
    /// Another loop, to see that a waiting request goes on where it began.
    let homeLoop: EventLoop
    let shared: SessionVerifiers
    let metrics = Metrics()
    let logged = LogMemory()
    let provider = ScriptedProvider()
    private let verifier: LoopBound<LoopSessionVerifier>

    init(_ config: SessionsConfig, time: TestTime = TestTime()) throws {
        self.time = time
        loop = try EventLoop(name: "request", time: time)
        homeLoop = try EventLoop(name: "home", time: time)
        loop.start()
        homeLoop.start()
        shared = SessionVerifiers(config)
        verifier = LoopBound(LoopSessionVerifier(shared, loop: loop, metrics: metrics), on: loop)
    }

    deinit {
        shared.stop()
        loop.stop()
        homeLoop.stop()
    }

    func start() async {
        shared.start(
            on: homeLoop,
            makeExchange: { [provider] _, authority in
                provider.noteAuthority(authority?.path)
                return ScriptedExchange(provider)
            }, log: Log(time: time, output: logged), metrics: metrics)
        await settle()
    }

    /// Both loops have done what was in their mailboxes, and what that put there.
    func settle() async {
        for _ in 0..<3 {
            await on(homeLoop) {}
            await on(loop) {}
        }
    }

    func on<Result: Sendable>(_ loop: EventLoop, _ work: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in loop.execute { continuation.resume(returning: work()) } }
    }

    /// The clock goes on and the timers that are due fire. Timers are late by a few milliseconds, never early.
    func pass(_ duration: Duration) async {
        time.advance(by: duration + .milliseconds(9))
        await settle()
    }

    func verify(_ token: String, arrived: MonotonicInstant? = nil) async -> Outcome {
        await verifying(token, arrived: arrived).value
    }

    /// Starts a verification; its outcome comes when it comes.
    func verifying(_ token: String, arrived: MonotonicInstant? = nil, showsClaims: Bool = false) async -> Verification {
        let verification = Verification()
        let arrived = arrived ?? time.monotonic()
        await on(loop) { [self] in
            let trace = SessionTrace(showsClaimValues: showsClaims)
            let finish: (SessionVerdict) -> Void = { [self] verdict in
                loop.assertCurrent()
                verification.finish(Outcome(verdict), trace.lines.map(\.description))
            }
            let verdict = verifier.value.verify(
                SessionCredential(Array(token.utf8)[...]), now: loop.now, requestArrived: arrived, trace: trace, later: finish)
            if let verdict { finish(verdict) }
        }
        return verification
    }

    /// The session, where it is accepted. Handed over behind a lock: the thread sanitizer does not see what a continuation orders.
    func session(_ token: String) async -> VerifiedSession? {
        let accepted = Lock<VerifiedSession?>(nil)
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            loop.execute { [self] in
                let now = loop.now
                let finish: (SessionVerdict) -> Void = { verdict in
                    if case .accepted(let session) = verdict { accepted.withLock { $0 = session } }
                    continuation.resume()
                }
                let verdict = verifier.value.verify(
                    SessionCredential(Array(token.utf8)[...]), now: now, requestArrived: now, later: finish)
                if let verdict { finish(verdict) }
            }
        }
        return accepted.withLock { $0 }
    }

    func reasonWithoutCredential() async -> SessionRefusal.Reason? {
        await on(loop) { [self] in
            do throws(SessionRefusal) {
                _ = try verifier.value.findCredential(in: .empty)
                return nil
            } catch { return error.reason }
        }
    }

    /// The value of one series, as the metrics page shows it.
    func metric(_ series: String) -> Double? {
        let text = String(decoding: metrics.prometheusText(), as: UTF8.self)
        let prefix = "january_endpoint_\(series) "
        return text.split(separator: "\n").first { $0.hasPrefix(prefix) }.flatMap { Double($0.dropFirst(prefix.count)) }
    }
}

/// A verdict in a form that can be compared.
enum Outcome: Sendable, Equatable {
    case accepted(PersonVerdict = .person)
    case refused(SessionRefusal.Reason)
    case unavailable(SessionUnavailable.Reason, retryAfter: Int)

    init(_ verdict: SessionVerdict) {
        self =
            switch verdict {
            case .accepted(let session): .accepted(session.personRule)
            case .refused(let refusal): .refused(refusal.reason)
            case .unavailable(let unavailable): .unavailable(unavailable.reason, retryAfter: unavailable.retryAfter)
            }
    }
}

final class Verification: Sendable {
    private struct State: Sendable {
        var outcome: Outcome?
        var trace: [String] = []
        var waiting: [CheckedContinuation<Outcome, Never>] = []
    }
    private let state = Lock(State())

    func finish(_ outcome: Outcome, _ trace: [String]) {
        let waiting = state.withLock { state in
            precondition(state.outcome == nil, "completed twice")
            state.outcome = outcome
            state.trace = trace
            let waiting = state.waiting
            state.waiting = []
            return waiting
        }
        for continuation in waiting { continuation.resume(returning: outcome) }
    }

    /// `nil` while it is not known.
    var current: Outcome? { state.withLock { $0.outcome } }
    var trace: [String] { state.withLock { $0.trace } }

    var value: Outcome {
        get async {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state in
                    if state.outcome == nil { state.waiting.append(continuation) }
                    return state.outcome
                }
                if let known { continuation.resume(returning: known) }
            }
        }
    }
}

/// What the provider's pages answer, by URL. Changed from the test, read on the home loop.
final class ScriptedProvider: Sendable {
    enum Answer: Sendable {
        case page(status: Int = 200, fields: [(String, String)] = [], body: String)
        case failure(UpstreamError)
        case tlsFailure(StaticString)
        /// Answered when the test says so.
        case held
    }

    private struct State {
        var answers: [String: Answer] = [:]
        var requests: [(url: String, authorization: String?, maxBytes: Int, timeout: Duration)] = []
        var authorities: [String?] = []
        var held: [@Sendable (Answer) -> Void] = []
    }
    private let state = Lock(State())

    func set(_ url: String, _ answer: Answer) { state.withLock { $0.answers[url] = answer } }
    var requestedURLs: [String] { state.withLock { $0.requests.map(\.url) } }
    var authorizations: [String?] { state.withLock { $0.requests.map(\.authorization) } }
    var timeouts: [Duration] { state.withLock { $0.requests.map(\.timeout) } }
    var maxBytes: [Int] { state.withLock { $0.requests.map(\.maxBytes) } }
    var authorities: [String?] { state.withLock { $0.authorities } }
    func noteAuthority(_ path: String?) { state.withLock { $0.authorities.append(path) } }

    func answer(_ url: String, authorization: String?, maxBytes: Int, timeout: Duration) -> Answer {
        state.withLock { state in
            state.requests.append((url, authorization, maxBytes, timeout))
            return state.answers[url] ?? .page(status: 404, body: "")
        }
    }

    func hold(_ completion: @escaping @Sendable (Answer) -> Void) { state.withLock { $0.held.append(completion) } }

    /// Answers the held requests.
    func release(_ answer: Answer) {
        let held = state.withLock { state in
            let held = state.held
            state.held = []
            return held
        }
        for completion in held { completion(answer) }
    }
}

/// The exchange on the home loop.
final class ScriptedExchange: HTTPExchange {
    private let provider: ScriptedProvider
    private(set) var lastTLSFailure: StaticString?

    init(_ provider: ScriptedProvider) { self.provider = provider }

    func send(
        _ request: UpstreamRequest, deadline: MonotonicInstant, beforeSend: (() -> Bool)?,
        completion: @escaping (Result<UpstreamResponse, UpstreamError>) -> Void
    ) {
        let url = "\(request.origin)\(request.target)"
        let authorization = Fields(request.fields).string(.authorization)
        let timeout = Duration.nanoseconds(deadline.nanoseconds)
        let answer = provider.answer(url, authorization: authorization, maxBytes: request.maxResponseBytes, timeout: timeout)
        lastTLSFailure = if case .tlsFailure(let reason) = answer { reason } else { nil }
        if case .held = answer {
            // The test releases it through the loop it came from.
            let box = UnsafeTransfer(completion)
            provider.hold { later in box.value(Self.result(later)) }
        } else {
            completion(Self.result(answer))
        }
    }

    private static func result(_ answer: ScriptedProvider.Answer) -> Result<UpstreamResponse, UpstreamError> {
        switch answer {
        case .page(let status, let fields, let body):
            var block = FieldBlock()
            for (name, value) in fields {
                if let name = FieldName(parsing: name) { try? block.append(name, value) }
            }
            return .success(UpstreamResponse(status: status, fields: Fields(block), body: Array(body.utf8)))
        case .failure(let error): return .failure(error)
        case .tlsFailure: return .failure(.notSent(.tls))
        case .held: return .failure(.timedOut(sent: true))
        }
    }

    private struct UnsafeTransfer: @unchecked Sendable {
        // Sendable: called by `SessionRig.release`, on the loop the exchange belongs to.
        let value: (Result<UpstreamResponse, UpstreamError>) -> Void
        init(_ value: @escaping (Result<UpstreamResponse, UpstreamError>) -> Void) { self.value = value }
    }
}

extension SessionRig {
    /// Answers what the script held back, on the home loop.
    func release(_ answer: ScriptedProvider.Answer) async {
        await on(homeLoop) { [provider] in provider.release(answer) }
        await settle()
    }

    /// Claims that pass, with changes; a change to `nil` takes the claim out.
    func claims(_ changes: [String: JSONValue?] = [:], issuer: String = "https://issuer.example", audience: String = "api")
        -> JSONObject
    {
        let now = time.wall().secondsSinceEpoch
        var claims: JSONObject = [
            "iss": .string(issuer), "aud": .string(audience), "sub": "user-1", "iat": .number(JSONNumber(now - 5)),
            "exp": .number(JSONNumber(now + 300)),
        ]
        for (name, value) in changes { claims[name] = value }
        return claims
    }
}

extension [SigningKey] {
    /// The keys as a provider publishes them.
    var keySet: String {
        let keys = JSONValue.array(map { .object($0.publicJWK) })
        return String(decoding: JSONValue.object(["keys": keys]).encoded(), as: UTF8.self)
    }
}
