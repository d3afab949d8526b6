import Primitives
import StrictJSON

/// What January looks at in a request.
package struct JanuaryRequest: Sendable, Equatable {
    package var method: String
    /// Without the query.
    package var path: String
    /// The value of every `Authorization` line.
    package var authorization: [String]
    /// The values of `January-End-User-ID` and of its old name `x-end-user-id`.
    package var endUserIDs: [String]
    package var body: [UInt8]

    package init(
        _ method: String, _ path: String, authorization: [String] = [], endUserIDs: [String] = [], body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.authorization = authorization
        self.endUserIDs = endUserIDs
        self.body = body
    }
}

/// January's API: one account with its keys, tokens and limits. Pure: the time is passed in.
package struct JanuarySide: Sendable {
    package var settings: SimulatorSettings
    package private(set) var tokens: TokenTable
    private var mintWindow = RateWindow()
    private var revokeWindow = RateWindow()
    private var creditsWindow = RateWindow()

    init(settings: SimulatorSettings, tokenCapacity: Int, seed: UInt64) {
        self.settings = settings
        tokens = TokenTable(capacity: tokenCapacity, seed: seed)
    }

    private enum Credential {
        /// No field, two fields, another scheme, blank, or an unknown key.
        case bad
        case apiKey
        case otherVersion
        case clientToken(String)
    }

    /// - Parameters:
    ///   - match: where ``Routes`` led.
    ///   - fault: parts of the answer that come out wrong.
    ///   - number: of the request, as in the ledger.
    mutating func answer(
        _ match: Routes.Match, _ request: JanuaryRequest, fault: Fault.Content, now: WallInstant, number: Int
    ) -> Answer {
        var answer = rightAnswer(match, request, fault: fault, now: now, number: number)
        if answer.status == 503, answer.retryAfter == nil {
            answer.retryAfter = settings.unavailableRetryAfter.map(String.init)
        }
        if answer.code != nil, let url = settings.docsURL, case .object(let members) = answer.content {
            answer.content = .object(members + [Answer.Member("docs_url", .string(url))])
        }
        return answer
    }

    private mutating func rightAnswer(
        _ match: Routes.Match, _ request: JanuaryRequest, fault: Fault.Content, now: WallInstant, number: Int
    ) -> Answer {
        switch match {
        case .operation(.mint): return mint(request, fault, now, number)
        case .operation(.revoke): return revoke(request, fault, now)
        case .operation(.credits): return credits(request, now)
        case .operation(let operation): return example(operation, request, now)
        case .otherVersion:
            // A key belongs to one version; what it is on the other one is not 401.
            if case .bad = credential(request) { return Self.unauthorized }
            return Self.wrongVersion
        case .otherMethod(let allow):
            var answer = Answer.failure(405, "invalid_request", "\(request.method) is not served here")
            answer.allow = allow
            return answer
        case .none: return .failure(404, "not_found", "nothing is served here")
        }
    }

    // MARK: Credentials

    private func credential(_ request: JanuaryRequest) -> Credential {
        guard request.authorization.count == 1, let value = request.authorization.first else { return .bad }
        // RFC 9110 section 11.1: the scheme in any case, then at least one space.
        guard value.utf8.count > 7, ASCII.equalIgnoringCase(value.utf8.prefix(7), "bearer ".utf8) else { return .bad }
        let text = String(value.dropFirst(7))
        if text.hasPrefix("ct-") { return .clientToken(text) }
        switch settings.keys[text] {
        case .valid: return .apiKey
        case .otherVersion: return .otherVersion
        case .deleted, nil: return .bad
        }
    }

    private static let unauthorized = Answer.failure(401, "unauthorized", "the API key is missing, malformed or not known")
    private static let wrongVersion = Answer.failure(403, "forbidden", "this API key belongs to another API version")

    /// `nil`: an API key of this version.
    private func refusalOfKey(_ request: JanuaryRequest) -> Answer? {
        switch credential(request) {
        case .apiKey: nil
        case .bad: Self.unauthorized
        case .otherVersion: Self.wrongVersion
        case .clientToken: .failure(403, "client_token_not_allowed", "a client token may not call this operation")
        }
    }

    private func limited(_ wait: Duration?) -> Answer? {
        guard let wait else { return nil }
        let seconds = wait.wholeNanoseconds / 1_000_000_000 + (wait.wholeNanoseconds % 1_000_000_000 > 0 ? 1 : 0)
        return .failure(
            429, "rate_limited", "too many requests", retryAfter: settings.sendsRetryAfter ? String(seconds) : nil)
    }

    private func spent() -> Answer? {
        settings.spentCeiling.map { .failure(429, $0.rawValue, "the monthly ceiling of this account is used up") }
    }

    // MARK: Mint, revoke, credits

    private mutating func mint(
        _ request: JanuaryRequest, _ fault: Fault.Content, _ now: WallInstant, _ number: Int
    ) -> Answer {
        var order: MintOrder?
        for check in settings.completeMintCheckOrder {
            switch check {
            case .key: if let refusal = refusalOfKey(request) { return refusal }
            case .configured:
                if !settings.clientTokensConfigured {
                    return .failure(503, "service_unavailable", "client tokens are not configured in this environment")
                }
            case .enabled:
                if !settings.clientTokensEnabled {
                    return .failure(403, "forbidden", "client tokens are not switched on for this account")
                }
            case .rate:
                if let refusal = limited(mintWindow.charge(settings.mintLimit, now: now)) ?? spent() { return refusal }
            case .body:
                do {
                    order = try MintOrder.read(request.body, settings: settings)
                } catch {
                    return .failure(400, "invalid_request", error.message)
                }
            }
        }
        guard let order else { return .failure(500, "internal_error", "the body was not read") }
        let lifetime = fault.expiresIn ?? order.lifetimeSeconds
        let token = String(
            decoding: tokens.mint(
                user: order.endUserID, scopes: ScopeSet(order.scopes), now: now, lifetime: .seconds(lifetime),
                request: number), as: UTF8.self)
        var answer = Answer(
            201,
            [
                Answer.Member("token", .string(token)),
                Answer.Member("expires_in", .number(JSONNumber(lifetime))),
                Answer.Member("expires_at", .string(CalendarText(now + .seconds(lifetime)).dateTime)),
                Answer.Member("end_user_id", .string(order.endUserID)),
                Answer.Member("scopes", .array(order.scopes.map { .string($0.rawValue) })),
            ])
        answer.mintedToken = token
        return answer
    }

    private mutating func revoke(_ request: JanuaryRequest, _ fault: Fault.Content, _ now: WallInstant) -> Answer {
        if let refusal = refusalOfKey(request) { return refusal }
        if !settings.clientTokensConfigured {
            return .failure(503, "service_unavailable", "client tokens are not configured in this environment")
        }
        if let refusal = limited(revokeWindow.charge(settings.revokeLimit, now: now)) { return refusal }
        let user: String
        do {
            let object = try RequestBody.object(request.body, known: ["end_user_id"], unknown: settings.unknownMembers)
            user = try RequestBody.endUserID(object, settings: settings)
        } catch {
            return .failure(400, "invalid_request", error.message)
        }
        let limit = min(settings.revocationBatch, fault.revocationStopsAfter ?? .max)
        let stopped = tokens.revoke(user: user, now: now, limit: limit, sparing: settings.revocationRaceWindow)
        if fault.revocationStopsAfter != nil {
            return .failure(
                503, "client_token_revocation_incomplete", "\(stopped) tokens were revoked, others could not be; repeat the call")
        }
        return Answer(200, [Answer.Member("revoked_count", .number(JSONNumber(stopped)))])
    }

    private mutating func credits(_ request: JanuaryRequest, _ now: WallInstant) -> Answer {
        if let refusal = refusalOfKey(request) { return refusal }
        if let refusal = limited(creditsWindow.charge(settings.creditsLimit, now: now)) { return refusal }
        let calendar = CalendarText(now)
        let document = settings.credits
        let included = document.includedCredits.map { JSONValue.number(JSONNumber($0)) } ?? .null
        let remaining = document.includedCredits.map { JSONValue.number(JSONNumber(max(0, $0 - document.usedCredits))) } ?? .null
        return Answer(
            200,
            [
                Answer.Member("plan", .string(document.plan)),
                Answer.Member("period_start", .string(calendar.firstOfMonth)),
                Answer.Member("period_end", .string(calendar.lastOfMonth)),
                Answer.Member("resets_at", .string(calendar.firstOfNextMonth + "T00:00:00.000Z")),
                Answer.Member("included_credits", included),
                Answer.Member("used_credits", .number(JSONNumber(document.usedCredits))),
                Answer.Member("remaining_credits", remaining),
            ])
    }

    // MARK: Example operations

    /// Everything else is answered with who was recognised: enough to see whether a token works.
    private func example(_ operation: Operation, _ request: JanuaryRequest, _ now: WallInstant) -> Answer {
        var user = request.endUserIDs.first
        switch (operation.access, credential(request)) {
        case (.open, _): return .failure(404, "not_found", "nothing is served here")
        case (_, .bad): return Self.unauthorized
        case (_, .otherVersion): return Self.wrongVersion
        case (.apiKey, .clientToken):
            return .failure(403, "client_token_not_allowed", "a client token may not call this operation")
        case (.apiKey, .apiKey): break
        case (.scope(_, let ofUser), .apiKey):
            if ofUser, user?.isEmpty != false {
                return .failure(400, "end_user_id_required", "January-End-User-ID is required with an API key")
            }
        case (.scope(let scope, let ofUser), .clientToken(let text)):
            let token = tokens.state(of: text.utf8, now: now, settings: settings)
            switch token.state {
            case .unknown: return .failure(401, "token_invalid", "the client token is not known")
            case .revoked: return .failure(401, "token_revoked", "the client token was revoked")
            case .expired: return .failure(401, "token_expired", "the client token has expired")
            case .live: break
            }
            guard token.scopes.contains(scope) else {
                return .failure(403, "scope_insufficient", "this operation needs the scope \(scope.rawValue)")
            }
            if ofUser, request.endUserIDs.contains(where: { !$0.hasSameBytes(as: token.user) }) {
                return .failure(403, "end_user_id_mismatch", "the client token is bound to another end user")
            }
            user = token.user
        }
        if let refusal = spent() { return refusal }
        return Answer(
            200,
            [
                Answer.Member("operation", .string(operation.rawValue)),
                Answer.Member("end_user_id", user.map(JSONValue.string) ?? .null),
            ])
    }
}
