import JOSE
import Primitives
import StrictJSON

/// What is wrong with a control request: 400 `invalid_request`, 404 `not_found`.
struct ControlError: Error, Equatable {
    let status: Int
    let message: String
    init(_ message: String, status: Int = 400) {
        self.status = status
        self.message = message
    }
}

/// A JSON object that is read member by member; one that nobody asked for is a mistake, not a wish to be ignored.
struct ControlObject {
    private let object: JSONObject
    private let place: String
    private var asked: [String] = []

    init(_ object: JSONObject, place: String = "") {
        self.object = object
        self.place = place
    }

    init(_ body: [UInt8]) throws(ControlError) {
        guard !body.isEmpty else {
            self.init(JSONObject())
            return
        }
        let value: JSONValue
        do {
            value = try JSONValue.parse(body.span.bytes, limits: JSONLimits(bytes: 1_048_576))
        } catch {
            throw ControlError("the body is not JSON: \(error)")
        }
        guard let object = value.object else { throw ControlError("the body must be a JSON object") }
        self.init(object)
    }

    /// `nil` when it is absent; `.null` is a value.
    mutating func value(_ name: String) -> JSONValue? {
        asked.append(name)
        return object[name]
    }

    private mutating func read<Value>(
        _ name: String, _ kind: StaticString, _ convert: (JSONValue) -> Value?
    ) throws(ControlError) -> Value? {
        guard let value = value(name), !value.isNull else { return nil }
        guard let converted = convert(value) else { throw ControlError("\(place)\(name) must be \(kind)") }
        return converted
    }

    mutating func string(_ name: String) throws(ControlError) -> String? { try read(name, "a string", \.string) }
    mutating func bool(_ name: String) throws(ControlError) -> Bool? { try read(name, "true or false", \.bool) }
    mutating func object(_ name: String) throws(ControlError) -> JSONObject? { try read(name, "an object", \.object) }

    mutating func nested(_ name: String) throws(ControlError) -> ControlObject? {
        try object(name).map { ControlObject($0, place: "\(place)\(name).") }
    }

    mutating func integer(_ name: String, _ range: ClosedRange<Int> = 0...Int.max) throws(ControlError) -> Int? {
        try read(name, "an integer in its range") { value in
            value.number?.integer.map { Int($0) }.flatMap { range.contains($0) ? $0 : nil }
        }
    }

    mutating func double(_ name: String, _ range: ClosedRange<Double>) throws(ControlError) -> Double? {
        try read(name, "a number in its range") { value in
            value.number?.double.flatMap { range.contains($0) ? $0 : nil }
        }
    }

    /// Up to a hundred years.
    mutating func seconds(_ name: String, negative: Bool = false) throws(ControlError) -> Duration? {
        try double(name, (negative ? -3.2e9 : 0)...3.2e9).map { .nanoseconds(Int64($0 * 1e9)) }
    }

    mutating func milliseconds(_ name: String) throws(ControlError) -> Duration? {
        try double(name, 0...3.2e9).map { .nanoseconds(Int64($0 * 1e6)) }
    }

    mutating func strings(_ name: String) throws(ControlError) -> [String]? {
        try read(name, "an array of strings") { value in
            guard let array = value.array else { return nil }
            let strings = array.compactMap(\.string)
            return strings.count == array.count ? strings : nil
        }
    }

    mutating func stringOrStrings(_ name: String) throws(ControlError) -> [String]? {
        if let text = value(name)?.string { return [text] }
        return try strings(name)
    }

    mutating func integers(_ name: String) throws(ControlError) -> [Int]? {
        try read(name, "an array of integers") { value in
            guard let array = value.array else { return nil }
            let integers = array.compactMap { $0.number?.integer.map { Int($0) } }
            return integers.count == array.count ? integers : nil
        }
    }

    mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ name: String, of: Choice.Type = Choice.self
    ) throws(ControlError) -> Choice? where Choice.RawValue == String {
        guard let text = try string(name) else { return nil }
        return try Self.choice(text, place + name)
    }

    static func choice<Choice: RawRepresentable & CaseIterable>(
        _ text: String, _ name: String
    ) throws(ControlError) -> Choice where Choice.RawValue == String {
        guard let choice = Choice(rawValue: text) else {
            throw ControlError("\(name) must be one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return choice
    }

    /// To be called when everything was read.
    func finish() throws(ControlError) {
        for member in object.members where !asked.contains(where: { $0.hasSameBytes(as: member.name) }) {
            throw ControlError("\(place)\(member.name) is not known here")
        }
    }
}
