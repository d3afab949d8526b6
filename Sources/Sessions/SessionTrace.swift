/// The steps of one verification, for `explain`. Confined to whoever made it; requests have none.
///
/// Texts name types, names and verdicts. Claim values are in them only with ``showsClaimValues``, the token and keys never.
package final class SessionTrace {
    package enum Outcome: String, Sendable { case ok, failed, skipped }

    package struct Line: Sendable, Hashable, CustomStringConvertible {
        package var step: String
        package var outcome: Outcome
        package var text: String
        package var description: String { "\(step): \(outcome.rawValue): \(text)" }
    }

    package let showsClaimValues: Bool
    package private(set) var lines: [Line] = []

    package init(showsClaimValues: Bool = false) { self.showsClaimValues = showsClaimValues }

    package func record(_ step: String, _ outcome: Outcome, _ text: String) {
        lines.append(Line(step: step, outcome: outcome, text: text.printable))
    }

    package var firstFailure: Line? { lines.first { $0.outcome == .failed } }
}

extension String {
    /// For a terminal or a log: what a caller chose (an `alg`, a `kid`) can neither start a line of its own nor fill the screen.
    var printable: String {
        var text = ""
        for scalar in unicodeScalars.prefix(200) {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: text += "?"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return unicodeScalars.dropFirst(200).isEmpty ? text : text + "…"
    }
}
