/// Every `code` of an error body, with its status. Stable: apps and dashboards know them by name.
package enum ProblemCode: String, Sendable, CaseIterable {
    case badRequest = "bad_request"
    case invalidSession = "invalid_session"
    case accessRevoked = "access_revoked"
    case noEndUser = "no_end_user"
    case noFeatures = "no_features"
    case invalidEndUserID = "invalid_end_user_id"
    case januaryForbidden = "january_forbidden"
    case januaryQuotaExhausted = "january_quota_exhausted"
    case januaryRejectedRequest = "january_rejected_request"
    case notFound = "not_found"
    case methodNotAllowed = "method_not_allowed"
    case requestTimeout = "request_timeout"
    case contentTooLarge = "content_too_large"
    case uriTooLong = "uri_too_long"
    case expectationFailed = "expectation_failed"
    case headerFieldsTooLarge = "header_fields_too_large"
    case rateLimited = "rate_limited"
    case internalError = "internal_error"
    case notImplemented = "not_implemented"
    case httpVersionNotSupported = "http_version_not_supported"
    case januaryKeyRejected = "january_key_rejected"
    case januaryInvalidResponse = "january_invalid_response"
    case januaryUnreachable = "january_unreachable"
    case januaryUnavailable = "january_unavailable"
    case januaryRateLimited = "january_rate_limited"
    case sessionBackendUnavailable = "session_backend_unavailable"
    case overloaded
    case draining
    case januaryTimeout = "january_timeout"
    case managementUnauthorized = "management_unauthorized"
    case managementDisabled = "management_disabled"
    case unsupportedMediaType = "unsupported_media_type"
    case stateUnavailable = "state_unavailable"
    case revocationInProgress = "revocation_in_progress"
    /// The client had hung up, or at least finished sending, before anything was sent to January. Hardly ever read by anybody.
    case clientGone = "client_gone"

    package var status: Int {
        switch self {
        case .badRequest: 400
        case .invalidSession, .managementUnauthorized: 401
        case .accessRevoked, .noEndUser, .noFeatures, .invalidEndUserID, .januaryForbidden, .januaryQuotaExhausted,
            .januaryRejectedRequest, .managementDisabled:
            403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .requestTimeout: 408
        case .contentTooLarge: 413
        case .uriTooLong: 414
        case .unsupportedMediaType: 415
        case .expectationFailed: 417
        case .headerFieldsTooLarge: 431
        case .rateLimited: 429
        case .clientGone: 499
        case .internalError: 500
        case .notImplemented: 501
        case .januaryKeyRejected, .januaryInvalidResponse, .januaryUnreachable: 502
        case .januaryUnavailable, .januaryRateLimited, .sessionBackendUnavailable, .overloaded, .draining, .stateUnavailable,
            .revocationInProgress:
            503
        case .januaryTimeout: 504
        case .httpVersionNotSupported: 505
        }
    }

    /// For the app's developer: what to do. Constant, so it cannot carry anything of a caller's or of January's.
    var message: StaticString {
        switch self {
        case .badRequest: "The request is not valid HTTP/1.1 or can be read in two ways. Send a plain POST."
        case .invalidSession: "Sign in again and send the new session as Authorization: Bearer."
        case .accessRevoked: "Access to January was revoked for this person. Do not retry."
        case .noEndUser:
            "This session is good but names no person January can know: a machine or anonymous sign-in, or a missing claim. Sign in as a person; operators see end_user_id in the configuration."
        case .noFeatures: "This person may use no January feature. Operators: see features and grants in the configuration."
        case .invalidEndUserID:
            "The end-user ID made for this person is one January refuses. Operators: see end_user_id in the configuration, and use transform: hmac."
        case .januaryForbidden:
            "January refuses to mint with this key: client tokens are switched off for the account, or the key is for another API version. Operators: see the log."
        case .januaryQuotaExhausted:
            "The January account has used up its requests or credits for this month. A retry does not help."
        case .januaryRejectedRequest:
            "January refuses the scopes or the lifetime asked for. Operators: see the log, features and token.ttl_seconds."
        case .notFound: "There is nothing at this path. Check the URL the app is configured with."
        case .methodNotAllowed: "This path answers other methods, see Allow. A client token is asked for with POST."
        case .requestTimeout: "The request did not arrive in time. Send it again."
        case .contentTooLarge: "The request content is too large. A client token is asked for with an empty POST."
        case .uriTooLong: "The request line is too long."
        case .expectationFailed: "Only Expect: 100-continue is understood."
        case .headerFieldsTooLarge: "The request fields are too large or too many. Is the session over 16 KiB?"
        case .rateLimited: "Too many requests. Try again after Retry-After; a client token is good for minutes, so keep it."
        case .internalError: "Something unforeseen went wrong here. Operators: see the log with this request_id."
        case .notImplemented: "This transfer coding is not understood. Send the request with Content-Length or chunked."
        case .httpVersionNotSupported: "Speak HTTP/1.1."
        case .januaryKeyRejected:
            "January does not accept the API key. Operators: replace the key; the log names its fingerprint."
        case .januaryInvalidResponse: "January's answer failed the checks and was not passed on. Operators: see the log."
        case .januaryUnreachable: "January cannot be reached. Nothing was minted; try again."
        case .januaryUnavailable: "January is not available right now. Try again."
        case .januaryRateLimited: "January limits this account's mints right now. Try again after Retry-After."
        case .sessionBackendUnavailable: "The session cannot be verified right now. Try again after Retry-After."
        case .overloaded: "Too much is waiting right now. Try again after Retry-After."
        case .draining: "This server is shutting down. Try again."
        case .januaryTimeout: "January did not answer in time. Try again."
        case .managementUnauthorized: "Send a management token as Authorization: Bearer."
        case .managementDisabled: "There is no management token, so this is switched off. Operators: see management.token_files."
        case .unsupportedMediaType: "Send JSON, with Content-Type: application/json."
        case .revocationInProgress: "This person's tokens are being revoked right now. Try again after Retry-After."
        case .stateUnavailable:
            "The state cannot be read or written, so nothing was promised. Try again after Retry-After."
        case .clientGone: "The connection was closed for sending before January was asked, so nothing was minted. Keep it open."
        }
    }
}
