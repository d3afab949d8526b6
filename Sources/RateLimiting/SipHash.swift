/// SipHash-2-4 with 128 bits of result (Aumasson and Bernstein, "SipHash: a fast short-input PRF"; reference implementation
/// `siphash.c`): whoever does not know the key cannot find two inputs with one result.
struct SipHash128 {
    private var v0: UInt64
    private var v1: UInt64
    private var v2: UInt64
    private var v3: UInt64
    /// The bytes behind the last whole word, in the low end.
    private var tail: UInt64 = 0
    private var byteCount = 0

    init(key: (UInt64, UInt64)) {
        v0 = key.0 ^ 0x736f_6d65_7073_6575
        v1 = key.1 ^ 0x646f_7261_6e64_6f6d ^ 0xee
        v2 = key.0 ^ 0x6c79_6765_6e65_7261
        v3 = key.1 ^ 0x7465_6462_7974_6573
    }

    @inline(__always)
    private mutating func round() {
        v0 &+= v1
        v1 = v1 << 13 | v1 >> 51
        v1 ^= v0
        v0 = v0 << 32 | v0 >> 32
        v2 &+= v3
        v3 = v3 << 16 | v3 >> 48
        v3 ^= v2
        v0 &+= v3
        v3 = v3 << 21 | v3 >> 43
        v3 ^= v0
        v2 &+= v1
        v1 = v1 << 17 | v1 >> 47
        v1 ^= v2
        v2 = v2 << 32 | v2 >> 32
    }

    @inline(__always)
    private mutating func compress(_ word: UInt64) {
        v3 ^= word
        round()
        round()
        v0 ^= word
    }

    /// Eight bytes, least significant first.
    mutating func append(_ word: UInt64) {
        let used = byteCount & 7
        byteCount &+= 8
        if used == 0 { return compress(word) }
        compress(tail | word << UInt64(used * 8))
        tail = word >> UInt64(64 - used * 8)
    }

    mutating func append(_ byte: UInt8) {
        tail |= UInt64(byte) << UInt64((byteCount & 7) * 8)
        byteCount &+= 1
        guard byteCount & 7 == 0 else { return }
        compress(tail)
        tail = 0
    }

    mutating func append(_ bytes: RawSpan) {
        bytes.withUnsafeBytes { buffer in
            var offset = 0
            while offset &+ 8 <= buffer.count {
                append(UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
                offset &+= 8
            }
            while offset < buffer.count {
                append(buffer[offset])
                offset &+= 1
            }
        }
    }

    /// The 16 bytes of the result, each half least significant byte first.
    consuming func finish() -> (UInt64, UInt64) {
        compress(tail | UInt64(byteCount & 0xff) << 56)
        v2 ^= 0xee
        for _ in 0..<4 { round() }
        let first = v0 ^ v1 ^ v2 ^ v3
        v1 ^= 0xdd
        for _ in 0..<4 { round() }
        return (first, v0 ^ v1 ^ v2 ^ v3)
    }
}
