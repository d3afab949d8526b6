import EventLoop
import HTTPMessage
import Primitives

/// Who may use the management listener.
struct ManagementAccess {
    enum Finding: Equatable {
        /// The name of the token, for the audit trail; `nil` where none is needed.
        case granted(tokenName: String?)
        case refused(Problem)
    }

    private enum Credential {
        case none
        case bearer(Secret)
        case basic(Secret)
        case unreadable
    }

    /// Sent by scripts, as many libraries do. A browser answers a challenge to Basic with its dialog, whoever asked: a page that asks every few
    /// seconds would open it again and again.
    private static let requestedWith = FieldName("x-requested-with")

    private var tokens: [ManagementToken]
    private let isOffLoopback: Bool
    private var wrongTokens = WrongTokens()

    init(_ config: ManagementConfig) {
        tokens = config.tokens
        isOffLoopback = !(config.address?.isLoopbackOrLocal ?? true)
    }

    /// Other tokens; what addresses have sent wrong ones stays counted.
    mutating func replace(_ config: ManagementConfig) { tokens = config.tokens }

    /// - Parameter reads: the request changes nothing, so the token may come as the password of HTTP Basic, as scrapers and browsers
    ///   send it. A change needs Bearer: no browser adds that by itself to a request that somebody else's page makes.
    mutating func check(
        _ route: ManagementRoute, reads: Bool, _ fields: Fields, peer: SocketAddress, now: MonotonicInstant
    ) -> Finding {
        switch route.guardian {
        case .nobody: return .granted(tokenName: nil)
        case .tokenOffLoopback where !isOffLoopback: return .granted(tokenName: nil)
        case .tokenOffLoopback, .token: break
        }
        guard !tokens.isEmpty else { return .refused(Problem(.managementDisabled)) }
        let asks = reads && fields.first(Self.requestedWith) == nil
        switch Self.credential(fields) {
        case .none: return .refused(unauthorized("no_token", asksForBasic: asks, wasSent: false))
        case .unreadable: return .refused(wrong(peer, now, asksForBasic: asks))
        case .basic(let given):
            guard let name = name(of: given) else { return .refused(wrong(peer, now, asksForBasic: asks)) }
            return reads
                ? .granted(tokenName: name) : .refused(unauthorized("basic_for_a_change", asksForBasic: false, wasSent: false))
        case .bearer(let given):
            guard let name = name(of: given) else { return .refused(wrong(peer, now, asksForBasic: asks)) }
            return .granted(tokenName: name)
        }
    }

    /// Every token is compared whatever the others come to, each in constant time.
    private func name(of given: Secret) -> String? {
        var found: String?
        for token in tokens where token.secret.equals(given) { found = token.name }
        return found
    }

    private mutating func wrong(_ peer: SocketAddress, _ now: MonotonicInstant, asksForBasic: Bool) -> Problem {
        if let seconds = wrongTokens.charge(peer, now: now) {
            var problem = Problem(.rateLimited, reason: "wrong_tokens", retryAfter: seconds)
            problem.detail = "Too many wrong management tokens came from this address. A right one is accepted at any time."
            return problem
        }
        return unauthorized("wrong_token", asksForBasic: asksForBasic, wasSent: true)
    }

    private func unauthorized(_ reason: String, asksForBasic: Bool, wasSent: Bool) -> Problem {
        var problem = Problem(.managementUnauthorized, reason: reason)
        problem.challenge = .management(wasSent: wasSent, asksForBasic: asksForBasic)
        return problem
    }

    private static func credential(_ fields: Fields) -> Credential {
        guard let value = fields.first(.authorization) else { return .none }
        guard fields.count(of: .authorization) == 1, let space = value.firstIndex(of: ASCII.space) else { return .unreadable }
        let scheme = value[..<space]
        let rest = value[space...].drop { $0 == ASCII.space }
        if ASCII.equalIgnoringCase(scheme, "bearer".utf8) { return .bearer(Secret(Array(rest))) }
        guard ASCII.equalIgnoringCase(scheme, "basic".utf8), let decoded = Base64.decode(String(decoding: rest, as: UTF8.self)),
            let colon = decoded.firstIndex(of: UInt8(ascii: ":"))
        else { return .unreadable }
        return .basic(Secret(Array(decoded[(colon + 1)...])))
    }
}
