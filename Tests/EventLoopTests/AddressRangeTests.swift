import EventLoop
import TestSupport
import Testing

struct AddressRangeTests {
    private struct Row {
        let range: String
        let address: String
        let isInside: Bool
        init(_ range: String, _ address: String, _ isInside: Bool) {
            self.range = range
            self.address = address
            self.isInside = isInside
        }
    }

    private static let rows: [Row] = [
        Row("10.0.0.0/8", "10.255.255.255", true), Row("10.0.0.0/8", "11.0.0.0", false), Row("10.1.2.3/8", "10.9.9.9", true),
        Row("192.0.2.7", "192.0.2.7", true), Row("192.0.2.7", "192.0.2.6", false), Row("192.0.2.7/32", "192.0.2.7", true),
        Row("192.0.2.6/31", "192.0.2.7", true), Row("192.0.2.6/31", "192.0.2.8", false), Row("128.0.0.0/1", "255.0.0.1", true),
        Row("128.0.0.0/1", "127.255.255.255", false), Row("0.0.0.0/0", "203.0.113.9", true), Row("0.0.0.0/0", "::1", false),
        Row("2001:db8::/32", "2001:db8:ffff::1", true), Row("2001:db8::/32", "2001:db9::", false), Row("::1", "::1", true),
        Row("2001:db8::/64", "2001:db8:0:0:ffff::", true), Row("2001:db8::/65", "2001:db8:0:0:8000::", false),
        Row("2001:db8::/128", "2001:db8::", true), Row("2001:db8::/127", "2001:db8::2", false),
        // IPv4-mapped addresses count as IPv4, on either side.
        Row("10.0.0.0/8", "::ffff:10.1.1.1", true), Row("::ffff:10.0.0.0/104", "10.200.0.1", true),
        Row("::ffff:10.0.0.0/104", "11.0.0.1", false), Row("::/0", "10.0.0.1", false),
    ]

    @Test
    func anAddressIsInsideOrNot() throws {
        for row in Self.rows {
            let range = try #require(AddressRange(row.range), "\(row.range)")
            let address = try #require(IPAddress(row.address), "\(row.address)")
            #expect(range.contains(address) == row.isInside, "\(row.range) \(row.address)")
        }
    }

    @Test(arguments: [
        "", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0.0/08x", "10.0.0/8", "::/129", "localhost/8",
        "10.0.0.0/0000", "[::1]/128", "::ffff:10.0.0.0/95", "10.0.0.0 /8", "10.0.0.0\0/8", "10.0.0.0/8\0", "fe80::1%eth0/64",
    ])
    func whatIsNoRangeIsRefused(text: String) { #expect(AddressRange(text) == nil) }

    /// Every prefix of random addresses, against a comparison bit by bit.
    @Test
    func everyPrefixComparesThatManyBits() throws {
        var random = SeededRandom(seed: 11)
        for _ in 0..<200 {
            let first = UInt32.random(in: 0 ... .max, using: &random)
            // Alike in their first bits, so that both answers come up.
            let second = first ^ (UInt32.random(in: 0 ... .max, using: &random) >> UInt32.random(in: 0..<32, using: &random))
            for prefix in 0...32 {
                let range = try #require(AddressRange("\(IPAddress.v4(first))/\(prefix)"))
                let expected = prefix == 0 || (first ^ second) >> UInt32(32 - prefix) == 0
                #expect(range.contains(.v4(second)) == expected)
                #expect(range.isEverything == (prefix == 0))
            }
        }
    }
}
