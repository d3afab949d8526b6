import Primitives

/// What January knows about an API key. A key that is in no table is unknown: 401.
package enum KeyState: String, Sendable, Hashable, CaseIterable {
    /// A key of this API version.
    case valid
    /// A key of another API version: 403 `forbidden` everywhere.
    case otherVersion = "other_version"
    /// Once valid, now deleted: answered like an unknown key.
    case deleted
}

/// The order of January's checks on a mint is not published.
package enum MintCheck: String, Sendable, Hashable, CaseIterable {
    /// Is there a key, is it known, is it of this version?
    case key
    /// Are client tokens configured in this environment? 503 `service_unavailable`
    case configured
    /// Are client tokens switched on for the account? 403 `forbidden`
    case enabled
    /// The mint limit. 429 `rate_limited`
    case rate
    /// The request's members. 400 `invalid_request`
    case body
}

/// What January does with a scope that is listed twice.
package enum DuplicateScopes: String, Sendable, Hashable, CaseIterable {
    /// Granted and echoed as sent.
    case keep
    /// Granted and echoed once.
    case collapse
    /// 400 `invalid_request`
    case refuse
}

package enum UnknownMembers: String, Sendable, Hashable, CaseIterable {
    case ignore
    case refuse
}

/// What the 64 of `end_user_id` counts.
package enum LengthUnit: String, Sendable, Hashable, CaseIterable {
    case characters
    case scalars
    case utf16
    case bytes

    func count(_ text: String) -> Int {
        switch self {
        case .characters: text.count
        case .scalars: text.unicodeScalars.count
        case .utf16: text.utf16.count
        case .bytes: text.utf8.count
        }
    }
}

/// A monthly ceiling that is used up: 429 with this code and never a `Retry-After`, on everything but credits.
package enum SpentCeiling: String, Sendable, Hashable, CaseIterable {
    case requests = "request_limit_exceeded"
    case credits = "credit_limit_exceeded"
}

package struct RateLimit: Sendable, Hashable {
    package var count: Int
    package var window: Duration

    package init(_ count: Int, per window: Duration) {
        self.count = count
        self.window = window
    }
}

/// January's side of the contract, as far as it can differ or is not established. Everything may be changed while running.
package struct SimulatorSettings: Sendable, Equatable {
    package static let developmentKey = "sk-simulator-development-only-0000000000000000"

    /// API keys by their text.
    package var keys: [String: KeyState] = [developmentKey: .valid]
    /// Off: mint is 403 `forbidden`; revocation and credits go on.
    package var clientTokensEnabled = true
    /// Off: mint and revocation are 503 `service_unavailable`.
    package var clientTokensConfigured = true
    /// Those left out come last, in the order of the enum.
    package var mintCheckOrder: [MintCheck] = MintCheck.allCases
    package var duplicateScopes = DuplicateScopes.collapse
    package var unknownMembers = UnknownMembers.ignore
    package var lengthUnit = LengthUnit.characters
    /// How long after its expiry a token answers `token_expired`; then it is `token_invalid`. Not published.
    package var purgeDelay: Duration = .seconds(300)
    /// How long after its revocation a token still works. January's authentication cache: 0…60 s.
    package var revocationDelay: Duration = .zero
    /// A token minted at most this long before a revocation may survive it; none by default.
    package var revocationRaceWindow: Duration?
    /// One revocation stops at most this many tokens.
    package var revocationBatch = 500
    /// `nil`: no limit. January publishes no number for mint and revocation.
    package var mintLimit: RateLimit?
    package var revokeLimit: RateLimit?
    package var creditsLimit: RateLimit? = RateLimit(60, per: .seconds(60))
    /// Whether a 429 `rate_limited` says when to come back.
    package var sendsRetryAfter = true
    /// `Retry-After` of every 503 of January's own, in seconds. Not documented.
    package var unavailableRetryAfter: Int?
    package var spentCeiling: SpentCeiling?
    /// The early error body had a third member.
    package var docsURL: String?
    package var credits = CreditsDocument()

    package init() {}

    /// Every check exactly once.
    var completeMintCheckOrder: [MintCheck] {
        var order: [MintCheck] = []
        for check in mintCheckOrder + MintCheck.allCases where !order.contains(check) { order.append(check) }
        return order
    }
}

/// `GET /v1.2/credits`. `nil` where January says `null`: no ceiling.
package struct CreditsDocument: Sendable, Equatable {
    package var plan = "development"
    package var includedCredits: Int? = 10_000
    package var usedCredits = 0

    package init() {}
}
