import Digests
import Primitives

/// How an end user appears in logs, audit records and shared stores: HMAC-SHA256 of the end-user ID, first 32 hexadecimal digits.
///
/// Under a key from a file the same person has the same hash in every process and for ever; under ``random()`` only until this
/// process ends, so lines of two runs (or of two replicas) cannot be joined.
package struct EndUserHash: Sendable {
    private static let keyBytes = 32
    private static let hashBytes = 16

    private let key: HMACSHA256

    package init(secret: Secret) { key = HMACSHA256(key: secret) }

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
