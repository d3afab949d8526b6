import Primitives
import TestSupport
import Testing

@testable import Telemetry

@Suite struct LogLineTests {
    private func line(
        _ fields: [LogField], format: LogFormat = .json, level: LogLevel = .info, type: LogType = .log, leftOut: Int = 0
    ) -> String {
        let line = LogLine(
            format: format, time: WallInstant(nanosecondsSinceEpoch: 1_795_996_800_042_999_999), level: level, type: type,
            message: "token \"minted\"", fields: fields, leftOut: leftOut)
        return String(decoding: line.bytes, as: UTF8.self)
    }

    @Test func aJSONLineHasTimeLevelTypeAndMessageBeforeTheFields() {
        let fields = [
            LogField("request_id", "00ff"), LogField("status", 201),
            LogField("duration_ms", .milliseconds(.microseconds(12_345))),
            LogField("whole", .double(3)), LogField("fenced", false), LogField("scopes", .strings(["foods:read", "a\"b"])),
            LogField("none", .strings([])), LogField("nan", .double(.nan)), LogField("big", .double(1e300)),
            LogField("least", .integer(.min)),
        ]
        #expect(
            line(fields, level: .warning, type: .request) == """
                {"time":"2026-11-30T00:00:00.042Z","level":"warning","type":"request","message":"token \\"minted\\"",\
                "request_id":"00ff","status":201,"duration_ms":12.345,"whole":3,"fenced":false,"scopes":["foods:read","a\\"b"],\
                "none":[],"nan":null,"big":1e+300,"least":-9223372036854775808}

                """)
    }

    @Test func aTextLineHasTheSameThings() {
        let fields = [
            LogField("request_id", "00ff"), LogField("status", 201), LogField("reason", "two words"), LogField("empty", ""),
            LogField("forged", "a level=error"), LogField("scopes", .strings(["foods:read", "a/b"])),
            LogField("odd", .strings(["a,b", "c"])), LogField("none", .strings([])),
        ]
        #expect(
            line(fields, format: .text, leftOut: 7) == """
                2026-11-30T00:00:00.042Z info log token \\"minted\\" request_id=00ff status=201 reason="two words" empty="" \
                forged="a level=error" scopes=foods:read,a/b odd=["a,b","c"] none=[] left_out=7

                """)
    }

    @Test func leftOutIsTheLastMember() {
        #expect(line([LogField("a", 1)], leftOut: 3).hasSuffix("\"a\":1,\"left_out\":3}\n"))
        #expect(!line([LogField("a", 1)], leftOut: 0).contains("left_out"))
    }

    @Test(arguments: [
        ("tab\there", "tab\\there"), ("line\r\nforged", "line\\r\\nforged"), ("\u{0}\u{1F}\u{7F}", "\\u0000\\u001f\\u007f"),
        ("\u{8}\u{C}", "\\b\\f"), ("back\\slash", "back\\\\slash"),
        ("C1 \u{80}\u{9B}\u{9F}\u{A0}", "C1 \\u0080\\u009b\\u009f\u{A0}"),
        ("\u{2027}\u{2028}\u{2029}\u{202A}\u{202E}\u{202F}", "\u{2027}\\u2028\\u2029\\u202a\\u202e\u{202F}"),
        ("\u{2065}\u{2066}\u{2069}\u{206A}\u{200D}\u{200E}\u{200F}", "\u{2065}\\u2066\\u2069\u{206A}\u{200D}\\u200e\\u200f"),
        ("é ü 漢字 😀 …", "é ü 漢字 😀 …"), ("", ""),
    ])
    func aValueCannotEndItsLineOrSpeakToATerminal(value: String, expected: String) {
        #expect(line([LogField("v", value)]).hasSuffix("\"v\":\"\(expected)\"}\n"))
        if !value.isEmpty { #expect(line([LogField("v", value)], format: .text).hasSuffix(" v=\"\(expected)\"\n")) }
    }

    @Test(arguments: [LogFormat.json, .text])
    func everyLineIsOneLineOfValidText(format: LogFormat) {
        var random = SeededRandom(seed: 9)
        for _ in 0..<2_000 {
            var text = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 0...40, using: &random) {
                let limit: UInt32 = Bool.random(using: &random) ? 0x100 : 0x3000
                if let scalar = Unicode.Scalar(UInt32.random(in: 0..<limit, using: &random)) { text.append(scalar) }
            }
            let result = line([LogField("v", String(text))], format: format)
            let harmful = result.unicodeScalars.dropLast().filter {
                $0.properties.generalCategory == .control || $0.properties.generalCategory == .lineSeparator
                    || $0.properties.generalCategory == .paragraphSeparator
            }
            #expect(harmful.isEmpty && result.last == "\n", "\(String(text).debugDescription)")
        }
    }

    @Test(arguments: [(4095, false), (4096, false), (4097, true)])
    func aLongValueIsCut(count: Int, isCut: Bool) {
        let value = String(repeating: "x", count: count)
        let expected = isCut ? String(repeating: "x", count: 4096) + "…" : value
        #expect(line([LogField("v", value)]).hasSuffix("\"v\":\"\(expected)\"}\n"))
        #expect(line([LogField("v", value)], format: .text).hasSuffix(isCut ? " v=\"\(expected)\"\n" : " v=\(expected)\n"))
    }

    @Test(arguments: [4093, 4094, 4095, 4096])
    func aLongValueIsCutAtACharacter(count: Int) {
        let value = String(repeating: "x", count: count) + "😀" + "y"
        let whole = count + 4 <= 4096 ? String(repeating: "x", count: count) + "😀" : String(repeating: "x", count: count)
        let expected = count + 5 <= 4096 ? value : whole + "…"
        #expect(line([LogField("v", value)]).hasSuffix("\"v\":\"\(expected)\"}\n"))
    }

    @Test func aSecretInAStringIsRedacted() {
        #expect(line([LogField("v", "\(Secret("sk-hush"))")]).hasSuffix("\"v\":\"<redacted>\"}\n"))
    }

    @Test(arguments: [
        (0, "0"), (1, "0.001"), (10, "0.01"), (100, "0.1"), (999, "0.999"), (1000, "1"), (1001, "1.001"), (12_340, "12.34"),
        (-5, "-0.005"), (-1500, "-1.5"), (Int.max, "9223372036854775.807"), (.min, "-9223372036854775.808"),
    ])
    func thousandthsAreExact(value: Int, expected: String) {
        #expect(line([LogField("v", .thousandths(value))]).hasSuffix("\"v\":\(expected)}\n"))
    }

    @Test(arguments: [
        (0 as Int64, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
        (951_827_696_789_000_000, "2000-02-29T12:34:56.789Z"),
        (951_868_799_999_999_999, "2000-02-29T23:59:59.999Z"), (951_868_800_000_000_000, "2000-03-01T00:00:00.000Z"),
        (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"), (4_107_542_399_000_000_000, "2100-02-28T23:59:59.000Z"),
        (1_798_761_599_001_000_000, "2026-12-31T23:59:59.001Z"), (.max, "2262-04-11T23:47:16.854Z"),
        (.min, "1677-09-21T00:12:43.145Z"),
    ])
    func timesAreRFC3339InUTC(nanoseconds: Int64, expected: String) {
        #expect(Timestamp.text(WallInstant(nanosecondsSinceEpoch: nanoseconds)) == expected)
    }

    @Test(arguments: [
        (
            LogFormat.json,
            #","end_user":"00000000000000010123456789abcdef","token":"00000000000000ff","n":"a b","code":"ok","l":["a","\"b"]}"#
        ),
        (.text, #" end_user=00000000000000010123456789abcdef token=00000000000000ff n="a b" code=ok l=["a","\"b"]"#),
    ])
    func fieldsThatAreAddedOneByOneLookLikeAll(format: LogFormat, expected: String) {
        var line = LogLine(
            format: format, time: WallInstant(nanosecondsSinceEpoch: 0), level: .info, type: .audit, message: "mint")
        line.add("end_user", hex: 1, 0x0123_4567_89AB_CDEF)
        line.add("token", hex: 0xFF)
        line.add("n", "a b")
        line.add("code", "ok")
        line.add("l", LogList(["a", "\"b"]))
        line.end()
        #expect(String(decoding: line.bytes, as: UTF8.self).hasSuffix(expected + "\n"))
    }
}
