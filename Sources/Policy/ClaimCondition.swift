import StrictJSON

extension ClaimPath {
    /// Why a condition on this claim may be in the hands of the person it judges; `nil` where nothing is known.
    var userWritable: String? {
        switch writer {
        case .person(let claim): "people can set \(claim) for themselves"
        case .oftenPerson(let claim): "at many identity providers people can set \(claim) for themselves"
        case nil: nil
        }
    }
}

/// `grants[].when`. Comparison is by type and value: `1` is `1.0`, `"1"` is neither. What is not there meets nothing but
/// `exists: false` and `not`.
package indirect enum ClaimCondition: Sendable, Equatable {
    case equals(ClaimPath, JSONValue)
    case isIn(ClaimPath, [JSONValue])
    /// An element of an array, or a word of a space-separated string such as `scope` (RFC 6749 section 3.3).
    case contains(ClaimPath, JSONValue)
    /// A claim that is `null` says that there is none.
    case exists(ClaimPath, Bool)
    case all([ClaimCondition])
    case any([ClaimCondition])
    case not(ClaimCondition)

    package func holds(for claims: JSONObject) -> Bool {
        switch self {
        case .equals(let path, let expected): return path.value(in: claims) == expected
        case .isIn(let path, let list):
            guard let value = path.value(in: claims) else { return false }
            return list.contains(value)
        case .contains(let path, let expected):
            switch path.value(in: claims) {
            case .array(let elements)?: return elements.contains(expected)
            case .string(let text)?:
                guard case .string(let word) = expected, !word.isEmpty else { return false }
                return text.utf8.split(separator: UInt8(ascii: " ")).contains { $0.elementsEqual(word.utf8) }
            default: return false
            }
        case .exists(let path, let expected):
            let value = path.value(in: claims)
            return (value != nil && value != .null) == expected
        case .all(let conditions): return conditions.allSatisfy { $0.holds(for: claims) }
        case .any(let conditions): return conditions.contains { $0.holds(for: claims) }
        case .not(let condition): return !condition.holds(for: claims)
        }
    }

    /// Every claim that is looked at.
    package var paths: [ClaimPath] {
        switch self {
        case .equals(let path, _), .isIn(let path, _), .contains(let path, _), .exists(let path, _): [path]
        case .all(let conditions), .any(let conditions): conditions.flatMap(\.paths)
        case .not(let condition): condition.paths
        }
    }
}
