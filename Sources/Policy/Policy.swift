import StrictJSON

/// From verified claims to what a person's token may do: features, the January scopes behind them, and a lifetime.
///
/// Shape: a ``Policy`` is read once and immutable. ``Policy/decide(_:)`` looks at each grant's condition and answers with a ``Grant``
/// that was put together beforehand, or with `nil`: nothing is granted. It cannot fail: claims that are not as a condition expects do
/// not meet it. Lifetimes are in seconds. ``PolicyTests`` are the operator's own expectations, run with the configuration.
package struct Policy: Sendable {
    /// January's ten (API version 1.2).
    package static let knownScopes = [
        "food_analysis:write", "food_logs:read", "food_logs:write", "foods:read", "glucose:read", "restaurants:read",
        "water_logs:read", "water_logs:write", "weight_logs:read", "weight_logs:write",
    ]

    package static let builtInFeatures: [String: [String]] = [
        "food_search": ["foods:read"],
        "restaurants": ["restaurants:read"],
        "food_analysis": ["food_analysis:write"],
        "food_diary": ["food_logs:read", "food_logs:write"],
        "food_diary_read": ["food_logs:read"],
        "water_log": ["water_logs:read", "water_logs:write"],
        "weight_log": ["weight_logs:read", "weight_logs:write"],
        "glucose": ["glucose:read"],
    ]

    /// What a person gets.
    package final class Grant: Sendable, Equatable {
        /// Each once, in the order of the configuration.
        package let features: [String]
        /// Sorted, each once; never empty.
        package let scopes: [String]
        package let ttlSeconds: Int
        /// Position in ``Policy/table``, for whoever keeps something beside it. `nil` where it was put together for this request,
        /// because there are too many grants to have all combinations ready.
        package let index: Int?

        fileprivate init(features: [String], scopes: [String], ttlSeconds: Int, index: Int?) {
            self.features = features
            self.scopes = scopes
            self.ttlSeconds = ttlSeconds
            self.index = index
        }

        package static func == (left: Grant, right: Grant) -> Bool {
            left.features == right.features && left.scopes == right.scopes && left.ttlSeconds == right.ttlSeconds
                && left.index == right.index
        }
    }

    /// `grants[n]`: added when the condition holds.
    package struct Rule: Sendable, Equatable {
        package let condition: ClaimCondition
        package let features: [String]
        /// Lowers the lifetime; the lowest of all that hold counts.
        package let ttlSeconds: Int?

        package init(condition: ClaimCondition, features: [String], ttlSeconds: Int? = nil) {
            self.condition = condition
            self.features = features
            self.ttlSeconds = ttlSeconds
        }
    }

    /// Up to this many rules, every combination is put together beforehand (1,024 of them).
    static let maxTabledRules = 10

    private let features: [String]
    private let rules: [Rule]
    private let ttlSeconds: Int
    private let featureScopes: [String: [String]]
    /// One for each combination of rules that hold, bit n for rule n; `nil` where that grants nothing.
    package let table: [Grant?]

    /// `featureScopes`: added to the built-in features, or instead of those with the same name. A feature that nobody defines
    ///   has no scopes.
    package init(features: [String], featureScopes: [String: [String]] = [:], rules: [Rule] = [], ttlSeconds: Int) {
        self.features = features
        self.rules = rules
        self.ttlSeconds = ttlSeconds
        self.featureScopes = Self.builtInFeatures.merging(featureScopes) { $1 }
        var table: [Grant?] = []
        if rules.count <= Self.maxTabledRules {
            for combination in 0..<(1 << rules.count) {
                let holding = rules.indices.filter { combination >> $0 & 1 == 1 }
                table.append(Self.grant(features, rules, holding, ttlSeconds, self.featureScopes, index: combination))
            }
        }
        self.table = table
    }

    /// - Complexity: one evaluation of every condition; beyond 10 rules also a sort of what holds.
    /// Returns `nil` when the person gets nothing.
    package func decide(_ claims: JSONObject) -> Grant? {
        guard table.isEmpty else {
            var combination = 0
            for (index, rule) in rules.enumerated() where rule.condition.holds(for: claims) { combination |= 1 << index }
            return table[combination]
        }
        let holding = rules.indices.filter { rules[$0].condition.holds(for: claims) }
        return Self.grant(features, rules, holding, ttlSeconds, featureScopes, index: nil)
    }

    private static func grant(
        _ base: [String], _ rules: [Rule], _ holding: [Int], _ ttlSeconds: Int, _ featureScopes: [String: [String]], index: Int?
    ) -> Grant? {
        var features: [String] = []
        var ttl = ttlSeconds
        for feature in base + holding.flatMap({ rules[$0].features }) where !features.contains(feature) {
            features.append(feature)
        }
        for rule in holding { ttl = min(ttl, rules[rule].ttlSeconds ?? ttl) }
        let scopes = Set(features.flatMap { featureScopes[$0] ?? [] }).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        return scopes.isEmpty ? nil : Grant(features: features, scopes: scopes, ttlSeconds: ttl, index: index)
    }
}
