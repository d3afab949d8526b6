import HTTPMessage
import Primitives
import Testing

@testable import TokenEndpoint

@Suite struct ExportAnswerTests {
    private static let now = WallInstant(secondsSinceEpoch: 1_795_996_800)

    private func answer(_ status: Int, retryAfter: String? = nil, body: String = "") throws -> ExportAnswer {
        var fields = FieldBlock()
        if let retryAfter { try fields.append(.retryAfter, retryAfter) }
        let response = UpstreamResponse(status: status, fields: Fields(fields), body: Array(body.utf8))
        return ExportAnswer(.success(response), spanCount: 10, now: Self.now)
    }

    /// OTLP names the four statuses after which an export is sent again.
    @Test func onlyFourStatusesAreTriedAgain() throws {
        for status in [200, 202, 204, 299] { #expect(try answer(status).outcome == .delivered) }
        for status in [429, 502, 503, 504] { #expect(try answer(status).outcome == .failed(retryAfter: nil)) }
        for status in [300, 301, 307, 400, 401, 403, 404, 408, 413, 415, 499, 500, 501, 505, 599] {
            #expect(try answer(status).outcome == .refused)
        }
        #expect(try answer(404).status == 404)
    }

    @Test(arguments: [
        ("7", Duration.seconds(7)), ("0", .zero), ("1.5", .milliseconds(1500)), ("Mon, 30 Nov 2026 00:00:30 GMT", .seconds(30)),
        ("Sun, 29 Nov 2026 00:00:00 GMT", .zero), ("99999999999999999999", .seconds(86_400)), ("soon", nil), ("-1", nil),
    ])
    func retryAfterIsSecondsOrADate(text: String, expected: Duration?) throws {
        #expect(try answer(503, retryAfter: text).outcome == .failed(retryAfter: expected))
    }

    @Test func noAnswerIsTriedAgainToo() {
        for error in [
            UpstreamError.notSent(.refused), .notSent(.tls), .broken(.closedEarly), .broken(.tooLarge), .timedOut(sent: true),
        ] {
            let answer = ExportAnswer(.failure(error), spanCount: 10, now: Self.now)
            #expect(answer.outcome == .failed(retryAfter: nil))
            #expect(answer.reason == error.reason)
        }
    }

    @Test(arguments: [
        (#"{}"#, 0), ("", 0), ("not json", 0), (#"{"partialSuccess":{}}"#, 0), (#"{"partialSuccess":null}"#, 0),
        (#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#, 3), (#"{"partialSuccess":{"rejectedSpans":3}}"#, 3),
        (#"{"partialSuccess":{"rejectedSpans":"99"}}"#, 10), (#"{"partialSuccess":{"rejectedSpans":-1}}"#, 0),
        (#"{"partialSuccess":{"rejectedSpans":"x"}}"#, 0), (#"{"partialSuccess":{"rejectedSpans":1.5}}"#, 0),
    ])
    func whatTheCollectorDidNotTakeIsCounted(body: String, expected: Int) throws {
        #expect(try answer(200, body: body).rejectedCount == expected)
    }
}
