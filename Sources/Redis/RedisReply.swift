/// One reply (RESP2).
package enum RedisReply: Equatable, Sendable {
    case null
    case integer(Int64)
    case string([UInt8])
    /// `+OK` and the like.
    case status([UInt8])
    case error(RedisServerError)
    case array([RedisReply])

    package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    package var array: [RedisReply]? { if case .array(let replies) = self { replies } else { nil } }
    /// Of a string or a status.
    package var bytes: [UInt8]? {
        switch self {
        case .string(let bytes), .status(let bytes): bytes
        case .null, .integer, .error, .array: nil
        }
    }
    package var text: String? { bytes.flatMap { String(validating: $0, as: UTF8.self) } }
    package var error: RedisServerError? { if case .error(let error) = self { error } else { nil } }
    /// `+OK`
    package var isOK: Bool { self == .status([UInt8(ascii: "O"), UInt8(ascii: "K")]) }
}
