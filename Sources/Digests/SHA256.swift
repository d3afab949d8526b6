import COpenSSL
import Primitives

/// SHA-256 under way, a plain value: a copy goes on by itself. By OpenSSL's functions for this one hash, which ask for no memory
/// (docs/decisions/0035): every mint needs it twice.
struct SHA256 {
    static let byteCount = 32
    static let blockBytes = 64

    private var state = SHA256_CTX()

    init() { COpenSSL_SHA256_init(&state) }

    mutating func update(_ bytes: RawSpan) {
        bytes.withUnsafeBytes { COpenSSL_SHA256_update(&state, $0.baseAddress, $0.count) }
    }

    consuming func finish() -> Digest256 {
        var digest = Digest256()
        withUnsafeMutableBytes(of: &digest.words) { words in
            COpenSSL_SHA256_final(words.baseAddress?.assumingMemoryBound(to: UInt8.self), &state)
        }
        return digest
    }

    static func hash(_ bytes: RawSpan) -> Digest256 {
        var hash = SHA256()
        hash.update(bytes)
        return hash.finish()
    }
}

/// The 32 octets of a SHA-256 digest, or of a MAC made with it, as a value.
package struct Digest256: Sendable {
    /// As they lie in memory: the first octet first.
    fileprivate var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    fileprivate init() {}

    /// The first 8 octets as a number: its 16 hexadecimal digits are theirs.
    package var first: UInt64 { UInt64(bigEndian: words.0) }
    /// The next 8.
    package var second: UInt64 { UInt64(bigEndian: words.1) }

    package var bytes: [UInt8] { withUnsafeBytes(of: words) { [UInt8]($0) } }
}

extension SHA2 {
    /// SHA-256 as a value, without memory of its own. Any thread.
    package static func sha256(of bytes: RawSpan) -> Digest256 { SHA256.hash(bytes) }
}

/// HMAC-SHA256 (RFC 2104) under one key, prepared once. Any thread; a code costs no memory.
package final class HMACSHA256: @unchecked Sendable {
    // Sendable: both are written in `init` and overwritten in `deinit`; in between they are only copied.
    /// Behind the key's block: where the inner and the outer hash go on.
    private var inner = SHA256()
    private var outer = SHA256()

    /// A key of any length.
    package init(key: Secret) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: SHA256.blockBytes) { block in
            block.initialize(repeating: 0)
            key.withUnsafeBytes { key in
                if key.count > SHA256.blockBytes {
                    for (index, byte) in SHA256.hash(key.bytes).bytes.enumerated() { block[index] = byte }
                } else {
                    for (index, byte) in key.enumerated() { block[index] = byte }
                }
            }
            for index in block.indices { block[index] ^= 0x36 }
            inner.update(UnsafeRawBufferPointer(block).bytes)
            for index in block.indices { block[index] ^= 0x36 ^ 0x5C }
            outer.update(UnsafeRawBufferPointer(block).bytes)
            OPENSSL_cleanse(block.baseAddress, block.count)
        }
    }

    deinit {
        // Who has these can make codes, though the key itself is not in them.
        OPENSSL_cleanse(&inner, MemoryLayout<SHA256>.size)
        OPENSSL_cleanse(&outer, MemoryLayout<SHA256>.size)
    }

    package func authenticate(_ bytes: RawSpan) -> Digest256 {
        var hash = inner
        hash.update(bytes)
        let digest = hash.finish()
        var result = outer
        withUnsafeBytes(of: digest.words) { result.update($0.bytes) }
        return result.finish()
    }

    package func authenticate(_ bytes: [UInt8]) -> Digest256 { authenticate(bytes.span.bytes) }

    package func authenticate(_ text: String) -> Digest256 {
        var text = text
        return text.withUTF8 { authenticate(UnsafeRawBufferPointer($0).bytes) }
    }
}
