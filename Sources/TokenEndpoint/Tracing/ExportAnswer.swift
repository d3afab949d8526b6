import HTTPMessage
import January
import Primitives
import StrictJSON

/// What an answer to an export means (OTLP, "OTLP/HTTP Response"). Pure.
struct ExportAnswer: Equatable {
    let outcome: SpanExportMachine.Outcome
    /// Of the spans that were delivered, those the collector did not take.
    var rejectedCount = 0
    /// Bounded, for log lines.
    let reason: String
    var status: Int?

    /// The statuses after which an export may be sent again; no others.
    private static let retryable: Set<Int> = [429, 502, 503, 504]
    /// A longer wait means never.
    private static let cap = Duration.seconds(86_400)

    init(_ result: Result<UpstreamResponse, UpstreamError>, spanCount: Int, now: WallInstant) {
        switch result {
        case .failure(let error):
            outcome = .failed(retryAfter: nil)
            reason = error.reason
        case .success(let response):
            status = response.status
            reason = "status"
            switch response.status {
            case 200..<300:
                outcome = .delivered
                rejectedCount = min(spanCount, Self.rejectedCount(response.body))
            case let status where Self.retryable.contains(status):
                outcome = .failed(
                    retryAfter: response.fields.string(.retryAfter).flatMap { RetryAfter.parse($0, now: now, cap: Self.cap) })
            default: outcome = .refused
            }
        }
    }

    /// `partialSuccess.rejectedSpans`: a whole number of 64 bits, so a string in the proto3 mapping; a number is understood, too. What
    /// cannot be read says nothing.
    private static func rejectedCount(_ body: [UInt8]) -> Int {
        guard let answer = try? JSONValue.parse(body.span.bytes),
            let rejected = answer.object?["partialSuccess"]?.object?["rejectedSpans"]
        else { return 0 }
        let count = rejected.string.flatMap { Int($0) } ?? rejected.number?.integer.map { Int($0) }
        return max(0, count ?? 0)
    }
}
