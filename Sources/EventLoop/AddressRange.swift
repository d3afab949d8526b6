import Primitives

/// A range of addresses in CIDR notation (RFC 4632, RFC 4291 section 2.3). IPv4-mapped addresses count as IPv4.
package struct AddressRange: Sendable, Hashable {
    private let high: UInt64
    private let low: UInt64
    private let prefix: Int
    private let isV4: Bool

    /// `10.0.0.0/8`, `2001:db8::/32`, or one address without a slash. Bits behind the prefix are ignored.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(String(parts[0])) else { return nil }
        let bits = address.unmapped.bits
        isV4 = bits.isV4
        let width = isV4 ? 32 : 128
        var prefix = width
        if parts.count == 2 {
            guard let given = ASCII.decimal(parts[1].utf8), parts[1].utf8.count <= 3 else { return nil }
            // A mapped address is written with the prefix of an IPv6 one.
            let mapped = isV4 && parts[0].utf8.contains(UInt8(ascii: ":"))
            guard given <= (mapped ? 128 : width), !mapped || given >= 96 else { return nil }
            prefix = mapped ? given - 96 : given
        }
        self.prefix = prefix
        high = bits.high & Self.mask(prefix, of: isV4 ? 32 : 64)
        low = isV4 ? 0 : bits.low & Self.mask(prefix - 64, of: 64)
    }

    package var isEverything: Bool { prefix == 0 }

    package func contains(_ address: IPAddress) -> Bool {
        let bits = address.unmapped.bits
        guard bits.isV4 == isV4 else { return false }
        return bits.high & Self.mask(prefix, of: isV4 ? 32 : 64) == high
            && (isV4 || bits.low & Self.mask(prefix - 64, of: 64) == low)
    }

    /// The first `count` of `width` bits.
    private static func mask(_ count: Int, of width: Int) -> UInt64 {
        if count <= 0 { return 0 }
        let all: UInt64 = width == 64 ? .max : 1 << UInt64(width) - 1
        return count >= width ? all : all & ~(all >> UInt64(count))
    }
}

extension IPAddress {
    fileprivate var bits: (high: UInt64, low: UInt64, isV4: Bool) {
        switch self {
        case .v4(let bits): (UInt64(bits), 0, true)
        case .v6(let high, let low, _): (high, low, false)
        }
    }
}
