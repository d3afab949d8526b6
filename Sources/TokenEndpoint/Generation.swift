import EndUsers
import January
import Policy
import Primitives
import Sessions

/// One configuration in force: immutable, shared by all loops. A request takes the current one once and keeps it to its end; a reload puts
/// another in its place.
final class Generation: Sendable {
    let config: RootConfig
    let routes: Routes
    let january: JanuaryService
    let verifiers: SessionVerifiers
    /// The terms of every grant in the policy's table, rendered once.
    private let terms: [MintTerms?]

    init(config: RootConfig, january: JanuaryService, verifiers: SessionVerifiers) {
        self.config = config
        self.january = january
        self.verifiers = verifiers
        routes = Routes(tokenPaths: config.tokenPaths, hasSignOut: config.selfService.isOn)
        terms = config.policy.table.map { $0.map { MintTerms(scopes: $0.scopes, ttlSeconds: $0.ttlSeconds) } }
    }

    func terms(of grant: Policy.Grant) -> MintTerms {
        grant.index.flatMap { terms[$0] } ?? MintTerms(scopes: grant.scopes, ttlSeconds: grant.ttlSeconds)
    }
}
