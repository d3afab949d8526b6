import HTTPMessage
import Primitives
import TestSupport
import Testing

@testable import January

/// Keeps every request; answers when the test says so.
private final class ScriptedExchange: HTTPExchange {
    struct Sent {
        let request: UpstreamRequest
        let deadline: MonotonicInstant
        let beforeSend: (() -> Bool)?
        let completion: (Result<UpstreamResponse, UpstreamError>) -> Void
    }

    var sent: [Sent] = []
    var brokenResponseFields: Fields?

    func send(
        _ request: UpstreamRequest, deadline: MonotonicInstant, beforeSend: (() -> Bool)?,
        completion: @escaping (Result<UpstreamResponse, UpstreamError>) -> Void
    ) {
        sent.append(Sent(request: request, deadline: deadline, beforeSend: beforeSend, completion: completion))
    }

    /// The first byte of the newest request would go out now.
    func answer(_ status: Int, _ body: String, _ fields: [(FieldName, String)] = []) throws {
        let last = try #require(sent.last)
        guard last.beforeSend?() ?? true else { return last.completion(.failure(.notSent(.cancelled))) }
        var block = FieldBlock()
        for (name, value) in fields { try block.append(name, value) }
        last.completion(.success(UpstreamResponse(status: status, fields: Fields(block), body: Array(body.utf8))))
    }

    /// - Parameter fields: of the head that had come.
    func fail(_ error: UpstreamError, _ fields: [(FieldName, String)]? = nil) throws {
        brokenResponseFields = try fields.map { fields in
            var block = FieldBlock()
            for (name, value) in fields { try block.append(name, value) }
            return Fields(block)
        }
        try #require(sent.last).completion(.failure(error))
        brokenResponseFields = nil
    }

    func keys() -> [String] { sent.map { Fields($0.request.fields).string(.authorization) ?? "" } }
}

private let good = #"{"token":"ct-a","expires_in":300,"end_user_id":"u1","scopes":["foods:read"],"expires_at":"x"}"#

@Suite final class JanuaryClientTests {
    private let time = TestTime()
    private let exchange = ScriptedExchange()
    private let service: JanuaryService
    private let client: JanuaryClient
    private let terms = MintTerms(scopes: ["foods:read"], ttlSeconds: 300)
    private var outcomes: [MintOutcome] = []

    init() throws {
        let ring = KeyRing(first: try APIKey(Secret("sk-a")), next: try APIKey(Secret("sk-b")), userAgent: "t/1")
        let origin = try #require(Origin.parse("https://partners.january.ai"))
        service = JanuaryService(origin: origin, pathPrefix: "/base", keys: ring, mintBreaker: Breaker())
        client = JanuaryClient(exchange: exchange, time: time)
    }

    private func mint(_ user: String = "u1", budget: Duration = .seconds(8), beforeSend: (() -> Bool)? = nil) {
        client.mint(service, endUserID: user, terms: terms, deadline: time.monotonic() + budget, beforeSend: beforeSend) {
            self.outcomes.append($0)
        }
    }

    private var failure: JanuaryFailure? { if case .failure(let failure)? = outcomes.last?.result { failure } else { nil } }

    @Test func requestIsTheContractsAndTheAnswerIsDelivered() throws {
        mint()
        let request = try #require(exchange.sent.first).request
        #expect(request.method == .post)
        #expect(request.target == "/base/v1.2/auth/client-tokens")
        #expect(request.origin.description == "https://partners.january.ai")
        #expect(request.body == Array(#"{"end_user_id":"u1","scopes":["foods:read"],"ttl_seconds":300}"#.utf8))
        #expect(request.sendBy == time.monotonic() + .milliseconds(7500))
        #expect(try #require(exchange.sent.first).deadline == time.monotonic() + .seconds(8))
        #expect(request.retriesWhenUnsent)
        #expect(outcomes.isEmpty)
        time.advance(by: .milliseconds(30))
        try exchange.answer(201, good, [(.contentType, "application/json; charset=utf-8"), (.xRequestID, "req_1.a-B")])
        let outcome = try #require(outcomes.first)
        let delivery = try outcome.result.get()
        #expect(delivery.answer.body == Array(good.utf8))
        #expect(Array(delivery.contentType) == Array("application/json; charset=utf-8".utf8))
        #expect(outcome.requestID == "req_1.a-B")
        #expect(
            outcome.first
                == JanuaryAttempt(
                    slot: .first, keyFingerprint: try APIKey(Secret("sk-a")).fingerprint, status: 201, code: nil, error: nil,
                    duration: .milliseconds(30)))
        #expect(outcome.second == nil)
        #expect(outcomes.count == 1)
    }

    @Test(
        arguments: [
            ([(.xRequestID, "a b")], nil), ([(.xRequestID, "")], nil), ([(.xRequestID, String(repeating: "x", count: 128))], 128),
            ([(.xRequestID, String(repeating: "x", count: 129))], nil), ([(.xRequestID, "a"), (.xRequestID, "b")], nil),
            ([(FieldName("request-id"), "abc")], 3), ([(.xRequestID, "a\"b")], nil), ([(.xRequestID, "é")], nil), ([], nil),
        ] as [([(FieldName, String)], Int?)])
    func unusableRequestIDsAreDropped(fields: [(FieldName, String)], length: Int?) throws {
        mint()
        try exchange.answer(201, good, fields)
        #expect(outcomes.first?.requestID?.utf8.count == length)
        #expect(try outcomes.first?.result.get().contentType.elementsEqual("application/json".utf8) == true)
    }

    @Test func theRequestIDOfAnAnswerThatBrokeOffIsKept() throws {
        mint()
        try exchange.fail(.broken(.closedEarly), [(.xRequestID, "r1")])
        #expect(failure == .connectionBroken && outcomes.last?.requestID == "r1")
        mint()
        try exchange.fail(.timedOut(sent: true), [(.xRequestID, "a b")])
        #expect(outcomes.last?.requestID == nil)
        mint()
        try exchange.fail(.broken(.reset))
        #expect(outcomes.count == 3 && outcomes.last?.requestID == nil)
    }

    /// The last answer was the first key's.
    @Test func theRequestIDOfTheFirst401IsKeptWhereTheOtherKeyGotNoAnswer() throws {
        mint()
        try exchange.answer(401, "", [(.xRequestID, "r1")])
        try exchange.fail(.broken(.reset))
        #expect(outcomes.last?.requestID == "r1")
        mint()
        try exchange.answer(401, "", [(.xRequestID, "r2")])
        try exchange.answer(401, "", [(.xRequestID, "r3")])
        #expect(outcomes.last?.requestID == "r3")
    }

    /// The line about a 401 names the key that January has refused, not the good one that was put in its place meanwhile.
    @Test func anAttemptSaysWhichKeyItWasSentWith() throws {
        let keys = service.keys
        let old = keys.keys.current.key.fingerprint
        mint()
        #expect(keys.replace(first: try APIKey(Secret("sk-new")), next: nil))
        try exchange.answer(401, "", [])
        // The new one is tried at once.
        try exchange.answer(401, "", [])
        #expect(outcomes.last?.first?.keyFingerprint == old)
        #expect(outcomes.last?.second?.keyFingerprint == keys.keys.current.key.fingerprint)
        #expect(keys.keys.current.key.fingerprint != old)
    }

    @Test func after401TheOtherKeyIsTriedOnceAndBecomesCurrent() throws {
        mint()
        try exchange.answer(401, #"{"code":"unauthorized","message":"m"}"#)
        #expect(outcomes.isEmpty)
        try exchange.answer(201, good)
        #expect(exchange.keys() == ["Bearer sk-a", "Bearer sk-b"])
        #expect(try #require(exchange.sent.last).deadline == exchange.sent[0].deadline)
        let outcome = try #require(outcomes.first)
        #expect(throws: Never.self) { try outcome.result.get() }
        #expect(outcome.switchedTo == .next)
        #expect(outcome.first?.status == 401)
        #expect(outcome.first?.code == .unauthorized)
        #expect(outcome.second?.status == 201)
        #expect(outcome.second?.slot == .next)
        mint()
        try exchange.answer(201, good)
        #expect(exchange.keys().last == "Bearer sk-b")
        #expect(outcomes.last?.switchedTo == nil)
    }

    @Test func both401KeepTheCurrentKeyAndOpenTheBreaker() throws {
        mint()
        try exchange.answer(401, "")
        try exchange.answer(401, "")
        #expect(failure == .keyRejected)
        #expect(service.keys.keys.current.slot == .first)
        #expect(service.mintBreaker.openReasons(now: time.monotonic()) == [.key])
        mint("u2")
        #expect(exchange.sent.count == 2)
        #expect(failure == .keyRejected)
        #expect(outcomes.last?.first == nil)
        // A changed key closes it at once.
        #expect(service.replaceKeys(first: try APIKey(Secret("sk-c")), next: nil))
        mint("u2")
        #expect(exchange.keys().last == "Bearer sk-c")
    }

    @Test(arguments: [
        (403, "forbidden", JanuaryFailure.forbidden(.forbidden)),
        (503, "service_unavailable", .unavailable(status: 503, .serviceUnavailable)),
        (400, "invalid_request", .rejectedRequest(status: 400, .invalidRequest)),
    ])
    func noOtherAnswerTriesTheOtherKey(status: Int, code: String, expected: JanuaryFailure) throws {
        mint()
        try exchange.answer(status, #"{"code":"\#(code)","message":"m"}"#)
        #expect(exchange.sent.count == 1)
        #expect(failure == expected)
    }

    @Test func otherKeyWithA403IsReportedAndDoesNotBecomeCurrent() throws {
        mint()
        try exchange.answer(401, "")
        try exchange.answer(403, #"{"code":"forbidden"}"#)
        #expect(failure == .forbidden(.forbidden))
        #expect(service.keys.keys.current.slot == .first)
    }

    @Test func otherKeyThatGotNoAnswerIsWhatIsReported() throws {
        mint()
        try exchange.answer(401, "")
        try exchange.fail(.notSent(.tooLate))
        #expect(failure == .tooLate)
        #expect(service.mintBreaker.openReasons(now: time.monotonic()) == [])
    }

    @Test(arguments: [(Duration.milliseconds(500), 1), (.milliseconds(499), 0), (.zero, 0), (.seconds(-5), 0)])
    func nothingIsSentWithLessThanHalfASecondLeft(budget: Duration, requests: Int) {
        mint(budget: budget)
        #expect(exchange.sent.count == requests)
        #expect(failure == (requests == 0 ? .tooLate : nil))
    }

    @Test func callerThatIsGoneCostsNoMint() throws {
        var asked = 0
        mint(beforeSend: {
            asked += 1
            return false
        })
        try exchange.answer(201, good)
        #expect(asked == 1)
        #expect(failure == .cancelled)
        #expect(service.mintBreaker.openReasons(now: time.monotonic()) == [])
    }

    /// Whoever held the other key back has found out meanwhile that it may be asked.
    @Test func aMintThatWasInterruptedBetweenTheKeysGoesOnWithTheOtherOne() throws {
        var answers = [true, false]
        mint(beforeSend: { answers.removeFirst() })
        time.advance(by: .milliseconds(20))
        try exchange.answer(401, "", [(.xRequestID, "r1")])
        try exchange.answer(201, good)
        let interrupted = try #require(outcomes.last)
        #expect(failure == .cancelled && interrupted.requestID == "r1")
        client.mint(
            service, endUserID: "u1", terms: terms, deadline: time.monotonic() + .seconds(8), resuming: interrupted
        ) { self.outcomes.append($0) }
        try exchange.answer(201, good)
        #expect(exchange.keys() == ["Bearer sk-a", "Bearer sk-b", "Bearer sk-b"])
        let outcome = try #require(outcomes.last)
        #expect(outcome.first == interrupted.first && outcome.second?.status == 201 && outcome.switchedTo == .next)
        // The other key is current by now: it is still the one that was not asked.
        client.mint(
            service, endUserID: "u1", terms: terms, deadline: time.monotonic() + .seconds(8), resuming: interrupted
        ) { self.outcomes.append($0) }
        try exchange.answer(401, "")
        #expect(exchange.keys().last == "Bearer sk-b" && failure == .keyRejected && outcomes.count == 3)
    }

    @Test func callerIsAskedBeforeTheSecondKeyToo() throws {
        var answers = [true, false]
        mint(beforeSend: { answers.removeFirst() })
        try exchange.answer(401, "")
        try exchange.answer(201, good)
        #expect(answers.isEmpty)
        #expect(failure == .cancelled)
    }

    @Test func requestThatWaitedIsHeldBackWhenTheBreakerOpenedMeanwhile() throws {
        mint("u2")
        mint("u1")
        try exchange.answer(429, #"{"code":"rate_limited"}"#, [(.retryAfter, "7.5")])
        #expect(failure == .rateLimited(retryAfter: .milliseconds(7500)))
        let waiting = exchange.sent[0]
        time.advance(by: .milliseconds(500))
        #expect(waiting.beforeSend?() == false)
        waiting.completion(.failure(.notSent(.cancelled)))
        #expect(failure == .rateLimited(retryAfter: .seconds(7)))
        // The objection is not January's: the hold is no longer than it was.
        time.advance(by: .seconds(7))
        mint()
        #expect(exchange.sent.count == 3)
    }

    @Test(
        arguments: [(nil, 2), ("0", 0), ("3", 3), ("3600", 30), ("Mon, 30 Nov 2026 00:00:04 GMT", 4), ("soon", 2)]
            as [(String?, Int)])
    func retryAfterIsPassedOn(field: String?, seconds: Int) throws {
        mint()
        try exchange.answer(429, #"{"code":"rate_limited"}"#, field.map { [(.retryAfter, $0)] } ?? [])
        #expect(failure == .rateLimited(retryAfter: .seconds(seconds)))
        #expect(failure?.retryAfter == .seconds(seconds))
    }

    @Test func tokenOfAnotherUserIsASecurityEventAndNoToken() throws {
        mint("u2")
        try exchange.answer(201, good, [(.xRequestID, "r1")])
        #expect(failure == .invalidAnswer(.endUser))
        #expect(failure?.isSecurityEvent == true)
        #expect(outcomes.last?.requestID == "r1")
        #expect(outcomes.last?.first?.status == 201)
    }

    @Test func fiveBrokenConnectionsFromThreeUsersOpenTheBreakerAndOneMintClosesIt() throws {
        for user in ["u1", "u2", "u3", "u1", "u2"] {
            mint(user)
            try exchange.fail(.broken(.reset))
        }
        #expect(failure == .connectionBroken)
        mint()
        #expect(exchange.sent.count == 5)
        #expect(failure == .failing(.unavailable, retryAfter: .seconds(1)))
        time.advance(by: .seconds(1))
        mint()
        mint()
        #expect(exchange.sent.count == 6)
        try exchange.answer(201, good)
        mint()
        #expect(exchange.sent.count == 7)
    }
}
