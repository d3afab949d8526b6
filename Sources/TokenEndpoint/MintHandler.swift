import EndUsers
import EventLoop
import HTTPMessage
import HTTPServer
import January
import Policy
import Primitives
import Sessions

/// One mint: the order, written once. Each step is named and may wait for the network; while it waits, the loop serves others.
///
/// Belongs to the loop of its connection. It lives as long as whatever it waits for holds its continuation.
final class MintHandler {
    /// What a step came to.
    private enum Progress {
        case next
        /// `advance()` is called again when the answer is there; the step runs again and finds it.
        case wait
        case refused(Problem)
        case finished
    }

    private struct Step: Sendable {
        let name: StaticString
        let run: @Sendable (MintHandler) -> Progress
    }

    private static let steps: [Step] = [
        Step(name: "drain") { $0.refuseWhatCannotBeAnswered() },
        Step(name: "session") { $0.verifySession() },
        Step(name: "person") { $0.checkPerson() },
        Step(name: "end_user") { $0.mapEndUser() },
        Step(name: "policy") { $0.decideTerms() },
        Step(name: "admission") { $0.enterInFlight() },
        Step(name: "mint") { $0.mint() },
        Step(name: "delivery") { $0.deliver() },
    ]

    private let exchange: ServerExchange
    private let loop: LoopEndpoint
    private let generation: LoopGeneration
    private let requestID: RequestID
    private let deadline: MonotonicInstant
    private var step = 0
    private var budgetTimer: LoopTimer?

    // What the steps find out, in their order.
    private var verdict: SessionVerdict?
    private var session: VerifiedSession?
    private var endUserID: EndUserID?
    private var terms: MintTerms?
    private var inFlight: MintsInFlight.Entry?
    private var answer: MintOutcome?

    init(_ exchange: ServerExchange, requestID: RequestID, loop: LoopEndpoint, generation: LoopGeneration) {
        self.exchange = exchange
        self.requestID = requestID
        self.loop = loop
        self.generation = generation
        deadline = exchange.headCompletedAt + generation.shared.config.january.budget
    }

    func start() { advance() }

    private func advance() {
        while step < Self.steps.count {
            switch Self.steps[step].run(self) {
            case .next: step += 1
            case .wait: return
            case .refused(let problem): return refuse(problem)
            case .finished: return
            }
        }
    }

    // MARK: Steps

    private func refuseWhatCannotBeAnswered() -> Progress {
        guard loop.shared.lifecycle.isDraining, !loop.shared.lifecycle.canServe(until: deadline) else { return .next }
        return .refused(Problem(.draining, retryAfter: 1))
    }

    private func verifySession() -> Progress {
        if verdict == nil {
            let credential: SessionCredential
            do throws(SessionRefusal) {
                credential = try generation.sessions.findCredential(in: exchange.head.fields)
            } catch {
                return .refused(Problem(error))
            }
            verdict = generation.sessions.verify(
                credential, now: loop.loop.now, requestArrived: exchange.headCompletedAt
            ) { verdict in
                self.verdict = verdict
                self.resume()
            }
        }
        switch verdict {
        case nil:
            waitWithinBudget()
            return .wait
        case .accepted(let session)?:
            self.session = session
            return .next
        case .refused(let refusal)?: return .refused(Problem(refusal))
        case .unavailable(let unavailable)?: return .refused(Problem(unavailable))
        }
    }

    private func checkPerson() -> Progress {
        guard let session, session.personRule == .person else {
            return .refused(Problem(.noEndUser, reason: session?.personRule.reason ?? ""))
        }
        return .next
    }

    private func mapEndUser() -> Progress {
        guard let session else { return .refused(Problem(.internalError)) }
        do throws(EndUserError) {
            let endUserID = try generation.shared.config.endUsers.map(
                claims: session.claims, subject: session.subject, namespace: session.namespace, prefix: session.endUserPrefix,
                presetClaim: session.endUserClaim)
            self.endUserID = endUserID
            countMismatch(endUserID)
            return .next
        } catch {
            return .refused(Problem(error))
        }
    }

    /// Every sample client sends the ID it believes in. It is never read for meaning; one that differs is a mistake somebody makes.
    private func countMismatch(_ endUserID: EndUserID) {
        guard generation.shared.config.endUsers.transform == .none else { return }
        for name in [FieldName.januaryEndUserID, .xEndUserID] {
            guard let sent = exchange.head.fields.first(name) else { continue }
            if !sent.elementsEqual(endUserID.text.utf8) { return loop.shared.metrics.userHeaderMismatch.add() }
        }
    }

    private func decideTerms() -> Progress {
        guard let session, let grant = generation.shared.config.policy.decide(session.claims) else {
            return .refused(Problem(.noFeatures))
        }
        terms = generation.shared.terms(of: grant)
        return .next
    }

    private func enterInFlight() -> Progress {
        guard let endUserID else { return .refused(Problem(.internalError)) }
        guard let entry = loop.shared.mintsInFlight.enter(endUserID.text, deadline: deadline) else {
            loop.shared.metrics.overloaded.add()
            return .refused(Problem(.overloaded, reason: "max_in_flight", retryAfter: 1))
        }
        inFlight = entry
        return .next
    }

    private func mint() -> Progress {
        if answer == nil {
            guard let endUserID, let terms else { return .refused(Problem(.internalError)) }
            var isAnsweredAtOnce = true
            generation.january.mint(
                generation.shared.january, endUserID: endUserID.text, terms: terms, deadline: deadline,
                // A client that is gone costs no mint.
                beforeSend: { !self.exchange.clientIsGone }
            ) { outcome in
                self.answer = outcome
                if !isAnsweredAtOnce { self.resume() }
            }
            isAnsweredAtOnce = false
        }
        guard let answer else { return .wait }
        loop.shared.metrics.count(answer, loop: loop)
        if case .failure(let failure) = answer.result {
            loop.shared.january(failure, answer, endUserID: endUserID)
            return .refused(Problem(failure))
        }
        return .next
    }

    private func deliver() -> Progress {
        guard let answer, case .success(let delivery) = answer.result else { return .refused(Problem(.internalError)) }
        let body =
            generation.shared.config.january.insertsExpiresInAlias
            ? delivery.answer.bodyWithExpiresInAlias() : delivery.answer.body
        // Written to nobody it is gone: January can revoke only all of a user's tokens, so it is left to run out.
        let isGone = exchange.clientIsGone
        let isDelivered = exchange.respond(
            loop.responder.minted(
                body, contentType: delivery.contentType, januaryRequestID: answer.requestID, id: requestID))
        finish(status: 201, problem: nil, isUndelivered: isGone || !isDelivered)
        return .finished
    }

    // MARK: Waiting and ending

    private func resume() {
        if let budgetTimer { loop.loop.cancel(budgetTimer) }
        budgetTimer = nil
        guard step < Self.steps.count else { return }
        advance()
    }

    /// A wait with a bound of its own elsewhere still ends with the budget.
    private func waitWithinBudget() {
        let timer = LoopTimer { [weak self] in
            guard let self, self.step < Self.steps.count else { return }
            self.refuse(Problem(.sessionBackendUnavailable, reason: "budget", retryAfter: 1))
        }
        budgetTimer = timer
        loop.loop.schedule(timer, at: deadline)
    }

    private func refuse(_ problem: Problem) {
        var response = loop.responder.problem(problem, januaryRequestID: answer?.requestID, id: requestID)
        // A connection that is never answered would stay for ever; a client that only finished sending still reads.
        if problem.code == .clientGone { response.closes = true }
        exchange.respond(response)
        finish(status: problem.code.status, problem: problem, isUndelivered: false)
    }

    private func finish(status: Int, problem: Problem?, isUndelivered: Bool) {
        step = Self.steps.count
        if let inFlight { loop.shared.mintsInFlight.leave(inFlight) }
        inFlight = nil
        var outcome = RequestOutcome(
            route: .token, method: RequestMethod(exchange.head.method), status: status, code: problem?.code,
            requestID: requestID, duration: loop.loop.time.monotonic() - exchange.headCompletedAt)
        outcome.reason = problem?.reason ?? ""
        outcome.clientRequestID = loop.clientRequestID(exchange, generation.shared)
        outcome.januaryRequestID = answer?.requestID
        outcome.verifier = session?.verifierName
        outcome.endUserID = endUserID?.text
        outcome.isForTheOperator = problem?.isForTheOperator ?? false
        outcome.isUndelivered = isUndelivered
        loop.shared.recorder.record(outcome, as: generation.shared.config.log)
    }
}
