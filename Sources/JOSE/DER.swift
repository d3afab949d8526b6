/// The two structures of ASN.1 DER (X.690) that have to be written here.
enum DER {
    /// `SubjectPublicKeyInfo` around a PKCS #1 `RSAPublicKey` (RFC 3279 section 2.3.1).
    static func rsaPublicKeyInfo(_ key: [UInt8]) -> [UInt8] {
        // SEQUENCE { OBJECT IDENTIFIER 1.2.840.113549.1.1.1, NULL }
        let algorithm: [UInt8] = [0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00]
        var bits: [UInt8] = []
        append(tag: 0x03, count: key.count + 1, to: &bits)
        bits.append(0)  // no unused bits
        bits += key
        var info: [UInt8] = []
        append(tag: 0x30, count: algorithm.count + bits.count, to: &info)
        return info + algorithm + bits
    }

    /// `ECDSA-Sig-Value` (RFC 3279 section 2.2.3) out of r‖s (RFC 7518 section 3.4), written over `output`. Both halves have the same
    /// length, at most 66 octets, which the caller has checked.
    static func writeECDSASignature(_ signature: [UInt8], to output: inout [UInt8]) {
        let half = signature.count / 2
        let r = integerStart(signature, 0..<half)
        let s = integerStart(signature, half..<signature.count)
        output.removeAll(keepingCapacity: true)
        append(
            tag: 0x30, count: integerByteCount(signature, r..<half) + integerByteCount(signature, s..<signature.count),
            to: &output)
        appendInteger(signature, r..<half, to: &output)
        appendInteger(signature, s..<signature.count, to: &output)
    }

    /// Skips leading zeros, but not the last octet.
    private static func integerStart(_ bytes: [UInt8], _ range: Range<Int>) -> Int {
        var start = range.lowerBound
        while start < range.upperBound - 1, bytes[start] == 0 { start += 1 }
        return start
    }

    /// With tag and length. A leading bit that is set would mean a negative number, so a zero octet goes before it.
    private static func integerByteCount(_ bytes: [UInt8], _ range: Range<Int>) -> Int {
        2 + range.count + Int(bytes[range.lowerBound] >> 7)
    }

    private static func appendInteger(_ bytes: [UInt8], _ range: Range<Int>, to output: inout [UInt8]) {
        output.append(0x02)
        output.append(UInt8(truncatingIfNeeded: integerByteCount(bytes, range) - 2))
        if bytes[range.lowerBound] & 0x80 != 0 { output.append(0) }
        output.append(contentsOf: bytes[range])
    }

    private static func append(tag: UInt8, count: Int, to output: inout [UInt8]) {
        output.append(tag)
        if count < 0x80 {
            output.append(UInt8(count))
            return
        }
        var octets: [UInt8] = []
        var rest = count
        while rest > 0 {
            octets.insert(UInt8(truncatingIfNeeded: rest), at: 0)
            rest >>= 8
        }
        output.append(0x80 | UInt8(octets.count))
        output += octets
    }
}
