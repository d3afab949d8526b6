import TestSupport
import Testing

@testable import Configuration

@Suite struct YAMLTreeTests {
    private func problems(_ text: String) -> [String] {
        YAMLTree(Array(text.utf8)).problems.map { "\($0.line ?? 0): \($0.path): \($0.message)" }
    }

    @Test func aByteOrderMarkIsNoContent() {
        let tree = YAMLTree([0xEF, 0xBB, 0xBF] + Array("a: 1\nb: [".utf8))
        #expect(tree.problems.map(\.line) == [2])
        #expect(problems("\u{FEFF}a: 1\n") == [])
    }

    /// Each construct that hides what a line means, with the line and path it is refused at.
    static let refused: [(text: String, expected: [String])] = [
        (
            "a: &x 1\nb: *x\n",
            ["1: a: anchors (&x) are not supported", "2: b: aliases (*x) are not supported; write the value out"]
        ),
        ("*x : 1\nb: 2", ["1: : aliases (*x) are not supported; write the value out"]),
        ("a: [1, *x]", ["1: a[1]: aliases (*x) are not supported; write the value out"]),
        ("&k a: 1", ["1: : anchors (&k) are not supported"]),
        ("a: !!str 8", ["1: a: tags (!!str) are not supported"]),
        ("a: ! b", ["1: a: tags (!) are not supported"]),
        ("a: !foo {b: 1}", ["1: a: tags (!foo) are not supported"]),
        ("a:\n  - !bar [1]", ["2: a[0]: tags (!bar) are not supported"]),
        ("c:\n  <<: {x: 1}\n", ["2: c: merge keys (<<) are not supported"]),
        ("a: 1\n---\nb: 2\n", ["2: : a second document begins here; one file holds one document"]),
        (
            "a: 1\nb:\n  c: 1\n  c: 2\n  c: 3\n",
            ["4: b.c: duplicate key; it is on line 3 already", "5: b.c: duplicate key; it is on line 3 already"]
        ),
        ("{\"a\": 1, \"a\": 2}", ["1: a: duplicate key; it is on line 1 already"]),
        ("a: 1\n\"\\x61\": 2", ["2: a: duplicate key; it is on line 1 already"]),
        ("a: 1\n? [x]\n: 1\n", ["2: : a key must be text, not a list or a mapping"]),
        ("{a: 1}: b", ["1: : a key must be text, not a list or a mapping"]),
        ("8: x\n", ["1: 8: a key must be text; put it in quotes if \"8\" is meant"]),
        ("true: x", ["1: true: a key must be text; put it in quotes if \"true\" is meant"]),
        ("~: x", ["1: \"~\": a key must be text; put it in quotes if \"~\" is meant"]),
        ("- a\n- b", ["1: : the file must hold a mapping (got a list)"]),
        ("# first\njust text", ["2: : the file must hold a mapping (got one value)"]),
        (
            "a: {b: 1\nc: 2",
            ["2: : invalid YAML: did not find expected ',' or '}' (while parsing a flow mapping that begins on line 1)"]
        ),
        ("a: \"x", ["1: : invalid YAML: found unexpected end of stream (while scanning a quoted scalar)"]),
        ("a:\n\t- b", ["2: : invalid YAML: a tab at the beginning of a line; YAML is indented with spaces"]),
        ("a:\n  b: 1\n\tc: 2", ["3: : invalid YAML: a tab at the beginning of a line; YAML is indented with spaces"]),
        ("a:\n  \tb: 1", ["2: : invalid YAML: a tab at the beginning of a line; YAML is indented with spaces"]),
        (
            "{\n\t\"a\": @x\n}",
            ["2: : invalid YAML: found character that cannot start any token (while scanning for the next token)"]
        ),
        ("a: 1\n b: 2", ["2: : invalid YAML: mapping values are not allowed in this context"]),
        ("a: 1\nb: \u{1}", ["2: : invalid YAML: control characters are not allowed"]),
        (
            "{\"a\": \"\\ud83d\\ude00\"}",
            [
                "1: : invalid YAML: found invalid Unicode character escape code (while parsing a quoted scalar); write characters beyond "
                    + "U+FFFF as they are, not as two \\u escapes"
            ]
        ),
        // What can still be read is read: the duplicate is named although the syntax error comes later.
        (
            "a: 1\na: 2\nb: ]",
            [
                "2: a: duplicate key; it is on line 1 already",
                "3: : invalid YAML: did not find expected node content (while parsing a block node)",
            ]
        ),
    ]

    @Test(arguments: refused)
    func whatHidesTheMeaningOfALineIsRefusedWithItsLine(row: (text: String, expected: [String])) {
        #expect(problems(row.text) == row.expected)
    }

    @Test(arguments: ["", "# nothing\n", "null", "~", "---\n", "{}", "\u{feff}", "%YAML 1.1\n---\n"])
    func aFileWithoutValuesIsAnEmptyMapping(text: String) {
        let tree = YAMLTree(Array(text.utf8))
        #expect(tree.problems == [])
        #expect(tree.isComplete)
        #expect(tree.root.members.isEmpty)
    }

    @Test func aValueHasTheLineOfItsKeyAndAnItemItsOwn() throws {
        let tree = YAMLTree(Array("\n\na:\n  - x\n  -\n    b: |\n      text\r\nc: >-\n   folded\n   text\n".utf8))
        #expect(tree.problems == [])
        let list = try #require(tree.root["a"])
        #expect(list.source == .file(line: 3))
        guard case .sequence(let items) = list.content, case .mapping(let inner) = items[1].content else {
            Issue.record("not the shape that was written")
            return
        }
        #expect(items.map(\.source) == [.file(line: 4), .file(line: 6)])
        #expect(inner["b"]?.source == .file(line: 6))
        guard case .scalar(let folded, .quoted)? = tree.root["c"]?.content else {
            Issue.record("a folded text counts as quoted")
            return
        }
        #expect(folded == "folded text")
    }

    @Test func jsonIsReadByTheSameRules() {
        let reader = ConfigReader.parse(#"{"a":{"b":[1,true,null,"x\u00e9\/"]},"c":"\ud7ff"}"#)
        #expect(reader.root.section("a").value("b")?.encoded() == Array(#"[1,true,null,"xé/"]"#.utf8))
        #expect(reader.root.string("c") == "\u{d7ff}")
        #expect(reader.problems == [])
    }

    @Test func invalidUTF8IsNamedWithItsLine() {
        #expect(YAMLTree(Array("a: 1\nb: ".utf8) + [0xFF]).problems == [.init(line: 2, path: "", message: "invalid UTF-8")])
        #expect(YAMLTree([0xC0, 0x80]).problems == [.init(line: 1, path: "", message: "invalid UTF-8")])
        #expect(YAMLTree([0xFF, 0xFE, 0x61, 0x00]).problems == [.init(line: 1, path: "", message: "invalid UTF-8")])
        #expect(
            YAMLTree(Array("a: ".utf8) + [0xED, 0xA0, 0x80]).problems == [.init(line: 1, path: "", message: "invalid UTF-8")])
    }

    // MARK: - Limits

    @Test func sixteenLevelsAreReadAndSeventeenRefused() {
        func nested(_ depth: Int) -> String {
            "a: " + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1)
        }
        #expect(problems(nested(15)) == [])
        #expect(problems(nested(16)) == [])
        #expect(problems(nested(17)) == ["1: a\(String(repeating: "[0]", count: 15)): nested deeper than 16 levels"])
        // Far beyond, no stack is used up.
        #expect(problems(nested(200_000)).count == 1)
        #expect(problems("a: " + String(repeating: "{\"a\": ", count: 50_000)).count == 1)
    }

    @Test func aFileOfOneMebibyteIsReadAndOneByteMoreRefused() {
        let line = "a: b\n#"
        let fill = { (count: Int) in Array(line.utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: count - line.utf8.count) }
        #expect(YAMLTree(fill(1 << 20 - 1)).problems == [])
        #expect(YAMLTree(fill(1 << 20)).problems == [])
        let tree = YAMLTree(fill(1 << 20 + 1))
        #expect(
            tree.problems == [.init(line: nil, path: "", message: "the file has 1048577 bytes, more than the 1048576 allowed")])
        #expect(!tree.isComplete)
    }

    @Test func aKeyHasAtMostTwoHundredAndFiftyBytes() {
        let key = { (count: Int) in String(repeating: "k", count: count) }
        #expect(problems("\(key(250)): 1") == [])
        #expect(problems("\(key(251)): 1") == ["1: \"\(key(100))…\": a key may have at most 250 bytes"])
    }

    @Test func manyKeysTakeNoLongerThanTheyMust() {
        let text = (0..<60_000).map { "key\($0): 1\n" }.joined()
        let tree = YAMLTree(Array(text.utf8))
        #expect(tree.root.members.count == 60_000)
        #expect(tree.problems == [])
    }

    // MARK: - Hostile input

    private static let sample = """
        # comment
        listen: "[::]:8787"
        january: { base_url: https://x.example, budget_seconds: 8.5 }
        sessions:
          from: [bearer, { cookie: app }]
          verifiers:
            - type: jwt
              required_claims: {azp: ["web", 1, null, "\\u00e9"]}
        text: |
          several
          lines
        folded: 'single ''quotes'' é 😀'
        """

    @Test func aFileCutAnywhereIsReadOrRefusedWithALine() {
        let bytes = Array(Self.sample.utf8)
        #expect(YAMLTree(bytes).problems == [])
        for count in bytes.indices {
            let tree = YAMLTree(Array(bytes[..<count]))
            #expect(tree.isComplete == tree.problems.isEmpty, "cut after \(count) bytes")
            #expect(tree.problems.allSatisfy { $0.line.map { (1...13).contains($0) } == true })
        }
    }

    /// Seeded: random bytes, and a good file with a few bytes changed. Nothing traps, and what is incomplete says why.
    @Test func randomBytesNeverCrash() {
        var random = SeededRandom(seed: 0x59_41_4D_4C)
        let alphabet = Array("ab:-[]{}#&*!|>'\"%@`,? \n\t\\<~é\u{1F600}\u{85}".utf8) + [0, 0xFF, 0xC3]
        let good = Array(Self.sample.utf8)
        for round in 0..<4_000 {
            var bytes: [UInt8]
            if round.isMultiple(of: 2) {
                bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? 0 }
            } else {
                bytes = good
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    bytes[Int.random(in: bytes.indices, using: &random)] = alphabet.randomElement(using: &random) ?? 0
                }
            }
            let reader = ConfigReader.parse(bytes, environment: [:])
            readSample(reader.root)
            #expect(YAMLTree(bytes).isComplete || !reader.problems.isEmpty)
            _ = reader.printed()
        }
    }

    private func readSample(_ root: ConfigSection) {
        _ = root.string("listen")
        _ = root.section("january").seconds("budget_seconds", default: .seconds(8), in: .zero ... .seconds(60))
        let sessions = root.section("sessions")
        for item in sessions.items("from") { _ = item.section?.requiredString("cookie") }
        for verifier in sessions.sections("verifiers") {
            _ = verifier.requiredString("type")
            _ = verifier.value("required_claims")
        }
        _ = root.strings("text")
        _ = root.boolean("folded", default: true)
        root.finish()
    }
}
