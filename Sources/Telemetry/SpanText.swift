import Primitives

/// Numbers of `opentelemetry.proto.trace.v1.Span.SpanKind`.
package enum SpanKind: Int, Sendable {
    case server = 2
    case client = 3
}

/// One span as JSON, as OTLP has it: the proto3 mapping with ids in lower-case hexadecimal, enumerations as numbers, and whole numbers of
/// 64 bits as decimal strings (OTLP 1.x, "JSON Protobuf Encoding"). Pure.
///
/// Written where the span ends, so that what waits to be exported is bytes of known size and nothing that could still be looked into.
package struct SpanText {
    /// Nearly every span fits, so its memory is asked for once.
    private static let expectedBytes = 1280

    package private(set) var bytes: [UInt8] = []
    private var hasAttribute = false

    /// Begins a span. Attributes follow, then ``end(isError:)``.
    ///
    /// - Parameters:
    ///   - context: the span's own.
    ///   - parent: 0 where there is none.
    ///   - hasRemoteParent: the parent is in another process.
    ///   - state: `tracestate`, already checked.
    ///   - name: of bounded variety.
    package init(
        _ context: TraceContext, parent: UInt64, hasRemoteParent: Bool, state: [UInt8] = [], kind: SpanKind, name: String,
        start: WallInstant, end: WallInstant
    ) {
        bytes.reserveCapacity(Self.expectedBytes)
        bytes.append(addingCapacity: 160) { output in
            output.append("{\"traceId\":\"")
            output.append(hex: context.traceHigh)
            output.append(hex: context.traceLow)
            output.append("\",\"spanId\":\"")
            output.append(hex: context.spanID)
            if parent != 0 {
                output.append("\",\"parentSpanId\":\"")
                output.append(hex: parent)
            }
            // Bits 0 to 7 are those of `traceparent`; 8 says that 9 is known, and 9 that the parent is remote.
            output.append(hasRemoteParent ? "\",\"flags\":769" : "\",\"flags\":257")
        }
        if !state.isEmpty {
            literal(",\"traceState\":")
            quoted(String(decoding: state, as: UTF8.self))
        }
        literal(",\"name\":")
        quoted(name)
        bytes.append(addingCapacity: 128) { output in
            output.append(",\"kind\":")
            output.append(decimal: kind.rawValue.magnitude)
            output.append(",\"startTimeUnixNano\":\"")
            output.append(decimal: Self.nanoseconds(start))
            output.append("\",\"endTimeUnixNano\":\"")
            // The wall clock is read once for both, so no step of it can come between them.
            output.append(decimal: max(Self.nanoseconds(start), Self.nanoseconds(end)))
            output.append("\",\"attributes\":[")
        }
    }

    package mutating func add(_ key: StaticString, _ text: String) {
        begin(key, "{\"stringValue\":")
        quoted(text)
        literal("}}")
    }

    package mutating func add(_ key: StaticString, _ number: Int) {
        begin(key, "{\"intValue\":\"")
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        bytes.append(addingCapacity: 20) { $0.append(decimal: number.magnitude) }
        literal("\"}}")
    }

    package mutating func add(_ key: StaticString, _ flag: Bool) {
        begin(key, "{\"boolValue\":")
        literal(flag ? "true}}" : "false}}")
    }

    /// - Parameter isError: `STATUS_CODE_ERROR`; a span without an error leaves its status unset, as instrumentation does.
    package mutating func end(isError: Bool) {
        literal(isError ? "],\"status\":{\"code\":2}}" : "],\"status\":{}}")
    }

    private mutating func begin(_ key: StaticString, _ value: StaticString) {
        bytes.append(addingCapacity: key.utf8CodeUnitCount + value.utf8CodeUnitCount + 24) { output in
            output.append(hasAttribute ? ",{\"key\":\"" : "{\"key\":\"")
            output.append(key)
            output.append("\",\"value\":")
            output.append(value)
        }
        hasAttribute = true
    }

    private mutating func literal(_ text: StaticString) { text.withUTF8Buffer { bytes.append(contentsOf: $0) } }

    private mutating func quoted(_ text: String) { OTLPText.append(text, to: &bytes) }

    /// Times before 1970 cannot be said.
    private static func nanoseconds(_ instant: WallInstant) -> UInt { UInt(max(0, instant.nanosecondsSinceEpoch)) }
}

enum OTLPText {
    /// A JSON string.
    static func append(_ text: String, to bytes: inout [UInt8]) {
        var text = text
        let isPlain = text.withUTF8 { utf8 in
            guard utf8.allSatisfy(PlainText.isPlain) else { return false }
            bytes.append(addingCapacity: utf8.count + 2) { output in
                output.append(UInt8(ascii: "\""))
                output.append(utf8)
                output.append(UInt8(ascii: "\""))
            }
            return true
        }
        // A list of one, without its brackets.
        if !isPlain { bytes.append(contentsOf: LogLine.json([text]).dropFirst().dropLast()) }
    }
}

/// What stands around the spans of one process in every export: `ExportTraceServiceRequest` with one resource and one scope. Pure.
package struct SpanEnvelope: Sendable {
    private let head: [UInt8]
    private static let tail = Array("]}]}]}".utf8)

    /// - Parameters:
    ///   - resource: who says it.
    ///   - scope: name and version of what made the spans.
    package init(resource: [(key: StaticString, value: String)], scope: (name: String, version: String)) {
        var head = Array("{\"resourceSpans\":[{\"resource\":{\"attributes\":[".utf8)
        for (index, attribute) in resource.enumerated() {
            head += Array("\(index > 0 ? "," : ""){\"key\":\"\(attribute.key)\",\"value\":{\"stringValue\":".utf8)
            OTLPText.append(attribute.value, to: &head)
            head += Array("}}".utf8)
        }
        head += Array("]},\"scopeSpans\":[{\"scope\":{\"name\":".utf8)
        OTLPText.append(scope.name, to: &head)
        head += Array(",\"version\":".utf8)
        OTLPText.append(scope.version, to: &head)
        head += Array("},\"spans\":[".utf8)
        self.head = head
    }

    /// The content of one export.
    package func content(_ spans: [[UInt8]]) -> [UInt8] {
        var content: [UInt8] = []
        content.reserveCapacity(head.count + spans.reduce(0) { $0 + $1.count + 1 } + Self.tail.count)
        content += head
        for (index, span) in spans.enumerated() {
            if index > 0 { content.append(UInt8(ascii: ",")) }
            content += span
        }
        content += Self.tail
        return content
    }
}
