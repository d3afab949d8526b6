import Digests
import Primitives
import StrictJSON

/// Why a 201 of January's is not delivered. Bounded: metric label and log field.
package enum MintAnswerProblem: String, Error, Equatable, Sendable, CaseIterable {
    /// Not strict JSON: syntax, repeated names, bad UTF-8, too deep, too large.
    case notJSON = "not_json"
    case notAnObject = "not_an_object"
    /// Missing, not a string, or not `ct-` with something behind it.
    case token
    /// Not an integer above 60 and at most what was asked for. App SDKs refuse a lifetime of 60 s or less.
    case lifetime
    /// No `end_user_id` or no `scopes`, or not of their types.
    case noEndUser = "no_end_user"
    case noScopes = "no_scopes"
    /// Not the end user asked for.
    case endUser = "wrong_end_user"
    /// Not exactly the set asked for.
    case scopes = "wrong_scopes"

    /// A token that is bound to somebody else or can do something else: never only a fault.
    package var isSecurityEvent: Bool { self == .endUser || self == .scopes }
}

/// A 201 that passed every check. Holds the token, so it prints as nothing.
package struct MintAnswer: Sendable {
    /// January's bytes, untouched.
    package let body: [UInt8]
    /// In seconds, above 60.
    package let expiresIn: Int
    private let token: ArraySlice<UInt8>
    private let hasAlias: Bool

    /// Checks a 201's content against what was asked for, byte for byte.
    ///
    /// - Complexity: O(bytes); the answer as January writes it is read in one pass without a parse tree.
    package static func check(_ body: [UInt8], endUserID: String, terms: MintTerms) throws(MintAnswerProblem) -> MintAnswer {
        let members: MintAnswerMembers
        if let scanned = MintAnswerMembers.scan(body) { members = scanned } else { members = try MintAnswerMembers.parse(body) }
        let bytes = members.bytes
        guard let token = members.token, token.count > tokenPrefix.count, bytes[token].starts(with: tokenPrefix) else {
            throw .token
        }
        guard let endUser = members.endUser else { throw .noEndUser }
        guard Bytes.equal(bytes[endUser], endUserID) else { throw .endUser }
        guard let scopes = members.scopes else { throw .noScopes }
        guard isSameSet(scopes, of: bytes, terms.scopeBytes) else { throw .scopes }
        guard let expiresIn = members.expiresIn, expiresIn > 60, expiresIn <= terms.ttlSeconds else { throw .lifetime }
        return MintAnswer(body: body, expiresIn: expiresIn, token: bytes[token], hasAlias: members.hasAlias)
    }

    private static let tokenPrefix = Array("ct-".utf8)

    /// Every one asked for, each once, and no other.
    private static func isSameSet(_ scopes: [Range<Int>], of bytes: [UInt8], _ expected: [[UInt8]]) -> Bool {
        guard scopes.count == expected.count else { return false }
        if isSameList(scopes, of: bytes, expected) { return true }
        let sorted = scopes.sorted { bytes[$0].lexicographicallyPrecedes(bytes[$1]) }
        return isSameList(sorted, of: bytes, expected)
    }

    private static func isSameList(_ scopes: [Range<Int>], of bytes: [UInt8], _ expected: [[UInt8]]) -> Bool {
        bytes.withUnsafeBytes { bytes in
            for index in scopes.indices {
                let isSame = expected[index].withUnsafeBytes {
                    Bytes.equal(UnsafeRawBufferPointer(rebasing: bytes[scopes[index]]), $0)
                }
                if !isSame { return false }
            }
            return true
        }
    }

    /// The body with `"expiresIn"` beside `expires_in`, all other bytes as they were. An answer that has the member already is left
    /// alone: a second one would make it ambiguous.
    package func bodyWithExpiresInAlias() -> [UInt8] {
        guard !hasAlias, let brace = body.firstIndex(of: UInt8(ascii: "{")) else { return body }
        let alias = "\"expiresIn\":\(expiresIn),"
        var result: [UInt8] = []
        result.reserveCapacity(body.count + alias.utf8.count)
        result += body[...brace]
        result += alias.utf8
        result += body[(brace + 1)...]
        return result
    }

    /// The first 8 octets of the token's SHA-256, to be written in hexadecimal: names it in records without telling it.
    package var tokenFingerprint: UInt64 {
        let token = token
        return SHA2.sha256(of: token.span.bytes).first
    }
}

extension MintAnswer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }
    package var debugDescription: String { "<redacted>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
