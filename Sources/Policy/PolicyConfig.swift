import Configuration
import StrictJSON

extension Policy {
    /// `token.ttl_seconds` and what a grant may lower it to (January's own limits).
    package static let ttlRange = 300...7200

    /// Reads `features`, `feature_scopes`, `allow_unknown_scopes` and `grants` at the root of the configuration.
    ///
    /// - Parameter ttlSeconds: `token.ttl_seconds`.
    /// - Returns: what can be made of it; usable only if no problem was recorded.
    package static func read(_ root: ConfigSection, ttlSeconds: Int) -> Policy {
        let featureScopes = readFeatureScopes(root)
        let known = builtInFeatures.merging(featureScopes) { $1 }
        let features = readFeatures("features", root, known)
        let rules = root.sections("grants").map { readRule($0, known, ttlSeconds) }
        let grantable = features + rules.flatMap { $0?.features ?? [] }
        if grantable.isEmpty, !rules.contains(where: { $0 == nil }) {
            root.problem(
                root.has("features") ? "features" : nil,
                "grant at least one feature with features or grants; built in are \(builtInFeatures.keys.sorted().joined(separator: ", "))")
        }
        return Policy(features: features, featureScopes: featureScopes, rules: rules.compactMap(\.self), ttlSeconds: ttlSeconds)
    }

    private static func readFeatureScopes(_ root: ConfigSection) -> [String: [String]] {
        let allowsUnknown = root.boolean("allow_unknown_scopes", default: false)
        guard let section = root.optionalSection("feature_scopes") else { return [:] }
        var result: [String: [String]] = [:]
        for feature in section.keys {
            let scopes = section.strings(feature)
            if scopes.isEmpty { section.problem(feature, "needs at least one scope") }
            for scope in scopes {
                if !isScopeToken(scope) {
                    section.problem(feature, "is not a scope: one word of printable ASCII (got \"\(scope)\")")
                } else if !allowsUnknown, !knownScopes.contains(where: { $0.hasSameBytes(as: scope) }) {
                    section.problem(
                        feature,
                        "is not one of January's scopes, which are \(knownScopes.joined(separator: ", "));"
                            + " allow_unknown_scopes: true permits it (got \"\(scope)\")")
                }
            }
            result[feature] = scopes
        }
        return result
    }

    /// scope-token of RFC 6749 section 3.3.
    private static func isScopeToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    private static func readFeatures(_ key: String, _ section: ConfigSection, _ known: [String: [String]]) -> [String] {
        section.strings(key).filter { feature in
            if known[feature] != nil { return true }
            section.problem(
                key,
                "is not a feature; known are \(known.keys.sorted().joined(separator: ", "))"
                    + " and what feature_scopes adds (got \"\(feature)\")")
            return false
        }
    }

    private static func readRule(_ section: ConfigSection, _ known: [String: [String]], _ ttlSeconds: Int) -> Rule? {
        let features = readFeatures("features", section, known)
        let ttl = section.optionalInteger("ttl_seconds", in: ttlRange)
        if !section.has("features"), !section.has("ttl_seconds") { section.problem("features", "is required") }
        if let ttl, ttl > ttlSeconds {
            section.warning("ttl_seconds", "has no effect: a grant can only lower token.ttl_seconds (\(ttlSeconds))")
        }
        guard section.has("when") else {
            section.problem("when", "is required; what everybody gets belongs into features")
            return nil
        }
        let when = section.section("when")
        guard let condition = ClaimCondition.read(when) else { return nil }
        if condition.holds(for: JSONObject()) {
            section.warning("when", "holds for a session without any claims")
        }
        return Rule(condition: condition, features: features, ttlSeconds: ttl)
    }
}

extension ClaimCondition {
    private static let maxDepth = 8

    /// `nil` when a problem was recorded.
    static func read(_ section: ConfigSection, depth: Int = 1) -> ClaimCondition? {
        guard depth <= maxDepth else {
            section.problem(nil, "is nested more than \(maxDepth) deep")
            return nil
        }
        let kinds = ["claim", "all", "any", "not"].filter(section.has)
        guard kinds.count == 1 else {
            section.problem(nil, "needs exactly one of claim, all, any, not")
            return nil
        }
        switch kinds[0] {
        case "all": return list("all", section, depth).map(ClaimCondition.all)
        case "any": return list("any", section, depth).map(ClaimCondition.any)
        case "not": return read(section.section("not"), depth: depth + 1).map(ClaimCondition.not)
        default: return readClaim(section)
        }
    }

    private static func list(_ key: String, _ section: ConfigSection, _ depth: Int) -> [ClaimCondition]? {
        let sections = section.sections(key)
        guard !sections.isEmpty else {
            section.problem(key, "needs at least one condition")
            return nil
        }
        let conditions = sections.map { read($0, depth: depth + 1) }
        return conditions.contains { $0 == nil } ? nil : conditions.compactMap(\.self)
    }

    private static func readClaim(_ section: ConfigSection) -> ClaimCondition? {
        guard let text = section.requiredString("claim") else { return nil }
        guard let path = ClaimPath(text) else {
            section.problem("claim", "must be the name of a claim or a JSON pointer (got \"\(text)\")")
            return nil
        }
        if let reason = path.userWritable { section.warning("claim", "is not safe to decide by: \(reason) (\(text))") }
        let operators = ["equals", "in", "contains", "exists"].filter(section.has)
        guard operators.count == 1 else {
            section.problem(nil, "needs exactly one of equals, in, contains, exists beside claim")
            return nil
        }
        switch operators[0] {
        case "equals": return section.value("equals").map { .equals(path, $0) }
        case "contains": return section.value("contains").map { .contains(path, $0) }
        case "in":
            guard let value = section.value("in") else { return nil }
            guard let list = value.array, !list.isEmpty else {
                section.problem("in", "must be a list of values")
                return nil
            }
            return .isIn(path, list)
        default: return .exists(path, section.boolean("exists", default: true))
        }
    }
}
