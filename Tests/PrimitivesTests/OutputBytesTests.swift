import Primitives
import TestSupport
import Testing

struct OutputBytesTests {
    private func written(room: Int, _ body: (inout OutputSpan<UInt8>) -> Void) -> String {
        var bytes = Array("<".utf8)
        bytes.append(addingCapacity: room, initializingWith: body)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func everyKindOfTextIsAppendedWhole() {
        let text = written(room: 20) { output in
            output.append("lit")
            output.append(Array("arr".utf8))
            output.append(Array("[slice]".utf8)[1...5])
            output.append("é" as String)
            output.append("")
            output.append([])
            output.append(Array("span".utf8).span.bytes)
        }
        #expect(text == "<litarrsliceéspan")
    }

    @Test(arguments: [
        (0, "0"), (7, "7"), (10, "10"), (999, "999"), (1000, "1000"), (UInt.max, "18446744073709551615"),
        (10_000_000_000_000_000_000, "10000000000000000000"),
    ])
    func decimalNumbersHaveNoZerosInFront(value: UInt, expected: String) {
        #expect(written(room: 20) { $0.append(decimal: value) } == "<" + expected)
    }

    @Test func hexadecimalNumbersHaveSixteenDigits() {
        var random = SeededRandom(seed: 11)
        let values =
            [0, 9, 10, 15, 16, 0x0123_4567_89AB_CDEF, .max] + (0..<500).map { _ in UInt64.random(in: 0 ... .max, using: &random) }
        for value in values {
            let digits = String(value, radix: 16)
            let expected = String(repeating: "0", count: 16 - digits.utf8.count) + digits
            #expect(written(room: 16) { $0.append(hex: value) } == "<" + expected)
        }
    }
}
