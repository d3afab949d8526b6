/// A field name in lower case (RFC 9110 section 5.1: names are compared without case).
package struct FieldName: Sendable, Hashable, CustomStringConvertible {
    package let bytes: [UInt8]
    /// Says where a message ends, where it goes, or what becomes of the connection (RFC 9110 section 7.6.1): not for a ``FieldBlock``.
    package let isReserved: Bool

    /// A literal. Anything but a token is a mistake in our own source and stops the process.
    package init(_ literal: StaticString) {
        bytes = literal.withUTF8Buffer { $0.map(\.lowercasedASCII) }
        precondition(!bytes.isEmpty && bytes.allSatisfy(ByteSet.token.contains), "field name is not a token")
        isReserved = FieldName.isReserved(bytes)
    }

    /// A name from configuration. `nil` when it is not a token.
    package init?(parsing text: String) {
        bytes = text.utf8.map(\.lowercasedASCII)
        isReserved = FieldName.isReserved(bytes)
        guard !bytes.isEmpty, bytes.allSatisfy(ByteSet.token.contains) else { return nil }
    }

    private static func isReserved(_ bytes: [UInt8]) -> Bool {
        switch String(decoding: bytes, as: UTF8.self) {
        case "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer",
            "upgrade", "expect":
            true
        default: false
        }
    }

    package var text: String { String(decoding: bytes, as: UTF8.self) }
    package var description: String { text }

    package static let accept = FieldName("accept")
    package static let acceptEncoding = FieldName("accept-encoding")
    package static let accessControlAllowOrigin = FieldName("access-control-allow-origin")
    package static let accessControlRequestMethod = FieldName("access-control-request-method")
    package static let age = FieldName("age")
    package static let allow = FieldName("allow")
    package static let authorization = FieldName("authorization")
    package static let cacheControl = FieldName("cache-control")
    package static let connection = FieldName("connection")
    package static let contentEncoding = FieldName("content-encoding")
    package static let contentLength = FieldName("content-length")
    package static let contentType = FieldName("content-type")
    package static let cookie = FieldName("cookie")
    package static let date = FieldName("date")
    package static let expect = FieldName("expect")
    package static let forwarded = FieldName("forwarded")
    package static let host = FieldName("host")
    package static let januaryEndUserID = FieldName("january-end-user-id")
    package static let januaryRequestID = FieldName("january-request-id")
    package static let location = FieldName("location")
    package static let origin = FieldName("origin")
    package static let retryAfter = FieldName("retry-after")
    package static let secFetchSite = FieldName("sec-fetch-site")
    package static let traceparent = FieldName("traceparent")
    package static let tracestate = FieldName("tracestate")
    package static let transferEncoding = FieldName("transfer-encoding")
    package static let userAgent = FieldName("user-agent")
    package static let vary = FieldName("vary")
    package static let wwwAuthenticate = FieldName("www-authenticate")
    package static let xContentTypeOptions = FieldName("x-content-type-options")
    package static let xEndUserID = FieldName("x-end-user-id")
    package static let xForwardedFor = FieldName("x-forwarded-for")
    package static let xRequestID = FieldName("x-request-id")
}
