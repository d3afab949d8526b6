import Primitives

/// What other vendors have to say about a trace: the field `tracestate` (W3C Trace Context section 3.3). Passed on as it came, in its
/// order, and never read for meaning.
package enum TraceState {
    /// Section 3.3.1.1: a list has no more.
    package static let maxMembers = 32
    /// Section 3.3.1.5: so much has to be passed on; no more is.
    package static let maxBytes = 512
    /// Section 3.3.1.5: longer members go first where something has to go.
    package static let longMemberBytes = 128

    /// All lines as one list, in at most ``maxBytes``. Empty where there is none or where a member is malformed: then nothing of it can
    /// be trusted (section 4.3).
    package static func combined(_ lines: [ArraySlice<UInt8>]) -> [UInt8] {
        var members: [ArraySlice<UInt8>] = []
        for line in lines {
            var rest = line
            while !rest.isEmpty {
                let end = rest.firstIndex(of: UInt8(ascii: ",")) ?? rest.endIndex
                let member = trimmed(rest[rest.startIndex..<end])
                rest = rest[end...].dropFirst()
                // Empty members are allowed (section 3.3.1.1), and not passed on.
                if member.isEmpty { continue }
                guard members.count < maxMembers, let key = Self.key(of: member),
                    !members.contains(where: { Self.key(of: $0) == key })
                else { return [] }
                members.append(member)
            }
        }
        shorten(&members)
        return Array(members.joined(separator: CollectionOfOne(UInt8(ascii: ","))))
    }

    /// Long members first, then from the end, where the oldest are.
    private static func shorten(_ members: inout [ArraySlice<UInt8>]) {
        while members.reduce(-1, { $0 + $1.count + 1 }) > maxBytes {
            members.remove(at: members.lastIndex { $0.count > longMemberBytes } ?? members.count - 1)
        }
    }

    private static func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var text = text
        while let first = text.first, isBlank(first) { text.removeFirst() }
        while let last = text.last, isBlank(last) { text.removeLast() }
        return text
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == ASCII.space || byte == ASCII.horizontalTab }

    /// The key of `key "=" value`; `nil` where the member is none (sections 3.3.1.3.1 and 3.3.1.3.2).
    private static func key(of member: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let equals = member.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        let key = member[..<equals]
        let value = member[(equals + 1)...]
        // A value may hold blanks but does not end in one.
        guard (1...256).contains(value.count), value.allSatisfy(isValue), value.last != ASCII.space else { return nil }
        return isKey(key) ? key : nil
    }

    private static func isKey(_ key: ArraySlice<UInt8>) -> Bool {
        guard let at = key.firstIndex(of: UInt8(ascii: "@")) else {
            return (1...256).contains(key.count) && isLower(key.first) && key.allSatisfy(isKeyByte)
        }
        let tenant = key[..<at]
        let system = key[(at + 1)...]
        return (1...241).contains(tenant.count) && (isLower(tenant.first) || ASCII.isDigit(tenant.first ?? 0))
            && tenant.allSatisfy(isKeyByte)
            && (1...14).contains(system.count) && isLower(system.first) && system.allSatisfy(isKeyByte)
    }

    private static func isLower(_ byte: UInt8?) -> Bool { (byte ?? 0) &- 0x61 < 26 }

    private static func isKeyByte(_ byte: UInt8) -> Bool {
        if isLower(byte) || ASCII.isDigit(byte) { return true }
        switch byte {
        case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "*"), UInt8(ascii: "/"): return true
        default: return false
        }
    }

    /// Printable ASCII without comma and equals sign.
    private static func isValue(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7F && byte != UInt8(ascii: ",") && byte != UInt8(ascii: "=")
    }
}
