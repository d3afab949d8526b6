import EventLoop
import HTTPMessage
import Primitives

/// Asks a collector whether it would take spans, with an export that holds none. For commands.
package enum CollectorProbe {
    package enum Answer: Sendable, Equatable {
        case taken
        case status(Int)
        /// No answer; the bounded reason.
        case failed(String)
    }

    private static let limit = Duration.seconds(10)
    /// An `ExportTraceServiceRequest` of nothing.
    private static let nothing = Array(#"{"resourceSpans":[]}"#.utf8)

    /// On the loop; `completion` once, there.
    package static func ask(
        _ collector: TracingConfig.Collector, _ upstream: UpstreamParts, on loop: EventLoop, time: any TimeSource,
        completion: @escaping (Answer) -> Void
    ) {
        let client = upstream.tracingClient(on: loop)
        let request = UpstreamRequest(
            method: .post, origin: collector.origin, target: collector.target, fields: SpanExporter.fields(collector.login),
            body: nothing)
        client.send(request, deadline: time.monotonic() + limit, beforeSend: nil) { result in
            switch result {
            case .success(let response):
                completion((200..<300).contains(response.status) ? .taken : .status(response.status))
            case .failure(let error):
                let detail = error == .notSent(.tls) ? client.lastTLSFailure.map { " (\($0))" } ?? "" : ""
                completion(.failed(error.reason + detail))
            }
        }
    }
}
