import Foundation
import Primitives
import TestSupport
import Testing

@testable import Telemetry

private enum Route: UInt8, CaseIterable { case token, health, other }

private struct RequestLabels: MetricLabels {
    static let names: [StaticString] = ["route", "status"]
    let route: Route
    let status: UInt16
    var identity: UInt64 { UInt64(route.rawValue) << 16 | UInt64(status) }
    var values: [String] { ["\(route)", "\(status)"] }
}

@Suite struct MetricsTests {
    private func text(_ metrics: Metrics) -> String { String(decoding: metrics.prometheusText(), as: UTF8.self) }

    @Test func everythingIsPrintedInOrder() {
        let metrics = Metrics()
        metrics.gauge("in_flight", help: "Requests being answered.").set(3)
        metrics.counter("sessions_total", help: "Sessions.", labels: [("verifier", "jwt"), ("verdict", "refused")]).add(2)
        metrics.counter("sessions_total", help: "Sessions.", labels: [("verifier", "jwt"), ("verdict", "accepted")]).add()
        metrics.counter("sessions_total", help: "Sessions.", labels: [("verifier", "auth0"), ("verdict", "accepted")]).add(7)
        metrics.counter("overloaded_total", help: "Requests shed.").add(0)
        metrics.registerBuildInfo(version: "1.2.3")
        metrics.gauges("jwks_age_seconds", help: "Age.", labels: ["source"]) {
            [(labels: ["b"], value: 1.5), (labels: ["a"], value: 600), (labels: ["b"], value: 9), (labels: [], value: 1)]
        }
        metrics.counters("log_dropped_total", help: "Lines lost.") { [(labels: [], value: 12)] }
        metrics.gauges("nothing_yet", help: "No value, no lines.") { [] }
        #expect(
            text(metrics) == """
                # HELP january_endpoint_build_info Always 1; the version is a label.
                # TYPE january_endpoint_build_info gauge
                january_endpoint_build_info{version="1.2.3"} 1
                # HELP january_endpoint_in_flight Requests being answered.
                # TYPE january_endpoint_in_flight gauge
                january_endpoint_in_flight 3
                # HELP january_endpoint_jwks_age_seconds Age.
                # TYPE january_endpoint_jwks_age_seconds gauge
                january_endpoint_jwks_age_seconds{source="a"} 600
                january_endpoint_jwks_age_seconds{source="b"} 1.5
                # HELP january_endpoint_log_dropped_total Lines lost.
                # TYPE january_endpoint_log_dropped_total counter
                january_endpoint_log_dropped_total 12
                # HELP january_endpoint_overloaded_total Requests shed.
                # TYPE january_endpoint_overloaded_total counter
                january_endpoint_overloaded_total 0
                # HELP january_endpoint_sessions_total Sessions.
                # TYPE january_endpoint_sessions_total counter
                january_endpoint_sessions_total{verifier="auth0",verdict="accepted"} 7
                january_endpoint_sessions_total{verifier="jwt",verdict="accepted"} 1
                january_endpoint_sessions_total{verifier="jwt",verdict="refused"} 2

                """)
        #expect(metrics.prometheusText() == metrics.prometheusText())
    }

    @Test func aHistogramIsCumulativeAndExact() {
        let metrics = Metrics()
        let histogram = metrics.histogram("request_duration_seconds", help: "Time.", labels: [("operation", "mint")])
        for duration: Duration in [
            .zero, .milliseconds(-5), .milliseconds(1), .nanoseconds(1_000_001), .milliseconds(30), .seconds(10),
            .nanoseconds(10_000_000_001),
        ] { histogram.observe(duration) }
        #expect(
            text(metrics) == """
                # HELP january_endpoint_request_duration_seconds Time.
                # TYPE january_endpoint_request_duration_seconds histogram
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.001"} 3
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.0025"} 4
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.005"} 4
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.01"} 4
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.025"} 4
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.05"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.1"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.25"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="0.5"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="1"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="2.5"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="5"} 5
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="10"} 6
                january_endpoint_request_duration_seconds_bucket{operation="mint",le="+Inf"} 7
                january_endpoint_request_duration_seconds_sum{operation="mint"} 20.032000002
                january_endpoint_request_duration_seconds_count{operation="mint"} 7

                """)
    }

    @Test func aHistogramWithoutLabelsHasOnlyTheBound() {
        let metrics = Metrics()
        metrics.histogram("t", help: "T").observe(.seconds(2))
        #expect(text(metrics).contains("\njanuary_endpoint_t_bucket{le=\"2.5\"} 1\n"))
        #expect(text(metrics).contains("\njanuary_endpoint_t_sum 2\njanuary_endpoint_t_count 1\n"))
    }

    @Test func labelsAndHelpAreEscaped() {
        let metrics = Metrics()
        metrics.counter(
            "a_total", help: "back\\slash, \"quote\"\nand line", labels: [("v", "back\\slash, \"quote\"\nand line é")]
        )
        .add()
        #expect(
            text(metrics) == """
                # HELP january_endpoint_a_total back\\\\slash, "quote"\\nand line
                # TYPE january_endpoint_a_total counter
                january_endpoint_a_total{v="back\\\\slash, \\"quote\\"\\nand line é"} 1

                """)
    }

    @Test(arguments: [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (1.5, "1.5"), (-2.25, "-2.25"), (1e-9, "1e-09"), (1e22, "1e+22"),
        (1_795_996_800.042, "1795996800.042"), (.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN"),
    ])
    func numbersAreShortest(value: Double, expected: String) { #expect(PrometheusText.number(value) == expected) }

    @Test func theSameLabelsAreTheSameHandle() {
        let metrics = Metrics()
        let one = metrics.counter("x_total", help: "X", labels: [("kind", "a")])
        #expect(one === metrics.counter("x_total", help: "X", labels: [("kind", "a")]))
        #expect(one !== metrics.counter("x_total", help: "X", labels: [("kind", "b")]))
    }

    @Test func whatComesAfterTheLastSeriesIsCountedAsOther() {
        let metrics = Metrics()
        for index in 0..<(Metrics.maxSeries + 10) { metrics.counter("x_total", help: "X", labels: [("kind", "\(index)")]).add() }
        let lines = text(metrics).split(separator: "\n").filter { $0.hasPrefix("january_endpoint_x_total") }
        #expect(lines.count == Metrics.maxSeries + 1)
        #expect(lines.last == "january_endpoint_x_total{kind=\"other\"} 10")
    }

    @Test func aGaugeGoesUpAndDown() {
        let gauge = Metrics().gauge("connections", help: "C")
        gauge.add()
        gauge.add(4)
        gauge.subtract()
        #expect(gauge.value == 4)
        gauge.set(-1)
        #expect(gauge.value == -1)
    }

    @Test func aSeriesIsFoundByItsLabels() {
        let metrics = Metrics()
        let requests = metrics.counters("requests_total", help: "Requests.", by: RequestLabels.self)
        requests.add(RequestLabels(route: .token, status: 201), 2)
        requests.add(RequestLabels(route: .token, status: 401))
        requests.add(RequestLabels(route: .token, status: 201))
        #expect(
            text(metrics) == """
                # HELP january_endpoint_requests_total Requests.
                # TYPE january_endpoint_requests_total counter
                january_endpoint_requests_total{route="token",status="201"} 3
                january_endpoint_requests_total{route="token",status="401"} 1

                """)
    }

    @Test func theTableOfSeriesGrowsToItsBoundAndNotOver() {
        let metrics = Metrics()
        let requests = metrics.counters("requests_total", help: "Requests.", by: RequestLabels.self)
        for _ in 0..<2 {
            for status in 0..<UInt16(Metrics.maxSeries + 5) { requests.add(RequestLabels(route: .other, status: status)) }
        }
        let lines = text(metrics).split(separator: "\n").filter { $0.hasPrefix("january_endpoint_requests_total") }
        #expect(lines.count == Metrics.maxSeries + 1)
        #expect(lines.contains("january_endpoint_requests_total{route=\"other\",status=\"1023\"} 2"))
        #expect(lines.contains("january_endpoint_requests_total{route=\"other\",status=\"other\"} 10"))
    }

    /// Nothing is lost while tables are replaced under the readers' feet.
    @Test func manyThreadsMayCountAtOnce() {
        let metrics = Metrics()
        let requests = metrics.counters("requests_total", help: "Requests.", by: RequestLabels.self)
        let histogram = metrics.histogram("t", help: "T")
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for round in 0..<10 {
                for status in 0..<UInt16(200) { requests.add(RequestLabels(route: .token, status: status)) }
                histogram.observe(.milliseconds(round))
                if thread == 0 { _ = metrics.prometheusText() }
            }
        }
        #expect((0..<UInt16(200)).allSatisfy { requests.counter(RequestLabels(route: .token, status: $0)).value == 80 })
        #expect(histogram.snapshot.cells.reduce(0, +) == 80)
    }
}

@Suite struct ProcessMetricsTests {
    @Test func theProgramsNameMayHoldSpacesAndParentheses() {
        let line = "42 (a) b (c)) S 1 42 42 0 -1 4194304 900 0 0 0 250 50 0 0 20 0 7 0 12345 99999744 2048 18446744073709551615\n"
        #expect(
            ProcessStat.parse(Array(line.utf8))
                == ProcessStat(cpuTicks: 300, threads: 7, startTicks: 12345, virtualBytes: 99_999_744, residentPages: 2048))
    }

    @Test(arguments: [
        "", "42", "42 (x) S 1 2 3", "42 (x", "42 (x) S 1 42 42 0 -1 4194304 900 0 0 0 250 x 0 0 20 0 7 0 12345 9 20",
    ])
    func aLineThatIsNotWholeGivesNothing(line: String) { #expect(ProcessStat.parse(Array(line.utf8)) == nil) }

    @Test func thisProcessHasAllOfThem() throws {
        let metrics = Metrics()
        ProcessMetrics.register(in: metrics)
        let lines = String(decoding: metrics.prometheusText(), as: UTF8.self).split(separator: "\n")
        var values: [String: Double] = [:]
        for line in lines where !line.hasPrefix("#") {
            let parts = line.split(separator: " ")
            values[String(parts[0])] = Double(parts[1])
        }
        #expect(
            values.keys.sorted() == [
                "process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes",
                "process_start_time_seconds", "process_threads", "process_virtual_memory_bytes",
            ])
        #expect(lines.contains("# TYPE process_cpu_seconds_total counter"))
        #expect(try #require(values["process_open_fds"]) >= 3)
        #expect(try #require(values["process_threads"]) >= 1)
        #expect(try #require(values["process_resident_memory_bytes"]) > 1_048_576)
        // The test process started between the last boot and now.
        let start = try #require(values["process_start_time_seconds"])
        #expect(abs(start - Date().timeIntervalSince1970) < 86_400)
    }
}
