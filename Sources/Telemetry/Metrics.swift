import Primitives

/// The metrics of the process. Any thread. Registering takes a lock and is done once; handles are then used without one.
///
/// Names are given without the prefix `january_endpoint_`. The same name with the same labels gives the same handle; the same name
/// with another type or other label names is a fault of the program and stops it.
package final class Metrics: Sendable {
    /// Series of one family. What comes later is counted in one series whose label values are all `other`.
    package static let maxSeries = 1024
    static let prefix = "january_endpoint_"

    /// A label and its value. Values come from the program or the configuration, never from a caller.
    package typealias Label = (name: StaticString, value: String)
    /// One value of a callback: label values in the order of the family's names.
    package typealias Reading = (labels: [String], value: Double)

    private let families = Lock<[String: Family]>([:])

    package init() {}

    package func counter(_ name: StaticString, help: StaticString, labels: [Label] = []) -> Counter {
        let series = series(Self.prefix + name.description, .counter, help, labels) { .counter(Counter()) }
        guard case .counter(let counter) = series else { preconditionFailure("\(name) is not a counter") }
        return counter
    }

    package func gauge(_ name: StaticString, help: StaticString, labels: [Label] = []) -> Gauge {
        let series = series(Self.prefix + name.description, .gauge, help, labels) { .gauge(Gauge()) }
        guard case .gauge(let gauge) = series else { preconditionFailure("\(name) is not a gauge") }
        return gauge
    }

    package func histogram(_ name: StaticString, help: StaticString, labels: [Label] = []) -> Histogram {
        let series = series(Self.prefix + name.description, .histogram, help, labels) { .histogram(Histogram()) }
        guard case .histogram(let histogram) = series else { preconditionFailure("\(name) is not a histogram") }
        return histogram
    }

    /// Gauges that are read when somebody looks: `read` is called on the thread of ``prometheusText()``, outside of every lock here,
    /// and must not block for long.
    package func gauges(
        _ name: StaticString, help: StaticString, labels: [StaticString] = [], read: @escaping @Sendable () -> [Reading]
    ) {
        callback(Self.prefix + name.description, .gauge, help, labels, read)
    }

    /// A counter that somebody else keeps, read when somebody looks.
    package func counters(
        _ name: StaticString, help: StaticString, labels: [StaticString] = [], read: @escaping @Sendable () -> [Reading]
    ) {
        callback(Self.prefix + name.description, .counter, help, labels, read)
    }

    /// A counter whose series are found by a value on the hot path.
    package func counters<Labels: MetricLabels>(
        _ name: StaticString, help: StaticString, by labels: Labels.Type
    ) -> LabeledCounter<Labels> {
        let fullName = Self.prefix + name.description
        register(fullName, .counter, help, Labels.names.map(\.description)) { _ in }
        return LabeledCounter { [self] labels in
            counter(name, help: help, labels: Array(zip(Labels.names, labels.values)).map { (name: $0, value: $1) })
        }
    }

    /// `build_info`, always 1: the value is in its labels.
    package func registerBuildInfo(version: String) {
        gauge("build_info", help: "Always 1; the version is a label.", labels: [("version", version)]).set(1)
    }

    /// Everything in the Prometheus text format 0.0.4 (`text/plain; version=0.0.4; charset=utf-8`): families by name, series by label
    /// values, so that the same values give the same bytes.
    package func prometheusText() -> [UInt8] {
        var text = PrometheusText()
        for family in snapshot() { text.append(family) }
        return text.bytes
    }

    /// The series of a family of counters as they are now, by label values; none where nothing was counted under this name. For reports
    /// other than the page. Counters that somebody else keeps are not among them.
    package func counts(of name: StaticString) -> [(labels: [String], total: UInt64)] {
        let series = families.withLock { $0[Self.prefix + name.description]?.series } ?? [:]
        let counts = series.compactMap { labels, series -> (labels: [String], total: UInt64)? in
            guard case .counter(let counter) = series else { return nil }
            return (labels, counter.value)
        }
        return counts.sorted { $0.labels.lexicographicallyPrecedes($1.labels) }
    }

    package static let contentType: StaticString = "text/plain; version=0.0.4; charset=utf-8"

    // MARK: Families

    func snapshot() -> [Family] {
        families.withLock { Array($0.values) }.sorted { $0.name < $1.name }
    }

    func callback(
        _ name: String, _ kind: Family.Kind, _ help: StaticString, _ labels: [StaticString],
        _ read: @escaping @Sendable () -> [Reading]
    ) {
        register(name, kind, help, labels.map(\.description)) { $0.callbacks.append(read) }
    }

    private func series(
        _ name: String, _ kind: Family.Kind, _ help: StaticString, _ labels: [Label], make: @Sendable () -> Family.Series
    ) -> Family.Series {
        let values = labels.map(\.value)
        return register(name, kind, help, labels.map(\.name.description)) { family in
            if let existing = family.series[values] { return existing }
            let key = family.series.count < Self.maxSeries ? values : values.map { _ in "other" }
            if let existing = family.series[key] { return existing }
            let made = make()
            family.series[key] = made
            return made
        }
    }

    private func register<Result: Sendable>(
        _ name: String, _ kind: Family.Kind, _ help: StaticString, _ labels: [String], change: @Sendable (inout Family) -> Result
    ) -> Result {
        families.withLock { families in
            var family = families[name] ?? Family(name: name, kind: kind, help: help.description, labels: labels)
            precondition(family.kind == kind && family.labels == labels, "metric \(name) registered in two forms")
            let result = change(&family)
            families[name] = family
            return result
        }
    }
}

/// All series of one name.
struct Family: Sendable {
    enum Kind: String, Sendable { case counter, gauge, histogram }
    enum Series: Sendable { case counter(Counter), gauge(Gauge), histogram(Histogram) }

    let name: String
    let kind: Kind
    let help: String
    let labels: [String]
    var series: [[String]: Series] = [:]
    var callbacks: [@Sendable () -> [Metrics.Reading]] = []
}
