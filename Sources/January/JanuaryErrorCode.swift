import StrictJSON

/// The `code` of January's error bodies. Closed, so that it can be a metric label; what is not listed is `other`.
package enum JanuaryErrorCode: String, Sendable, CaseIterable {
    case invalidRequest = "invalid_request"
    case unauthorized = "unauthorized"
    case tokenExpired = "token_expired"
    case tokenInvalid = "token_invalid"
    case tokenRevoked = "token_revoked"
    case forbidden = "forbidden"
    case clientTokenNotAllowed = "client_token_not_allowed"
    case scopeInsufficient = "scope_insufficient"
    case endUserIDMismatch = "end_user_id_mismatch"
    case endUserIDRequired = "end_user_id_required"
    case notFound = "not_found"
    case conflict = "conflict"
    case payloadTooLarge = "payload_too_large"
    case rateLimited = "rate_limited"
    case requestLimitExceeded = "request_limit_exceeded"
    case creditLimitExceeded = "credit_limit_exceeded"
    case cancelled = "cancelled"
    case internalError = "internal_error"
    case notImplemented = "not_implemented"
    case upstreamError = "upstream_error"
    case serviceUnavailable = "service_unavailable"
    case revocationIncomplete = "client_token_revocation_incomplete"
    case upstreamTimeout = "upstream_timeout"
    case dateRangeTooLarge = "date_range_too_large"
    case dailyWaterLimitExceeded = "daily_water_limit_exceeded"
    case imageUnreachable = "image_unreachable"
    case imageCorrupt = "image_corrupt"
    case imageFormatUnsupported = "image_format_unsupported"
    case imageInvalidBase64 = "image_invalid_base64"
    case other

    /// `other` for a body that is not JSON, has no `code`, or one nobody has heard of.
    package static func parse(_ body: [UInt8]) -> JanuaryErrorCode {
        guard !body.isEmpty, let value = try? JSONValue.parse(body.span.bytes), let text = value.object?["code"]?.string else {
            return .other
        }
        return JanuaryErrorCode(rawValue: text) ?? .other
    }
}
