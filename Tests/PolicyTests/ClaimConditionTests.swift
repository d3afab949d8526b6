import Policy
import StrictJSON
import Testing

private let claims: JSONObject = [
    "plan": "pro", "age": 42, "half": 0.5, "ok": true, "none": .null, "roles": ["admin", 7, .null, ["x"]],
    "scope": "read write  admin:all",
    "empty": "", "list": [], "org": ["id": "o1", "tags": ["a/b", "m~n"]], "https://acme.example/plan": "team", "a.b": "dot",
]

private func path(_ text: String) throws -> ClaimPath { try #require(ClaimPath(text)) }

@Suite struct ClaimConditionTests {
    @Test(
        arguments: [
            ("plan", "pro", true), ("plan", "Pro", false), ("plan", "pro ", false), ("plan", true, false), ("age", 42, true),
            ("age", 42.0, true),
            ("age", "42", false), ("age", 43, false), ("half", 0.5, true), ("ok", true, true), ("ok", "true", false),
            ("ok", 1, false),
            ("none", .null, true), ("missing", .null, false), ("missing", "", false), ("empty", "", true), ("list", [], true),
            ("/org/id", "o1", true), ("/org/tags/0", "a/b", true), ("/org/tags/2", "x", false), ("/org/tags/-", "x", false),
            ("org.id", "o1", false),
            ("a.b", "dot", true), ("https://acme.example/plan", "team", true), ("/https:~1~1acme.example~1plan", "team", true),
            ("org", ["tags": ["a/b", "m~n"], "id": "o1"], true), ("roles", ["admin", 7, .null, ["x"]], true),
            ("roles", "admin", false),
        ] as [(String, JSONValue, Bool)])
    func equalsComparesTypeAndValue(claim: String, value: JSONValue, expected: Bool) throws {
        #expect(ClaimCondition.equals(try path(claim), value).holds(for: claims) == expected)
    }

    @Test func equivalentTextsAreNotEqual() throws {
        #expect(!ClaimCondition.equals(try path("x"), "e\u{301}").holds(for: ["x": "\u{E9}"]))
    }

    @Test(
        arguments: [
            ("plan", ["team", "pro"], true), ("plan", ["team"], false), ("age", [41, 42], true), ("age", ["42"], false),
            ("missing", [.null], false),
            ("none", [.null], true), ("roles", ["admin"], false),
        ] as [(String, [JSONValue], Bool)])
    func inWantsOneOfTheValues(claim: String, list: [JSONValue], expected: Bool) throws {
        #expect(ClaimCondition.isIn(try path(claim), list).holds(for: claims) == expected)
    }

    @Test(
        arguments: [
            ("roles", "admin", true), ("roles", "adm", false), ("roles", 7, true), ("roles", "7", false), ("roles", .null, true),
            ("roles", ["x"], true), ("scope", "read", true), ("scope", "write", true), ("scope", "admin:all", true),
            ("scope", "admin", false),
            ("scope", "", false), ("scope", "read write", false), ("empty", "", false), ("list", "x", false),
            ("plan", "pro", true), ("plan", "pr", false),
            ("age", 42, false), ("ok", true, false), ("org", "id", false), ("missing", "x", false), ("/org/tags", "m~n", true),
        ] as [(String, JSONValue, Bool)])
    func containsLooksIntoArraysAndSpaceSeparatedStrings(claim: String, value: JSONValue, expected: Bool) throws {
        #expect(ClaimCondition.contains(try path(claim), value).holds(for: claims) == expected)
    }

    @Test(arguments: [
        ("plan", true), ("empty", true), ("list", true), ("none", false), ("missing", false), ("/org/id", true),
        ("/org/x", false),
    ])
    func existsWantsAValueThatIsNotNull(claim: String, expected: Bool) throws {
        #expect(ClaimCondition.exists(try path(claim), true).holds(for: claims) == expected)
        #expect(ClaimCondition.exists(try path(claim), false).holds(for: claims) != expected)
    }

    @Test func combinationsFollowLogic() throws {
        let yes = ClaimCondition.equals(try path("plan"), "pro")
        let no = ClaimCondition.equals(try path("plan"), "free")
        #expect(ClaimCondition.all([yes, .not(no)]).holds(for: claims))
        #expect(!ClaimCondition.all([yes, no]).holds(for: claims))
        #expect(ClaimCondition.any([no, yes]).holds(for: claims))
        #expect(!ClaimCondition.any([no, .not(yes)]).holds(for: claims))
        #expect(ClaimCondition.all([.any([no, yes]), .not(.all([yes, no]))]).holds(for: claims))
    }

    @Test(arguments: ["", "/a~2", "/a~"])
    func textThatNamesNoClaimIsNoPath(text: String) {
        #expect(ClaimPath(text) == nil)
    }
}
