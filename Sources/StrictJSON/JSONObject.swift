/// A name's length and its first seven bytes in one word: tells most names apart, and short ones for certain, without a look at the text.
package struct JSONName: Sendable, Hashable {
    @usableFromInline let word: UInt64

    package init(_ name: String) {
        var word: UInt64 = 0
        for byte in name.utf8.prefix(7) { word = word << 8 | UInt64(byte) }
        self.init(firstBytes: word, count: name.utf8.count)
    }

    /// - Parameter firstBytes: up to seven, the last one lowest.
    @inline(__always)
    init(firstBytes: UInt64, count: Int) { word = firstBytes << 8 | UInt64(min(count, 255)) }

    /// Nothing of the name is missing here: equal keys are equal names.
    @inline(__always)
    var isWhole: Bool { word & 0xFF <= 7 }

    /// The name, where it is whole.
    var text: String {
        String(unsafeUninitializedCapacity: 7) { text in
            let count = Int(word & 0xFF)
            for index in 0..<count { text[index] = UInt8(truncatingIfNeeded: word >> UInt64(8 * (count - index))) }
            return count
        }
    }

    // By hand, because the one the compiler adds is called through a table from other targets.
    @inlinable
    package static func == (left: Self, right: Self) -> Bool { left.word == right.word }
}

/// One member of an object. Equal when the names have the same bytes and the values are equal.
package struct JSONMember: Sendable, Equatable {
    /// Empty where the key is whole: most names are asked for by their keys only.
    private let longName: String
    package let value: JSONValue
    package let key: JSONName

    package var name: String { key.isWhole ? key.text : longName }

    package init(name: String, value: JSONValue) {
        self.init(longName: name, key: JSONName(name), value: value)
    }

    /// For the parser, which has made the key of the bytes.
    ///
    /// - Parameter longName: not looked at where the key is whole.
    init(longName: String, key: JSONName, value: JSONValue) {
        self.longName = key.isWhole ? "" : longName
        self.key = key
        self.value = value
    }

    /// Whether the name has exactly these bytes.
    @inline(__always)
    func isNamed(_ other: String, _ otherKey: JSONName) -> Bool {
        key == otherKey && (key.isWhole || longName.hasSameBytes(as: other))
    }

    package static func == (left: JSONMember, right: JSONMember) -> Bool {
        left.isNamed(right.longName, right.key) && left.value == right.value
    }
}

/// An object: its members in the order of the text, every name once.
package struct JSONObject: Sendable {
    package private(set) var members: [JSONMember]

    package init() { members = [] }

    /// A name that comes twice keeps its first place and its last value.
    package init(_ members: [JSONMember]) {
        self.members = []
        self.members.reserveCapacity(members.count)
        for member in members { self[member.name] = member.value }
    }

    /// For the parser, which has refused repeated names already.
    init(distinct members: [JSONMember]) { self.members = members }

    package var isEmpty: Bool { members.isEmpty }
    package var count: Int { members.count }

    /// The same as the subscript, for whoever has the key at hand.
    @inline(__always)
    func value(_ name: String, _ key: JSONName) -> JSONValue? {
        for index in members.indices where members[index].isNamed(name, key) { return members[index].value }
        return nil
    }

    /// The value of the member whose name has exactly these bytes. Setting `nil` removes the member.
    ///
    /// - Complexity: O(members). A reader of many names goes through ``members`` once instead.
    package subscript(name: String) -> JSONValue? {
        get { value(name, JSONName(name)) }
        set {
            let index = members.firstIndex { $0.name.hasSameBytes(as: name) }
            switch (index, newValue) {
            case (let index?, let value?): members[index] = JSONMember(name: name, value: value)
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append(JSONMember(name: name, value: value))
            case (nil, nil): break
            }
        }
    }
}

extension JSONObject: Equatable {
    /// Without regard to the order of the members.
    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        guard left.count == right.count else { return false }
        // Same order is the usual case, and costs no look-ups.
        if left.members == right.members { return true }
        var values: [NameKey: JSONValue] = [:]
        for member in right.members { values[NameKey(member.name)] = member.value }
        return left.members.allSatisfy { values[NameKey($0.name)] == $0.value }
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(elements.map { JSONMember(name: $0.0, value: $0.1) })
    }
}

/// A name as a set element: hashed (seeded per process, so that collisions cannot be prepared) and compared by its bytes.
package struct NameKey: Hashable, Sendable {
    private let name: String
    package init(_ name: String) { self.name = name }

    package static func == (left: NameKey, right: NameKey) -> Bool { left.name.hasSameBytes(as: right.name) }

    package func hash(into hasher: inout Hasher) {
        var name = name
        name.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
