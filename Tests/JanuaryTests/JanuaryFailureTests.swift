import HTTPMessage
import Primitives
import Testing

@testable import January

@Suite struct JanuaryFailureTests {
    @Test(
        arguments: [
            (401, "unauthorized", .keyRejected), (401, "request_limit_exceeded", .keyRejected), (401, nil, .keyRejected),
            (403, "forbidden", .forbidden(.forbidden)), (403, "client_token_not_allowed", .forbidden(.clientTokenNotAllowed)),
            (403, "scope_insufficient", .forbidden(.scopeInsufficient)), (403, nil, .forbidden(.other)),
            (403, "credit_limit_exceeded", .quotaExhausted(.creditLimitExceeded)),
            (429, "request_limit_exceeded", .quotaExhausted(.requestLimitExceeded)),
            (429, "credit_limit_exceeded", .quotaExhausted(.creditLimitExceeded)),
            (429, "rate_limited", .rateLimited(retryAfter: .seconds(2))), (429, nil, .rateLimited(retryAfter: .seconds(2))),
            (400, "invalid_request", .rejectedRequest(status: 400, .invalidRequest)),
            (404, "not_found", .rejectedRequest(status: 404, .notFound)),
            (409, "conflict", .rejectedRequest(status: 409, .conflict)),
            (413, "payload_too_large", .rejectedRequest(status: 413, .payloadTooLarge)),
            (422, nil, .rejectedRequest(status: 422, .other)),
            (499, "cancelled", .rejectedRequest(status: 499, .cancelled)),
            (408, nil, .unavailable(status: 408, .other)), (425, nil, .unavailable(status: 425, .other)),
            (500, "internal_error", .unavailable(status: 500, .internalError)),
            (501, "not_implemented", .unavailable(status: 501, .notImplemented)), (502, nil, .unavailable(status: 502, .other)),
            (503, "service_unavailable", .unavailable(status: 503, .serviceUnavailable)),
            (504, "upstream_timeout", .unavailable(status: 504, .upstreamTimeout)), (599, nil, .unavailable(status: 599, .other)),
            (200, nil, .unexpectedStatus(200)), (204, nil, .unexpectedStatus(204)), (301, nil, .unexpectedStatus(301)),
            (302, "forbidden", .unexpectedStatus(302)), (101, nil, .unexpectedStatus(101)), (600, nil, .unexpectedStatus(600)),
        ] as [(Int, String?, JanuaryFailure)])
    func everyAnswerHasItsFailure(status: Int, code: String?, expected: JanuaryFailure) {
        let body = code.map { #"{"message":"m","code":"\#($0)"}"# } ?? "<html>"
        #expect(JanuaryFailure(status: status, code: .parse(Array(body.utf8)), retryAfter: nil) == expected)
    }

    @Test(
        arguments: [
            (.notSent(.refused), .unreachable(.refused)), (.notSent(.connectTimeout), .unreachable(.connectTimeout)),
            (.notSent(.dns), .unreachable(.dns)), (.notSent(.tls), .unreachable(.tls)),
            (.notSent(.closedBeforeSend), .unreachable(.closedBeforeSend)), (.notSent(.tooManyWaiting), .overloaded),
            (.notSent(.tooLate), .tooLate), (.notSent(.cancelled), .cancelled), (.broken(.reset), .connectionBroken),
            (.broken(.closedEarly), .connectionBroken), (.broken(.malformed), .unreadableAnswer),
            (.broken(.tooLarge), .unreadableAnswer), (.broken(.undecodable), .unreadableAnswer),
            (.timedOut(sent: true), .timedOut(sent: true)), (.timedOut(sent: false), .timedOut(sent: false)),
        ] as [(UpstreamError, JanuaryFailure)])
    func everyUpstreamErrorHasItsFailure(error: UpstreamError, expected: JanuaryFailure) {
        #expect(JanuaryFailure(error) == expected)
    }

    @Test(arguments: [
        "", "{}", "[]", "{\"code\":1}", "{\"code\":\"nobody_knows\"}", "{\"code\":\"forbidden\",\"code\":\"x\"}", "\u{0}",
    ])
    func bodyWithoutAKnownCodeIsOther(body: String) {
        #expect(JanuaryErrorCode.parse(Array(body.utf8)) == .other)
    }

    @Test func codeIsReadFromTheErrorBody() {
        for code in JanuaryErrorCode.allCases {
            #expect(JanuaryErrorCode.parse(Array(#"{"docs_url":"x","code":"\#(code.rawValue)","message":"m"}"#.utf8)) == code)
        }
    }
}

@Suite struct RetryAfterTests {
    /// 2026-11-30T00:00:00Z, a Monday.
    private static let now = WallInstant(secondsSinceEpoch: 1_795_996_800)

    @Test(
        arguments: [
            ("0", .zero), ("1", .seconds(1)), ("29", .seconds(29)), ("30", .seconds(30)), ("31", .seconds(30)),
            ("86400", .seconds(30)),
            ("007", .seconds(7)), ("0.5", .milliseconds(500)), ("1.25", .milliseconds(1250)),
            ("29.999999999999", .nanoseconds(29_999_999_999)),
            ("30.5", .seconds(30)), ("99999999999999999999999999", .seconds(30)), ("1.", nil), (".5", nil), ("-1", nil),
            ("+1", nil), ("1e1", nil),
            ("", nil), (" 1", nil), ("1 ", nil), ("soon", nil), ("1,2", nil), ("1.2.3", nil), ("NaN", nil), ("٣", nil),
            ("Mon, 30 Nov 2026 00:00:20 GMT", .seconds(20)), ("Mon, 30 Nov 2026 00:01:00 GMT", .seconds(30)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", .zero), ("Monday, 30-Nov-26 00:00:07 GMT", .seconds(7)),
            ("Mon Nov 30 00:00:03 2026", .seconds(3)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", .zero), ("Sun Nov  6 08:49:37 1994", .zero),
            ("Mon, 30 Nov 2026 00:00:20 CET", nil),
            ("Mon, 30 Nov 2026 24:00:20 GMT", nil), ("Mon, 32 Nov 2026 00:00:20 GMT", nil),
            ("Mon, 30 Foo 2026 00:00:20 GMT", nil),
            ("Mon, 30 Nov 99999999999999999999 00:00:20 GMT", nil), ("Mon, 01 Dec 9999 00:00:20 GMT", .seconds(30)),
        ] as [(String, Duration?)])
    func bothFormsAreReadAndCapped(text: String, expected: Duration?) {
        #expect(RetryAfter.parse(text, now: Self.now) == expected)
    }

    /// RFC 9110 section 5.6.7 gives one instant in three forms.
    @Test(arguments: ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])
    func threeDateFormsAreOneInstant(text: String) {
        #expect(HTTPDate.parse(text, now: Self.now) == WallInstant(secondsSinceEpoch: 784_111_777))
    }

    @Test(
        arguments: [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
        ] as [(String, Int64)])
    func datesAreThoseOfTheGregorianCalendar(text: String, seconds: Int64) {
        #expect(HTTPDate.parse(text, now: Self.now) == WallInstant(secondsSinceEpoch: seconds))
    }

    @Test func ourOwnFieldIsRoundedUp() {
        #expect(
            [.zero, .nanoseconds(1), .milliseconds(999), .seconds(1), .milliseconds(1001)].map(RetryAfter.wholeSeconds) == [
                0, 1, 1, 1, 2,
            ])
    }
}
