import January
import Testing

@testable import TokenEndpoint

/// The one mapping from what went wrong to what the caller is told.
@Suite struct ProblemTests {
    @Test(
        arguments: [
            (.keyRejected, .januaryKeyRejected, 502), (.forbidden(.other), .januaryForbidden, 403),
            (.quotaExhausted(.other), .januaryQuotaExhausted, 403),
            (.rejectedRequest(status: 400, .other), .januaryRejectedRequest, 403),
            (.invalidAnswer(.endUser), .januaryInvalidResponse, 502), (.unexpectedStatus(200), .januaryInvalidResponse, 502),
            (.unreadableAnswer, .januaryInvalidResponse, 502), (.unreachable(.refused), .januaryUnreachable, 502),
            (.unreachable(.connectTimeout), .januaryUnreachable, 502), (.unreachable(.dns), .januaryUnreachable, 502),
            (.unreachable(.tls), .januaryUnreachable, 502), (.unreachable(.closedBeforeSend), .januaryUnreachable, 502),
            (.failing(.unreachable, retryAfter: .zero), .januaryUnreachable, 502),
            (.unavailable(status: 500, .other), .januaryUnavailable, 503), (.connectionBroken, .januaryUnavailable, 503),
            (.failing(.unavailable, retryAfter: .zero), .januaryUnavailable, 503),
            (.rateLimited(retryAfter: .zero), .januaryRateLimited, 503), (.timedOut(sent: true), .januaryTimeout, 504),
            (.timedOut(sent: false), .januaryTimeout, 504), (.tooLate, .januaryTimeout, 504), (.overloaded, .overloaded, 503),
            (.cancelled, .clientGone, 499),
        ] as [(JanuaryFailure, ProblemCode, Int)])
    func codesAreThoseOfTheErrorTable(failure: JanuaryFailure, code: ProblemCode, status: Int) {
        #expect(Problem(failure).code == code)
        #expect(code.status == status)
        #expect(!Problem(failure).reason.isEmpty)
    }
}
