import Policy
import StrictJSON
import TestSupport
import Testing

private func when(_ claim: String, _ value: JSONValue) throws -> ClaimCondition { .equals(try #require(ClaimPath(claim)), value) }

@Suite struct PolicyDecisionTests {
    @Test(arguments: [
        ("food_search", ["foods:read"]), ("restaurants", ["restaurants:read"]), ("food_analysis", ["food_analysis:write"]),
        ("food_diary", ["food_logs:read", "food_logs:write"]), ("food_diary_read", ["food_logs:read"]),
        ("water_log", ["water_logs:read", "water_logs:write"]), ("weight_log", ["weight_logs:read", "weight_logs:write"]),
        ("glucose", ["glucose:read"]),
    ])
    func builtInFeaturesHaveTheirScopes(feature: String, scopes: [String]) {
        let grant = Policy(features: [feature], ttlSeconds: 1800).decide([:])
        #expect(grant?.features == [feature])
        #expect(grant?.scopes == scopes)
        #expect(grant?.ttlSeconds == 1800)
    }

    @Test func scopesAreSortedAndUniqueOverAllFeatures() {
        let policy = Policy(
            features: ["weight_log", "food_diary", "food_diary_read", "food_search", "food_search"], ttlSeconds: 1800)
        let grant = policy.decide([:])
        #expect(grant?.features == ["weight_log", "food_diary", "food_diary_read", "food_search"])
        #expect(grant?.scopes == ["food_logs:read", "food_logs:write", "foods:read", "weight_logs:read", "weight_logs:write"])
    }

    @Test func featureScopesAddAndReplace() {
        let policy = Policy(
            features: ["coach", "food_search"],
            featureScopes: ["coach": ["glucose:read", "foods:read"], "food_search": ["restaurants:read"]],
            ttlSeconds: 300)
        #expect(policy.decide([:])?.scopes == ["foods:read", "glucose:read", "restaurants:read"])
    }

    @Test(
        arguments: [
            ([:], ["foods:read"], 1800), (["plan": "pro"], ["food_analysis:write", "foods:read"], 1800),
            (["device": "kiosk"], ["foods:read"], 300),
            (["plan": "pro", "device": "kiosk"], ["food_analysis:write", "foods:read"], 300),
            (["plan": "pro", "trial": true], ["food_analysis:write", "foods:read"], 900),
            (["plan": "pro", "trial": true, "device": "kiosk"], ["food_analysis:write", "foods:read"], 300),
        ] as [(JSONObject, [String], Int)])
    func grantsAddFeaturesAndTheLowestLifetimeWins(claims: JSONObject, scopes: [String], ttl: Int) throws {
        let policy = Policy(
            features: ["food_search"],
            rules: [
                .init(condition: try when("plan", "pro"), features: ["food_analysis"], ttlSeconds: 7200),
                .init(condition: try when("device", "kiosk"), features: [], ttlSeconds: 300),
                .init(condition: try when("trial", true), features: ["food_search"], ttlSeconds: 900),
            ], ttlSeconds: 1800)
        let grant = policy.decide(claims)
        #expect(grant?.scopes == scopes)
        #expect(grant?.ttlSeconds == ttl)
    }

    @Test func nothingGrantedIsNil() throws {
        let policy = Policy(
            features: [],
            rules: [
                .init(condition: try when("plan", "pro"), features: ["glucose"]),
                .init(condition: try when("device", "kiosk"), features: [], ttlSeconds: 300),
            ], ttlSeconds: 1800)
        #expect(policy.decide([:]) == nil)
        #expect(policy.decide(["device": "kiosk"]) == nil)
        #expect(policy.decide(["plan": "pro"])?.scopes == ["glucose:read"])
    }

    /// With more than ten rules nothing is put together beforehand; the answer is the same.
    @Test(arguments: [0, 1, 10, 11, 14])
    func tabledAndComputedDecisionsAgree(ruleCount: Int) throws {
        let names = Policy.builtInFeatures.keys.sorted()
        let rules = try (0..<ruleCount).map {
            Policy.Rule(condition: try when("c\($0)", true), features: [names[$0 % names.count]], ttlSeconds: 300 + $0)
        }
        let policy = Policy(features: ["food_search"], rules: rules, ttlSeconds: 1800)
        var random = SeededRandom(seed: UInt64(ruleCount))
        for _ in 0..<200 {
            let holding = (0..<ruleCount).filter { _ in Bool.random(using: &random) }
            let grant = try #require(policy.decide(JSONObject(holding.map { JSONMember(name: "c\($0)", value: true) })))
            let features = Set(["food_search"] + holding.map { names[$0 % names.count] })
            #expect(Set(grant.features) == features)
            #expect(grant.scopes == Set(features.flatMap { Policy.builtInFeatures[$0] ?? [] }).sorted())
            #expect(grant.ttlSeconds == holding.map { 300 + $0 }.min() ?? 1800)
            #expect((grant.index == nil) == (ruleCount > 10))
            if let index = grant.index { #expect(policy.table[index] == grant) }
        }
    }
}
