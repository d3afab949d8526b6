import Digests
import Primitives
import StrictJSON

/// How a verified session becomes an end-user ID. Immutable, usable from every thread.
package final class EndUserMapping: Sendable {
    package enum Transform: String, Sendable, CaseIterable {
        /// The value as it is.
        case none
        /// A keyed hash: stable, opaque, not reversible.
        case hmac
    }

    package let from: ClaimSource
    /// `from` was given, so that no verifier's preset names another claim.
    package let isFromGiven: Bool
    package let transform: Transform
    package let prefix: String
    package let trustsUnverifiedEmail: Bool
    private let key: HMACKey?
    private let secretFingerprint: String?

    /// `secret`: for `hmac`, 32 bytes or more.
    package init(
        from: ClaimSource = .subject, isFromGiven: Bool = true, transform: Transform = .none, prefix: String = "",
        secret: Secret? = nil, trustsUnverifiedEmail: Bool = false
    ) {
        self.from = from
        self.isFromGiven = isFromGiven
        self.transform = transform
        self.prefix = prefix
        self.trustsUnverifiedEmail = trustsUnverifiedEmail
        key = transform == .hmac ? HMACKey(.sha256, key: secret ?? Secret([])) : nil
        secretFingerprint = key.map { Hex.encode($0.authenticate(Array("end-user mapping".utf8)).prefix(8)) }
    }

    /// A token needs no `sub` when somebody is named by another claim.
    package var requiresSubject: Bool { from == .subject || from.names == ["sub"] }

    /// * `subject`: as the verifier found it.
    /// * `namespace`: the verifier's; `nil` counts as empty, which only a single verifier may have.
    /// * `prefix`: the verifier's own, instead of this mapping's.
    /// * `presetClaim`: the claim that names people in the verifier's preset (Okta: `uid`), where `from` is not given.
    package func map(
        claims: JSONObject, subject: String?, namespace: String?, prefix: String? = nil,
        presetClaim: String? = nil
    ) throws(EndUserError) -> EndUserID {
        let from = isFromGiven ? self.from : presetClaim.flatMap(ClaimSource.init) ?? self.from
        guard let found = from.value(claims, subject: subject) else { throw .noEndUser(.missing) }
        let value = try text(found)
        if !trustsUnverifiedEmail, isEmail(from), !isVerified(from.sibling("email_verified", claims)) {
            throw .noEndUser(.unverifiedEmail)
        }
        return try map(value: value, namespace: namespace, prefix: prefix)
    }

    /// The second half, for a value that comes without claims (a revocation by subject).
    package func map(value: String, namespace: String?, prefix ownPrefix: String? = nil) throws(EndUserError) -> EndUserID {
        // With a prefix or hashed, all the blank ones would become one person.
        guard !EndUserText.isBlank(value) else { throw .invalid(.blank) }
        let prefix = ownPrefix ?? self.prefix
        guard let key else { return try EndUserID(prefix + value) }
        var message = Array((namespace ?? "").utf8)
        message.append(0)
        message += value.utf8
        return EndUserID(checked: prefix + Hex.encode(key.authenticate(message).prefix(16)))
    }

    /// A string, or an integer that every JSON reader understands alike, as its decimal digits.
    private func text(_ value: JSONValue) throws(EndUserError) -> String {
        switch value {
        case .string(let text): return text
        case .number(let number):
            guard let integer = number.integer, (0...(1 << 53)).contains(integer) else { throw .noEndUser(.wrongType) }
            return String(integer)
        // `null` is how many backends write "none".
        case .null: throw .noEndUser(.missing)
        case .bool, .array, .object: throw .noEndUser(.wrongType)
        }
    }

    private func isEmail(_ source: ClaimSource) -> Bool { source.names.last == "email" }

    private func isVerified(_ value: JSONValue?) -> Bool { value == .bool(true) || value == .string("true") }
}

extension EndUserMapping {
    /// What decides who is who. Kept in the state, so that a start with another mapping can be refused: everybody would become somebody
    /// else. Holds no secret, only a MAC under it.
    package struct Identity: Sendable, Equatable {
        package let transform: String
        package let prefix: String
        package let from: String
        /// Sorted.
        package let namespaces: [String]
        package let secretFingerprint: String?

        /// By configuration key, to be kept and compared.
        package var record: [String: String] {
            [
                "end_user_id.transform": transform, "end_user_id.prefix": prefix, "end_user_id.from": from,
                "sessions.verifiers[].namespace": namespaces.joined(separator: "\n"),
                "end_user_id.secret_file": secretFingerprint ?? "",
            ]
        }

        /// The configuration keys that differ.
        package func differences(from other: Identity) -> [String] {
            var keys: [String] = []
            if transform != other.transform { keys.append("end_user_id.transform") }
            if !prefix.hasSameBytes(as: other.prefix) { keys.append("end_user_id.prefix") }
            if !from.hasSameBytes(as: other.from) { keys.append("end_user_id.from") }
            if namespaces != other.namespaces { keys.append("sessions.verifiers[].namespace") }
            if secretFingerprint != other.secretFingerprint { keys.append("end_user_id.secret_file") }
            return keys
        }
    }

    /// `namespaces`: of all verifiers, in any order.
    package func identity(namespaces: [String?]) -> Identity {
        Identity(
            transform: transform.rawValue, prefix: prefix, from: from.description,
            namespaces: Set(namespaces.map { $0 ?? "" }).sorted(), secretFingerprint: secretFingerprint)
    }
}
