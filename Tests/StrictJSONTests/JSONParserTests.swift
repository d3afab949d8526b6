import Foundation
import Primitives
import StrictJSON
import TestSupport
import Testing

/// RFC 8259, read strictly.
@Suite struct JSONParserTests {
    struct Accepted: CustomTestStringConvertible, Sendable {
        let text: String
        let value: JSONValue
        var testDescription: String { text }
        init(_ text: String, _ value: JSONValue) {
            self.text = text
            self.value = value
        }
    }

    static let accepted = [
        Accepted("null", .null), Accepted("true", true), Accepted("false", false), Accepted(" \t\r\n1 \t\r\n", 1),
        Accepted("[]", []), Accepted("{}", [:]), Accepted("[ ]", []), Accepted("{ }", [:]), Accepted("[[],{}]", [[], [:]]),
        Accepted("\"\"", ""), Accepted("{\"\":\"\"}", ["": ""]),
        Accepted(#"{"a":1,"b":[true,null],"c":{"d":"e"}}"#, ["a": 1, "b": [true, .null], "c": ["d": "e"]]),
        Accepted(#"{ "a" : 1 , "b" : 2 }"#, ["b": 2, "a": 1]),
        Accepted(#""\"\\\/\b\f\n\r\t""#, .string("\"\\/\u{8}\u{C}\n\r\t")),
        Accepted(#""\u0041\u00e9\u20AC\uD83D\uDE00\u0000""#, "Aé€😀\0"),
        Accepted(#""aé€😀z""#, "aé€😀z"),
        Accepted("\"\u{7F}\u{2028}\u{FFFF}\"", "\u{7F}\u{2028}\u{FFFF}"),
        // Different names: nothing is trimmed, folded or normalized.
        Accepted("{\"a\":1,\"A\":2,\" a\":3,\"a\\u0000\":4}", ["a": 1, "A": 2, " a": 3, "a\0": 4]),
        Accepted("{\"\u{E9}\":1,\"e\u{301}\":2}", ["\u{E9}": 1, "e\u{301}": 2]),
        Accepted("{\"longlong1\":1,\"longlong2\":2}", ["longlong1": 1, "longlong2": 2]),
        Accepted("{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}", ["a": ["a": ["a": 1]], "b": ["a": 1]]),
        Accepted("[0,-0,1.5,-1.5e+3,1E400,0.0]", [0, 0, 1.5, -1500, .number(number("1E400")), 0]),
        Accepted(#"["12345678\"","1234567\\","\\\\\\\\"]"#, ["12345678\"", "1234567\\", "\\\\\\\\"]),
    ]

    static func number(_ text: String) -> JSONNumber { JSONNumber(text) ?? JSONNumber(0) }

    @Test(arguments: accepted)
    func validTextBecomesItsValue(_ row: Accepted) throws {
        #expect(try JSONValue.parse(row.text) == row.value)
    }

    @Test(arguments: accepted.filter { $0.text.hasPrefix("{") || $0.text.hasPrefix("[") || $0.text.hasPrefix("\"") })
    func everyCutOfAValidTextIsRefused(_ row: Accepted) {
        let bytes = Array(row.text.utf8)
        for end in 0..<bytes.count {
            let reason = reason(of: Array(bytes[..<end]))
            #expect([.unexpectedEnd, .invalidNumber].contains(reason), "cut at \(end) of \(row.text)")
        }
    }

    private func reason(of bytes: [UInt8], limits: JSONLimits = .standard) -> JSONParseError.Reason? {
        do {
            _ = try JSONValue.parse(bytes, limits: limits)
            return nil
        } catch { return error.reason }
    }

    struct Refused: CustomTestStringConvertible, Sendable {
        let bytes: [UInt8]
        let error: JSONParseError
        var testDescription: String { String(decoding: bytes, as: UTF8.self) }
        init(_ bytes: [UInt8], _ reason: JSONParseError.Reason, at offset: Int) {
            self.bytes = bytes
            error = JSONParseError(reason, at: offset)
        }
        init(_ text: String, _ reason: JSONParseError.Reason, at offset: Int) {
            self.init(Array(text.utf8), reason, at: offset)
        }
    }

    static let refused = [
        Refused("", .unexpectedEnd, at: 0), Refused("  ", .unexpectedEnd, at: 2),
        Refused("1 2", .trailingBytes, at: 2), Refused("{}}", .trailingBytes, at: 2), Refused("null\0", .trailingBytes, at: 4),
        Refused("[1,]", .syntax, at: 3), Refused("[,1]", .syntax, at: 1), Refused("[1 2]", .syntax, at: 3),
        Refused("{\"a\":1,}", .syntax, at: 7), Refused("{a:1}", .syntax, at: 1), Refused("{1:1}", .syntax, at: 1),
        Refused("{\"a\" 1}", .syntax, at: 5), Refused("{\"a\":}", .syntax, at: 5), Refused("{\"a\":1 \"b\":2}", .syntax, at: 7),
        Refused("tru ", .syntax, at: 0), Refused("TRUE", .syntax, at: 0), Refused("nul1", .syntax, at: 0),
        Refused("NaN", .syntax, at: 0), Refused("Infinity", .syntax, at: 0), Refused("'a'", .syntax, at: 0),
        Refused("/**/1", .syntax, at: 0), Refused("\u{A0}1", .syntax, at: 0), Refused("+1", .syntax, at: 0),
        Refused(".5", .syntax, at: 0), Refused("\u{FEFF}{}", .byteOrderMark, at: 0),
        Refused("-", .invalidNumber, at: 0), Refused("01", .invalidNumber, at: 0), Refused("-01", .invalidNumber, at: 0),
        Refused("1.", .invalidNumber, at: 0), Refused("1.e1", .invalidNumber, at: 0), Refused("1e", .invalidNumber, at: 0),
        Refused("1e+", .invalidNumber, at: 0), Refused("0x10", .trailingBytes, at: 1),
        Refused("-Infinity", .invalidNumber, at: 0),
        Refused("\"a\u{1F}b\"", .controlCharacter, at: 2), Refused("\"12345678\n\"", .controlCharacter, at: 9),
        Refused("\"\0\"", .controlCharacter, at: 1),
        Refused(#""\x""#, .invalidEscape, at: 1), Refused(#""\u12g4""#, .invalidEscape, at: 1),
        Refused(#""ab\u12""#, .invalidEscape, at: 3), Refused(#""\U0041""#, .invalidEscape, at: 1),
        Refused(#""\ud800""#, .loneSurrogate, at: 1), Refused(#""\udc00""#, .loneSurrogate, at: 1),
        Refused(#""\ud800\ud800""#, .loneSurrogate, at: 1), Refused(#""\ud800x""#, .loneSurrogate, at: 1),
        Refused(#""\ud800\u0041""#, .loneSurrogate, at: 1), Refused(#"{"\udc00":1}"#, .loneSurrogate, at: 2),
        Refused([0x22, 0xFF, 0x22], .invalidUTF8, at: 0), Refused([0x22, 0xC0, 0xAF, 0x22], .invalidUTF8, at: 0),
        Refused([0x22, 0xED, 0xA0, 0x80, 0x22], .invalidUTF8, at: 0), Refused([0x22, 0xE2, 0x82, 0x22], .invalidUTF8, at: 0),
        Refused([0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], .invalidUTF8, at: 0),
        Refused([0x22, 0x5C, 0x6E, 0x80, 0x22], .invalidUTF8, at: 0), Refused([0x80], .syntax, at: 0),
        Refused(#"{"a":1,"a":1}"#, .duplicateName, at: 7), Refused(#"{"a":1,"\u0061":2}"#, .duplicateName, at: 7),
        Refused(#"{"\u0061":1,"a":2}"#, .duplicateName, at: 12), Refused(#"{"":1,"":2}"#, .duplicateName, at: 6),
        Refused(#"[{"x":{"a":1,"b":{},"a":2}}]"#, .duplicateName, at: 20),
        Refused(#"{"longername":1,"longername":2}"#, .duplicateName, at: 16),
        Refused(#"{"\ud83d\ude00":1,"😀":2}"#, .duplicateName, at: 18),
    ]

    @Test(arguments: refused)
    func invalidTextIsRefusedWithItsReason(_ row: Refused) {
        #expect(throws: row.error) { try JSONValue.parse(row.bytes) }
    }

    @Test(arguments: [1, 15, 16, 17, 18, 40, 500])
    func namesAreUniqueAmongAnyNumberOfMembers(count: Int) throws {
        let members = (0..<count).map { "\"name\($0)\":\($0)" }
        let object = try #require(try JSONValue.parse("{" + members.joined(separator: ",") + "}").object)
        #expect(object.count == count)
        #expect(object["name\(count - 1)"] == .number(JSONNumber(count - 1)))
        for repeated in Set([0, count / 2, count - 1]) {
            let text = "{" + members.joined(separator: ",") + ",\"name\(repeated)\":0}"
            #expect(reason(of: Array(text.utf8)) == .duplicateName)
        }
    }

    @Test(arguments: ["[": "]", "{\"a\":": "}"])
    func nestingIsAllowedUpToTheLimit(open: String, close: String) {
        func text(_ depth: Int) -> [UInt8] {
            Array((String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)).utf8)
        }
        #expect(reason(of: text(15), limits: JSONLimits(bytes: 1_000, depth: 16)) == nil)
        #expect(reason(of: text(16), limits: JSONLimits(bytes: 1_000, depth: 16)) == nil)
        #expect(reason(of: text(17), limits: JSONLimits(bytes: 1_000, depth: 16)) == .tooDeep)
        #expect(reason(of: text(32)) == nil)
        #expect(reason(of: text(33)) == .tooDeep)
        #expect(reason(of: text(10_000), limits: JSONLimits(bytes: 100_000)) == .tooDeep)
        #expect(reason(of: text(1), limits: JSONLimits(bytes: 100, depth: 0)) == .tooDeep)
        #expect(reason(of: text(0), limits: JSONLimits(bytes: 100, depth: 0)) == nil)
    }

    @Test func textIsAllowedUpToTheLimit() {
        let limits = JSONLimits(bytes: 8)
        #expect(reason(of: Array("\"12345\"".utf8), limits: limits) == nil)
        #expect(reason(of: Array("\"123456\"".utf8), limits: limits) == nil)
        #expect(reason(of: Array("\"1234567\"".utf8), limits: limits) == .tooLarge)
        #expect(reason(of: Array(repeating: 0x20, count: 65_537)) == .tooLarge)
        #expect(reason(of: Array(repeating: 0x20, count: 65_536)) == .unexpectedEnd)
    }

    @Test func aNumberOfAnyLengthIsKept() throws {
        let digits = String(repeating: "9", count: 10_000)
        #expect(try JSONValue.parse("[\(digits)]").array?.first?.number?.text == digits)
    }

    /// Values are built at random, written and read again; then bytes are changed, and what is still accepted must be JSON for another
    /// reader, too, and must survive writing.
    @Test func randomTextsNeverCrashAndRoundTrip() throws {
        let seed: UInt64 = 20_261_130
        var random = SeededRandom(seed: seed)
        for round in 0..<500 {
            let value = randomValue(&random, depth: 4)
            var bytes = value.encoded()
            #expect(try JSONValue.parse(bytes) == value, "seed \(seed), round \(round)")
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert(Array(#"{}[]",:\ue09.-"#.utf8).randomElement(using: &random) ?? 0, at: index)
                default: if bytes.count > 1 { bytes.remove(at: index) }
                }
            }
            guard let changed = try? JSONValue.parse(bytes) else { continue }
            #expect(try JSONValue.parse(changed.encoded()) == changed, "seed \(seed), round \(round)")
            let hasExponent = bytes.contains(UInt8(ascii: "e")) || bytes.contains(UInt8(ascii: "E"))
            if !hasExponent {
                #expect(throws: Never.self, "seed \(seed), round \(round)") {
                    try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
                }
            }
        }
    }

    private func randomValue(_ random: inout SeededRandom, depth: Int) -> JSONValue {
        switch Int.random(in: 0..<(depth == 0 ? 4 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .number(JSONNumber(Int64.random(in: -1_000_000...1_000_000, using: &random)))
        case 3: return .string(randomText(&random))
        case 4:
            return .array((0..<Int.random(in: 0..<5, using: &random)).map { _ in randomValue(&random, depth: depth - 1) })
        default:
            let count = Int.random(in: 0..<24, using: &random)
            return .object(
                JSONObject(
                    (0..<count).map { _ in JSONMember(name: randomText(&random), value: randomValue(&random, depth: depth - 1)) })
            )
        }
    }

    private func randomText(_ random: inout SeededRandom) -> String {
        let alphabet = Array("abc \"\\/\n\u{0}\u{1F}é€😀\u{301}")
        return String((0..<Int.random(in: 0..<20, using: &random)).compactMap { _ in alphabet.randomElement(using: &random) })
    }
}
