import Primitives
import StrictJSON
import Telemetry

/// What `/status.json` counts since the start of the process: the series of the metrics, as JSON.
struct StatusCounts {
    let metrics: Metrics

    /// Requests on the token paths.
    var answers: JSONValue {
        .array(
            metrics.counts(of: "requests_total").compactMap { labels, total in
                guard labels.count == 4, labels[0] == RequestOutcome.Route.token.label else { return nil }
                return .object([
                    "method": .string(labels[1]), "status": Self.status(labels[2]), "code": .string(labels[3]),
                    "total": .count(total),
                ])
            })
    }

    var januaryAnswers: JSONValue {
        .array(
            metrics.counts(of: "january_requests_total").compactMap { labels, total in
                guard labels.count == 3 else { return nil }
                return .object([
                    "operation": .string(labels[0]), "status": Self.status(labels[1]), "code": .string(labels[2]),
                    "total": .count(total),
                ])
            })
    }

    var sessions: JSONValue {
        .array(
            metrics.counts(of: "sessions_total").compactMap { labels, total in
                guard labels.count == 3 else { return nil }
                return .object([
                    "verifier": .string(labels[0]), "verdict": .string(labels[1]), "reason": .string(labels[2]),
                    "total": .count(total),
                ])
            })
    }

    var reloads: JSONValue {
        let results = metrics.counts(of: "reloads_total")
        func total(_ result: String) -> UInt64 { results.first { $0.labels == [result] }?.total ?? 0 }
        return .object(["ok_total": .count(total("ok")), "failed_total": .count(total("failed"))])
    }

    /// All series of a family together.
    func sum(of name: StaticString) -> JSONValue { .count(metrics.counts(of: name).reduce(0) { $0 &+ $1.total }) }

    /// Counts of what took at most so many seconds and longer than the bound before; the last one: longer than all bounds.
    static func histogram(_ histogram: Histogram) -> JSONValue {
        let (cells, nanoseconds) = histogram.snapshot
        return .object([
            "up_to": .array(Histogram.bounds.map { .rounded(Double($0) / 1e9, places: 4) }),
            "counts": .array(cells.map { .count($0) }), "sum_seconds": .rounded(Double(nanoseconds) / 1e9),
        ])
    }

    /// `null` where there was none.
    private static func status(_ label: String) -> JSONValue { Int(label).map { .count($0) } ?? .null }
}

extension JSONValue {
    static func count(_ value: some BinaryInteger) -> JSONValue { .number(JSONNumber(value)) }

    /// Milliseconds are enough for people.
    static func seconds(_ duration: Duration?) -> JSONValue { duration.map { rounded($0.fractionalSeconds) } ?? .null }

    static func rounded(_ value: Double, places: Int = 3) -> JSONValue {
        let scale = (0..<places).reduce(1.0) { scale, _ in scale * 10 }
        return JSONNumber((value * scale).rounded() / scale).map { .number($0) } ?? .null
    }
}
