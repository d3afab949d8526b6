import Primitives
import StrictJSON
import Testing

@testable import Configuration

private enum Level: String, CaseIterable { case debug, info, warning }
private enum Only: String, CaseIterable { case only }

@Suite struct ConfigSectionTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let text: String
        let expected: [String]
        let read: @Sendable (ConfigSection) -> Void

        init(_ text: String, _ expected: String..., read: @escaping @Sendable (ConfigSection) -> Void) {
            self.text = text
            self.expected = expected
            self.read = read
        }

        var testDescription: String { text }
    }

    private static let integer: @Sendable (ConfigSection) -> Void = { _ = $0.integer("n", default: 5, in: 1...10) }
    private static let seconds: @Sendable (ConfigSection) -> Void = {
        _ = $0.seconds("s", default: .seconds(1), in: .milliseconds(500) ... .seconds(300))
    }
    private static let boolean: @Sendable (ConfigSection) -> Void = { _ = $0.boolean("b", default: false) }
    private static let string: @Sendable (ConfigSection) -> Void = { _ = $0.requiredString("t") }
    private static let strings: @Sendable (ConfigSection) -> Void = { _ = $0.strings("l") }
    private static let level: @Sendable (ConfigSection) -> Void = { _ = $0.choice("level", default: Level.info) }

    static let bad: [Row] = [
        Row("n: 0", "config.yaml:1: n: must be from 1 to 10 (got 0)", read: integer),
        Row("n: 11", "config.yaml:1: n: must be from 1 to 10 (got 11)", read: integer),
        Row("\nn: 99999999999999999999", "config.yaml:2: n: must be from 1 to 10 (got 99999999999999999999)", read: integer),
        Row("n: -1", "config.yaml:1: n: must be from 1 to 10 (got -1)", read: integer),
        Row("n: \"8\"", "config.yaml:1: n: must be a whole number without quotes (got \"8\")", read: integer),
        Row("n: 8.0", "config.yaml:1: n: must be a whole number (got 8.0)", read: integer),
        Row("n: 010", "config.yaml:1: n: must be a whole number (got \"010\")", read: integer),
        Row("n: 0x8", "config.yaml:1: n: must be a whole number (got \"0x8\")", read: integer),
        Row("n: 1_0", "config.yaml:1: n: must be a whole number (got \"1_0\")", read: integer),
        Row("n: +8", "config.yaml:1: n: must be a whole number (got \"+8\")", read: integer),
        Row("n: many", "config.yaml:1: n: must be a whole number (got \"many\")", read: integer),
        Row("n:", "config.yaml:1: n: must be a whole number (got nothing)", read: integer),
        Row("n: [8]", "config.yaml:1: n: must be a whole number (got a list)", read: integer),
        Row("n: {a: 8}", "config.yaml:1: n: must be a whole number (got a mapping)", read: integer),
        Row("n: -1", "config.yaml:1: n: must be 0 or more (got -1)") { _ = $0.optionalInteger("n", in: 0 ... .max) },
        Row("s: 0.499", "config.yaml:1: s: must be from 0.5 to 300 seconds (got 0.499)", read: seconds),
        Row("s: 300.000000001", "config.yaml:1: s: must be from 0.5 to 300 seconds (got 300.000000001)", read: seconds),
        Row("s: 1e3", "config.yaml:1: s: must be a number of seconds (got 1e3)", read: seconds),
        Row("s: 8s", "config.yaml:1: s: must be a number of seconds (got \"8s\")", read: seconds),
        Row("s: \"8\"", "config.yaml:1: s: must be a number of seconds without quotes (got \"8\")", read: seconds),
        Row(
            "s: 99999999999999999999.5", "config.yaml:1: s: must be from 0.5 to 300 seconds (got 99999999999999999999.5)",
            read: seconds),
        Row("s: -0.5", "config.yaml:1: s: must be from 0.5 to 300 seconds (got -0.5)", read: seconds),
        Row("b: yes", "config.yaml:1: b: must be true or false (got \"yes\")", read: boolean),
        Row("b: True", "config.yaml:1: b: must be true or false (got \"True\")", read: boolean),
        Row("b: \"true\"", "config.yaml:1: b: must be true or false without quotes (got \"true\")", read: boolean),
        Row("b: 1", "config.yaml:1: b: must be true or false (got 1)", read: boolean),
        Row("{}", "config.yaml:1: t: required", read: string),
        Row("t: \"\"", "config.yaml:1: t: must not be empty", read: string),
        Row("t:", "config.yaml:1: t: must be text (got nothing); leave the key out, or put the text in quotes", read: string),
        Row(
            "t: null", "config.yaml:1: t: must be text (got nothing); leave the key out, or put the text in quotes", read: string),
        Row("t: [a]", "config.yaml:1: t: must be text (got a list)", read: string),
        Row("l: a", "config.yaml:1: l: must be a list of texts (got \"a\")", read: strings),
        Row("l:", "config.yaml:1: l: must be a list of texts (got nothing)", read: strings),
        Row(
            "l:\n  - a\n  - [b]\n  - ~", "config.yaml:3: l[1]: must be text (got a list)",
            "config.yaml:4: l[2]: must be text (got nothing)",
            read: strings),
        Row(
            "level: inof", "config.yaml:1: level: must be one of debug, info, warning (got \"inof\"); did you mean \"info\"?",
            read: level),
        Row("level: INFO", "config.yaml:1: level: must be one of debug, info, warning (got \"INFO\")", read: level),
        Row("level: [info]", "config.yaml:1: level: must be one of debug, info, warning (got a list)", read: level),
        Row("level: x", "config.yaml:1: level: must be only (got \"x\")") { _ = $0.choice("level", default: Only.only) },
        Row(
            "levels:\n - info\n - infos",
            "config.yaml:3: levels[1]: must be one of debug, info, warning (got \"infos\"); did you mean \"info\"?"
        ) {
            _ = $0.choices("levels", as: Level.self)
        },
        Row("r: 1.5", "config.yaml:1: r: must be from 0 to 1 (got 1.5)") { _ = $0.number("r", default: 1, in: 0...1) },
        Row("r: 1e999", "config.yaml:1: r: must be a number (got 1e999)") { _ = $0.number("r", default: 1, in: 0...1) },
        Row("a: {b: 1}", "config.yaml:1: a: must be text or a list of texts (got a mapping)") { _ = $0.stringOrStrings("a") },
        Row("a: x", "config.yaml:1: a: must be a list of mappings (got \"x\")") { _ = $0.sections("a") },
        Row(
            "a:\n  - {}\n  - x\n  -", "config.yaml:3: a[1]: must be a mapping (got \"x\")",
            "config.yaml:4: a[2]: must be a mapping (got nothing)"
        ) {
            _ = $0.sections("a")
        },
        Row("a: x", "config.yaml:1: a: must be a list (got \"x\")") { _ = $0.items("a") },
        Row("a:\n  - [x]", "config.yaml:2: a[0]: must be text or a mapping (got a list)") { _ = $0.items("a") },
        Row("a: 600", "config.yaml:1: a: must be false or a mapping (got 600)") { _ = $0.sectionUnlessFalse("a") },
        Row("a: true", "config.yaml:1: a: must be false or a mapping (got true)") { _ = $0.sectionUnlessFalse("a") },
        // Values are shown on one line and cut; those of keys that may hold a secret are not shown.
        Row("n: \"a\\nb\\e\\\"\"", "config.yaml:1: n: must be a whole number (got \"a\\nb\\u{1b}\\\"\")", read: integer),
        Row("client_secret: [hunter2]", "config.yaml:1: client_secret: must be text (got a list)") {
            _ = $0.requiredString("client_secret")
        },
        Row("password: hunter2", "config.yaml:1: password: must be a whole number") {
            _ = $0.integer("password", default: 1, in: 1...2)
        },
        Row("n: sk-live-1234", "config.yaml:1: n: must be a whole number", read: integer),
        Row(
            "n: \"https://me:pw@host.example/a?key=b\"",
            "config.yaml:1: n: must be a whole number (got \"https://<redacted>@host.example/a?<redacted>\")", read: integer),
    ]

    @Test(arguments: bad)
    func aValueThatDoesNotFitIsAProblemWithLinePathAndValue(row: Row) {
        #expect(problems(row.text, row.read) == row.expected)
    }

    @Test func valuesAreReadByTheTypeTheKeyWants() {
        let reader = ConfigReader.parse(
            """
            names: [no, on, 8, true, "null", 1e3]
            text: no
            number: 8
            none: {}
            short: 0.25
            long: 300
            ratio: 0.5
            flag: true
            level: debug
            one: a
            many: [a, b]
            empty: ""
            """)
        let root = reader.root
        #expect(root.strings("names") == ["no", "on", "8", "true", "null", "1e3"])
        #expect(root.string("text") == "no")
        #expect(root.string("number") == "8")
        #expect(root.optionalInteger("number", in: 8...8) == 8)
        #expect(root.seconds("short", default: .seconds(1), in: .zero ... .seconds(1)) == .milliseconds(250))
        #expect(root.optionalSeconds("long", in: .zero ... .seconds(300)) == .seconds(300))
        #expect(root.number("ratio", default: 1, in: 0...1) == 0.5)
        #expect(root.boolean("flag", default: false))
        #expect(root.choice("level", default: Level.info) == .debug)
        #expect(root.stringOrStrings("one") == ["a"])
        #expect(root.stringOrStrings("many") == ["a", "b"])
        #expect(root.string("empty", default: "x") == "")
        #expect(root.optionalSection("none")?.keys == [])
        root.finish()
        #expect(reader.problems == [])
    }

    @Test func anAbsentKeyIsItsDefault() {
        let reader = ConfigReader.parse("")
        let root = reader.root
        #expect(root.string("a", default: "x") == "x")
        #expect(root.string("a2") == nil)
        #expect(root.integer("b", default: 5, in: 1...10) == 5)
        #expect(root.optionalInteger("b2", in: 1...10) == nil)
        #expect(root.seconds("c", default: .seconds(2), in: .zero ... .seconds(3)) == .seconds(2))
        #expect(root.boolean("d", default: true))
        #expect(root.choice("e", default: Level.warning) == .warning)
        #expect(root.optionalChoice("e2", as: Level.self) == nil)
        #expect(root.strings("f", default: ["y"]) == ["y"])
        #expect(root.optionalStrings("f2") == nil)
        #expect(root.value("g") == nil)
        #expect(root.section("h").string("i", default: "z") == "z")
        #expect(root.optionalSection("j") == nil)
        #expect(root.sections("k").isEmpty)
        #expect(root.items("l", default: ["bearer"]).map(\.text) == ["bearer"])
        #expect(root.secretFile("m_file") == nil)
        #expect(root.secretFiles("n_files").isEmpty)
        guard case .absent = root.sectionUnlessFalse("o") else {
            Issue.record("an absent key is neither off nor given")
            return
        }
        root.finish()
        #expect(reader.problems == [])
    }

    @Test func whereAnyValueFitsQuotedScalarsAreTextAndPlainOnesJSON() {
        let reader = ConfigReader.parse(
            "v: [true, \"true\", false, null, ~, 8, \"8\", 1e3, 010, yes, text, {a: 1, \"b c\": [x]}, -0.5, 'null', .5]")
        #expect(
            reader.root.value("v")
                == .array([
                    true, "true", false, .null, .null, 8, "8", 1000, "010", "yes", "text", ["a": 1, "b c": ["x"]], -0.5, "null",
                    ".5",
                ]))
    }

    // MARK: - One problem, not ten

    @Test func aSectionOfTheWrongTypeIsOneProblem() {
        let found = problems("january: [1]\nb: 2") { root in
            let january = root.section("january")
            #expect(january.isBroken)
            _ = january.requiredString("api_key_file")
            _ = january.integer("n", default: 1, in: 1...2)
            january.problem("x", "is missing too")
            january.problem(nil, "is wrong altogether")
            january.section("deeper").problem("y", "is missing")
            _ = january.section("deeper").requiredString("z")
            january.finish()
        }
        #expect(found == ["config.yaml:1: january: must be a mapping (got a list)"])
    }

    @Test func whatAGetterRefusedItsOwnerDoesNotRefuseAgain() {
        let found = problems("issuer: [a]\nlist: [&x a]\nmaps: [*y]\nbase: *z") { root in
            if root.string("issuer") == nil { root.problem("issuer", "is required") }
            if root.strings("list") != ["a"] { root.problem("list", "has no a") }
            if root.sections("maps").isEmpty { root.problem("maps", "needs one item") }
            _ = root.requiredString("base")
            _ = root.section("base").requiredString("x")
        }
        #expect(
            found == [
                "config.yaml:1: issuer: must be text (got a list)",
                "config.yaml:2: list[0]: anchors (&x) are not supported",
                "config.yaml:3: maps[0]: aliases (*y) are not supported; write the value out",
                "config.yaml:4: base: aliases (*z) are not supported; write the value out",
            ])
    }

    @Test func afterASyntaxErrorReadersSayNothing() {
        let found = problems("a: [", environment: ["PORT": "x"]) { root in
            _ = root.requiredString("a")
            root.section("b").problem("c", "is required")
            root.finish()
        }
        #expect(
            found == [
                "config.yaml:1: invalid YAML: did not find expected node content (while parsing a flow node)",
                "environment: PORT: must be a port number from 0 to 65535 (got \"x\")",
            ])
    }

    @Test func allProblemsComeAtOnceInTheOrderOfTheFile() {
        let found = problems("z: 1\nn: 0\nb: maybe\nsub:\n  t: [x]\n") { root in
            root.section("sub").finish()
            _ = root.section("sub").string("t")
            _ = root.boolean("b", default: false)
            _ = root.integer("n", default: 1, in: 1...2)
            _ = root.section("sub").requiredString("u")
            root.problem("q", "is required, too")
            root.finish()
        }
        #expect(
            found == [
                "config.yaml:1: q: is required, too",
                "config.yaml:1: z: unknown key",
                "config.yaml:2: n: must be from 1 to 2 (got 0)",
                "config.yaml:3: b: must be true or false (got \"maybe\")",
                "config.yaml:4: sub.u: required",
                "config.yaml:5: sub.t: must be text (got a list)",
            ])
    }

    // MARK: - Unknown keys

    @Test func unknownKeysAreNamedWithASuggestion() {
        let text = """
            january:
              bas_url: x
              api_key: sk-secret
              completely_different: 1
            sessions:
              verifiers:
                - type: jwt
                  isuer: x
                  audience: y
            "strange key": 1
            """
        let found = problems(text) { root in
            let january = root.section("january")
            _ = january.string("base_url")
            _ = january.secretFile("api_key_file")
            for verifier in root.section("sessions").sections("verifiers") {
                _ = verifier.string("type")
                _ = verifier.string("issuer")
                _ = verifier.stringOrStrings("audience")
            }
            root.finish()
        }
        #expect(
            found == [
                "config.yaml:2: january.bas_url: unknown key; did you mean \"base_url\"?",
                "config.yaml:3: january.api_key: secrets are not written in the file; name a file in \"api_key_file\", or set JANUARY_API_KEY",
                "config.yaml:4: january.completely_different: unknown key",
                "config.yaml:8: sessions.verifiers[0].isuer: unknown key; did you mean \"issuer\"?",
                "config.yaml:10: \"strange key\": unknown key",
            ])
    }

    /// Two owners read one section; each finishes it, and neither makes the other's keys unknown.
    @Test func aSectionMayHaveSeveralOwners() {
        let reader = ConfigReader.parse("january: {base_url: x, max_connections: 5}")
        let first = reader.root.section("january")
        _ = first.string("base_url")
        first.finish()
        let second = reader.root.section("january")
        #expect(first === second)
        _ = second.integer("max_connections", default: 256, in: 1...1000)
        second.finish()
        #expect(reader.problems == [])
    }

    @Test func aSectionRefusedAsAWholeIsOneProblem() {
        let found = problems("limit: {requests: 5, per: {a: 1}}\nother: {b: 1}") { root in
            if case .section(let limit) = root.sectionUnlessFalse("limit") {
                limit.problem(nil, "is not available")
                limit.abandon()
            }
            _ = root.section("other")
            root.finish()
        }
        #expect(found == ["config.yaml:1: limit: is not available", "config.yaml:2: other.b: unknown key"])
    }

    /// A bound that is off unless it is given.
    @Test(
        arguments: [
            ("", nil, nil), ("limit: false", nil, nil), ("limit: 1", 1, nil), ("limit: 99", 99, nil),
            ("limit: 0", nil, "config.yaml:1: limit: must be from 1 to 99 (got 0)"),
            ("limit: 100", nil, "config.yaml:1: limit: must be from 1 to 99 (got 100)"),
            ("limit: true", nil, "config.yaml:1: limit: must be a whole number (got true)"),
            ("limit: [1]", nil, "config.yaml:1: limit: must be a whole number (got a list)"),
        ] as [(String, Int?, String?)])
    func aBoundMayBeFalse(text: String, expected: Int?, problem: String?) {
        let reader = ConfigReader.parse(text)
        #expect(reader.root.integerUnlessFalse("limit", in: 1...99) == expected)
        reader.root.finish()
        #expect(reader.problems.map(\.description) == (problem.map { [$0] } ?? []))
        if problem == nil { #expect(reader.printed().contains("limit: \(expected.map(String.init) ?? "false")")) }
    }

    @Test func aSectionNobodyFinishedHasNoUnknownKeys() {
        let reader = ConfigReader.parse("a: {b: 1}\nc: 2")
        _ = reader.root.section("a").string("x")
        #expect(reader.problems == [])
        reader.root.section("a").finish()
        #expect(reader.problems.map(\.description) == ["config.yaml:1: a.b: unknown key"])
    }

    // MARK: - Owners' own problems

    @Test func ownersNameAKeyAnItemOrTheSection() {
        let text = "section:\n  url: http://x:y@h/\n  list:\n    - good\n    - bad\n  from:\n    - odd\n    - {cookie: 1}\n"
        let found = problems(text) { root in
            let section = root.section("section")
            _ = section.string("url")
            section.invalid("url", "must be https")
            _ = section.strings("list")
            section.invalid("list", at: 1, "is no feature")
            for item in section.items("from") where item.text != nil { item.problem("must be bearer") }
            section.problem(nil, "needs url or urls")
            section.problem("missing", "is required")
        }
        #expect(
            found == [
                "config.yaml:1: section: needs url or urls",
                "config.yaml:1: section.missing: is required",
                "config.yaml:2: section.url: must be https (got \"http://<redacted>@h/\")",
                "config.yaml:5: section.list[1]: is no feature (got \"bad\")",
                "config.yaml:7: section.from[0]: must be bearer",
            ])
    }

    @Test func warningsAreApartFromProblems() {
        let reader = ConfigReader.parse("a: 1")
        reader.root.warning("a", "is unusual")
        #expect(reader.problems == [])
        #expect(reader.warnings.map(\.description) == ["config.yaml:1: a: is unusual"])
    }

    @Test func aKindTellsWhatStandsThere() {
        let root = ConfigReader.parse("a: 1\nb: \"1\"\nc: [1]\nd: {}\ne: ~").root
        #expect(root.kind("a") == .scalar(text: "1", isQuoted: false))
        #expect(root.kind("b") == .scalar(text: "1", isQuoted: true))
        #expect(root.kind("c") == .list)
        #expect(root.kind("d") == .mapping)
        #expect(root.kind("e") == .null)
        #expect(root.kind("f") == nil)
    }

    @Test func presetsFillKeysThatWereNotGiven() {
        let reader = ConfigReader.parse("issuer: mine")
        reader.root.setDefault("issuer", "preset")
        reader.root.setDefault("audience", ["a", "b"])
        reader.root.setDefault("skew", 60)
        reader.root.setDefault("flag", true)
        reader.root.setDefault("claims", .json(["azp": ["web", 1]]))
        #expect(reader.root.string("issuer") == "mine")
        #expect(reader.root.stringOrStrings("audience") == ["a", "b"])
        #expect(reader.root.integer("skew", default: 0, in: 0...300) == 60)
        #expect(reader.root.boolean("flag", default: false))
        #expect(reader.root.value("claims") == ["azp": ["web", 1]])
        #expect(!reader.root.has("audience"))
        #expect(reader.root.source("audience") == .builtIn)
        #expect(reader.problems == [])
    }
}
