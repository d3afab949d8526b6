import Digests
import Primitives
import Testing

@Suite struct DigestsTests {
    /// FIPS 180-4, the examples of the one-block and the empty message.
    @Test(
        arguments: [
            (SHA2.sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (.sha256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (
                .sha384, "abc",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"
            ),
            (
                .sha512, "abc",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                    + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
            ),
        ])
    func hashesAreThoseOfTheStandard(algorithm: SHA2, text: String, hash: String) {
        #expect(Hex.encode(algorithm.hash(text)) == hash)
        #expect(algorithm.hash(text).count == algorithm.byteCount)
    }

    /// RFC 4231 sections 4.3 and 4.7 (a key longer than the block).
    @Test(
        arguments: [
            (
                Array("Jefe".utf8), "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131), "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
            ([], "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"),
        ])
    func authenticationCodesAreThoseOfTheStandard(key: [UInt8], text: String, code: String) {
        let hmac = HMACKey(.sha256, key: Secret(key))
        let bytes = Array(text.utf8)
        #expect(Hex.encode(hmac.authenticate(bytes)) == code)
        #expect(Hex.encode(hmac.authenticate(bytes.span.bytes)) == code)
        let half = bytes.count / 2
        #expect(Hex.encode(hmac.authenticate(Array(bytes[..<half]), Array(bytes[half...]))) == code)
    }

    /// The numbers are the first octets of the same digest, also of messages around the length of a block and of its padding.
    @Test func digestsAsValuesAreTheSameOctets() {
        for count in [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000] {
            let message = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            let digest = SHA2.sha256(of: message.span.bytes)
            #expect(digest.bytes == SHA2.sha256.hash(message))
            let first = digest.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
            let second = digest.bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
            #expect(digest.first == first && digest.second == second)
        }
    }

    /// Keys shorter than a block, of its length and longer, against the definition (RFC 2104 section 2).
    @Test(arguments: [0, 1, 32, 63, 64, 65, 200])
    func codesAreThoseOfTheDefinition(keyBytes: Int) {
        let key = (0..<keyBytes).map { UInt8(truncatingIfNeeded: $0 &+ 1) }
        let message = Array("message".utf8)
        var block = keyBytes > 64 ? SHA2.sha256.hash(key) : key
        block += [UInt8](repeating: 0, count: 64 - block.count)
        let inner = SHA2.sha256.hash(block.map { $0 ^ 0x36 } + message)
        let expected = SHA2.sha256.hash(block.map { $0 ^ 0x5C } + inner)
        let made = HMACSHA256(key: Secret(key))
        #expect(made.authenticate(message).bytes == expected)
        #expect(made.authenticate("message").bytes == expected)
        #expect(HMACKey(.sha256, key: Secret(key)).authenticate(message) == expected)
    }
}
