import Digests
import Primitives

/// How an end user appears in logs, audit records and shared stores: HMAC-SHA256 of the end-user ID, first 32 hexadecimal digits.
///
/// Under a key from a file the same person has the same hash in every process and for ever; under ``random()`` only until this
/// process ends, and under ``late()`` only until the key has been found, so lines of two runs (or of two replicas) cannot be joined.
package struct EndUserHash: Sendable {
    private static let keyBytes = 32
    private static let hashBytes = 16

    private enum Source: Sendable {
        case fixed(HMACSHA256)
        case late(Lock<HMACSHA256>)
    }

    private let source: Source

    private var key: HMACSHA256 {
        switch source {
        case .fixed(let key): key
        case .late(let key): key.withLock { $0 }
        }
    }

    package init(secret: Secret) { source = .fixed(HMACSHA256(key: secret)) }

    /// A random key until ``adopt(_:)``: where the key is kept in a store that cannot be reached yet.
    package static func late() -> Self { Self(source: .late(Lock(random().key))) }

    private init(source: Source) { self.source = source }

    /// From here on this one, and all its copies, hash as `other` does. Without effect on one that has its key.
    package func adopt(_ other: EndUserHash) {
        if case .late(let key) = source { key.withLock { $0 = other.key } }
    }

    /// Under the key of the configuration, else under a random one.
    package init(_ config: LogConfig) {
        self = config.hashSecret.map { Self(secret: $0.secret) } ?? .random()
    }

    /// A key of this process, from the kernel's random numbers.
    package static func random() -> Self {
        var generator = SystemRandomNumberGenerator()
        return Self(secret: Secret((0..<keyBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }))
    }

    /// The first 16 octets as two numbers: their hexadecimal digits, one after the other, are ``hash(_:)``.
    package func bits(_ endUserID: String) -> (high: UInt64, low: UInt64) {
        let code = key.authenticate(endUserID)
        return (code.first, code.second)
    }

    /// Tells whether two processes hash alike, and nothing else.
    package var fingerprint: String { Hex.encode(key.authenticate("end-user hash").bytes.prefix(8)) }

    /// 32 lower-case hexadecimal digits.
    package func hash(_ endUserID: String) -> String {
        Hex.encode(key.authenticate(endUserID).bytes.prefix(Self.hashBytes))
    }

    /// What the field `end_user` of a log line or audit record holds.
    package func field(_ endUserID: String, as form: LogEndUserID) -> LogField {
        LogField("end_user", form == .plain ? endUserID : hash(endUserID))
    }
}
