import Digests
import Primitives

/// Why something is not an API key. The text says what to do and never repeats the value.
package enum APIKeyProblem: String, Error, Sendable, CaseIterable {
    case empty
    /// `ct-…`: the token of one end user, which can mint nothing.
    case clientToken = "client_token"
    case prefix
    /// White space or a control character inside, most often a second line.
    case whiteSpace = "white_space"
    /// Anything else that cannot stand in a field value.
    case notASCII = "not_ascii"
    case length

    package var message: String {
        switch self {
        case .empty: "is empty; a January API key starts with sk-"
        case .clientToken: "is a client token (ct-…); an API key (sk-…) is needed"
        case .prefix: "must start with sk-"
        case .whiteSpace: "must be one line without white space"
        case .notASCII: "must be printable ASCII"
        case .length: "must be sk- and 1 to 509 characters"
        }
    }
}

/// One of January's API keys (`sk-…`). Shown only as its fingerprint.
package struct APIKey: Sendable, Equatable, CustomStringConvertible {
    package let secret: Secret
    /// The first 8 hex digits of its SHA-256.
    package let fingerprint: String

    package init(_ secret: Secret) throws(APIKeyProblem) {
        try secret.withUnsafeBytes { (bytes) throws(APIKeyProblem) in
            guard !bytes.isEmpty else { throw .empty }
            guard !bytes.contains(where: { $0 <= 0x20 || $0 == 0x7F }) else { throw .whiteSpace }
            guard !bytes.starts(with: "ct-".utf8) else { throw .clientToken }
            guard bytes.starts(with: "sk-".utf8) else { throw .prefix }
            guard bytes.allSatisfy({ $0 < 0x80 }) else { throw .notASCII }
            guard (4...512).contains(bytes.count) else { throw .length }
        }
        self.secret = secret
        fingerprint = Hex.encode(SHA2.sha256.hash(secret.copyBytes()).prefix(4))
    }

    package var description: String { "sk-… (\(fingerprint))" }

    /// Constant time.
    package static func == (left: APIKey, right: APIKey) -> Bool { left.secret.equals(right.secret) }
}
