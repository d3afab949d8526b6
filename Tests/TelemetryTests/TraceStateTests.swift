import Foundation
import Primitives
import TestSupport
import Testing

@testable import Telemetry

/// `tracestate` as the recommendation has it, section 3.3.
@Suite struct TraceStateTests {
    private func combined(_ lines: String...) -> String {
        String(decoding: TraceState.combined(lines.map { Array($0.utf8)[...] }), as: UTF8.self)
    }

    private static let longKey = String(repeating: "k", count: 256)
    private static let longTenant = String(repeating: "t", count: 241)
    private static let long = String(repeating: "v", count: 256)

    @Test(arguments: [
        ("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"),
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        // Blanks around members belong to nobody, empty members neither; blanks inside a value are its own.
        (" a=1\t, \t,,b=2 3 ,", "a=1,b=2 3"),
        ("a= 1", "a= 1"),
        ("", ""), (",", ""), (" \t,", ""),
        ("1tenant@system=1,x_-*/9=~!\"\\", "1tenant@system=1,x_-*/9=~!\"\\"),
        ("t@s1=1", "t@s1=1"),
    ])
    func whatIsWellFormedGoesOn(line: String, expected: String) {
        #expect(combined(line) == expected)
    }

    @Test(arguments: [
        "a", "=1", "a=", "a= ", "A=1", "1a=1", "a=1,b", "a=b=c", "a=1;b=2,c", "a=ü", "a=\u{7F}", "a=1\t2", "a =1",
        "@s=1", "t@=1", "t@1s=1", "t@s@s=1", "t@Sys=1", "_a=1",
        // The same key twice.
        "a=1,b=2,a=3",
    ])
    func oneMalformedMemberSpoilsTheList(line: String) {
        #expect(combined("x=1,\(line)") == "")
        #expect(combined("x=1", line) == "")
    }

    @Test func severalLinesAreOneList() {
        #expect(combined("a=1", "b=2,c=3", "", "d=4") == "a=1,b=2,c=3,d=4")
        #expect(combined("a=1", "a=2") == "")
        #expect(combined() == "")
    }

    @Test(arguments: [31, 32, 33])
    func thirtyTwoMembersAndNoMore(count: Int) {
        let list = (0..<count).map { "k\($0)=v" }.joined(separator: ",")
        #expect(combined(list) == (count <= TraceState.maxMembers ? list : ""))
    }

    /// Key and value at their longest, one below and one beyond. The members are long, so one alone is all that fits.
    @Test func keysAndValuesHaveTheirLengths() {
        for (member, isOne) in [
            ("\(Self.longKey)=v", true), ("\(Self.longKey)k=v", false), ("\(Self.longKey.dropLast())=v", true),
            ("\(Self.longTenant)@abcdefghijklmn=v", true), ("\(Self.longTenant)t@s=v", false), ("t@abcdefghijklmno=v", false),
            ("k=\(Self.long)", true), ("k=\(Self.long)v", false), ("k=\(Self.long.dropLast())", true),
        ] { #expect(combined(member) == (isOne ? member : ""), "\(member.count)") }
    }

    /// 512 octets: long members go first, then from the end.
    @Test func whatIsTooLongIsShortenedByWholeMembers() {
        func member(_ key: String, _ count: Int) -> String { key + "=" + String(repeating: "v", count: count - key.count - 1) }
        let parts = [member("a", 127), member("b", 128), member("c", 128), member("d", 126)]
        #expect(parts.joined(separator: ",").utf8.count == TraceState.maxBytes)
        #expect(combined(parts.joined(separator: ",")) == parts.joined(separator: ","))
        // One octet more, and the last goes: none of them is long.
        let one = [member("a", 128), member("b", 128), member("c", 128), member("d", 126)]
        #expect(combined(one.joined(separator: ",")) == one[..<3].joined(separator: ","))
        // A long one in front goes before a short one behind.
        let two = [member("a", 129)] + parts[1...]
        #expect(combined(two.joined(separator: ",")) == parts[1...].joined(separator: ","))
        let three = "\(Self.longKey)=\(Self.long)"
        #expect(combined(three) == "")
    }

    @Test func whateverComesIsBoundedAndReadAgainAsTheSame() {
        let seed: UInt64 = 20_261_131
        var random = SeededRandom(seed: seed)
        let alphabet = Array("aab1=,,@ \t_*Z\"".utf8)
        var kept = 0
        for round in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
            }
            let once = TraceState.combined([bytes[...]])
            #expect(once.count <= TraceState.maxBytes)
            #expect(TraceState.combined([once[...]]) == once, "seed \(seed), round \(round)")
            #expect(!once.contains { $0 < 0x20 || $0 >= 0x7F })
            if !once.isEmpty { kept += 1 }
        }
        #expect(kept > 20)
    }
}
