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
        for entry in entries where matches(entry, name) { count += 1 }
        return count
    }

    package func contains(_ name: FieldName) -> Bool {
        for entry in entries where matches(entry, name) { return true }
        return false
    }

    /// The value of the first line of that name. A slice of the head's own bytes; copying it out is the caller's choice.
    package func first(_ name: FieldName) -> ArraySlice<UInt8>? {
        for entry in entries where matches(entry, name) { return storage[entry.value] }
        return nil
    }

    /// The value, if there is exactly one line of that name and it is valid UTF-8.
    package func string(_ name: FieldName) -> String? {
        var found: Range<Int>?
        for entry in entries where matches(entry, name) {
            guard found == nil else { return nil }
            found = entry.value
        }
        guard let found else { return nil }
        return String(validating: storage[found], as: UTF8.self)
    }

    package func values(_ name: FieldName) -> [ArraySlice<UInt8>] {
        entries.lazy.filter { matches($0, name) }.map { storage[$0.value] }
    }

    /// Every line in order, the name as it was sent.
    package func forEach<Failure: Error>(
        _ body: (_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) throws(Failure) -> Void
    ) throws(Failure) {
        for entry in entries { try body(storage[entry.name], storage[entry.value]) }
    }

    /// Whether a comma-separated list, over all lines of that name, has this member (without case; `member` in lower case).
    package func listContains(_ name: FieldName, _ member: StaticString) -> Bool {
        for entry in entries where matches(entry, name) {
            if storage.span.bytes.listContains(entry.value, member) { return true }
        }
        return false
    }

    @inline(__always)
    private func matches(_ entry: Entry, _ name: FieldName) -> Bool {
        let length = Int(entry.nameEnd &- entry.nameStart)
        guard length == name.bytes.count else { return false }
        let start = Int(entry.nameStart)
        // The last byte tells most names of one length apart.
        guard length > 0, storage[start &+ length &- 1].lowercasedASCII == name.bytes[length &- 1] else { return false }
        var offset = 0
        while offset < length &- 1 {
            if storage[start &+ offset].lowercasedASCII != name.bytes[offset] { return false }
            offset &+= 1
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
