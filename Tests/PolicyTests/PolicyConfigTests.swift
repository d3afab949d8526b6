import Configuration
import Policy
import StrictJSON
import Testing

private func read(_ yaml: String) -> (policy: Policy, problems: [String], warnings: [String]) {
    let reader = ConfigReader.parse(yaml)
    let policy = Policy.read(reader.root, ttlSeconds: 1800)
    return (policy, reader.problems.map(\.description), reader.warnings.map(\.description))
}

@Suite struct PolicyConfigTests {
    @Test func everyKeyIsRead() {
        let (policy, problems, warnings) = read(
            """
            features: [food_search]
            feature_scopes: { coach: ["foods:read", "glucose:read"] }
            grants:
              - { when: { claim: plan, in: [pro, team] }, features: [food_analysis, coach] }
              - { when: { claim: device, equals: kiosk }, features: [], ttl_seconds: 300 }
              - when: { all: [{ claim: scope, contains: water }, { not: { claim: /x/y, exists: true } }] }
                features: [water_log]
              - { when: { any: [{ claim: level, equals: 3 }, { claim: level, equals: "4" }] }, features: [glucose] }
            """)
        #expect(problems == [])
        #expect(warnings == [])
        #expect(policy.decide([:])?.scopes == ["foods:read"])
        #expect(policy.decide(["plan": "team"])?.features == ["food_search", "food_analysis", "coach"])
        #expect(policy.decide(["plan": "team"])?.scopes == ["food_analysis:write", "foods:read", "glucose:read"])
        #expect(policy.decide(["device": "kiosk"])?.ttlSeconds == 300)
        #expect(policy.decide(["scope": "a water"])?.features == ["food_search", "water_log"])
        #expect(policy.decide(["scope": "a water", "x": ["y": 1]])?.features == ["food_search"])
        #expect(policy.decide(["level": 3])?.features == ["food_search", "glucose"])
        #expect(policy.decide(["level": "3"])?.features == ["food_search"])
        #expect(policy.decide(["level": "4"])?.features == ["food_search", "glucose"])
        #expect(policy.decide(["level": 4])?.features == ["food_search"])
    }

    @Test(arguments: [
        ("", "features: nothing is granted"), ("features: []", "features: nothing is granted"),
        ("grants: [{ when: { claim: a, exists: true }, features: [], ttl_seconds: 300 }]", "features: nothing is granted"),
        ("features: [foods]", "features[0]: is not a feature"), ("features: [\"food_search \"]", "features[0]: is not a feature"),
        ("features: 7", "features: must be a list"),
        ("feature_scopes: { x: [\"foods:write\"] }\nfeatures: [x]", "feature_scopes.x[0]: is not one of January's scopes"),
        ("feature_scopes: { x: [\"Foods:read\"] }\nfeatures: [x]", "feature_scopes.x[0]: is not one of January's scopes"),
        ("feature_scopes: { x: [] }\nfeatures: [x]", "feature_scopes.x: needs at least one scope"),
        ("allow_unknown_scopes: true\nfeature_scopes: { x: [\"a b\"] }\nfeatures: [x]", "feature_scopes.x[0]: is not a scope"),
        ("features: [glucose]\ngrants: [{ features: [glucose] }]", "grants[0].when: required"),
        ("features: [glucose]\ngrants: [{ when: { claim: a, exists: true } }]", "grants[0].features: required"),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, exists: true }, features: [x] }]",
            "grants[0].features[0]: is not a feature"
        ),
        ("features: [glucose]\ngrants: [{ when: { claim: a }, features: [] }]", "grants[0].when: needs exactly one of equals"),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, equals: 1, in: [1] }, features: [] }]",
            "grants[0].when: needs exactly one of equals"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, in: x }, features: [] }]",
            "grants[0].when.in: must be a list of values"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, in: [] }, features: [] }]",
            "grants[0].when.in: must be a list of values"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, exists: 1 }, features: [] }]",
            "grants[0].when.exists: must be true or false"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: /a~, exists: true }, features: [] }]",
            "grants[0].when.claim: must be the name"
        ),
        ("features: [glucose]\ngrants: [{ when: {}, features: [] }]", "grants[0].when: needs exactly one of claim"),
        (
            "features: [glucose]\ngrants: [{ when: { all: [] }, features: [] }]",
            "grants[0].when.all: needs at least one condition"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, equals: 1, all: [{ claim: b, equals: 1 }] }, features: [] }]",
            "grants[0].when: needs exactly one of claim"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { not: { claim: a, equals: 1 }, equals: 1 }, features: [] }]",
            "grants[0].when.equals: belongs beside claim"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, exists: true }, ttl_seconds: 299 }]",
            "grants[0].ttl_seconds: must be from 300 to 7200"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, exists: true }, features: [], ttl: 300 }]",
            "grants[0].ttl: unknown key"
        ),
        (
            "features: [glucose]\ngrants: [{ when: { claim: a, exists: true, x: 1 }, features: [] }]",
            "grants[0].when.x: unknown key"
        ),
        ("features: [glucose]\ngrants: [{ when: yes, features: [] }]", "grants[0].when: must be a mapping"),
    ])
    func problemIsNamedAtItsKey(yaml: String, expected: String) {
        let problems = read(yaml).problems
        #expect(problems.count == 1, "\(problems)")
        #expect(problems.first?.contains(" \(expected)") == true, "\(problems)")
    }

    @Test func problemHasTheLineOfItsKey() {
        let problems = read("features: [glucose]\ngrants:\n  - features: []\n    when:\n      claim: a\n      equal: 1\n")
            .problems
        #expect(
            problems.contains { $0.hasPrefix("config.yaml:6: grants[0].when.equal: unknown key; did you mean \"equals\"?") },
            "\(problems)")
    }

    @Test func unknownScopeCanBeAllowed() {
        let (policy, problems, _) = read("allow_unknown_scopes: true\nfeature_scopes: { x: [\"new:scope\"] }\nfeatures: [x]")
        #expect(problems == [])
        #expect(policy.decide([:])?.scopes == ["new:scope"])
    }

    @Test(arguments: [
        ("food_serch", "did you mean \"food_search\"? Known are food_analysis, "),
        ("water_logs", "did you mean \"water_log\"? Known are "), ("everything", "known are food_analysis, "),
    ])
    func aFeatureThatNobodyKnowsIsNearOneThatIs(feature: String, hint: String) {
        let problems = read("features: [\(feature)]").problems
        #expect(problems.count == 1)
        #expect(problems.first.map { "\($0)" }?.contains("is not a feature; \(hint)") == true, "\(problems)")
    }

    @Test func nestingIsBounded() {
        let deep = String(repeating: "{ not: ", count: 9) + "{ claim: a, exists: true }" + String(repeating: " }", count: 9)
        #expect(read("features: [glucose]\ngrants: [{ when: \(deep), features: [] }]").problems.count == 1)
        let fits = String(repeating: "{ not: ", count: 7) + "{ claim: a, exists: true }" + String(repeating: " }", count: 7)
        #expect(read("features: [glucose]\ngrants: [{ when: \(fits), features: [] }]").problems == [])
    }

    @Test(arguments: [
        ("{ claim: preferred_username, equals: x }", 1), ("{ claim: upn, equals: x }", 1), ("{ claim: nickname, equals: x }", 1),
        ("{ claim: \"custom:plan\", equals: x }", 1), ("{ claim: /nickname, equals: x }", 1),
        ("{ claim: /user_metadata/plan, equals: x }", 1),
        ("{ claim: /unsafe_metadata/plan, equals: x }", 1), ("{ claim: /app_metadata/plan, equals: x }", 0),
        ("{ claim: customs, equals: x }", 0),
        ("{ claim: a, exists: false }", 1), ("{ not: { claim: a, equals: 1 } }", 1),
        ("{ any: [{ claim: upn, equals: x }, { claim: a, exists: false }] }", 2),
    ])
    func warningsAreGivenForWhatPeopleControlAndForWhatAlwaysHolds(when: String, count: Int) {
        let (_, problems, warnings) = read("features: [glucose]\ngrants: [{ when: \(when), features: [food_search] }]")
        #expect(problems == [])
        #expect(warnings.count == count, "\(warnings)")
    }

    @Test func lifetimeAboveTheTokensOwnIsAWarning() {
        #expect(
            read("features: [glucose]\ngrants: [{ when: { claim: a, exists: true }, ttl_seconds: 1801 }]").warnings.count == 1)
        #expect(read("features: [glucose]\ngrants: [{ when: { claim: a, exists: true }, ttl_seconds: 1800 }]").warnings == [])
    }
}

@Suite struct PolicyTestsTests {
    private func run(_ tests: String, _ endUser: @escaping (JSONObject) -> PolicyTests.EndUser = { _ in .mapped("u1") })
        -> [String]
    {
        let reader = ConfigReader.parse(
            """
            features: [food_search]
            grants: [{ when: { claim: plan, equals: pro }, features: [glucose], ttl_seconds: 600 }]
            policy_tests:
            \(tests)
            """)
        let policy = Policy.read(reader.root, ttlSeconds: 1800)
        let tests = PolicyTests.read(reader.root)
        if reader.problems.isEmpty { tests.run(policy, mapEndUser: endUser) }
        return reader.problems.map(\.description)
    }

    @Test(arguments: [
        "{ name: a, claims: { sub: u1 }, expect: { scopes: [\"foods:read\"] } }",
        "{ name: a, expect: { features: [food_search] } }",
        "{ name: a, claims: { plan: pro }, expect: { scopes: [\"glucose:read\", \"foods:read\"], features: [glucose, food_search], ttl_seconds: 600, end_user_id: u1 } }",
        "{ name: a, claims: { plan: free }, expect: { ttl_seconds: 1800, refused: false } }",
    ])
    func expectationThatIsMetIsNoProblem(test: String) {
        #expect(run("  - \(test)") == [])
    }

    @Test(arguments: [
        ("{ name: a, expect: { scopes: [] } }", "a: expected scopes [], got [foods:read]"),
        ("{ name: a, expect: { scopes: [\"glucose:read\"] } }", "a: expected scopes [glucose:read], got [foods:read]"),
        ("{ name: a, expect: { features: [glucose] } }", "a: expected features [glucose], got [food_search]"),
        ("{ name: a, expect: { ttl_seconds: 600 } }", "a: expected ttl_seconds 600, got 1800"),
        ("{ name: a, expect: { end_user_id: u2 } }", "a: expected end_user_id \"u2\", got \"u1\""),
        ("{ name: a, expect: { refused: true } }", "a: expected to be refused, got [foods:read]"),
        ("{ name: a, expect: { refused: no_features } }", "a: expected to be refused with no_features, got [foods:read]"),
    ])
    func expectationThatIsNotMetIsAProblemAtItsLine(test: String, expected: String) {
        #expect(
            run("  - { name: ok, expect: { refused: false } }\n  - \(test)") == ["config.yaml:5: policy_tests[1]: \(expected)"])
    }

    @Test(arguments: [
        ("{ refused: true }", []), ("{ refused: no_end_user }", []), ("{ scopes: [] }", []), ("{ features: [] }", []),
        (
            "{ scopes: [\"foods:read\"] }",
            ["config.yaml:4: policy_tests[0]: a: expected scopes [foods:read], got [] (no_end_user)"]
        ),
        ("{ ttl_seconds: 1800 }", ["config.yaml:4: policy_tests[0]: a: expected ttl_seconds 1800, got none (no_end_user)"]),
        (
            "{ refused: no_features }",
            ["config.yaml:4: policy_tests[0]: a: expected to be refused with no_features, got no_end_user"]
        ),
        ("{ refused: false }", ["config.yaml:4: policy_tests[0]: a: expected not to be refused, got no_end_user"]),
        ("{ end_user_id: u1 }", ["config.yaml:4: policy_tests[0]: a: expected end_user_id \"u1\", got no_end_user"]),
    ])
    func refusalOfTheMappingCounts(expect: String, expected: [String]) {
        #expect(run("  - { name: a, expect: \(expect) }") { _ in .refused(code: "no_end_user") } == expected)
    }

    /// A test of scopes alone says nothing about who it is.
    @Test(arguments: [
        ("{ scopes: [\"foods:read\"] }", []), ("{ refused: no_end_user }", []),
        ("{ refused: false }", ["config.yaml:4: policy_tests[0]: a: expected not to be refused, got no_end_user"]),
    ])
    func whoIsLeftOutOfTheClaimsIsNotMissed(expect: String, expected: [String]) {
        #expect(run("  - { name: a, expect: \(expect) }") { _ in .unnamed(code: "no_end_user") } == expected)
    }

    @Test func claimsThatNoVerifierAcceptsAreAProblem() {
        #expect(
            run("  - { name: a, claims: { iss: x }, expect: { refused: true } }") { _ in .notAccepted("no verifier") }
                == ["config.yaml:4: policy_tests[0].claims: a: no verifier"])
    }

    @Test func claimsReachTheMappingWithTheirTypes() {
        var seen: JSONObject?
        _ = run("  - { name: a, claims: { n: 1, t: \"1\", b: true, l: [x] }, expect: { refused: false } }") {
            seen = $0
            return .mapped("u1")
        }
        #expect(seen == ["n": 1, "t": "1", "b": true, "l": ["x"]])
    }

    @Test(arguments: [
        ("{ claims: {}, expect: { refused: true } }", "name: required"), ("{ name: a }", "expect: required"),
        ("{ name: a, expect: {} }", "expect: must expect something"),
        ("{ name: a, claims: 7, expect: { refused: true } }", "claims: must be a mapping"),
        ("{ name: a, expect: { refused: maybe } }", "expect.refused: must be true, false or one of"),
        ("{ name: a, expect: { refused: true, scopes: [] } }", "expect.refused: cannot be expected together with scopes"),
        ("{ name: a, expect: { scope: [] } }", "expect: must expect something"),
    ])
    func testThatCannotBeRunIsAProblem(test: String, expected: String) {
        let problems = run("  - \(test)")
        #expect(problems.contains { $0.contains("policy_tests[0].\(expected)") }, "\(problems)")
    }
}
