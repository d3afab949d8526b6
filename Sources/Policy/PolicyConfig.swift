import Configuration
import StrictJSON

extension Policy {
    /// `token.ttl_seconds` and what a grant may lower it to (January's own limits).
    package static let ttlRange = 300...7200

    /// Reads `features`, `feature_scopes`, `allow_unknown_scopes` and `grants` at the root of the configuration.
    ///
    /// `ttlSeconds` is `token.ttl_seconds`.
    /// Returns what can be made of it; usable only if no problem was recorded.
    package static func read(_ root: ConfigSection, ttlSeconds: Int) -> Policy {
        let featureScopes = readFeatureScopes(root)
        let known = builtInFeatures.merging(featureScopes) { $1 }
        let features = readFeatures("features", root, known)
        let rules = root.sections("grants").map { readRule($0, known, ttlSeconds) }
        if root.strings("features").isEmpty, !root.sections("grants").contains(where: { !$0.strings("features").isEmpty }) {
            root.problem(
                "features",
                "nothing is granted: name at least one feature in features or grants; built in are "
                    + builtInFeatures.keys.sorted().joined(separator: ", "))
        }
        return Policy(features: features, featureScopes: featureScopes, rules: rules.compactMap(\.self), ttlSeconds: ttlSeconds)
    }

    private static func readFeatureScopes(_ root: ConfigSection) -> [String: [String]] {
        let allowsUnknown = root.boolean("allow_unknown_scopes", default: false)
        guard let section = root.optionalSection("feature_scopes") else { return [:] }
        var result: [String: [String]] = [:]
        for feature in section.names {
            let scopes = section.strings(feature)
            if scopes.isEmpty { section.problem(feature, "needs at least one scope") }
            for (index, scope) in scopes.enumerated() {
                if !isScopeToken(scope) {
                    section.invalid(feature, at: index, "is not a scope: one word of printable ASCII")
                } else if !allowsUnknown, !knownScopes.contains(where: { $0.hasSameBytes(as: scope) }) {
                    section.invalid(
                        feature, at: index,
                        "is not one of January's scopes, which are \(knownScopes.joined(separator: ", "));"
                            + " allow_unknown_scopes: true permits it")
                }
            }
            result[feature] = scopes
        }
        return result
    }

    /// scope-token of RFC 6749 section 3.3.
    private static func isScopeToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    private static func readFeatures(_ key: String, _ section: ConfigSection, _ known: [String: [String]]) -> [String] {
        section.strings(key).enumerated().filter { index, feature in
            if known[feature] != nil { return true }
            let hint = Suggestion.nearest(to: feature, in: known.keys.sorted()).map { "did you mean \"\($0)\"? Known are" }
            section.invalid(
                key, at: index,
                "is not a feature; \(hint ?? "known are") \(known.keys.sorted().joined(separator: ", "))"
                    + " and what feature_scopes adds")
            return false
        }.map(\.element)
    }

    private static func readRule(_ section: ConfigSection, _ known: [String: [String]], _ ttlSeconds: Int) -> Rule? {
        let features = readFeatures("features", section, known)
        let ttl = section.optionalInteger("ttl_seconds", in: ttlRange)
        if !section.has("features"), !section.has("ttl_seconds") { section.problem("features", "required") }
        if let ttl, ttl > ttlSeconds {
            section.warning("ttl_seconds", "has no effect: a grant can only lower token.ttl_seconds (\(ttlSeconds))")
        }
        section.finish()
        guard let when = section.optionalSection("when") else {
            section.problem("when", "required; what everybody gets belongs into features")
            return nil
        }
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
        if section.isBroken { return nil }
        guard depth <= maxDepth else {
            for key in section.keys { _ = section.kind(key) }
            section.problem(nil, "is nested more than \(maxDepth) deep")
            return nil
        }
        // Everything is read before anything is judged: what is wrong further down is named too, and a misspelt key is told which one
        // it is near.
        let claim = section.string("claim")
        let all = section.sections("all").map { read($0, depth: depth + 1) }
        let any = section.sections("any").map { read($0, depth: depth + 1) }
        let not = section.optionalSection("not").flatMap { read($0, depth: depth + 1) }
        let comparison = Comparison(section)
        let kinds = ["claim", "all", "any", "not"].filter(section.has)
        guard kinds.count == 1 else {
            section.problem(nil, "needs exactly one of claim, all, any, not")
            return nil
        }
        if kinds[0] != "claim", let misplaced = comparison.operators.first {
            section.problem(misplaced, "belongs beside claim")
            return nil
        }
        switch kinds[0] {
        case "all": return list("all", all, section).map(ClaimCondition.all)
        case "any": return list("any", any, section).map(ClaimCondition.any)
        case "not": return not.map(ClaimCondition.not)
        default: return claim.flatMap { comparison.condition(claim: $0, section) }
        }
    }

    private static func list(_ key: String, _ conditions: [ClaimCondition?], _ section: ConfigSection) -> [ClaimCondition]? {
        // An empty list holds for everybody or for nobody, and was meant as neither.
        if conditions.isEmpty { section.problem(key, "needs at least one condition") }
        let complete = conditions.compactMap(\.self)
        return conditions.isEmpty || complete.count < conditions.count ? nil : complete
    }
}

/// What stands beside `claim`.
private struct Comparison {
    private let equals: JSONValue?
    private let list: JSONValue?
    private let contains: JSONValue?
    private let exists: JSONValue?
    /// Those that were given.
    let operators: [String]

    init(_ section: ConfigSection) {
        equals = section.value("equals")
        list = section.value("in")
        contains = section.value("contains")
        exists = section.value("exists")
        operators = ["equals", "in", "contains", "exists"].filter(section.has)
    }

    /// `nil` when a problem was recorded.
    func condition(claim: String, _ section: ConfigSection) -> ClaimCondition? {
        guard let path = ClaimPath(claim) else {
            section.invalid("claim", "must be the name of a claim or a JSON pointer")
            return nil
        }
        if let reason = path.userWritable { section.warning("claim", "is not safe to decide by: \(reason) (\(claim))") }
        guard operators.count == 1 else {
            section.problem(nil, "needs exactly one of equals, in, contains, exists beside claim")
            return nil
        }
        if let equals { return .equals(path, equals) }
        if let contains { return .contains(path, contains) }
        if let list {
            guard let values = list.array, !values.isEmpty else {
                section.invalid("in", "must be a list of values")
                return nil
            }
            return .isIn(path, values)
        }
        guard let exists = exists?.bool else {
            section.invalid("exists", "must be true or false")
            return nil
        }
        return .exists(path, exists)
    }
}
