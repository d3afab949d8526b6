import StrictJSON
import Testing

@Suite struct JSONValueTests {
    @Test(
        arguments: [
            (.null, "null"), (true, "true"), (["b": 1, "a": [false, "x"]], #"{"b":1,"a":[false,"x"]}"#),
            ("\"\\/\u{8}\n\r\t\u{1F}é\u{7F}", "\"\\\"\\\\/\\u0008\\n\\r\\t\\u001fé\u{7F}\""), ([], "[]"), ([:], "{}"),
        ] as [(JSONValue, String)])
    func encodingIsCompactAndKeepsOrder(value: JSONValue, text: String) throws {
        #expect(String(decoding: value.encoded(), as: UTF8.self) == text)
        #expect(try JSONValue.parse(text) == value)
    }

    @Test func objectsAreEqualWithoutRegardToOrder() {
        let left: JSONObject = ["a": 1, "b": ["c": 2, "d": 3]]
        #expect(left == ["b": ["d": 3, "c": 2], "a": 1.0])
        #expect(left != ["a": 1])
        #expect(left != ["a": 1, "b": ["c": 2, "d": 4]])
        #expect(left != ["a": 1, "x": ["c": 2, "d": 3]])
    }

    /// Unicode equivalence is not equality: an issuer or a subject is its octets.
    @Test func stringsAreComparedByBytes() {
        #expect(JSONValue.string("\u{E9}") != .string("e\u{301}"))
        #expect(JSONObject([JSONMember(name: "\u{E9}", value: 1), JSONMember(name: "e\u{301}", value: 2)]).count == 2)
        #expect("\u{212A}".hasSameBytes(as: "K") == false)
        #expect("a longer text than fits inline".hasSameBytes(as: "a longer text than fits " + "inline"))
        #expect("short".hasSameBytes(as: String("xshort".dropFirst())))
        #expect("short".hasSameBytes(as: "Short") == false)
    }

    /// Names of up to seven bytes are kept in another way than longer ones.
    @Test(arguments: ["", "a", "\u{0}", "seven77", "eight888", "é23456", "é234567", "\"\\", "sevén77", "a\u{0}", "\u{1F600}"])
    func namesOfAnyLengthComeBack(name: String) throws {
        let made = JSONObject([JSONMember(name: name, value: 1)])
        let text = JSONValue.object(made).encoded()
        guard case .object(let parsed) = try JSONValue.parse(text) else { return #expect(Bool(false)) }
        #expect(parsed == made && parsed.members.map(\.name) == [name] && made.members.map(\.name) == [name])
        #expect(parsed[name] == 1 && parsed[name + "x"] == nil && parsed["x" + name] == nil)
        let twice = Array(#"{"#.utf8) + JSONValue.string(name).encoded() + Array(":1,".utf8) + text.dropFirst()
        #expect(throws: JSONParseError(.duplicateName, at: text.count)) { try JSONValue.parse(twice) }
    }

    /// Beyond 16 members names are looked for in a set.
    @Test func repeatedNamesAreSeenInLargeObjectsToo() throws {
        for repeated in ["n3", "a long name 3", "n20", "a long name 20"] {
            var members = (0..<24).flatMap { ["\"n\($0)\":0", "\"a long name \($0)\":0"] }
            #expect(try JSONValue.parse("{" + members.joined(separator: ",") + "}").object?.count == 48)
            members.append("\"\(repeated)\":1")
            let text = "{" + members.joined(separator: ",") + "}"
            let error = #expect(throws: JSONParseError.self) { try JSONValue.parse(text) }
            #expect(error?.reason == .duplicateName)
        }
    }

    @Test func settingAMemberReplacesAppendsOrRemoves() {
        var object: JSONObject = ["a": 1, "b": 2, "a": 3]
        #expect(object.members.map(\.name) == ["a", "b"])
        #expect(object["a"] == 3)
        object["b"] = 4
        object["c"] = 5
        object["a"] = nil
        #expect(object.members == [JSONMember(name: "b", value: 4), JSONMember(name: "c", value: 5)])
        object["absent"] = nil
        #expect(object.count == 2)
    }

    @Test func accessorsAnswerForTheirKindOnly() {
        let values: [JSONValue] = [.null, true, 1, "x", [1], ["a": 1]]
        #expect(values.map(\.typeName) == ["null", "boolean", "number", "string", "array", "object"])
        #expect(values.map(\.isNull) == [true, false, false, false, false, false])
        #expect(values.compactMap(\.bool) == [true])
        #expect(values.compactMap(\.number) == [JSONNumber(1)])
        #expect(values.compactMap(\.string) == ["x"])
        #expect(values.compactMap(\.array) == [[1]])
        #expect(values.compactMap(\.object) == [["a": 1]])
    }
}

/// RFC 6901 section 5, and what it leaves out.
@Suite struct JSONPointerTests {
    static let document =
        #"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"o":{"p":null}}"#

    @Test(
        arguments: [
            ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/foo/1", "baz"), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3),
            ("/g|h", 4), ("/i\\j", 5), ("/k\"l", 6), ("/ ", 7), ("/m~0n", 8), ("/o/p", .some(.null)), ("/foo/2", nil),
            ("/foo/-", nil),
            ("/foo/00", nil), ("/foo/01", nil), ("/foo/-1", nil), ("/foo/1e0", nil), ("/foo/", nil),
            ("/foo/99999999999999999999", nil),
            ("/absent", nil), ("/foo/0/x", nil), ("//", nil), ("/o/p/q", nil),
        ] as [(String, JSONValue?)])
    func pointerFindsItsValue(text: String, expected: JSONValue?) throws {
        let pointer = try #require(JSONPointer(text))
        #expect(try JSONValue.parse(Self.document)[pointer] == expected)
    }

    @Test func emptyPointerIsTheWholeDocument() throws {
        let pointer = try #require(JSONPointer(""))
        let document = try JSONValue.parse(Self.document)
        #expect(document[pointer] == document)
    }

    @Test(arguments: ["foo", "#/foo", "/a~", "/a~2", "/~01~", " /a"])
    func malformedPointersAreNone(text: String) {
        #expect(JSONPointer(text) == nil)
    }

    @Test func tildeOneIsUnescapedBeforeTildeZero() {
        #expect(JSONPointer("/~01")?.tokens == ["~1"])
    }
}
