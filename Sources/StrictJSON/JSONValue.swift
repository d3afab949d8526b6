import Primitives

/// One JSON value (RFC 8259 section 3).
package enum JSONValue: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    package var isNull: Bool {
        if case .null = self { true } else { false }
    }
    package var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }
    package var number: JSONNumber? {
        if case .number(let value) = self { value } else { nil }
    }
    package var string: String? {
        if case .string(let value) = self { value } else { nil }
    }
    package var array: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }
    package var object: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }

    /// The kind of value for messages: "null", "boolean", "number", "string", "array" or "object".
    package var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "boolean"
        case .number: "number"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        }
    }
}

extension JSONValue: Equatable {
    /// By value: numbers as numbers, strings byte for byte, objects without regard to order.
    package static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left.hasSameBytes(as: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        case (.null, _), (.bool, _), (.number, _), (.string, _), (.array, _), (.object, _): false
        }
    }
}

// No `nil` literal: where a `JSONValue?` is expected it would be taken for JSON's null in some places and for nothing in others.
extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(integerLiteral value: Int64) { self = .number(JSONNumber(value)) }
    /// Infinity and NaN have no JSON number; they become `null`.
    package init(floatLiteral value: Double) { self = JSONNumber(value).map(JSONValue.number) ?? .null }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    package init(stringLiteral value: String) { self = .string(value) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(JSONObject(elements.map { JSONMember(name: $0.0, value: $0.1) }))
    }
}

extension String {
    /// `==` on `String` is Unicode canonical equivalence; names and values in protocols are octets.
    package func hasSameBytes(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        // Strings of Swift's own are contiguous: compared as memory, not through an iterator.
        let equal = utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in Bytes.equal(left, right) }
        }
        return (equal ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
