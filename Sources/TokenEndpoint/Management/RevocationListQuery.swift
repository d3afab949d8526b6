import HTTPMessage
import Primitives
import Revocations

/// The query of a list of revocations. As strict as a body: a parameter that is not understood would silently show something else.
struct RevocationListQuery: Equatable {
    var pendingOnly = false
    var limit = 50
    var after: String?

    static let maxLimit = 200

    /// `query`: behind the `?`.
    static func parse(_ query: ArraySlice<UInt8>?) throws(BadMember) -> RevocationListQuery {
        var result = RevocationListQuery()
        var seen: Set<String> = []
        for pair in (query ?? []).split(separator: UInt8(ascii: "&")) {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            guard let name = PercentEncoding.text(pair[..<equals]), let value = PercentEncoding.text(pair[equals...].dropFirst())
            else { throw BadMember(nil, "The query cannot be decoded.") }
            guard ["status", "limit", "after"].contains(name) else {
                throw BadMember(String(name.prefix(64)), "There is no such parameter. Known are status, limit and after.")
            }
            guard seen.insert(name).inserted else { throw BadMember(name, "This parameter comes twice.") }
            switch name {
            case "status":
                guard value == "pending" else { throw BadMember(name, "Must be pending, or be left out for all.") }
                result.pendingOnly = true
            case "limit":
                guard value.utf8.count <= 3, let limit = ASCII.decimal(value.utf8), (1...maxLimit).contains(limit) else {
                    throw BadMember(name, "Must be a number from 1 to 200.")
                }
                result.limit = limit
            default:
                guard RevocationID(value) != nil else { throw BadMember(name, "Must be the next of a page before.") }
                result.after = value
            }
        }
        return result
    }
}
