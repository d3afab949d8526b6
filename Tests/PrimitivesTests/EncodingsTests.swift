import Primitives
import TestSupport
import Testing

struct EncodingsTests {
    /// RFC 4648 section 10, in base64url without padding.
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
    ])
    func theVectorsOfTheRFC(plain: String, encoded: String) {
        #expect(Base64URL.encode(Array(plain.utf8)) == encoded)
        #expect(Base64URL.decode(encoded) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Z", "Zg==", "Zg=", "Zh", "Zm9", "Zm8=", "Zm9v ", " Zm9v", "Zm+v", "Zm/v", "Zm9v\n", "Zm9vZ", "Zé9v", "Zm9v.", "====",
        "\u{0}m9v",
    ])
    func whatIsNotCanonicalIsRefused(text: String) { #expect(Base64URL.decode(text) == nil) }

    @Test
    func everyLengthComesBack() {
        var random = SeededRandom(seed: 7)
        for length in 0..<300 {
            let bytes = (0..<length).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Hex.decode(Hex.encode(bytes).utf8) == bytes)
        }
    }

    /// One character changed to any other byte: never the same octets, and refused when it is not of the alphabet.
    @Test
    func oneTextForOneOctetString() {
        let bytes: [UInt8] = [0xFB, 0xEF, 0xBE, 0x01]
        let text = Array(Base64URL.encode(bytes).utf8)
        for position in text.indices {
            for byte in UInt8.min ... .max where byte != text[position] {
                var changed = text
                changed[position] = byte
                #expect(Base64URL.decode(changed.span.bytes) != bytes)
            }
        }
    }

    @Test(arguments: [("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("+/+/", nil as String?)])
    func standardBase64NeedsItsPadding(text: String, plain: String?) {
        if let plain { #expect(Base64.decode(text) == Array(plain.utf8)) }
        #expect(Base64.decode(String(text.dropLast())) == nil)
    }

    @Test(arguments: ["a", "0g", "zz", "0 ", "é"])
    func whatIsNotHexIsRefused(text: String) { #expect(Hex.decode(text.utf8) == nil) }
}
