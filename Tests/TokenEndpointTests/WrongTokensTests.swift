import EventLoop
import Primitives
import Testing

@testable import TokenEndpoint

/// The price of a wrong management token, without sockets.
struct WrongTokensTests {
    private static func peer(_ text: String) throws -> SocketAddress { try #require(SocketAddress(text)) }
    private static let start = MonotonicInstant(nanoseconds: 1_000_000_000_000)

    @Test func tenAreAnsweredAndTheEleventhWaitsForOneOfTenAMinute() throws {
        var tokens = WrongTokens()
        let peer = try Self.peer("192.0.2.1:1")
        for _ in 0..<10 { #expect(tokens.charge(peer, now: Self.start) == nil) }
        #expect(tokens.charge(peer, now: Self.start) == 6)
        // Exactly then, and not a nanosecond sooner.
        #expect(tokens.charge(peer, now: Self.start + .nanoseconds(5_999_999_999)) == 1)
        #expect(tokens.charge(peer, now: Self.start + .seconds(6)) == nil)
        #expect(tokens.charge(peer, now: Self.start + .seconds(6)) == 6)
    }

    @Test(arguments: [
        ("192.0.2.1:1", "192.0.2.1:2", true), ("192.0.2.1:1", "192.0.2.2:1", false),
        ("192.0.2.1:1", "[::ffff:192.0.2.1]:1", true), ("[2001:db8::1]:1", "[2001:db8::2]:1", true),
        ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false), ("unix:/a", "unix:/b", true), ("127.0.0.1:1", "unix:/a", false),
    ])
    func anAddressIsOneWhateverItsPort(first: String, second: String, isSame: Bool) throws {
        var tokens = WrongTokens()
        for _ in 0..<10 { #expect(tokens.charge(try Self.peer(first), now: Self.start) == nil) }
        #expect((tokens.charge(try Self.peer(second), now: Self.start) != nil) == isSame)
    }

    @Test func theTableIsBoundedAndForgetsWhoWaitsLeast() throws {
        var tokens = WrongTokens()
        let attacker = try Self.peer("192.0.2.1:1")
        for _ in 0..<10 { _ = tokens.charge(attacker, now: Self.start) }
        for index in 0..<(WrongTokens.maxAddresses * 2) {
            let peer = SocketAddress.ip(.v4(0x0A00_0000 + UInt32(index)), port: 1)
            #expect(tokens.charge(peer, now: Self.start) == nil)
            #expect(tokens.count <= WrongTokens.maxAddresses)
        }
        #expect(tokens.charge(attacker, now: Self.start) != nil)
    }
}
