import Digests
import EventLoop
import Primitives

/// Makes ``LimitKey``s. Under a random key of this process (SipHash) where cells stay in it, so that nobody outside can find two values
/// that share a cell; under a key that replicas have in common (HMAC-SHA256, first 128 bits) where cells are shared. Any thread.
package struct LimitKeyMaker: Sendable {
    private enum Mode: Sendable {
        case process(UInt64, UInt64)
        case shared(HMACKey)
    }

    private let mode: Mode

    /// For cells of this process alone.
    package init() {
        var generator = SystemRandomNumberGenerator()
        self.init(processKey: (generator.next(), generator.next()))
    }

    /// With a known key, for tests.
    package init(processKey key: (UInt64, UInt64)) { mode = .process(key.0, key.1) }

    /// For cells that replicas share: the same secret makes the same keys.
    package init(shared secret: Secret) { mode = .shared(HMACKey(.sha256, key: secret)) }

    /// Who asks: an IPv4 address, or the /64 of an IPv6 one (RFC 6177: what one customer has at least).
    package func address(_ address: IPAddress) -> LimitKey {
        switch address.unmapped {
        case .v4(let bits): key(.address, 4, UInt64(bits))
        case .v6(let network, _, _): key(.address, 6, network)
        }
    }

    /// The trusted end of a Unix socket, which has no address.
    package var unixPeer: LimitKey { key(.address, 0, 0) }

    /// A session by the ID its token carries.
    package func session(verifier: String, id: String) -> LimitKey {
        key(.session, verifier.utf8.span.bytes, id.utf8.span.bytes)
    }

    /// A session without an ID: by the credential itself.
    package func session(verifier: String, credential: ArraySlice<UInt8>) -> LimitKey {
        // 0xff: no ID can be mistaken for a credential, UTF-8 has no such byte.
        key(.session, verifier.utf8.span.bytes, credential.span.bytes, 0xff)
    }

    /// Where cells are shared this is what `hash-id` prints, for every limit of a person; the store puts the limit's name in front.
    package func endUser(_ endUserID: String, limit: LimitName = .endUser) -> LimitKey {
        if case .shared(let secret) = mode { return LimitKey(secret.authenticate(endUserID.utf8.span.bytes)) }
        return key(limit, endUserID.utf8.span.bytes, RawSpan())
    }

    package var all: LimitKey { key(.all, 0, 0) }

    // MARK: Digests

    private func key(_ limit: LimitName, _ kind: UInt64, _ value: UInt64) -> LimitKey {
        switch mode {
        case .process(let first, let second):
            var hash = SipHash128(key: (first, second))
            hash.append(limit.ordinal)
            hash.append(kind)
            hash.append(value)
            return LimitKey(hash)
        case .shared(let secret):
            return LimitKey(secret.authenticate([UInt8(limit.ordinal), UInt8(kind)], value.bigEndianBytes))
        }
    }

    /// The length of the first part keeps both apart.
    private func key(_ limit: LimitName, _ first: RawSpan, _ second: RawSpan, _ mark: UInt8 = 0) -> LimitKey {
        switch mode {
        case .process(let key0, let key1):
            var hash = SipHash128(key: (key0, key1))
            hash.append(limit.ordinal | UInt64(mark) << 8 | UInt64(first.byteCount) << 16)
            hash.append(first)
            hash.append(second)
            return LimitKey(hash)
        case .shared(let secret):
            return LimitKey(
                secret.authenticate(
                    [UInt8(limit.ordinal), mark], UInt64(first.byteCount).bigEndianBytes, first.copied(), second.copied()))
        }
    }
}

extension LimitKey {
    fileprivate init(_ hash: consuming SipHash128) {
        let (first, second) = hash.finish()
        self.init(high: first, low: second)
    }

    /// The first 16 bytes of a digest.
    fileprivate init(_ digest: [UInt8]) {
        func word(_ start: Int) -> UInt64 {
            digest.dropFirst(start).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
        self.init(high: word(0), low: word(8))
    }
}

extension LimitName {
    /// What tells the limits apart in a digest; shared between replicas, so never renumbered.
    var ordinal: UInt64 {
        switch self {
        case .address: 1
        case .session: 2
        case .endUser: 3
        case .all: 4
        case .selfService: 5
        }
    }
}

extension UInt64 {
    fileprivate var bigEndianBytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: self >> UInt64(56 - $0 * 8)) } }
}

extension RawSpan {
    fileprivate func copied() -> [UInt8] { withUnsafeBytes { [UInt8]($0) } }
}
