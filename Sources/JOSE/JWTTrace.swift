/// The steps of a check, in their order. The raw value is the name shown to people.
package enum JWTStep: String, Sendable, CaseIterable {
    case format
    case critical = "crit"
    case algorithm = "alg"
    case type = "typ"
    case keyID = "kid"
    case signature
    case issuer = "iss"
    case audience = "aud"
    case expiration = "exp"
    case notBefore = "nbf"
    case lifetime
    case subject = "sub"
    case binding = "cnf"
}

/// Collects what each step found, for `explain`. The request path passes `nil` and pays nothing.
package final class JWTTrace {
    package enum Verdict: String, Sendable {
        case ok, failed, skipped
    }

    package struct Entry: Sendable, Equatable {
        package let step: JWTStep
        package let verdict: Verdict
        package let text: String
    }

    /// Whether texts may hold values of claims; otherwise they say names, types and verdicts.
    package let showsClaims: Bool
    package private(set) var entries: [Entry] = []

    package init(showsClaims: Bool = false) { self.showsClaims = showsClaims }

    package func record(_ step: JWTStep, _ verdict: Verdict, _ text: String) {
        entries.append(Entry(step: step, verdict: verdict, text: text))
    }
}
