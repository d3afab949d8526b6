/// The field lines of one message, in order: one copy of the head's bytes and one index into it. Values are without the white space
/// around them. Look-ups compare names without case and cost one pass over the index.
package struct Fields: Sendable {
    /// Where one line's name and value stand in the storage.
    struct Entry: Sendable {
        let nameStart: UInt32
        let nameEnd: UInt32
        let valueStart: UInt32
        let valueEnd: UInt32

        init(name: Range<Int>, value: Range<Int>) {
            // Heads are bounded far below 4 GiB by their limits.
            nameStart = UInt32(truncatingIfNeeded: name.lowerBound)
            nameEnd = UInt32(truncatingIfNeeded: name.upperBound)
            valueStart = UInt32(truncatingIfNeeded: value.lowerBound)
            valueEnd = UInt32(truncatingIfNeeded: value.upperBound)
        }

        @inline(__always)
        var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
        @inline(__always)
        var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }
    }

    let storage: [UInt8]
    let entries: [Entry]

    init(storage: [UInt8], entries: [Entry]) {
        self.storage = storage
        self.entries = entries
    }

    package static let empty = Fields(storage: [], entries: [])

    /// The lines of an encoded block, as a peer would read them.
    package init(_ block: FieldBlock) {
        storage = block.bytes
        entries = block.entries
    }

    /// Number of field lines.
    package var count: Int { entries.count }
    package var isEmpty: Bool { entries.isEmpty }

    package func count(of name: FieldName) -> Int {
        var count = 0
        var next = index(of: name)
        while let index = next {
            count += 1
            next = self.index(of: name, from: index + 1)
        }
        return count
    }

    package func contains(_ name: FieldName) -> Bool { index(of: name) != nil }

    /// The value of the first line of that name. A slice of the head's own bytes; copying it out is the caller's choice.
    package func first(_ name: FieldName) -> ArraySlice<UInt8>? { index(of: name).map { storage[entries[$0].value] } }

    /// What the lines of one name come to, where only one of them can be right.
    package enum Single: Sendable {
        case none
        case one(ArraySlice<UInt8>)
        case several
    }

    package func single(_ name: FieldName) -> Single {
        guard let index = index(of: name) else { return .none }
        return self.index(of: name, from: index + 1) == nil ? .one(storage[entries[index].value]) : .several
    }

    /// The value, if there is exactly one line of that name and it is valid UTF-8.
    package func string(_ name: FieldName) -> String? {
        guard case .one(let value) = single(name) else { return nil }
        return String(validating: value, as: UTF8.self)
    }

    package func values(_ name: FieldName) -> [ArraySlice<UInt8>] {
        var values: [ArraySlice<UInt8>] = []
        var next = index(of: name)
        while let index = next {
            values.append(storage[entries[index].value])
            next = self.index(of: name, from: index + 1)
        }
        return values
    }

    /// Every line in order, the name as it was sent.
    package func forEach<Failure: Error>(
        _ body: (_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) throws(Failure) -> Void
    ) throws(Failure) {
        for entry in entries { try body(storage[entry.name], storage[entry.value]) }
    }

    /// Whether a comma-separated list, over all lines of that name, has this member (without case; `member` in lower case).
    package func listContains(_ name: FieldName, _ member: StaticString) -> Bool {
        var next = index(of: name)
        while let index = next {
            if storage.span.bytes.listContains(entries[index].value, member) { return true }
            next = self.index(of: name, from: index + 1)
        }
        return false
    }

    /// The first line of that name at or behind `start`. Over memory: nothing is looked up more often.
    private func index(of name: FieldName, from start: Int = 0) -> Int? {
        entries.withUnsafeBufferPointer { entries in
            storage.withUnsafeBufferPointer { storage in
                name.bytes.withUnsafeBufferPointer { name in
                    var index = start
                    while index < entries.count {
                        if Self.isNamed(entries[index], name, in: storage) { return index }
                        index &+= 1
                    }
                    return nil
                }
            }
        }
    }

    /// Entries are made by the parsers and lie within the storage.
    @inline(__always)
    private static func isNamed(
        _ entry: Entry, _ name: UnsafeBufferPointer<UInt8>, in storage: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        let length = Int(entry.nameEnd &- entry.nameStart)
        guard length == name.count, length > 0 else { return false }
        let start = Int(entry.nameStart)
        // From the end: the last bytes tell most names of one length apart.
        var offset = length &- 1
        while offset >= 0 {
            if storage[start &+ offset].lowercasedASCII != name[offset] { return false }
            offset &-= 1
        }
        return true
    }
}

extension RawSpan {
    /// One member of a comma-separated list (RFC 9110 section 5.6.1), `member` in lower case. Empty members are passed over.
    func listContains(_ list: Range<Int>, _ member: StaticString) -> Bool {
        var start = list.lowerBound
        while start <= list.upperBound {
            var end = start
            while end < list.upperBound, self[at: end] != UInt8(ascii: ",") { end &+= 1 }
            if equals(trimmed(start..<end), ignoringCase: member) { return true }
            start = end &+ 1
        }
        return false
    }
}
