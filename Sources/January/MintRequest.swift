import StrictJSON

/// The part of a mint that depends on the policy alone, rendered once: scopes and lifetime.
package struct MintTerms: Sendable, Equatable {
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
}

/// The body of January's mint: exactly `end_user_id`, `scopes` (sorted, unique) and `ttl_seconds`.
package enum MintRequest {
    /// Below the base URL.
    package static let path = "/v1.2/auth/client-tokens"

    private static let head = Array(#"{"end_user_id":"#.utf8)

    package static func body(endUserID: String, terms: MintTerms) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(head.count + endUserID.utf8.count + 8 + terms.tail.count)
        body += head
        if endUserID.utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
            // Nearly every ID: nothing to escape, so one copy.
            body.append(UInt8(ascii: "\""))
            body.append(contentsOf: endUserID.utf8)
            body.append(UInt8(ascii: "\""))
        } else {
            JSONValue.append(endUserID, to: &body)
        }
        body += terms.tail
        return body
    }
}
