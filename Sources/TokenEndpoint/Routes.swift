import HTTPMessage

/// The public routes as data.
struct Routes: Sendable {
    static let healthPath = "/healthz"
    static let tokenMethods: StaticString = "POST, OPTIONS"
    static let healthMethods: StaticString = "GET, HEAD, OPTIONS"

    private let tokenPaths: [[UInt8]]
    private static let health = Array(healthPath.utf8)

    init(tokenPaths: [String]) { self.tokenPaths = tokenPaths.map { Array($0.utf8) } }

    /// By the path alone, byte for byte: no decoding, no trailing slash, the query is not looked at.
    func route(of target: RequestTarget) -> RequestOutcome.Route {
        for path in tokenPaths where target.pathEquals(path) { return .token }
        return target.pathEquals(Self.health) ? .health : .other
    }

    enum Decision {
        case mint
        case health
        case options(allow: StaticString)
        case refuse(Problem)
    }

    func decide(_ head: RequestHead, _ route: RequestOutcome.Route) -> Decision {
        if head.method == .options && head.target.form == .asterisk { return .options(allow: "GET, HEAD, POST, OPTIONS") }
        switch (route, head.method) {
        case (.other, _): return .refuse(Problem(.notFound))
        case (.token, .post): return .mint
        case (.token, .options): return .options(allow: Self.tokenMethods)
        case (.token, _): return .refuse(.methodNotAllowed(allow: Self.tokenMethods))
        case (.health, .get), (.health, .head): return .health
        case (.health, .options): return .options(allow: Self.healthMethods)
        case (.health, _): return .refuse(.methodNotAllowed(allow: Self.healthMethods))
        }
    }
}
