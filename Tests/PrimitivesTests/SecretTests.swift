import Primitives
import TestSupport
import Testing

struct SecretTests {
    @Test
    func aSecretCannotBePrinted() {
        let secret = Secret("sk-marker")
        var dumped = ""
        dump(secret, to: &dumped)
        dump([secret], to: &dumped)
        dump(Optional(secret), to: &dumped)
        for text in ["\(secret)", secret.debugDescription, String(reflecting: secret), "\([secret])", dumped] {
            #expect(!text.contains("marker"))
        }
    }

    @Test
    func secretsAreComparedByTheirBytes() {
        #expect(Secret("abc").equals(Secret("abc")))
        #expect(!Secret("abc").equals(Secret("abd")))
        #expect(!Secret("abc").equals(Secret("abcd")))
        #expect(Secret("").equals(Secret([])))
        #expect(Secret([1, 2]).copyBytes() == [1, 2])
    }

    @Test
    func timeSaturatesInsteadOfTrapping() {
        let late = MonotonicInstant(nanoseconds: .max - 1)
        #expect(late + .seconds(1) == .distantFuture)
        #expect(WallInstant(secondsSinceEpoch: .max).nanosecondsSinceEpoch == .max)
        #expect(WallInstant(secondsSinceEpoch: .min).nanosecondsSinceEpoch == .min)
        #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
        #expect(WallInstant(nanosecondsSinceEpoch: -1).secondsSinceEpoch == -1)
    }

    @Test(arguments: [
        ("0", 0), ("007", 7), ("9223372036854775807", Int.max), ("9223372036854775808", nil), ("", nil), ("-1", nil), ("1 ", nil),
    ])
    func decimalDigitsAndNothingElse(text: String, expected: Int?) { #expect(ASCII.decimal(text.utf8) == expected) }
}
