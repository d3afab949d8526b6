import Primitives

/// Why something is not written into a head.
package enum FieldError: String, Error, Equatable, Sendable, CaseIterable {
    /// CR, LF, NUL or another control character in a value: it could end the line and begin another.
    case invalidValue = "invalid_value"
    /// A field that decides framing, routing or the connection; only the encoder of the whole message writes those.
    case reservedName = "reserved_name"
    /// A request-target with white space, control characters or anything beyond ASCII.
    case invalidTarget = "invalid_target"
}

/// Field lines that are encoded already and go out as they are. May hold credentials: prints and reflects as `<redacted>`.
package struct FieldBlock: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// `name: value` CRLF, any number of times; without the empty line.
    package private(set) var bytes: [UInt8] = []
    private(set) var entries: [Fields.Entry] = []

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    /// Nothing is appended when this throws.
    package mutating func append(_ name: FieldName, _ value: String) throws(FieldError) {
        try append(name, prefix: "", value: Array(value.utf8).span.bytes)
    }

    package mutating func append(_ name: FieldName, bytes value: RawSpan) throws(FieldError) {
        try append(name, prefix: "", value: value)
    }

    /// `prefix` stands before the secret, such as `Bearer `.
    package mutating func append(_ name: FieldName, secret: Secret, prefix: String = "") throws(FieldError) {
        try secret.withUnsafeBytes { (value) throws(FieldError) in
            try append(name, prefix: prefix, value: value.bytes)
        }
    }

    /// A value from our own source. A control character or a reserved name in it is a mistake there and stops the process.
    package mutating func append(_ name: FieldName, literal value: StaticString) {
        precondition(!name.isReserved, "reserved field name")
        value.withUTF8Buffer {
            precondition($0.allSatisfy(\.isFieldContent), "control character in a field value")
            write(name, prefix: "", value: UnsafeRawBufferPointer($0).bytes)
        }
    }

    private mutating func append(_ name: FieldName, prefix: String, value: RawSpan) throws(FieldError) {
        guard !name.isReserved else { throw .reservedName }
        guard prefix.utf8.allSatisfy(\.isFieldContent), value.firstControl(from: 0, to: value.byteCount) == value.byteCount
        else { throw .invalidValue }
        write(name, prefix: prefix, value: value)
    }

    private mutating func write(_ name: FieldName, prefix: String, value: RawSpan) {
        let start = bytes.count
        bytes.append(contentsOf: name.bytes)
        let nameEnd = bytes.count
        bytes.append(contentsOf: [UInt8(ascii: ":"), UInt8(ascii: " ")])
        let valueStart = bytes.count
        bytes.append(contentsOf: prefix.utf8)
        bytes.append(value)
        let written = bytes.span.bytes.trimmed(valueStart..<bytes.count)
        entries.append(Fields.Entry(name: start..<nameEnd, value: written))
        bytes.append(contentsOf: [ASCII.carriageReturn, ASCII.lineFeed])
    }

    package var description: String { "<redacted>" }
    package var debugDescription: String { "<redacted>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension Array where Element == UInt8 {
    /// The bytes of a span, copied to the end.
    package mutating func append(_ span: RawSpan) {
        span.withUnsafeBytes { append(contentsOf: $0) }
    }
}
