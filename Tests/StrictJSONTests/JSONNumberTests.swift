import StrictJSON
import Testing

/// RFC 8259 section 6: numbers of any size, none of which may trap.
@Suite struct JSONNumberTests {
    static let nines = String(repeating: "9", count: 400)

    @Test(
        arguments: [
            ("0", 0, 0.0), ("-0", 0, 0.0), ("1", 1, 1), ("-1", -1, -1), ("1.0", 1, 1), ("1e3", 1000, 1000), ("1E+3", 1000, 1000),
            ("1000e-3", 1, 1), ("12.5", nil, 12.5), ("1.5e1", 15, 15), ("1e-1", nil, 0.1), ("0e999999999999999999999", 0, 0),
            ("9223372036854775807", Int64.max, 9.223372036854775807e18), ("9223372036854775808", nil, 9.223372036854775808e18),
            ("-9223372036854775808", Int64.min, -9.223372036854775808e18),
            ("-9223372036854775809", nil, -9.223372036854775809e18),
            ("1e18", 1_000_000_000_000_000_000, 1e18), ("1e19", nil, 1e19), ("1e400", nil, nil), ("-1E400", nil, nil),
            ("1e999999", nil, nil), ("1e-999999", nil, 0), ("1e99999999999999999999999", nil, nil),
            ("1.7976931348623157e308", nil, 1.7976931348623157e308),
            ("4102444800.5", nil, 4_102_444_800.5), ("123456789012345", 123_456_789_012_345, 123_456_789_012_345),
            ("1234567890123456", 1_234_567_890_123_456, 1_234_567_890_123_456), (nines, nil, nil), ("0.\(nines)", nil, 1),
            ("100000000000000000000e-20", 1, 1),
        ] as [(String, Int64?, Double?)])
    func valueIsExactOrNothing(text: String, integer: Int64?, double: Double?) throws {
        let number = try #require(JSONNumber(text))
        #expect(number.integer == integer)
        #expect(number.double == double)
        #expect(number.text == text)
    }

    @Test(
        arguments: [
            ["1", "1.0", "1e0", "10e-1", "0.1e1", "1.000", "100E-2"], ["0", "-0", "0.0", "-0e5", "0e99999999999999999999"],
            ["-12.5", "-1250e-2", "-0.125e2"], ["1e400", "10e399", "1E+400"], ["1e99999999999999999999"],
            ["2e99999999999999999999"],
            ["1e-400"], [nines], [nines + "0", nines + "e1"], ["0.1"], ["100000000000000000000", "1e20"],
        ])
    func numbersAreEqualByValueAndOnlyThen(equal: [String]) {
        let numbers = equal.compactMap { JSONNumber($0) }
        #expect(numbers.count == equal.count)
        #expect(Set(numbers).count == 1)
        #expect(numbers.allSatisfy { $0 == numbers[0] })
        #expect(numbers.allSatisfy { $0 != JSONNumber(17) })
    }

    @Test(arguments: ["", "-", "+1", "01", "1.", ".1", "1e", "1e+", "0x1", "NaN", " 1", "1 ", "1_000", "１"])
    func textThatIsNoNumberIsNone(text: String) {
        #expect(JSONNumber(text) == nil)
    }

    @Test func swiftNumbersAreWrittenAsJSON() throws {
        #expect(JSONNumber(Int64.min).text == "-9223372036854775808")
        #expect(JSONNumber(1.5)?.text == "1.5")
        #expect(JSONNumber(1e300)?.double == 1e300)
        #expect(JSONNumber(Double.infinity) == nil)
        #expect(JSONNumber(Double.nan) == nil)
    }
}
