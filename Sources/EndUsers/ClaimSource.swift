import StrictJSON

/// Where the value stands: `end_user_id.from`.
package enum ClaimSource: Sendable, Equatable, CustomStringConvertible {
    /// The session's subject, whatever the verifier takes it from.
    case subject
    case path(ClaimPath)

    /// `nil` for an empty text and for a pointer that is none.
    package init?(_ text: String) {
        if text == "subject" {
            self = .subject
        } else {
            guard let path = ClaimPath(text) else { return nil }
            self = .path(path)
        }
    }

    package var description: String {
        switch self {
        case .subject: "subject"
        case .path(let path): path.description
        }
    }

    /// The way down from the claims; empty for the subject.
    var names: [String] {
        switch self {
        case .subject: []
        case .path(let path): path.names
        }
    }

    func value(_ claims: JSONObject, subject: String?) -> JSONValue? {
        switch self {
        case .subject: subject.map(JSONValue.string)
        case .path(let path): path.value(in: claims)
        }
    }

    /// The member next to the value, in the same object.
    func sibling(_ name: String, _ claims: JSONObject) -> JSONValue? {
        switch self {
        case .subject: nil
        case .path(let path): path.sibling(name, in: claims)
        }
    }

    var writer: ClaimPath.Writer? {
        switch self {
        case .subject: nil
        case .path(let path): path.writer
        }
    }
}
