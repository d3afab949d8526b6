import StrictJSON

/// Where the value stands: `end_user_id.from`.
package enum ClaimSource: Sendable, Equatable, CustomStringConvertible {
    /// The session's subject, whatever the verifier takes it from.
    case subject
    /// A member of the claims. Its name is taken literally, dots and all.
    case claim(String)
    /// With a leading `/`: RFC 6901.
    case pointer(JSONPointer)

    /// `nil` for an empty text and for a pointer that is none.
    package init?(_ text: String) {
        if text == "subject" {
            self = .subject
        } else if text.utf8.first == UInt8(ascii: "/") {
            guard let pointer = JSONPointer(text) else { return nil }
            self = .pointer(pointer)
        } else {
            guard !text.isEmpty else { return nil }
            self = .claim(text)
        }
    }

    package var description: String {
        switch self {
        case .subject: "subject"
        case .claim(let name): name
        case .pointer(let pointer): pointer.text
        }
    }

    /// The way down from the claims; empty for the subject.
    var names: [String] {
        switch self {
        case .subject: []
        case .claim(let name): [name]
        case .pointer(let pointer): pointer.tokens
        }
    }

    func value(_ claims: JSONObject, subject: String?) -> JSONValue? {
        switch self {
        case .subject: subject.map(JSONValue.string)
        case .claim(let name): claims[name]
        case .pointer(let pointer): claims[pointer]
        }
    }

    /// The member next to the value, in the same object.
    func sibling(_ name: String, _ claims: JSONObject) -> JSONValue? {
        switch self {
        case .subject: nil
        case .claim: claims[name]
        case .pointer(let pointer):
            parent(pointer).flatMap { claims[$0] }?.object?[name]
        }
    }

    private func parent(_ pointer: JSONPointer) -> JSONPointer? {
        guard let slash = pointer.text.utf8.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        return JSONPointer(String(pointer.text[..<slash]))
    }

    /// Claims that people can often set for themselves at their identity provider.
    var isOftenUserWritable: Bool {
        names.contains { ["preferred_username", "upn", "nickname"].contains($0) || $0.hasPrefix("custom:") }
    }

    /// Claims that people can set for themselves by design (Supabase's `user_metadata`, Clerk's `unsafe_metadata`).
    var isUserWritable: Bool { names.first.map { ["user_metadata", "unsafe_metadata"].contains($0) } ?? false }
}
