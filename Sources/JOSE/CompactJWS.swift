import Primitives
import StrictJSON

/// A token in JWS compact serialization, taken apart (RFC 7515 section 7.1). Nothing in it has been verified.
package struct CompactJWS: Sendable {
    /// The largest token, in bytes.
    package static let maxBytes = 16_384
    private static let jsonLimits = JSONLimits(bytes: maxBytes, depth: 16)

    package let header: JOSEHeader
    /// The first two parts with the dot between them, as sent.
    package let signingInput: [UInt8]
    package let payload: [UInt8]
    package let signature: [UInt8]

    /// Exactly three parts, each canonical base64url without padding; the header a JSON object without duplicate names that has `alg`.
    package static func parse(_ token: RawSpan) throws(JWSFormatError) -> CompactJWS {
        try parse(token) { header throws(JWSFormatError) in try self.header(header) }
    }

    /// The same, with the headers that were read last.
    package static func parse(_ token: RawSpan, _ headers: JOSEHeaderMemo) throws(JWSFormatError) -> CompactJWS {
        try parse(token) { header throws(JWSFormatError) in try headers.header(header) }
    }

    /// The first part of a token.
    static func header(_ text: RawSpan) throws(JWSFormatError) -> JOSEHeader {
        guard let bytes = Base64URL.decode(text) else { throw .invalidBase64(.header) }
        let value: JSONValue
        do { value = try JSONValue.parse(bytes.span.bytes, limits: jsonLimits) } catch { throw .invalidHeader(error.reason) }
        guard case .object(let object) = value else { throw .headerNotObject }
        return try JOSEHeader(object)
    }

    @inline(__always)
    private static func parse(
        _ token: RawSpan, header: (RawSpan) throws(JWSFormatError) -> JOSEHeader
    ) throws(JWSFormatError) -> CompactJWS {
        guard token.byteCount <= maxBytes else { throw .tooLarge }
        guard let (first, second) = dots(token) else { throw .notThreeParts }
        let header = try header(token.extracting(0..<first))
        guard let payload = Base64URL.decode(token.extracting(first + 1..<second)) else { throw .invalidBase64(.payload) }
        guard let signature = Base64URL.decode(token.extracting(second + 1..<token.byteCount)) else {
            throw .invalidBase64(.signature)
        }
        let signingInput = token.extracting(0..<second).withUnsafeBytes { [UInt8]($0) }
        return CompactJWS(header: header, signingInput: signingInput, payload: payload, signature: signature)
    }

    package static func parse(_ token: [UInt8]) throws(JWSFormatError) -> CompactJWS { try parse(token.span.bytes) }
    package static func parse(_ token: String) throws(JWSFormatError) -> CompactJWS { try parse(Array(token.utf8)) }

    /// The offsets of the two dots, `nil` where there are fewer or more.
    private static func dots(_ token: RawSpan) -> (Int, Int)? {
        token.withUnsafeBytes { bytes in
            guard let first = Bytes.firstIndex(of: UInt8(ascii: "."), in: bytes, from: 0),
                let second = Bytes.firstIndex(of: UInt8(ascii: "."), in: bytes, from: first + 1),
                Bytes.firstIndex(of: UInt8(ascii: "."), in: bytes, from: second + 1) == nil
            else { return nil }
            return (first, second)
        }
    }
}

/// Why bytes are not a token that could be verified.
package enum JWSFormatError: Error, Equatable, Sendable {
    package enum Part: String, Sendable { case header, payload, signature }
    package enum Parameter: String, Sendable {
        case algorithm = "alg"
        case keyID = "kid"
        case type = "typ"
    }

    case tooLarge
    case notThreeParts
    case invalidBase64(Part)
    case invalidHeader(JSONParseError.Reason)
    case headerNotObject
    case missingAlgorithm
    case invalidParameter(Parameter)

    /// Bounded: usable as a metric label.
    package var reason: StaticString {
        switch self {
        case .tooLarge: "too_large"
        case .notThreeParts: "not_three_parts"
        case .invalidBase64: "invalid_base64"
        case .invalidHeader: "invalid_header"
        case .headerNotObject: "header_not_object"
        case .missingAlgorithm: "missing_algorithm"
        case .invalidParameter: "invalid_parameter"
        }
    }

    /// Not a JWT at all but some opaque credential: a JWT has three parts whose first decodes to a JSON object with `alg`.
    package var isOpaque: Bool {
        switch self {
        case .tooLarge, .notThreeParts, .invalidBase64(.header), .invalidHeader, .headerNotObject, .missingAlgorithm: true
        case .invalidBase64(.payload), .invalidBase64(.signature), .invalidParameter: false
        }
    }
}

extension JWSFormatError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .tooLarge: "longer than \(CompactJWS.maxBytes) bytes"
        case .notThreeParts: "not exactly three parts"
        case .invalidBase64(let part): "the \(part.rawValue) is not canonical base64url"
        case .invalidHeader(let reason): "the header is not strict JSON (\(reason.rawValue))"
        case .headerNotObject: "the header is not a JSON object"
        case .missingAlgorithm: "the header has no alg"
        case .invalidParameter(let parameter): "\(parameter.rawValue) is not a string"
        }
    }
}
