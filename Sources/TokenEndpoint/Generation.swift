import EndUsers
import January
import Policy
import Primitives
import Sessions
import Telemetry

/// One configuration in force: immutable, shared by all loops. A request takes the current one once and keeps it to its end; a reload puts
/// another in its place.
final class Generation: Sendable {
    let config: RootConfig
    let routes: Routes
    let january: JanuaryService
    let verifiers: SessionVerifiers
    /// The terms of every grant in the policy's table, rendered once.
    private let terms: [GrantedTerms?]

    init(config: RootConfig, january: JanuaryService, verifiers: SessionVerifiers) {
        self.config = config
        self.january = january
        self.verifiers = verifiers
        routes = Routes(tokenPaths: config.tokenPaths, hasSignOut: config.selfService.isOn)
        terms = config.policy.table.map { $0.map(GrantedTerms.init) }
    }

    func terms(of grant: Policy.Grant) -> GrantedTerms { grant.index.flatMap { terms[$0] } ?? GrantedTerms(grant) }
}

/// What a grant comes to, rendered once: for January and for the record.
final class GrantedTerms: Sendable {
    let mint: MintTerms
    let scopes: LogList

    init(_ grant: Policy.Grant) {
        mint = MintTerms(scopes: grant.scopes, ttlSeconds: grant.ttlSeconds)
        scopes = LogList(mint.scopes)
    }
}
