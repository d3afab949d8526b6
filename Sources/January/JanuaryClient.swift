import HTTPMessage
import Primitives

/// What the clients of all loops share about January. A reload makes another one around the same ring and breaker.
package final class JanuaryService: Sendable {
    package let origin: Origin
    /// The path of the base URL without a slash at its end; empty most of the time.
    package let pathPrefix: String
    package let keys: KeyRing
    package let mintBreaker: Breaker
    /// Of its own: nothing but revocation's answers opens it.
    package let revocationBreaker: Breaker
    let mintTarget: String

    package init(origin: Origin, pathPrefix: String, keys: KeyRing, mintBreaker: Breaker, revocationBreaker: Breaker = Breaker())
    {
        self.origin = origin
        self.pathPrefix = pathPrefix
        self.keys = keys
        self.mintBreaker = mintBreaker
        self.revocationBreaker = revocationBreaker
        mintTarget = pathPrefix + MintRequest.path
    }

    /// True when a key changed; then the breaker is closed, too.
    package func replaceKeys(first: APIKey, next: APIKey?) -> Bool {
        guard keys.replace(first: first, next: next) else { return false }
        mintBreaker.keyChanged()
        revocationBreaker.keyChanged()
        return true
    }
}

/// January as one loop sees it: confined to that loop, like its `HTTPExchange`.
package final class JanuaryClient {
    /// With less than this left of the budget nothing is sent.
    package static let minimumToSend = Duration.milliseconds(500)

    let exchange: any HTTPExchange
    let time: any TimeSource

    package init(exchange: any HTTPExchange, time: any TimeSource) {
        self.exchange = exchange
        self.time = time
    }

    /// Mints once: with the current key and, after a 401, once with the other one, all before `deadline`.
    ///
    /// * `interrupted`: what an earlier call came to whose `beforeSend` said no to the other key, after the first one's 401: that key is not
    ///     asked again, the mint goes on with the other one.
    /// * `extraFields`: appended to the key's own, such as `traceparent`.
    /// * `beforeSend`: asked right before the first byte of each attempt. False sends nothing (`.cancelled`): the caller hung up, or
    ///     may not be served any more.
    /// * `completion`: exactly once, on the loop; before this returns where nothing is sent.
    package func mint(
        _ service: JanuaryService, endUserID: String, terms: MintTerms, deadline: MonotonicInstant,
        resuming interrupted: MintOutcome? = nil, extraFields: ((inout FieldBlock) -> Void)? = nil,
        beforeSend: (() -> Bool)? = nil, completion: @escaping (MintOutcome) -> Void
    ) {
        let now = time.monotonic()
        guard now <= deadline.advanced(byNanoseconds: -Self.minimumToSend.wholeNanoseconds) else {
            return completion(.notSent(.tooLate))
        }
        switch service.mintBreaker.admit(now: now) {
        case .held(let failure): completion(.notSent(failure))
        case .send(let ticket):
            let call = MintCall(
                service: service, exchange: exchange, time: time, ticket: ticket, endUserID: endUserID, terms: terms,
                deadline: deadline, now: now, beforeSend: beforeSend, completion: completion)
            call.extraFields = extraFields
            call.start(resuming: interrupted)
        }
    }
}

extension MintOutcome {
    fileprivate static func notSent(_ failure: JanuaryFailure) -> MintOutcome {
        MintOutcome(result: .failure(failure), requestID: nil, first: nil, second: nil, switchedTo: nil)
    }
}

/// One mint that has been let through. Alive as long as the exchange holds its completion.
private final class MintCall {
    private enum State {
        case waitingForCurrent
        case waitingForOther(first: JanuaryAttempt, requestID: String?)
        case finished
    }

    private let service: JanuaryService
    private let exchange: any HTTPExchange
    private let time: any TimeSource
    private let ticket: BreakerTicket
    private let endUserID: String
    private let terms: MintTerms
    private let deadline: MonotonicInstant
    private let beforeSend: (() -> Bool)?
    private let completion: (MintOutcome) -> Void
    private let body: [UInt8]
    var extraFields: ((inout FieldBlock) -> Void)?

    private var state = State.finished
    private var attemptBegan: MonotonicInstant
    /// What the breaker said right before the first byte.
    private var objection: JanuaryFailure?

    init(
        service: JanuaryService, exchange: any HTTPExchange, time: any TimeSource, ticket: BreakerTicket, endUserID: String,
        terms: MintTerms, deadline: MonotonicInstant, now: MonotonicInstant, beforeSend: (() -> Bool)?,
        completion: @escaping (MintOutcome) -> Void
    ) {
        self.service = service
        self.exchange = exchange
        self.time = time
        self.ticket = ticket
        self.endUserID = endUserID
        self.terms = terms
        self.deadline = deadline
        self.beforeSend = beforeSend
        self.completion = completion
        body = MintRequest.body(endUserID: endUserID, terms: terms)
        attemptBegan = now
    }

    func start(resuming interrupted: MintOutcome?) {
        let keys = service.keys.keys
        if let first = interrupted?.first, first.status == 401, let other = keys.key(notTriedBy: first) {
            state = .waitingForOther(first: first, requestID: interrupted?.requestID)
            return send(with: other)
        }
        state = .waitingForCurrent
        send(with: keys.current)
    }

    private func send(with key: KeyInUse) {
        var fields = key.fields
        extraFields?(&fields)
        let request = UpstreamRequest(
            method: .post, origin: service.origin, target: service.mintTarget, fields: fields, body: body,
            sendBy: deadline.advanced(byNanoseconds: -JanuaryClient.minimumToSend.wholeNanoseconds))
        exchange.send(request, deadline: deadline, beforeSend: maySend) { self.finished(with: key, $0) }
    }

    private func maySend() -> Bool {
        objection = service.mintBreaker.objection(to: ticket, now: time.monotonic())
        return objection == nil && (beforeSend?() ?? true)
    }

    private func finished(with key: KeyInUse, _ result: Result<UpstreamResponse, UpstreamError>) {
        let now = time.monotonic()
        var status: Int?
        var code: JanuaryErrorCode?
        var error: UpstreamError?
        switch result {
        case .success(let response):
            status = response.status
            if response.status != 201 { code = .parse(response.body) }
        case .failure(let failure): error = failure
        }
        let attempt = JanuaryAttempt(
            slot: key.slot, keyFingerprint: key.key.fingerprint, status: status, code: code, error: error,
            duration: now - attemptBegan)
        switch state {
        case .waitingForCurrent:
            // As they are now: a reload may have put a good key in the place of the refused one.
            if attempt.status == 401, let other = service.keys.keys.key(notTriedBy: attempt) {
                state = .waitingForOther(first: attempt, requestID: requestID(result))
                attemptBegan = now
                return send(with: other)
            }
            state = .finished
            end(key, verdict(result, code), requestID(result), now, first: attempt, second: nil)
        case .waitingForOther(let first, let firstRequestID):
            state = .finished
            // Where the other key was not asked, nobody knows yet whether the account is shut: its result counts, not the first key's 401.
            end(key, verdict(result, code), requestID(result) ?? firstRequestID, now, first: first, second: attempt)
        case .finished: assertionFailure("an exchange completes once")
        }
    }

    private func verdict(
        _ result: Result<UpstreamResponse, UpstreamError>, _ code: JanuaryErrorCode?
    ) -> Result<MintDelivery, JanuaryFailure> {
        switch result {
        case .failure(.notSent(.cancelled)): return .failure(objection ?? .cancelled)
        case .failure(let error): return .failure(JanuaryFailure(error))
        case .success(let response) where response.status == 201:
            do throws(MintAnswerProblem) {
                let answer = try MintAnswer.check(response.body, endUserID: endUserID, terms: terms)
                return .success(MintDelivery(answer: answer, contentType: Self.contentType(response.fields)))
            } catch {
                return .failure(.invalidAnswer(error))
            }
        case .success(let response):
            let retryAfter = response.fields.string(.retryAfter).flatMap { RetryAfter.parse($0, now: time.wall()) }
            return .failure(JanuaryFailure(status: response.status, code: code ?? .other, retryAfter: retryAfter))
        }
    }

    private func end(
        _ key: KeyInUse, _ verdict: Result<MintDelivery, JanuaryFailure>, _ requestID: String?, _ now: MonotonicInstant,
        first: JanuaryAttempt, second: JanuaryAttempt?
    ) {
        let error = (second ?? first).error
        var switchedTo: KeySlot?
        switch verdict {
        case .success:
            service.mintBreaker.succeeded()
            if second != nil, service.keys.worked(key) { switchedTo = key.slot }
        case .failure(let failure):
            // What the breaker itself objected to is no answer of January's.
            let said = error == .notSent(.cancelled) ? .cancelled : failure
            service.mintBreaker.failed(ticket, said, endUserID: endUserID, now: now)
        }
        completion(
            MintOutcome(
                result: verdict, requestID: requestID, first: first, second: second, switchedTo: switchedTo,
                tlsFailure: error == .notSent(.tls) ? exchange.lastTLSFailure : nil))
    }

    /// Of an answer that broke off, too: its head is January's word.
    private func requestID(_ result: Result<UpstreamResponse, UpstreamError>) -> String? {
        switch result {
        case .success(let response): JanuaryRequestID.read(response.fields)
        case .failure: exchange.brokenResponseFields.flatMap(JanuaryRequestID.read)
        }
    }

    private static let defaultContentType = Array("application/json".utf8)[...]

    private static func contentType(_ fields: Fields) -> ArraySlice<UInt8> {
        guard case .one(let value) = fields.single(.contentType), !value.isEmpty else { return defaultContentType }
        return value
    }
}
