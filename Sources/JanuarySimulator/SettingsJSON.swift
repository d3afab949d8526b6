import Primitives
import StrictJSON

/// ``SimulatorSettings`` as JSON. Keys have a route of their own.
enum SettingsJSON {
    static func object(_ settings: SimulatorSettings) -> JSONObject {
        [
            "client_tokens_enabled": .bool(settings.clientTokensEnabled),
            "client_tokens_configured": .bool(settings.clientTokensConfigured),
            "mint_check_order": .array(settings.completeMintCheckOrder.map { .string($0.rawValue) }),
            "duplicate_scopes": .string(settings.duplicateScopes.rawValue),
            "unknown_members": .string(settings.unknownMembers.rawValue),
            "length_unit": .string(settings.lengthUnit.rawValue),
            "purge_delay_seconds": seconds(settings.purgeDelay),
            "revocation_delay_seconds": seconds(settings.revocationDelay),
            "revocation_race_seconds": settings.revocationRaceWindow.map(seconds) ?? .null,
            "revocation_batch": .number(JSONNumber(settings.revocationBatch)),
            "mint_limit": limit(settings.mintLimit),
            "revoke_limit": limit(settings.revokeLimit),
            "credits_limit": limit(settings.creditsLimit),
            "sends_retry_after": .bool(settings.sendsRetryAfter),
            "unavailable_retry_after": settings.unavailableRetryAfter.map { .number(JSONNumber($0)) } ?? .null,
            "spent_ceiling": settings.spentCeiling.map { .string($0.rawValue) } ?? .null,
            "docs_url": settings.docsURL.map(JSONValue.string) ?? .null,
            "plan": .string(settings.credits.plan),
            "included_credits": settings.credits.includedCredits.map { .number(JSONNumber($0)) } ?? .null,
            "used_credits": .number(JSONNumber(settings.credits.usedCredits)),
        ]
    }

    /// Changes what is named; `null` takes an optional setting away.
    static func apply(_ body: inout ControlObject, to settings: inout SimulatorSettings) throws(ControlError) {
        if let value = try body.bool("client_tokens_enabled") { settings.clientTokensEnabled = value }
        if let value = try body.bool("client_tokens_configured") { settings.clientTokensConfigured = value }
        if let names = try body.strings("mint_check_order") {
            var order: [MintCheck] = []
            for name in names { order.append(try ControlObject.choice(name, "mint_check_order")) }
            settings.mintCheckOrder = order
        }
        if let value = try body.choice("duplicate_scopes", of: DuplicateScopes.self) { settings.duplicateScopes = value }
        if let value = try body.choice("unknown_members", of: UnknownMembers.self) { settings.unknownMembers = value }
        if let value = try body.choice("length_unit", of: LengthUnit.self) { settings.lengthUnit = value }
        if let value = try body.seconds("purge_delay_seconds") { settings.purgeDelay = value }
        if let value = try body.seconds("revocation_delay_seconds") {
            guard value <= .seconds(60) else { throw ControlError("revocation_delay_seconds must be 0 to 60") }
            settings.revocationDelay = value
        }
        if body.value("revocation_race_seconds") != nil {
            settings.revocationRaceWindow = try body.seconds("revocation_race_seconds")
        }
        if let value = try body.integer("revocation_batch", 1...1_000_000) { settings.revocationBatch = value }
        try limit(&body, "mint_limit", &settings.mintLimit)
        try limit(&body, "revoke_limit", &settings.revokeLimit)
        try limit(&body, "credits_limit", &settings.creditsLimit)
        if let value = try body.bool("sends_retry_after") { settings.sendsRetryAfter = value }
        if body.value("unavailable_retry_after") != nil {
            settings.unavailableRetryAfter = try body.integer("unavailable_retry_after")
        }
        if body.value("spent_ceiling") != nil { settings.spentCeiling = try body.choice("spent_ceiling") }
        if body.value("docs_url") != nil { settings.docsURL = try body.string("docs_url") }
        if let value = try body.string("plan") { settings.credits.plan = value }
        if body.value("included_credits") != nil { settings.credits.includedCredits = try body.integer("included_credits") }
        if let value = try body.integer("used_credits") { settings.credits.usedCredits = value }
        try body.finish()
    }

    static func seconds(_ duration: Duration) -> JSONValue {
        JSONNumber(duration.fractionalSeconds).map(JSONValue.number) ?? .null
    }

    private static func limit(_ limit: RateLimit?) -> JSONValue {
        guard let limit else { return .null }
        return .object(["count": .number(JSONNumber(limit.count)), "window_seconds": seconds(limit.window)])
    }

    private static func limit(
        _ body: inout ControlObject, _ name: String, _ limit: inout RateLimit?
    ) throws(ControlError) {
        guard let value = body.value(name) else { return }
        guard !value.isNull, var nested = try body.nested(name) else {
            limit = nil
            return
        }
        guard let count = try nested.integer("count") else { throw ControlError("\(name).count is required") }
        limit = RateLimit(count, per: try nested.seconds("window_seconds") ?? .seconds(60))
        try nested.finish()
    }
}
