import HTTPMessage
import Primitives
import StrictJSON

/// What one call to January's revocation came to.
package struct RevocationOutcome: Sendable {
    /// Tokens that this call stopped, at most 500; it is called again until that is 0.
    package let result: Result<Int, JanuaryFailure>
    /// January's own word for a failure.
    package let code: JanuaryErrorCode?
    /// Of a 429 or 503, uncapped: a window may be a day.
    package let retryAfter: Duration?
    /// `nil` when the breaker answered.
    package let first: JanuaryAttempt?
    /// With the other key, after a 401.
    package let second: JanuaryAttempt?
    package let switchedTo: KeySlot?

    /// The bounded word for metrics and records.
    package var reason: String {
        guard case .failure(let failure) = result else { return "ok" }
        if let code, code != .other { return code.rawValue }
        return failure.reason
    }
}

extension JanuaryClient {
    /// Below the base URL.
    package static let revocationPath = "/v1.2/auth/client-token-revocations"

    /// Calls January's revocation once: with the current key and, after a 401, once with the other one. Repeating it is safe.
    ///
    /// `completion`: exactly once, on the loop; before this returns where nothing is sent.
    package func revoke(
        _ service: JanuaryService, endUserID: String, deadline: MonotonicInstant,
        completion: @escaping (RevocationOutcome) -> Void
    ) {
        switch service.revocationBreaker.admit(now: time.monotonic()) {
        case .held(let failure):
            completion(
                RevocationOutcome(
                    result: .failure(failure), code: nil, retryAfter: failure.retryAfter, first: nil, second: nil,
                    switchedTo: nil))
        case .send(let ticket):
            let call = RevocationCall(
                service: service, exchange: exchange, time: time, ticket: ticket, endUserID: endUserID, deadline: deadline,
                completion: completion)
            call.send(with: service.keys.keys.current, first: nil)
        }
    }
}

/// One call that has been let through. Alive as long as the exchange holds its completion.
private final class RevocationCall {
    private let service: JanuaryService
    private let exchange: any HTTPExchange
    private let time: any TimeSource
    private let ticket: BreakerTicket
    private let endUserID: String
    private let deadline: MonotonicInstant
    private let completion: (RevocationOutcome) -> Void

    init(
        service: JanuaryService, exchange: any HTTPExchange, time: any TimeSource, ticket: BreakerTicket, endUserID: String,
        deadline: MonotonicInstant, completion: @escaping (RevocationOutcome) -> Void
    ) {
        self.service = service
        self.exchange = exchange
        self.time = time
        self.ticket = ticket
        self.endUserID = endUserID
        self.deadline = deadline
        self.completion = completion
    }

    /// - Parameter first: what the current key came to, when this is the other one.
    func send(with key: KeyInUse, first: JanuaryAttempt?) {
        let began = time.monotonic()
        let body = JSONValue.object(JSONObject([JSONMember(name: "end_user_id", value: .string(endUserID))])).encoded()
        let request = UpstreamRequest(
            method: .post, origin: service.origin, target: service.pathPrefix + JanuaryClient.revocationPath, fields: key.fields,
            body: body)
        exchange.send(request, deadline: deadline, beforeSend: nil) { self.finished(key, began, first, $0) }
    }

    private func finished(
        _ key: KeyInUse, _ began: MonotonicInstant, _ first: JanuaryAttempt?, _ result: Result<UpstreamResponse, UpstreamError>
    ) {
        let now = time.monotonic()
        var status: Int?
        var code: JanuaryErrorCode?
        var retryAfter: Duration?
        var error: UpstreamError?
        let verdict: Result<Int, JanuaryFailure>
        switch result {
        case .failure(let failure):
            error = failure
            verdict = .failure(JanuaryFailure(failure))
        case .success(let response):
            status = response.status
            if response.status == 200 {
                verdict = Self.count(response.body).map { .success($0) } ?? .failure(.unexpectedStatus(200))
            } else {
                let parsed = JanuaryErrorCode.parse(response.body)
                code = parsed
                retryAfter = response.fields.string(.retryAfter).flatMap {
                    RetryAfter.parse($0, now: time.wall(), cap: .seconds(86_400))
                }
                verdict = .failure(JanuaryFailure(status: response.status, code: parsed, retryAfter: retryAfter))
            }
        }
        let attempt = JanuaryAttempt(
            slot: key.slot, keyFingerprint: key.key.fingerprint, status: status, code: code, error: error, duration: now - began)
        if first == nil, status == 401, let other = service.keys.keys.key(notTriedBy: attempt) {
            return send(with: other, first: attempt)
        }
        var switchedTo: KeySlot?
        switch verdict {
        case .success:
            service.revocationBreaker.succeeded()
            if first != nil, service.keys.worked(key) { switchedTo = key.slot }
        case .failure(let failure):
            // Part of a batch was revoked: January works, there is only more to do.
            if code == .revocationIncomplete {
                service.revocationBreaker.succeeded()
            } else {
                service.revocationBreaker.failed(ticket, failure, endUserID: endUserID, now: now)
            }
        }
        completion(
            RevocationOutcome(
                result: verdict, code: code, retryAfter: retryAfter, first: first ?? attempt,
                second: first == nil ? nil : attempt, switchedTo: switchedTo))
    }

    /// `nil` for anything that is not an object with a count: then nobody knows what was revoked.
    private static func count(_ body: [UInt8]) -> Int? {
        guard let value = try? JSONValue.parse(body.span.bytes), let number = value.object?["revoked_count"]?.number?.integer,
            number >= 0
        else { return nil }
        return Int(number)
    }
}
