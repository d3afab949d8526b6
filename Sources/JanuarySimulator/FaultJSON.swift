import Primitives
import StrictJSON

/// Faults as the control interface takes them: one flat object, see ``rule(_:)`` for the names.
enum FaultJSON {
    private static let disruptions: [(String, Fault.Disruption)] = [
        ("reset_before_commit", .resetBeforeCommit), ("reset_after_commit", .resetAfterCommit),
        ("close_before_commit", .closeBeforeCommit), ("close_after_commit", .closeAfterCommit),
        ("hang_before_commit", .hangBeforeCommit), ("hang_after_commit", .hangAfterCommit),
        ("hold_before_commit", .holdBeforeCommit), ("hold_after_commit", .holdAfterCommit),
    ]

    private enum Preset: String, CaseIterable {
        case html502 = "html_502"
        case notJSON = "not_json"
    }

    /// `times` is 1 unless given; `null` means until it is taken away.
    static func rule(_ body: inout ControlObject) throws(ControlError) -> (rule: FaultRule, seed: UInt64?) {
        var operation: Operation?
        if let name = try body.string("operation"), name != "*" { operation = try ControlObject.choice(name, "operation") }
        let times = body.value("times")
        let count: Int? = times?.isNull == true ? nil : try body.integer("times", 1...Int.max) ?? 1
        let probability = try body.double("probability", 0...1) ?? 1
        let seed = try body.integer("seed").map { UInt64($0) }
        let rule = FaultRule(try fault(&body), on: operation, times: count, probability: probability)
        try body.finish()
        return (rule, seed)
    }

    private static func fault(_ body: inout ControlObject) throws(ControlError) -> Fault {
        var fault = Fault()
        switch try body.choice("preset", of: Preset.self) {
        case .html502: fault = .html502
        case .notJSON: fault = .notJSON
        case nil: break
        }
        fault.delay = try body.milliseconds("delay_ms") ?? .zero
        fault.delayBeforeCommit = try body.milliseconds("delay_before_commit_ms") ?? .zero
        if let name = try body.string("disruption") {
            guard let known = disruptions.first(where: { $0.0 == name }) else {
                throw ControlError("disruption must be one of \(disruptions.map(\.0).joined(separator: ", "))")
            }
            fault.disruption = known.1
        }
        try content(&body, &fault.content)
        try wire(&body, &fault.wire)
        if var idle = try body.nested("idle_close") {
            let least = try idle.milliseconds("min_ms") ?? .zero
            let most = try idle.milliseconds("max_ms") ?? least
            guard least <= most else { throw ControlError("idle_close.max_ms must not be less than min_ms") }
            fault.idleClose = Fault.IdleClose(after: least...most, withReset: try idle.bool("reset") ?? false)
            try idle.finish()
        }
        return fault
    }

    private static func content(_ body: inout ControlObject, _ content: inout Fault.Content) throws(ControlError) {
        let status = try body.integer("status", 200...599)
        let message = try body.string("message")
        var retryAfter: String?
        if let value = body.value("retry_after"), !value.isNull {
            retryAfter = value.string ?? value.number?.text
            if retryAfter == nil { throw ControlError("retry_after must be a string or a number") }
        }
        if let code = try body.string("code") {
            content.refusal = Fault.Refusal(status: status ?? 500, code: code, message: message, retryAfter: retryAfter)
        } else if message != nil || retryAfter != nil {
            throw ControlError("message and retry_after need a code")
        } else if let status {
            content.status = status
        }
        if let user = try body.string("end_user_id") { content.endUserID = user }
        if let scopes = try body.strings("scopes") { content.scopes = scopes }
        if let value = body.value("expires_in") {
            // A positive integer is a lifetime, really; anything else is only said.
            if let seconds = value.number?.integer, seconds > 0, seconds < 1_000_000_000, value.number?.text == String(seconds) {
                content.expiresIn = Int(seconds)
            } else {
                content.expiresInText = String(decoding: value.encoded(), as: UTF8.self)
            }
        }
        content.token = try body.string("token")
        content.missingMembers = try body.strings("missing") ?? []
        content.duplicateMembers = try body.strings("duplicate") ?? []
        content.extraMembers = try body.string("extra_members")
        if let text = try body.string("body") { content.body = Array(text.utf8) }
        if let type = try body.string("content_type") { content.contentType = type }
        content.location = try body.string("location")
        content.revocationStopsAfter = try body.integer("revocation_stops_after")
    }

    private static func wire(_ body: inout ControlObject, _ wire: inout Fault.Wire) throws(ControlError) {
        wire.truncateAt = try body.integer("truncate_at")
        wire.truncateWithReset = try body.bool("truncate_with_reset") ?? false
        if var drip = try body.nested("drip") {
            wire.drip = Fault.Drip(
                bytes: try drip.integer("bytes", 1...Int.max) ?? 1, every: try drip.milliseconds("every_ms") ?? .milliseconds(10))
            try drip.finish()
        }
        wire.gzip = try body.bool("gzip") ?? false
        wire.chunked = try body.bool("chunked") ?? false
        wire.http10 = try body.bool("http10") ?? false
        wire.untilClose = try body.bool("until_close") ?? false
        wire.informational = try body.integers("informational") ?? []
        wire.extraBytesAfter = Array((try body.string("extra_bytes_after") ?? "").utf8)
        wire.connectionClose = try body.bool("connection_close") ?? false
        wire.lengthOffset = try body.integer("length_offset", -1_000_000...1_000_000) ?? 0
        wire.extraFieldLines = try body.strings("field_lines") ?? []
        wire.raw = try body.string("raw").map { Array($0.utf8) }
    }

    static func object(_ entry: FaultPlan.Entry) -> JSONObject {
        let rule = entry.rule
        return [
            "id": .number(JSONNumber(entry.id)),
            "operation": .string(rule.operation?.rawValue ?? "*"),
            "remaining": rule.remaining.map { .number(JSONNumber($0)) } ?? .null,
            "probability": JSONNumber(rule.probability).map(JSONValue.number) ?? .null,
            "struck": .number(JSONNumber(entry.struck)),
        ]
    }
}
