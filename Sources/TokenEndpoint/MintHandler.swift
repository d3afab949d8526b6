import EndUsers
import EventLoop
import GCRA
import HTTPMessage
import HTTPServer
import January
import Policy
import Primitives
import RateLimiting
import Revocations
import Sessions

/// One mint: the order, written once. Each step is named and may wait for the network; while it waits, the loop serves others.
///
/// Belongs to the loop of its connection. It lives as long as whatever it waits for holds its continuation.
final class MintHandler {
    /// What a step came to.
    enum Progress {
        case next
        /// `advance()` is called again when the answer is there; the step runs again and finds it.
        case wait
        /// Indirect: every step hands its progress on, and few refuse.
        indirect case refused(Problem)
        case finished
    }

    struct Step: Sendable {
        let name: StaticString
        let run: @Sendable (MintHandler) -> Progress
    }

    /// What everybody has to pass who comes with a session.
    static let opening: [Step] = [
        Step(name: "drain") { $0.refuseWhatCannotBeAnswered() },
        Step(name: "address_limit") { $0.chargeAddress() },
        Step(name: "session") { $0.verifySession() },
        Step(name: "person") { $0.checkPerson() },
        Step(name: "end_user") { $0.mapEndUser() },
    ]

    static let mintSteps: [Step] =
        opening + [
            Step(name: "policy") { $0.decideTerms() },
            Step(name: "load") { $0.refuseWhatCannotBeServed() },
            Step(name: "limits") { $0.chargeLimits() },
            Step(name: "audit") { $0.refuseWhatCannotBeRecorded() },
            Step(name: "admission") { $0.enterInFlight() },
            Step(name: "fence") { $0.enterShared() },
            Step(name: "mint") { $0.mint() },
            Step(name: "second_look") { $0.leaveShared() },
            Step(name: "delivery") { $0.deliver() },
        ]

    let exchange: ServerExchange
    let loop: LoopEndpoint
    let generation: LoopGeneration
    let requestID: RequestID
    private let steps: [Step]
    let deadline: MonotonicInstant
    /// `nil`: nothing is traced.
    var trace: RequestTrace?
    private var step = 0
    private var budgetTimer: LoopTimer?

    // What the steps find out, in their order.
    private var address: Charge?
    private(set) var decision: LimitDecision?
    /// What is left to be waited for limits that are counted elsewhere, all together.
    private var limitWait = RedisLimitStore.maxWait
    /// In shadow mode: a limit would have ended this request, and nothing would have been charged behind it.
    private var isOverLimit = false
    private var credential: SessionCredential?
    private var verdict: SessionVerdict?
    private(set) var session: VerifiedSession?
    private(set) var endUserID: EndUserID?
    private var terms: GrantedTerms?
    private var ticket: MintGate.Ticket?
    /// What was found right before the mint was to be sent.
    private var objection: FenceDecision?
    // Where replicas share the state.
    private var sharedTicket: RedisMintGate.Ticket?
    private var sharedDecision: FenceDecision?
    /// It was not sent because the last look is too old.
    private var mustLookAgain = false
    var cameTooLate = false
    var place = Place.outside
    private var answer: MintOutcome?
    /// What January said to the first key, when a look fell due before the other one was asked.
    private var interrupted: MintOutcome?
    /// Inside the call that asks January.
    private var isAsking = false
    // Of a sign-out.
    var blockAnswer: Result<EndUserStatus, RevocationError>?
    var signOutAnswer: Result<RevocationStatus, RevocationError>?

    init(
        _ exchange: ServerExchange, requestID: RequestID, loop: LoopEndpoint, generation: LoopGeneration,
        steps: [Step] = MintHandler.mintSteps
    ) {
        self.exchange = exchange
        self.requestID = requestID
        self.loop = loop
        self.generation = generation
        self.steps = steps
        deadline = exchange.headCompletedAt + generation.shared.config.january.budget
    }

    func start() { advance() }

    private func advance() {
        while step < steps.count {
            switch steps[step].run(self) {
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

    private func chargeAddress() -> Progress {
        if let address, decision != nil { return charge(Charges(address)) }
        let client = loop.clientAddress(exchange, generation.shared)
        guard let rule = generation.shared.config.rateLimits.perAddress, !client.isExempt else { return .next }
        let keys = loop.limitKeys
        let charge = Charge(.address, key: client.address.map { keys.address($0) } ?? keys.unixPeer, rule: rule)
        address = charge
        return self.charge(Charges(charge))
    }

    private func verifySession() -> Progress {
        if verdict == nil {
            let credential: SessionCredential
            do throws(SessionRefusal) {
                credential = try generation.sessions.findCredential(in: exchange.head.fields)
            } catch {
                return refuseSession(error)
            }
            if answerProbe(credential) { return .finished }
            self.credential = credential
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
        case .refused(let refusal)?: return refuseSession(refusal)
        case .unavailable(let unavailable)?: return .refused(Problem(unavailable))
        }
    }

    /// A refused session costs its address three: the request itself, and what looking at it took. No session at all is no attempt.
    private func refuseSession(_ refusal: SessionRefusal) -> Progress {
        if let address, !isOverLimit, refusal.reason != .noSession {
            loop.limits.penalize(
                Charge(.address, key: address.key, rule: address.rule, cost: GCRARule.maxPenalty), now: loop.loop.now)
        }
        return .refused(Problem(refusal))
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
        let fields = exchange.head.fields
        if differs(fields.first(.januaryEndUserID), endUserID) || differs(fields.first(.xEndUserID), endUserID) {
            loop.shared.metrics.userHeaderMismatch.add()
        }
    }

    private func differs(_ sent: ArraySlice<UInt8>?, _ endUserID: EndUserID) -> Bool {
        sent.map { !$0.elementsEqual(endUserID.text.utf8) } ?? false
    }

    private func decideTerms() -> Progress {
        guard let session, let grant = generation.shared.config.policy.decide(session.claims) else {
            return .refused(Problem(.noFeatures))
        }
        terms = generation.shared.terms(of: grant)
        return .next
    }

    private func refuseWhatCannotBeRecorded() -> Progress {
        guard loop.shared.audit.refusesMints else { return .next }
        return shed("audit_blocked")
    }

    private func chargeLimits() -> Progress {
        if decision != nil { return charge(Charges()) }
        if isOverLimit { return .next }
        guard let session, let endUserID else { return .refused(Problem(.internalError)) }
        let limits = generation.shared.config.rateLimits
        let keys = loop.limitKeys
        var charges = Charges()
        if let rule = limits.perSession {
            let key =
                session.sessionID.map { keys.session(verifier: session.verifierName, id: $0) }
                ?? keys.session(verifier: session.verifierName, credential: credential?.bytes ?? [])
            charges.append(Charge(.session, key: key, rule: rule))
        }
        if let rule = limits.perEndUser { charges.append(Charge(.endUser, key: keys.endUser(endUserID.text), rule: rule)) }
        if let rule = limits.all { charges.append(Charge(.all, key: keys.all, rule: rule)) }
        // With nothing to charge, too: a store that replicas share says whether January wants nothing.
        return charge(charges)
    }

    /// Asks the store, or looks at what it has answered meanwhile.
    func charge(_ charges: Charges) -> Progress {
        if decision == nil {
            let asked = loop.loop.now
            decision = loop.limits.charge(charges, now: asked, deadline: min(deadline, asked + limitWait)) { decision in
                self.decision = decision
                self.limitWait -= self.loop.loop.now - asked
                self.resume()
            }
        }
        guard let decision else { return .wait }
        self.decision = nil
        guard case .limited(let name, let wait) = decision, let rule = generation.shared.config.rateLimits.rule(of: name) else {
            return .next
        }
        loop.shared.limitMetrics.countLimited(by: name, rule: rule, wait: wait, now: loop.loop.now)
        if generation.shared.config.rateLimits.mode == .shadow {
            isOverLimit = true
            return .next
        }
        return .refused(Problem(LimitNotice(name, rule: rule, wait: wait)))
    }

    private func enterInFlight() -> Progress {
        guard let endUserID else { return .refused(Problem(.internalError)) }
        guard enterLoad() else { return shed("no_time_left") }
        switch loop.shared.gate.enter(endUserID.text, sessionStartedAt: session?.startedAt, deadline: deadline) {
        case .entered(let ticket):
            self.ticket = ticket
            return .next
        case .full: return shed("max_in_flight")
        case .refused(let decision): return .refused(Problem(decision) ?? Problem(.internalError))
        }
    }

    /// The same in the state that replicas share: no fence and in flight in one step of Redis.
    private func enterShared() -> Progress {
        guard let gate = loop.sharedGate else { return .next }
        if sharedDecision == nil {
            guard let endUserID else { return .refused(Problem(.internalError)) }
            var isAnsweredAtOnce = true
            gate.enter(endUserID.text, sessionStartedAt: session?.startedAt, deadline: deadline) { decision, ticket in
                self.sharedTicket = ticket
                self.sharedDecision = decision
                if !isAnsweredAtOnce { self.resume() }
            }
            isAnsweredAtOnce = false
        }
        return takeSharedDecision()
    }

    private func lookShared(then after: RedisMintGate.After) -> Progress {
        guard let gate = loop.sharedGate, let sharedTicket else { return .next }
        if sharedDecision == nil {
            var isAnsweredAtOnce = true
            let asked = self.loop.loop.now
            gate.look(sharedTicket, then: after) { decision in
                self.sharedTicket?.lookedAt = asked
                self.sharedDecision = decision
                if after != .keep { self.sharedTicket = nil }
                if !isAnsweredAtOnce { self.resume() }
            }
            isAnsweredAtOnce = false
        }
        return takeSharedDecision()
    }

    private func takeSharedDecision() -> Progress {
        guard let decision = sharedDecision else { return .wait }
        sharedDecision = nil
        return Problem(decision).map { .refused($0) } ?? .next
    }

    /// After the answer, before anybody gets it: the state is looked at once more, and the mint is no longer in flight.
    private func leaveShared() -> Progress {
        if sharedDecision == nil && sharedTicket == nil { return .next }
        let progress = sharedTicket == nil ? takeSharedDecision() : lookShared(then: .leave)
        if case .refused = progress { loop.shared.metrics.withheld.add() }
        return progress
    }

    private func mint() -> Progress {
        if mustLookAgain {
            // It waited for a connection, or the first key was refused: in both cases nothing was minted.
            if let answer, answer.first?.status != nil { interrupted = answer }
            answer = nil
            let progress = lookShared(then: .keep)
            if case .refused = progress, let interrupted {
                answer = interrupted
                count(interrupted)
            }
            guard case .next = progress else { return progress }
            mustLookAgain = false
        }
        if answer == nil {
            guard let endUserID, let terms else { return .refused(Problem(.internalError)) }
            isAsking = true
            var extraFields: ((inout FieldBlock) -> Void)?
            if let trace {
                trace.beginCalls(resuming: interrupted != nil)
                extraFields = { trace.beginCall(&$0) }
            }
            generation.january.mint(
                generation.shared.january, endUserID: endUserID.text, terms: terms.mint, deadline: deadline,
                resuming: interrupted, extraFields: extraFields,
                // A client that is gone costs no mint, and a fence that has come up meanwhile allows none.
                beforeSend: { !self.exchange.clientIsGone && self.mayBeSent() && self.sendInTime() }
            ) { outcome in
                self.answer = outcome
                if !self.mustLookAgain { self.leaveLoad(outcome) }
                if !self.isAsking { self.resume() }
            }
            isAsking = false
        }
        guard let answer else { return .wait }
        if mustLookAgain { return mint() }
        count(answer)
        if let objection, let problem = Problem(objection) { return .refused(problem) }
        if cameTooLate { return .refused(Problem(.januaryTimeout, reason: "turn_came_too_late")) }
        if case .failure(let failure) = answer.result {
            if failure == .overloaded { return shed(failure.reason.description) }
            loop.shared.january(failure, answer, endUserID: endUserID, requestID: requestID)
            // January's own words, not the breaker's: the other replicas have not heard them.
            if case .rateLimited(let wait) = failure, answer.first != nil { loop.limits.hold(for: wait) }
            return .refused(Problem(failure))
        }
        return .next
    }

    private func count(_ answer: MintOutcome) {
        loop.shared.metrics.count(answer, requestID, loop: loop)
        if let trace { trace.callsEnded(answer, generation.shared.january) }
    }

    private func mayBeSent() -> Bool {
        guard let ticket else { return false }
        let decision = loop.shared.gate.look(ticket)
        if decision != .free { objection = decision }
        if let sharedTicket, loop.loop.time.monotonic() - sharedTicket.lookedAt > RedisMintGate.freshFor { mustLookAgain = true }
        return decision == .free && !mustLookAgain
    }

    private func deliver() -> Progress {
        guard let answer, let ticket, case .success(let delivery) = answer.result else {
            return .refused(Problem(.internalError))
        }
        // A revocation has come up while January made the token: its sweep will take it, and nobody gets it.
        if let problem = Problem(loop.shared.gate.look(ticket)) {
            loop.shared.metrics.withheld.add()
            return .refused(problem)
        }
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

    func resume() {
        if let budgetTimer { loop.loop.cancel(budgetTimer) }
        budgetTimer = nil
        guard step < steps.count else { return }
        advance()
    }

    /// A wait with a bound of its own elsewhere still ends with the budget.
    private func waitWithinBudget() {
        let timer = LoopTimer { [weak self] in
            guard let self, self.step < steps.count else { return }
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

    func finish(status: Int, problem: Problem?, isUndelivered: Bool) {
        step = steps.count
        leaveLoad(nil)
        if let ticket {
            if answer?.mayStillBeCommitted == true {
                loop.shared.gate.leaveUnanswered(ticket, now: loop.loop.now)
            } else {
                loop.shared.gate.leave(ticket)
            }
        }
        ticket = nil
        if let sharedTicket {
            loop.sharedGate?.look(sharedTicket, then: answer?.mayStillBeCommitted == true ? .unanswered : .leave) { _ in }
        }
        sharedTicket = nil
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
        outcome.hasAskedJanuary = answer?.first != nil
        if let answer, let terms, loop.shared.audit.recordsMints { outcome.mint = AuditedMint(terms, answer) }
        if let trace { outcome.trace = trace }
        loop.shared.recorder.record(outcome, as: generation.shared.config.log)
    }
}
