import StrictJSON

/// A claim that must have one of some values, compared by type and value. An array claim must contain one of them.
package struct RequiredClaim: Sendable, Equatable {
    package var path: ClaimPath
    package var allowed: [JSONValue]
    /// A token without the claim passes (`azp` of Clerk: native apps have none).
    package var onlyIfPresent = false
    /// The claim has one value by its definition; a list is something else and never passes.
    package var isSingle = false

    package init(path: ClaimPath, allowed: [JSONValue], onlyIfPresent: Bool = false, isSingle: Bool = false) {
        self.path = path
        self.allowed = allowed
        self.onlyIfPresent = onlyIfPresent
        self.isSingle = isSingle
    }

    package func holds(in claims: JSONObject) -> Bool {
        guard let value = path.value(in: claims) else { return onlyIfPresent }
        if allowed.contains(value) { return true }
        guard !isSingle, let elements = value.array else { return false }
        return elements.contains { allowed.contains($0) }
    }
}

/// Whether the subject of a valid token is a person who signed in.
package enum PersonVerdict: Sendable, Hashable {
    case person
    /// A service, a machine, a client of its own.
    case machine
    case anonymous
    /// The sign-in is not finished (a second factor, a choice of organisation).
    case unfinished

    /// Bounded: metric label and trace.
    package var reason: String {
        switch self {
        case .person: "person"
        case .machine: "machine"
        case .anonymous: "anonymous"
        case .unfinished: "unfinished"
        }
    }
}

/// How one identity provider marks tokens that stand for no person.
package enum PersonRule: Sendable, Equatable {
    /// The value at `path` may be anything but `value`, or absent.
    case differs(ClaimPath, from: JSONValue, otherwise: PersonVerdict)
    /// The claim may not end in `suffix`.
    case lacksSuffix(ClaimPath, suffix: String, otherwise: PersonVerdict)
    /// Two claims may not be equal; absent ones are not.
    case distinct(ClaimPath, ClaimPath, otherwise: PersonVerdict)
    case present(ClaimPath, otherwise: PersonVerdict)

    package func verdict(on claims: JSONObject) -> PersonVerdict {
        switch self {
        case .differs(let path, from: let value, let otherwise):
            return path.value(in: claims) == value ? otherwise : .person
        case .lacksSuffix(let path, let suffix, let otherwise):
            guard let text = path.value(in: claims)?.string else { return .person }
            return text.utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) ? otherwise : .person
        case .distinct(let left, let right, let otherwise):
            guard let left = left.value(in: claims), let right = right.value(in: claims) else { return .person }
            return left == right ? otherwise : .person
        case .present(let path, let otherwise):
            return path.value(in: claims) == nil ? otherwise : .person
        }
    }

    /// For `config` and `explain`.
    package var summary: String {
        switch self {
        case .differs(let path, from: let value, _):
            "\(path) is not \(String(decoding: value.encoded(), as: UTF8.self))"
        case .lacksSuffix(let path, let suffix, _): "\(path) does not end in \(suffix)"
        case .distinct(let left, let right, _): "\(left) differs from \(right)"
        case .present(let path, _): "\(path) is present"
        }
    }
}
