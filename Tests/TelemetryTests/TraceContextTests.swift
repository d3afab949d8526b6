import Foundation
import Primitives
import TestSupport
import Testing

@testable import Telemetry

/// `traceparent` as the recommendation has it, section 3.2.
@Suite struct TraceContextTests {
    static let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    static let expected = TraceContext(
        traceHigh: 0x0af7_6519_16cd_43dd, traceLow: 0x8448_eb21_1c80_319c, spanID: 0xb7ad_6b71_6920_3331, isSampled: true)

    private func parse(_ text: String) -> TraceContext? { TraceContext.parse(Array(text.utf8)[...]) }

    @Test(arguments: [
        (good, true),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", false),
        // Flags that have no meaning yet are passed over.
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", true),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02", false),
        // Later versions: what is known today, and whatever a dash begins behind it.
        ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
        ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-will-be-like", true),
        ("fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", true),
    ])
    func whatIsWellFormedIsRead(text: String, isSampled: Bool) {
        #expect(
            parse(text)
                == TraceContext(
                    traceHigh: Self.expected.traceHigh, traceLow: Self.expected.traceLow, spanID: Self.expected.spanID,
                    isSampled: isSampled))
    }

    @Test(arguments: [
        "",
        "00",
        // All zeros are no ids; one digit makes one.
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        // Upper case, in each part.
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
        "0A-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        // No version, and the one that never will be.
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        // Version 00 has nothing behind its flags.
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",
        // Later ones nothing without a dash before it.
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",
        // Other lengths, other separators, other digits.
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
        "00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333 -01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-é",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ])
    func whatIsNotIsIgnored(text: String) {
        #expect(parse(text) == nil)
    }

    @Test func onlyTheWholeOfItIsOne() {
        let bytes = Array(Self.good.utf8)
        for count in 0..<bytes.count { #expect(TraceContext.parse(bytes[..<count]) == nil, "\(count) bytes") }
        #expect(TraceContext.parse(bytes[...]) == Self.expected)
        // A slice that does not begin at 0, as fields are.
        #expect(TraceContext.parse((Array("x: ".utf8) + bytes)[3...]) == Self.expected)
    }

    @Test func whatIsWrittenIsReadAsTheSame() {
        for (id, isSampled) in [(Self.expected.spanID, true), (1, false), (.max, true)] as [(UInt64, Bool)] {
            let context = TraceContext(traceHigh: 0, traceLow: id, spanID: id, isSampled: isSampled)
            var bytes: [UInt8] = []
            context.append(to: &bytes)
            #expect(bytes.count == TraceContext.byteCount)
            #expect(TraceContext.parse(bytes[...]) == context)
        }
        var bytes: [UInt8] = []
        Self.expected.append(to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == Self.good)
        #expect(Self.expected.traceID == "0af7651916cd43dd8448eb211c80319c")
    }

    /// One octet changed, inserted or left out, at random: what is read agrees with a reading of the grammar by other means.
    @Test func readsLikeTheGrammarWhateverHappensToIt() throws {
        let version0 = try Regex("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
        let later = try Regex("(?!ff|00)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
        let seed: UInt64 = 20_261_130
        var random = SeededRandom(seed: seed)
        let alphabet = Array("0123456789abcdefABCDEFg-_ .".utf8)
        var readCount = 0
        for round in 0..<5_000 {
            var bytes = Array(round % 2 == 0 ? Self.good.utf8 : "a1\(Self.good.dropFirst(2))-more".utf8)
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                let byte = alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
                switch Int.random(in: 0..<8, using: &random) {
                case 0: bytes.insert(byte, at: index)
                case 1: bytes.remove(at: index)
                default: bytes[index] = byte
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            let isOne = try version0.wholeMatch(in: text) != nil || later.wholeMatch(in: text) != nil
            let read = TraceContext.parse(bytes[...])
            #expect((read != nil) == isOne, "seed \(seed), round \(round): \(text)")
            if let read {
                readCount += 1
                #expect(read.traceID == String(text.dropFirst(3).prefix(32)), "seed \(seed), round \(round)")
            }
        }
        #expect((500..<4_500).contains(readCount))
    }
}
