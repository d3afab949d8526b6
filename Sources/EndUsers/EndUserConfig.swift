import Configuration
import Primitives
import StrictJSON

extension EndUserMapping {
    /// What the mapping has to know about each session verifier.
    package struct Verifier: Sendable, Equatable {
        package let name: String
        package let namespace: String?
        /// Given in the configuration, not taken from the issuer.
        package let hasExplicitNamespace: Bool
        /// The verifier's own prefix for its people's IDs, instead of `end_user_id.prefix`.
        package let prefix: String?

        package init(name: String, namespace: String?, hasExplicitNamespace: Bool, prefix: String? = nil) {
            self.name = name
            self.namespace = namespace
            self.hasExplicitNamespace = hasExplicitNamespace
            self.prefix = prefix
        }
    }

    /// Smallest secret of `hmac`, in bytes: as long as its hash (RFC 2104 section 3).
    private static let minSecretBytes = 32

    private enum TransformName: String, CaseIterable {
        case none, hmac
    }

    /// Reads the `end_user_id` section.
    ///
    /// * `verifiers`: all of them; together they decide whether two people could get one ID.
    /// * `defaultFrom`: of the preset, where there is one verifier and its preset has its own (`uid` of Okta).
    /// Returns what can be made of it; usable only if no problem was recorded.
    package static func read(_ section: ConfigSection, verifiers: [Verifier], defaultFrom: String = "subject") -> EndUserMapping {
        let from = readFrom(section, defaultFrom)
        let transform: Transform
        switch section.choice("transform", default: TransformName.none) {
        case .none: transform = .none
        case .hmac: transform = .hmac
        }
        let prefix = section.string("prefix", default: "") ?? ""
        checkPrefix(prefix, transform) { section.problem("prefix", $0) }
        let secret = readSecret(section, transform)
        let trustsEmail = section.boolean("trust_unverified_email", default: false)
        if from.names.last == "email" {
            if trustsEmail {
                section.warning(
                    "trust_unverified_email",
                    "lets whoever registers with somebody's e-mail address at the identity provider be them")
            }
            if transform == .none {
                section.warning("from", "e-mail addresses are refused as end-user IDs; use transform: hmac")
            }
        } else if trustsEmail {
            section.warning("trust_unverified_email", "has no effect: from names no claim email")
        }
        checkVerifiers(section, transform, verifiers)
        section.finish()
        return EndUserMapping(
            from: from, isFromGiven: section.has("from"), transform: transform, prefix: prefix, secret: secret,
            trustsUnverifiedEmail: trustsEmail)
    }

    private static func readFrom(_ section: ConfigSection, _ defaultFrom: String) -> ClaimSource {
        let text = section.string("from", default: defaultFrom) ?? defaultFrom
        guard let from = ClaimSource(text) else {
            section.invalid("from", "must be subject, the name of a claim, or a JSON pointer such as /user/id")
            return .subject
        }
        switch from.writer {
        case .person(let claim):
            section.problem("from", "people can set \(claim) for themselves, so anybody could be anybody (got \"\(text)\")")
        case .oftenPerson:
            section.warning(
                "from", "at many identity providers people can set \(text) for themselves and so become somebody else")
        case nil: break
        }
        return from
    }

    private static func readSecret(_ section: ConfigSection, _ transform: Transform) -> Secret? {
        switch transform {
        case .none:
            if section.secretFile("secret_file") != nil { section.warning("secret_file", "has no effect with transform: none") }
            return nil
        case .hmac:
            guard let file = section.requiredSecretFile("secret_file") else { return nil }
            if file.secret.byteCount < minSecretBytes {
                section.problem("secret_file", "must hold at least \(minSecretBytes) bytes (has \(file.secret.byteCount))")
            }
            return file.secret
        }
    }

    private static func checkPrefix(_ prefix: String, _ transform: Transform, _ problem: (String) -> Void) {
        let room = transform == .hmac ? 32 : 1
        if prefix.utf8.count > EndUserID.maxBytes - room {
            problem("must be at most \(EndUserID.maxBytes - room) bytes, so that an ID has at most \(EndUserID.maxBytes)")
        }
        if EndUserText.problem(prefix) != nil || prefix.unicodeScalars.first?.properties.isWhitespace == true {
            problem("must have no control or format characters and no white space at its start")
        }
        if transform == .hmac, EndUserText.looksLikeEmail(prefix) { problem("must not look like an e-mail address") }
    }

    /// With several verifiers, `sub` 17 of one and `sub` 17 of another are different people unless the configuration says they are not.
    private static func checkVerifiers(_ section: ConfigSection, _ transform: Transform, _ verifiers: [Verifier]) {
        for verifier in verifiers {
            if verifier.namespace?.utf8.contains(0) ?? false {
                section.problem("transform", "the namespace of verifier \(verifier.name) must not hold a zero byte")
            }
            if let prefix = verifier.prefix {
                checkPrefix(prefix, transform) { section.problem("prefix", "of verifier \(verifier.name) \($0)") }
            }
        }
        guard verifiers.count > 1 else { return }
        switch transform {
        case .hmac:
            for verifier in verifiers where verifier.namespace == nil {
                section.problem(
                    "transform",
                    "with more than one verifier hmac needs a namespace for each; verifier \(verifier.name) has none")
            }
        case .none:
            let first = verifiers[0].namespace
            let shareOne =
                first != nil
                && verifiers.allSatisfy {
                    $0.hasExplicitNamespace && $0.namespace.map { $0.hasSameBytes(as: first ?? "") } ?? false
                }
            if !shareOne, !haveOwnPrefixes(verifiers) {
                section.problem(
                    "transform",
                    "with more than one verifier none would give one ID to two people: give all verifiers the same namespace if they"
                        + " know the same people, or each its own prefix, or use hmac")
            }
        }
    }

    /// Not only different: where one began another, `a` + `bc` and `ab` + `c` would be one ID.
    private static func haveOwnPrefixes(_ verifiers: [Verifier]) -> Bool {
        let prefixes = verifiers.compactMap { $0.prefix.map { Array($0.utf8) } }
        guard prefixes.count == verifiers.count, !prefixes.contains([]) else { return false }
        return prefixes.indices.allSatisfy { index in
            prefixes.indices.allSatisfy { $0 == index || !prefixes[$0].starts(with: prefixes[index]) }
        }
    }
}
