import Primitives

/// Prints families in the Prometheus text exposition format, version 0.0.4. Pure but for the callbacks it calls.
struct PrometheusText {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ family: Family) {
        let rows = family.rows()
        guard !rows.isEmpty else { return }
        line("# HELP ", family.name, " ", Self.escapedHelp(family.help))
        line("# TYPE ", family.name, " ", family.kind.rawValue)
        for row in rows {
            switch row.value {
            case .number(let number): sample(family.name, family.labels, row.labels, number)
            case .histogram(let cells, let nanoseconds): histogram(family, row.labels, cells, nanoseconds)
            }
        }
    }

    private mutating func histogram(_ family: Family, _ values: [String], _ cells: [UInt64], _ nanoseconds: UInt64) {
        var total: UInt64 = 0
        for (index, cell) in cells.enumerated() {
            total &+= cell
            let bound = index < Histogram.bounds.count ? Self.seconds(UInt64(Histogram.bounds[index])) : "+Inf"
            sample(family.name + "_bucket", family.labels + ["le"], values + [bound], "\(total)")
        }
        sample(family.name + "_sum", family.labels, values, Self.seconds(nanoseconds))
        sample(family.name + "_count", family.labels, values, "\(total)")
    }

    private mutating func sample(_ name: String, _ labels: [String], _ values: [String], _ number: String) {
        guard !labels.isEmpty else { return line(name, " ", number) }
        let pairs = zip(labels, values).map { "\($0)=\"\(Self.escapedLabel($1))\"" }
        line(name, "{", pairs.joined(separator: ","), "} ", number)
    }

    private mutating func line(_ parts: String...) {
        for part in parts { bytes.append(contentsOf: part.utf8) }
        bytes.append(ASCII.lineFeed)
    }

    /// Backslash and line feed are escaped, nothing else.
    static func escapedHelp(_ text: String) -> String { escaped(text, quote: false) }

    /// Backslash, line feed and double quote are escaped, nothing else.
    static func escapedLabel(_ text: String) -> String { escaped(text, quote: true) }

    private static func escaped(_ text: String, quote: Bool) -> String {
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): result += [byte, byte]
            case ASCII.lineFeed: result += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
            case UInt8(ascii: "\"") where quote: result += [UInt8(ascii: "\\"), byte]
            default: result.append(byte)
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Exact: whole seconds and up to nine decimals.
    static func seconds(_ nanoseconds: UInt64) -> String {
        let (whole, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        guard rest > 0 else { return "\(whole)" }
        var decimals = Array("\(1_000_000_000 + rest)".utf8.dropFirst())
        while decimals.last == UInt8(ascii: "0") { decimals.removeLast() }
        return "\(whole)." + String(decoding: decimals, as: UTF8.self)
    }

    /// `NaN`, `+Inf`, `-Inf`, whole numbers without a point, others as the shortest decimal that reads back the same.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value), whole.magnitude < 1 << 53 { return "\(whole)" }
        return "\(value)"
    }
}

extension Family {
    struct Row {
        enum Value { case number(String), histogram(cells: [UInt64], nanoseconds: UInt64) }
        let labels: [String]
        let value: Value
    }

    /// What the family holds now, ordered by label values. Calls the callbacks; where two rows have the same labels, the first stays:
    /// a scraper refuses the whole page for a repeated series.
    func rows() -> [Row] {
        var rows = series.map { labels, series in
            switch series {
            case .counter(let counter): Row(labels: labels, value: .number("\(counter.value)"))
            case .gauge(let gauge): Row(labels: labels, value: .number("\(gauge.value)"))
            case .histogram(let histogram):
                Row(
                    labels: labels,
                    value: .histogram(cells: histogram.snapshot.cells, nanoseconds: histogram.snapshot.nanoseconds))
            }
        }
        var seen = Set(series.keys)
        for read in callbacks {
            for reading in read() where reading.labels.count == labels.count && seen.count < Metrics.maxSeries {
                guard seen.insert(reading.labels).inserted else { continue }
                rows.append(Row(labels: reading.labels, value: .number(PrometheusText.number(reading.value))))
            }
        }
        return rows.sorted { $0.labels.lexicographicallyPrecedes($1.labels) }
    }
}
