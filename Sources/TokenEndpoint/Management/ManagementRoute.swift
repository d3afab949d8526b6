import HTTPMessage
import Primitives

/// The routes of the management listener as data.
enum ManagementRoute: Equatable {
    case health, ready, metrics, status, statusPage
    case revocations
    /// A parameter of the path; `nil`: it cannot be decoded to text.
    case revocation(id: String?)
    case endUser(id: String?)
    case block(endUserID: String?)
    /// `OPTIONS *`
    case everything

    private static let exact: [(path: [UInt8], route: ManagementRoute)] = [
        (Array("/healthz".utf8), .health), (Array("/readyz".utf8), .ready), (Array("/metrics".utf8), .metrics),
        (Array("/status.json".utf8), .status), (Array("/status".utf8), .statusPage),
        (Array(revocationsPath.utf8), .revocations),
    ]
    static let revocationsPath = "/january/client-token-revocations"
    private static let revocation = Array((revocationsPath + "/").utf8)
    private static let endUser = Array("/january/end-users/".utf8)
    private static let block = Array("/block".utf8)

    /// By the path alone, byte for byte; only parameters are decoded, each once. `nil`: there is nothing at this path.
    init?(_ target: RequestTarget) {
        if let found = Self.exact.first(where: { target.pathEquals($0.path) }) {
            self = found.route
            return
        }
        switch target.form {
        case .asterisk: self = .everything
        case .authority: return nil
        case .origin, .absolute:
            let path = target.pathBytes
            if let id = Self.parameter(of: path, behind: Self.revocation) {
                self = .revocation(id: PercentEncoding.text(id))
            } else if let id = Self.parameter(of: path, behind: Self.endUser) {
                self = .endUser(id: PercentEncoding.text(id))
            } else if path.count > Self.block.count, path.suffix(Self.block.count).elementsEqual(Self.block),
                let id = Self.parameter(of: path.dropLast(Self.block.count), behind: Self.endUser)
            {
                self = .block(endUserID: PercentEncoding.text(id))
            } else {
                return nil
            }
        }
    }

    /// The one segment behind `prefix`; `nil` when there is none, or more than one.
    private static func parameter(of path: ArraySlice<UInt8>, behind prefix: [UInt8]) -> ArraySlice<UInt8>? {
        guard path.starts(with: prefix) else { return nil }
        let rest = path.dropFirst(prefix.count)
        return rest.isEmpty || rest.contains(UInt8(ascii: "/")) ? nil : rest
    }

    /// For `Allow`.
    var methods: StaticString {
        switch self {
        case .health, .ready, .metrics, .status, .statusPage, .revocation, .endUser: "GET, HEAD, OPTIONS"
        case .revocations: "GET, HEAD, POST, OPTIONS"
        case .block: "DELETE, OPTIONS"
        case .everything: "GET, HEAD, POST, DELETE, OPTIONS"
        }
    }

    /// `http.route` of its spans, which hold no end user's ID; `nil`: it has none.
    var traced: String? {
        switch self {
        case .revocations: Self.revocationsPath
        case .revocation: Self.revocationsPath + "/{id}"
        case .endUser: "/january/end-users/{end_user_id}"
        case .block: "/january/end-users/{end_user_id}/block"
        case .health, .ready, .metrics, .status, .statusPage, .everything: nil
        }
    }

    func allows(_ method: Method) -> Bool {
        switch (self, method) {
        case (.health, .get), (.health, .head), (.ready, .get), (.ready, .head), (.metrics, .get), (.metrics, .head): true
        case (.status, .get), (.status, .head), (.statusPage, .get), (.statusPage, .head): true
        case (.revocations, .get), (.revocations, .head), (.revocations, .post): true
        case (.revocation, .get), (.revocation, .head), (.endUser, .get), (.endUser, .head): true
        case (.block, .delete): true
        default: false
        }
    }

    /// What it takes to be answered.
    enum Guard: Equatable {
        case nobody
        /// Off loopback a token.
        case tokenOffLoopback
        /// A token wherever it listens.
        case token
    }

    var guardian: Guard {
        switch self {
        case .health, .ready: .nobody
        case .metrics, .status, .statusPage, .everything: .tokenOffLoopback
        case .revocations, .revocation, .endUser, .block: .token
        }
    }
}

/// Percent-encoding of one path segment or query value (RFC 3986 section 2.1), decoded once.
enum PercentEncoding {
    /// `nil` for a `%` without two hex digits, and where the octets are not UTF-8.
    static func text(_ bytes: ArraySlice<UInt8>) -> String? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = bytes.startIndex
        while index < bytes.endIndex {
            guard bytes[index] == UInt8(ascii: "%") else {
                decoded.append(bytes[index])
                index += 1
                continue
            }
            guard index + 2 < bytes.endIndex, let high = ASCII.hexDigit(bytes[index + 1]),
                let low = ASCII.hexDigit(bytes[index + 2])
            else { return nil }
            decoded.append(high << 4 | low)
            index += 3
        }
        return String(validating: decoded, as: UTF8.self)
    }

    /// Everything but unreserved characters (RFC 3986 section 2.3) is encoded.
    static func encode(_ text: String) -> String {
        var encoded = ""
        for byte in text.utf8 {
            if ASCII.isLetter(byte) || ASCII.isDigit(byte) || "-._~".utf8.contains(byte) {
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                encoded += "%" + Hex.encode([byte]).uppercased()
            }
        }
        return encoded
    }
}
