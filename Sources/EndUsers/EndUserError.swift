/// Why a session has no end-user ID.
package enum EndUserError: Error, Equatable, Sendable {
    /// The session is good and names nobody.
    case noEndUser(Missing)
    /// The mapping produced what January would refuse: a fault of the configuration. No call to January.
    case invalid(Invalid)

    package enum Missing: String, Sendable, CaseIterable {
        /// No such claim, or no subject.
        case missing
        /// Neither a string nor an integer of at most 2^53.
        case wrongType = "wrong_type"
        /// `email` without `email_verified`.
        case unverifiedEmail = "unverified_email"
    }

    package enum Invalid: String, Sendable, CaseIterable {
        /// Empty, or nothing but white space.
        case blank
        case tooLong = "too_long"
        case controlCharacter = "control_character"
        case lineSeparator = "line_separator"
        case whiteSpaceAtEnds = "white_space_at_ends"
        case looksLikeEmail = "looks_like_email"
    }

    /// Stable `code` of the error body.
    package var code: StaticString {
        switch self {
        case .noEndUser: "no_end_user"
        case .invalid: "invalid_end_user_id"
        }
    }

    /// Bounded: metric label and log field.
    package var reason: String {
        switch self {
        case .noEndUser(let reason): reason.rawValue
        case .invalid(let reason): reason.rawValue
        }
    }
}
