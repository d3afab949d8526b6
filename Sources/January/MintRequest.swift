import Primitives
import StrictJSON

/// The part of a mint that depends on the policy alone, rendered once: scopes and lifetime.
package final class MintTerms: Sendable, Equatable {
    /// Sorted by their bytes, each once.
    package let scopes: [String]
    package let ttlSeconds: Int
    /// From the comma after the end-user ID to the end of the body.
    let tail: [UInt8]
    /// `scopes` as bytes, for the check of the answer.
    let scopeBytes: [[UInt8]]

    /// `scopes`: in any order, repeats allowed.
    package init(scopes: [String], ttlSeconds: Int) {
        var distinct: [[UInt8]] = []
        for scope in scopes.map({ Array($0.utf8) }).sorted(by: { $0.lexicographicallyPrecedes($1) }) where scope != distinct.last
        {
            distinct.append(scope)
        }
        scopeBytes = distinct
        self.scopes = distinct.map { String(decoding: $0, as: UTF8.self) }
        self.ttlSeconds = ttlSeconds
        var tail = Array(#","scopes":["#.utf8)
        for (index, scope) in self.scopes.enumerated() {
            if index > 0 { tail.append(UInt8(ascii: ",")) }
            JSONValue.append(scope, to: &tail)
        }
        tail += "],\"ttl_seconds\":\(ttlSeconds)}".utf8
        self.tail = tail
    }

    /// The tail holds both parts.
    package static func == (left: MintTerms, right: MintTerms) -> Bool { left.tail == right.tail }
}

/// The body of January's mint: exactly `end_user_id`, `scopes` (sorted, unique) and `ttl_seconds`.
package enum MintRequest {
    /// Below the base URL.
    package static let path = "/v1.2/auth/client-tokens"

    private static let head: StaticString = #"{"end_user_id":"#

    package static func body(endUserID: String, terms: MintTerms) -> [UInt8] {
        var body: [UInt8] = []
        var endUserID = endUserID
        let isWritten = endUserID.withUTF8 { id in
            var escapes: UInt8 = 0
            for byte in id { escapes |= byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") ? 1 : 0 }
            guard escapes == 0 else { return false }
            // Nearly every ID: nothing to escape, so the body is made in one piece.
            body.append(addingCapacity: head.utf8CodeUnitCount + id.count + 2 + terms.tail.count) { output in
                output.append(head)
                output.append(UInt8(ascii: "\""))
                output.append(id)
                output.append(UInt8(ascii: "\""))
                output.append(terms.tail)
            }
            return true
        }
        if isWritten { return body }
        head.withUTF8Buffer { body.append(contentsOf: $0) }
        JSONValue.append(endUserID, to: &body)
        return body + terms.tail
    }
}
