/// January's ten scopes, in the order of its documentation.
package enum Scope: String, Sendable, Hashable, CaseIterable {
    case foodsRead = "foods:read"
    case foodAnalysisWrite = "food_analysis:write"
    case foodLogsRead = "food_logs:read"
    case foodLogsWrite = "food_logs:write"
    case glucoseRead = "glucose:read"
    case restaurantsRead = "restaurants:read"
    case waterLogsRead = "water_logs:read"
    case waterLogsWrite = "water_logs:write"
    case weightLogsRead = "weight_logs:read"
    case weightLogsWrite = "weight_logs:write"
}

/// A set of scopes in two bytes: a token table may hold a million of them.
package struct ScopeSet: Sendable, Hashable {
    private var bits: UInt16 = 0

    package init(_ scopes: some Sequence<Scope>) {
        for scope in scopes { insert(scope) }
    }

    package mutating func insert(_ scope: Scope) { bits |= Self.bit(scope) }
    package func contains(_ scope: Scope) -> Bool { bits & Self.bit(scope) != 0 }
    package var names: [String] { Scope.allCases.filter(contains).map(\.rawValue) }

    private static func bit(_ scope: Scope) -> UInt16 {
        switch scope {
        case .foodsRead: 1 << 0
        case .foodAnalysisWrite: 1 << 1
        case .foodLogsRead: 1 << 2
        case .foodLogsWrite: 1 << 3
        case .glucoseRead: 1 << 4
        case .restaurantsRead: 1 << 5
        case .waterLogsRead: 1 << 6
        case .waterLogsWrite: 1 << 7
        case .weightLogsRead: 1 << 8
        case .weightLogsWrite: 1 << 9
        }
    }
}
