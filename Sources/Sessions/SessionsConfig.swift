import Configuration
import HTTPMessage
import JOSE
import Primitives

/// The section `sessions`: where a session is found and who verifies it.
package struct SessionsConfig: Sendable, Equatable {
    /// `from`, in order. Default: `[bearer]`.
    package var from: [CredentialPlace] = [.bearer]
    package var verifiers: [JWTVerifierConfig] = []

    package init(from: [CredentialPlace] = [.bearer], verifiers: [JWTVerifierConfig] = []) {
        self.from = from
        self.verifiers = verifiers
    }

    /// - Parameter endUserClaim: `end_user_id.from` where the configuration gives it. A token needs a `sub` unless this names another
    ///   claim.
    package static func read(_ section: ConfigSection, endUserClaim: String? = nil) -> SessionsConfig {
        var config = SessionsConfig(from: readPlaces(section))
        let sections = section.sections("verifiers")
        var names = VerifierNames(sections)
        var anyIssuer: String?
        for section in sections {
            guard let reader = JWTVerifierReader(section, endUserClaim: endUserClaim, names: &names) else { continue }
            let verifier = reader.read()
            if verifier.rules.issuers == nil, section.has("allow_any_issuer") {
                if let other = anyIssuer {
                    section.problem(
                        "allow_any_issuer", "\(other) accepts any issuer already, so no token would reach this verifier")
                }
                anyIssuer = anyIssuer ?? section.path
            }
            config.verifiers.append(verifier)
        }
        if sections.isEmpty {
            section.problem(
                "verifiers", "at least one verifier is required (or set AUTH_PROVIDER, or SESSION_ISSUER and what belongs to it)")
        }
        section.finish()
        return config
    }

    private static func readPlaces(_ section: ConfigSection) -> [CredentialPlace] {
        var places: [CredentialPlace] = []
        let items = section.items("from", default: ["bearer"])
        for item in items {
            guard let place = readPlace(item) else { continue }
            if places.contains(place) {
                item.problem("is in the list already")
            } else {
                places.append(place)
            }
        }
        if items.isEmpty { section.problem("from", "must name at least one place") }
        return places
    }

    private static func readPlace(_ item: ConfigItem) -> CredentialPlace? {
        let expected = "must be bearer or {header: \"X-Session\"}"
        guard let section = item.section else {
            if item.text == "bearer" { return .bearer }
            item.problem("\(expected) (got \"\((item.text ?? "").printable)\")")
            return nil
        }
        defer { section.finish() }
        switch section.keys {
        case ["header"]:
            guard let text = section.requiredString("header") else { return nil }
            guard let name = FieldName(parsing: text) else {
                section.invalid("header", "must be a field name")
                return nil
            }
            if let instead = reserved[name] {
                section.problem("header", instead)
                return nil
            }
            return .header(name)
        case ["cookie"]:
            section.problem("cookie", "sessions in cookies are not available in this version")
            return nil
        default:
            section.abandon()
            item.problem(expected)
            return nil
        }
    }

    /// Fields with a meaning of their own.
    private static let reserved: [FieldName: String] = [
        .authorization: "use bearer for the Authorization field",
        .cookie: "sessions in cookies are not available in this version",
        .host: "is not a field for sessions", .connection: "is not a field for sessions",
        .contentLength: "is not a field for sessions", .transferEncoding: "is not a field for sessions",
    ]
}

/// Names of verifiers: as given, else preset or type with `-2`, `-3`.
struct VerifierNames {
    private var owners: [String: String] = [:]

    /// Names that are given are taken before any is made up.
    init(_ sections: [ConfigSection]) {
        for section in sections where section.has("name") {
            guard let name = section.string("name") else { continue }
            if let owner = owners[name] {
                section.problem("name", "is the name of \(owner) too")
            } else if !Self.isName(name) {
                section.invalid("name", "must be 1 to 64 letters, digits, dots, hyphens and underscores")
            }
            owners[name] = owners[name] ?? section.path
        }
    }

    mutating func name(of section: ConfigSection, type: String) -> String {
        if section.has("name"), let name = section.string("name") { return name }
        var name = type
        var number = 2
        while owners[name] != nil {
            name = "\(type)-\(number)"
            number += 1
        }
        owners[name] = section.path
        section.record("name", .text(name))
        return name
    }

    private static func isName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { ASCII.isLetter($0) || ASCII.isDigit($0) || "._-".utf8.contains($0) }
    }
}
