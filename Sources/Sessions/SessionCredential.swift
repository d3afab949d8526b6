import HTTPMessage
import Primitives

/// A place of a request where a session may be (`sessions.from`).
package enum CredentialPlace: Sendable, Hashable {
    /// `Authorization: Bearer …` (RFC 6750 section 2.1).
    case bearer
    /// A field of the app's own, whose whole value is the session.
    case header(FieldName)

    package var text: String {
        switch self {
        case .bearer: "the Authorization field"
        case .header(let name): "the field \(name)"
        }
    }
}

/// What the app sent to say who it is. Lives as long as its request; never printed.
package struct SessionCredential: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package static let maxBytes = 16 * 1024

    package let place: CredentialPlace
    package let bytes: ArraySlice<UInt8>

    /// A credential by itself, as `explain` gets it.
    package init(_ bytes: ArraySlice<UInt8>, place: CredentialPlace = .bearer) {
        self.bytes = bytes
        self.place = place
    }

    package var description: String { "<redacted>" }
    package var debugDescription: String { "<redacted>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension SessionCredential {
    /// Looks through `places` in their order. The first one that holds a credential decides, good or bad: a second is never tried in
    /// its stead, or whoever can add one field could choose between two sessions.
    package static func find(in fields: Fields, places: [CredentialPlace]) throws(SessionRefusal) -> SessionCredential {
        for place in places {
            if let bytes = try find(in: fields, place: place) { return SessionCredential(bytes, place: place) }
        }
        throw SessionRefusal.noSession
    }

    private static func find(in fields: Fields, place: CredentialPlace) throws(SessionRefusal) -> ArraySlice<UInt8>? {
        switch place {
        case .bearer:
            guard let value = try only(.authorization, in: fields) else { return nil }
            guard let rest = bearerCredentials(value) else { return nil }
            if rest.count > maxBytes { throw SessionRefusal.credentialTooLarge }
            guard isToken68(rest) else { throw SessionRefusal.malformedCredential }
            return rest
        case .header(let name):
            guard let value = try only(name, in: fields), !value.isEmpty else { return nil }
            if value.count > maxBytes { throw SessionRefusal.credentialTooLarge }
            return value
        }
    }

    /// Two fields of one name are two readings of one request: refused, whichever of them is good.
    private static func only(_ name: FieldName, in fields: Fields) throws(SessionRefusal) -> ArraySlice<UInt8>? {
        switch fields.single(name) {
        case .none: return nil
        case .one(let value): return value
        case .several: throw SessionRefusal.ambiguousCredential
        }
    }

    /// What follows `Bearer` and its spaces; `nil` where the scheme is another one (RFC 9110 section 11.1: compared without case).
    private static func bearerCredentials(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let scheme: StaticString = "bearer"
        let length = scheme.utf8CodeUnitCount
        guard value.count >= length else { return nil }
        for offset in 0..<length
        where ASCII.lowercased(value[value.startIndex + offset]) != scheme.utf8Start[offset] { return nil }
        var index = value.startIndex + length
        guard index < value.endIndex else { return [] }
        guard value[index] == ASCII.space else { return nil }
        while index < value.endIndex && value[index] == ASCII.space { index += 1 }
        return value[index...]
    }

    /// RFC 6750 section 2.1 (`b64token`), RFC 9110 section 11.2 (`token68`): one or more characters, then any number of `=`.
    private static func isToken68(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.withUnsafeBufferPointer { bytes in
            var end = bytes.count
            while end > 0 && bytes[end &- 1] == UInt8(ascii: "=") { end &-= 1 }
            var others: UInt8 = end > 0 ? 0 : 1
            var offset = 0
            // Without a branch, so that many bytes are looked at in one instruction.
            while offset < end {
                others |= isToken68Character(bytes[offset]) ? 0 : 1
                offset &+= 1
            }
            return others == 0
        }
    }

    /// Letters, digits and `-._~+/`. The run from `-` to `9` is `-`, `.`, `/` and the digits.
    @inline(__always)
    private static func isToken68Character(_ byte: UInt8) -> Bool {
        var found: UInt8 = (byte | 0x20) &- 0x61 < 26 ? 1 : 0
        found |= byte &- 0x2D < 13 ? 1 : 0
        found |= byte == UInt8(ascii: "+") ? 1 : 0
        found |= byte == UInt8(ascii: "_") ? 1 : 0
        found |= byte == UInt8(ascii: "~") ? 1 : 0
        return found != 0
    }
}
