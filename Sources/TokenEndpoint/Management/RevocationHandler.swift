import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import Revocations
import StrictJSON

/// The routes of the management listener about revocations and end users. On its loop; what the revocations answer, on whatever thread,
/// comes back there.
final class RevocationHandler {
    private let loop: EventLoop
    private let control: (any RevocationControl)?
    private let subjects: SubjectMapping
    private let responder = Responder()
    private let unanswered: Unanswered

    /// Requests whose answer the revocations still owe, whichever handler they came to. On the loop.
    final class Unanswered {
        fileprivate(set) var count = 0
    }

    init(loop: EventLoop, control: (any RevocationControl)?, subjects: SubjectMapping, unanswered: Unanswered) {
        self.loop = loop
        self.unanswered = unanswered
        self.control = control
        self.subjects = subjects
    }

    /// - Parameter tokenName: of the management token that came with it.
    func handle(_ exchange: ServerExchange, _ route: ManagementRoute, id: RequestID, tokenName: String) {
        guard let control else { return answer(exchange, id, .stateUnavailable(retryAfter: 1)) }
        do throws(BadMember) {
            switch route {
            case .revocations where exchange.head.method == .post: try revoke(exchange, control, id, tokenName)
            case .revocations: try list(exchange, control, id)
            case .revocation(let revocation): show(exchange, control, id, revocation)
            case .endUser(let person): try showEndUser(exchange, control, id, person)
            case .block(let person): try lift(exchange, control, id, person, tokenName)
            case .health, .ready, .metrics, .status, .statusPage, .everything: answer(exchange, id, .notFound)
            }
        } catch {
            exchange.respond(responder.problem(error.problem, id: id))
        }
    }

    // MARK: Routes

    private func revoke(
        _ exchange: ServerExchange, _ control: any RevocationControl, _ id: RequestID, _ tokenName: String
    ) throws(BadMember) {
        let body = try RevocationBody.parse(exchange.content)
        let endUserID: String
        switch body.person {
        case .endUser(let given): endUserID = given
        case .subject(let subject, let issuer): endUserID = try subjects.endUserID(subject, issuer: issuer)
        }
        let request = RevocationRequest(
            endUserID: endUserID, block: body.block, reason: body.reason, requestedBy: tokenName, requestID: id.text)
        control.revoke(
            request,
            completion: whenDone(exchange, id) { handler, exchange, status in
                var response = handler.responder.json(
                    status: status.isComplete ? 200 : 202, RevocationAnswers.object(status, endUserID: endUserID).encoded(),
                    id: id)
                if !status.isComplete {
                    Responder.append(
                        .location, "\(ManagementRoute.revocationsPath)/\(PercentEncoding.encode(status.id))", to: &response)
                }
                exchange.respond(response)
            })
    }

    private func list(_ exchange: ServerExchange, _ control: any RevocationControl, _ id: RequestID) throws(BadMember) {
        let query = try RevocationListQuery.parse(exchange.head.target.queryBytes)
        control.list(
            pendingOnly: query.pendingOnly, limit: query.limit, after: query.after,
            completion: whenDone(exchange, id, notFound: "after") { handler, exchange, page in
                exchange.respond(handler.responder.json(status: 200, RevocationAnswers.object(page).encoded(), id: id))
            })
    }

    private func show(
        _ exchange: ServerExchange, _ control: any RevocationControl, _ id: RequestID, _ revocation: String?
    ) {
        guard let revocation, RevocationID(revocation) != nil else { return answer(exchange, id, .notFound) }
        control.show(
            id: revocation,
            completion: whenDone(exchange, id) { handler, exchange, status in
                exchange.respond(handler.responder.json(status: 200, RevocationAnswers.object(status).encoded(), id: id))
            })
    }

    private func showEndUser(
        _ exchange: ServerExchange, _ control: any RevocationControl, _ id: RequestID, _ person: String?
    ) throws(BadMember) {
        let endUserID = try Self.endUserID(person)
        control.endUser(
            endUserID,
            completion: whenDone(exchange, id) { handler, exchange, status in
                exchange.respond(
                    handler.responder.json(
                        status: 200, RevocationAnswers.object(status, endUserID: endUserID).encoded(), id: id))
            })
    }

    private func lift(
        _ exchange: ServerExchange, _ control: any RevocationControl, _ id: RequestID, _ person: String?, _ tokenName: String
    ) throws(BadMember) {
        let endUserID = try Self.endUserID(person)
        control.lift(
            endUserID, requestedBy: tokenName, requestID: id.text,
            completion: whenDone(exchange, id) { handler, exchange, status in
                // While work is pending the block goes with its completion.
                exchange.respond(
                    handler.responder.json(
                        status: status.isPending ? 202 : 200,
                        RevocationAnswers.object(status, endUserID: endUserID).encoded(), id: id))
            })
    }

    private static func endUserID(_ segment: String?) throws(BadMember) -> String {
        guard let segment else { throw BadMember("end_user_id", "This path segment is not UTF-8.") }
        try RevocationBody.check(segment)
        return segment
    }

    // MARK: Answers

    /// A completion for any thread that goes on, on the loop, with what was found, or answers the error.
    ///
    /// - Parameter notFound: the parameter that names nothing, where it is not the path that does.
    private func whenDone<Value: Sendable>(
        _ exchange: ServerExchange, _ id: RequestID, notFound: String? = nil,
        _ respond: @escaping @Sendable (RevocationHandler, ServerExchange, Value) -> Void
    ) -> @Sendable (Result<Value, RevocationError>) -> Void {
        let loop = loop
        unanswered.count += 1
        let bound = LoopBound((handler: self, exchange: exchange), on: loop)
        return { result in
            loop.execute {
                let (handler, exchange) = bound.value
                handler.unanswered.count -= 1
                switch result {
                case .success(let value): respond(handler, exchange, value)
                case .failure(.notFound) where notFound != nil:
                    let problem = BadMember(notFound, "Must be the next of a page before.").problem
                    exchange.respond(handler.responder.problem(problem, id: id))
                case .failure(let error): handler.answer(exchange, id, error)
                }
            }
        }
    }

    private func answer(_ exchange: ServerExchange, _ id: RequestID, _ error: RevocationError) {
        exchange.respond(responder.problem(Problem(revocation: error), id: id))
    }
}

extension Problem {
    /// With a label: without it `Problem(.notFound)` would mean this one.
    init(revocation error: RevocationError) {
        switch error {
        case .notFound:
            self.init(.notFound, reason: "no_such_revocation")
            detail = "There is no revocation with this id."
        case .stateUnavailable(let seconds): self.init(.stateUnavailable, reason: "state_unavailable", retryAfter: seconds)
        }
    }
}
