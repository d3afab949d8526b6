import HTTPMessage

/// The public routes as data.
final class Routes: Sendable {
    static let healthPath = "/healthz"
    /// For `Allow`.
    let tokenMethods: StaticString
    static let healthMethods: StaticString = "GET, HEAD, OPTIONS"

    private let tokenPaths: [[UInt8]]
    private static let health = Array(healthPath.utf8)

    private let hasSignOut: Bool

    /// - Parameter hasSignOut: `DELETE` on a token path is the caller's sign-out.
    init(tokenPaths: [String], hasSignOut: Bool = false) {
        self.tokenPaths = tokenPaths.map { Array($0.utf8) }
        self.hasSignOut = hasSignOut
        tokenMethods = hasSignOut ? "POST, DELETE, OPTIONS" : "POST, OPTIONS"
    }

    /// By the path alone, byte for byte: no decoding, no trailing slash, the query is not looked at.
    func route(of target: RequestTarget) -> RequestOutcome.Route {
        for path in tokenPaths where target.pathEquals(path) { return .token }
        return target.pathEquals(Self.health) ? .health : .other
    }

    enum Decision {
        case mint
        case signOut
        case health
        case options(allow: StaticString)
        case refuse(Problem)
    }

    func decide(_ head: RequestHead, _ route: RequestOutcome.Route) -> Decision {
        if case .options = head.method, head.target.form == .asterisk {
            return .options(allow: hasSignOut ? "GET, HEAD, POST, DELETE, OPTIONS" : "GET, HEAD, POST, OPTIONS")
        }
        switch (route, head.method) {
        case (.other, _): return .refuse(Problem(.notFound))
        case (.token, .post): return .mint
        case (.token, .delete) where hasSignOut: return .signOut
        case (.token, .options): return .options(allow: tokenMethods)
        case (.token, _): return .refuse(.methodNotAllowed(allow: tokenMethods))
        case (.health, .get), (.health, .head): return .health
        case (.health, .options): return .options(allow: Self.healthMethods)
        case (.health, _): return .refuse(.methodNotAllowed(allow: Self.healthMethods))
        }
    }
}
