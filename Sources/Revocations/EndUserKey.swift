import Primitives
import Telemetry

/// An end user as the state knows them: the keyed hash of the ID, 128 bits, as it also stands in logs. Never the ID itself.
package struct EndUserKey: Sendable, Hashable {
    package let high: UInt64
    package let low: UInt64

    /// `nil` unless there are 16 bytes or more; what is beyond is not looked at.
    package init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count >= 16 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, byte) in bytes.prefix(16).enumerated() {
            if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
        }
        self.high = high
        self.low = low
    }

    /// `nil` where the hash cannot be computed: then nobody knows whether there is a fence. The hash of today can always be.
    package init?(_ endUserID: String, under hash: EndUserHash) { (high, low) = hash.bits(endUserID) }

    package var bytes: [UInt8] {
        (0..<16).map { UInt8(truncatingIfNeeded: ($0 < 8 ? high : low) >> UInt64(56 - ($0 & 7) * 8)) }
    }

    /// 32 hexadecimal digits, as `hash-id` prints them.
    package var text: String { Hex.encode(bytes) }

    /// The bytes are a MAC: as good as random.
    package func hash(into hasher: inout Hasher) { hasher.combine(low) }
}

/// Names a revocation for ever: `rv_` and 32 hexadecimal digits.
package struct RevocationID: Sendable, Hashable {
    package let bytes: [UInt8]

    package init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    package init?(_ text: String) {
        guard text.hasPrefix("rv_"), text.utf8.count == 35,
            text.utf8.dropFirst(3).allSatisfy({ ASCII.isDigit($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }),
            let bytes = Hex.decode(Array(text.utf8.dropFirst(3)))
        else { return nil }
        self.bytes = bytes
    }

    package var text: String { "rv_" + Hex.encode(bytes) }
}
