import TestSupport
import Testing

@testable import EventLoop

/// Addresses and ranges as text: cut at every byte, changed at random, against a reader of their own.
@Suite struct AddressTextTests {
    private static let addresses = [
        "127.0.0.1:8787", "255.255.255.255:65535", "[::1]:1", "[2001:db8:85a3::8a2e:370:7334]:443", "[::ffff:1.2.3.4]:5",
        "unix:/run/january/endpoint.sock", "[::]:0",
    ]
    private static let ranges = ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::ffff:10.0.0.0/104", "0.0.0.0/0", "::1/128"]

    @Test(arguments: [
        ("0.0.0.0:1", "127.0.0.1:1", true), ("0.0.0.0:1", "127.0.0.1:2", false), ("0.0.0.0:1", "[::1]:1", false),
        ("[::]:1", "127.0.0.1:1", true), ("[::]:1", "[::1]:1", true), ("127.0.0.1:1", "127.0.0.1:1", true),
        ("127.0.0.1:1", "127.0.0.2:1", false), ("127.0.0.1:0", "127.0.0.1:0", false), ("0.0.0.0:0", "127.0.0.1:0", false),
        ("unix:/a", "unix:/a", true), ("unix:/a", "unix:/b", false), ("unix:/a", "[::]:1", false),
    ])
    func listenersOverlapWhereOneWouldGetWhatIsMeantForTheOther(left: String, right: String, expected: Bool) throws {
        let (left, right) = (try #require(SocketAddress(left)), try #require(SocketAddress(right)))
        #expect(left.overlaps(right) == expected)
        #expect(right.overlaps(left) == expected)
    }

    /// Four decimal numbers up to 255 without leading zeros.
    private static func v4(_ text: some StringProtocol) -> UInt32? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var bits: UInt32 = 0
        for part in parts {
            guard (1...3).contains(part.utf8.count), part.utf8.allSatisfy({ (48...57).contains($0) }), let number = UInt8(part),
                part == "0" || part.utf8.first != 48
            else { return nil }
            bits = bits << 8 | UInt32(number)
        }
        return bits
    }

    private static func isSound(address text: String) -> Bool {
        let address = SocketAddress(text)
        if let address, SocketAddress(address.description) != address { return false }
        guard !text.hasPrefix("unix:"), !text.hasPrefix("["), let colon = text.lastIndex(of: ":") else { return true }
        let digits = text[text.index(after: colon)...]
        let isPort = (1...5).contains(digits.utf8.count) && digits.utf8.allSatisfy { (48...57).contains($0) }
        let expected = Self.v4(text[..<colon]).flatMap { bits in isPort ? UInt16(digits).map { (bits, $0) } : nil }
        return expected.map { SocketAddress.ip(.v4($0.0), port: $0.1) } == address
    }

    private static func isSound(range text: String) -> Bool {
        guard let range = AddressRange(text) else { return true }
        // It holds the address that it is written with, and so does the same range without what follows the slash.
        let base = text.split(separator: "/", omittingEmptySubsequences: false).first.map(String.init) ?? ""
        guard let address = IPAddress(base) else { return false }
        return range.contains(address) && AddressRange(base)?.contains(address) == true
    }

    @Test(arguments: addresses) func anAddressCutAnywhereIsSoundOrRefused(text: String) {
        for end in 0...text.utf8.count { #expect(Self.isSound(address: String(text.prefix(end))), "\(end)") }
        for start in 0..<text.utf8.count { #expect(Self.isSound(address: String(text.dropFirst(start))), "\(start)") }
    }

    @Test(arguments: ranges) func aRangeCutAnywhereIsSoundOrRefused(text: String) {
        for end in 0...text.utf8.count { #expect(Self.isSound(range: String(text.prefix(end))), "\(end)") }
        for start in 0..<text.utf8.count { #expect(Self.isSound(range: String(text.dropFirst(start))), "\(start)") }
    }

    @Test func changedAddressesAndRangesAreSoundOrRefused() throws {
        let seed: UInt64 = 4_291
        var random = SeededRandom(seed: seed)
        let alphabet = Array("0123456789abcdfF.:/[]%x- \0\u{E4}")
        for round in 0..<20_000 {
            var characters = Array(try #require((Self.addresses + Self.ranges).randomElement(using: &random)))
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<characters.count, using: &random)
                let character = alphabet.randomElement(using: &random) ?? "0"
                if Bool.random(using: &random) { characters[index] = character } else { characters.insert(character, at: index) }
            }
            let text = String(characters)
            #expect(Self.isSound(address: text), "seed \(seed), round \(round): \(text.debugDescription)")
            #expect(Self.isSound(range: text), "seed \(seed), round \(round): \(text.debugDescription)")
        }
    }

    /// Random dotted numbers, near the edges of what a part may be.
    @Test func randomDottedNumbersAreJudgedAsByHand() {
        let seed: UInt64 = 791
        var random = SeededRandom(seed: seed)
        let parts = [
            "0", "1", "9", "10", "99", "127", "199", "249", "255", "256", "260", "300", "999", "00", "01", "1000", "", "a", "-1",
            "+1",
        ]
        for round in 0..<5_000 {
            let count = Int.random(in: 3...5, using: &random)
            let text = (0..<count).map { _ in parts.randomElement(using: &random) ?? "" }.joined(separator: ".")
            let expected = Self.v4(text).map(IPAddress.v4)
            #expect(IPAddress(text) == expected, "seed \(seed), round \(round): \(text)")
        }
    }
}
