/// Where a value stands in an object of claims: the name of a claim, taken literally with dots and all, or with a leading `/` a JSON
/// pointer (RFC 6901).
package struct ClaimPath: Sendable, Hashable, CustomStringConvertible {
    private enum Place: Sendable, Hashable {
        case name(String, JSONName)
        case pointer(JSONPointer)
    }
    private let place: Place

    /// `nil` where the text is empty or starts with `/` and is no JSON pointer.
    package init?(_ text: String) {
        if text.utf8.first == UInt8(ascii: "/") {
            guard let pointer = JSONPointer(text) else { return nil }
            place = .pointer(pointer)
        } else if text.isEmpty {
            return nil
        } else {
            place = .name(text, JSONName(text))
        }
    }

    private init(place: Place) { self.place = place }

    /// The claim of this name, whatever characters are in it.
    package static func claim(_ name: String) -> ClaimPath { ClaimPath(place: .name(name, JSONName(name))) }

    package func value(in claims: JSONObject) -> JSONValue? {
        switch place {
        case .name(let name, let key): claims.value(name, key)
        case .pointer(let pointer): claims[pointer]
        }
    }

    /// The member `name` next to the value, in the same object.
    package func sibling(_ name: String, in claims: JSONObject) -> JSONValue? {
        switch place {
        case .name: return claims[name]
        case .pointer(let pointer):
            guard let slash = pointer.text.utf8.lastIndex(of: UInt8(ascii: "/")),
                let parent = JSONPointer(String(pointer.text[..<slash]))
            else { return nil }
            return claims[parent]?.object?[name]
        }
    }

    /// The way down from the claims.
    package var names: [String] {
        switch place {
        case .name(let name, _): [name]
        case .pointer(let pointer): pointer.tokens
        }
    }

    package var description: String {
        switch place {
        case .name(let name, _): name
        case .pointer(let pointer): pointer.text
        }
    }

    /// Who can write a claim: what people set for themselves must not decide who they are or what they may do.
    package enum Writer: Sendable, Equatable {
        /// The person, by design: Supabase's `user_metadata`, Clerk's `unsafe_metadata`.
        case person(claim: String)
        /// The person, at many identity providers.
        case oftenPerson(claim: String)
    }

    /// `nil` where nothing is known.
    package var writer: Writer? {
        let names = names
        if let first = names.first, ["user_metadata", "unsafe_metadata"].contains(first) { return .person(claim: first) }
        let often = names.first { ["preferred_username", "upn", "nickname"].contains($0) || $0.hasPrefix("custom:") }
        return often.map { .oftenPerson(claim: $0) }
    }
}
