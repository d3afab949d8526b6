import Primitives
import StrictJSON

/// The ledger and the token table as JSON.
enum LedgerJSON {
    private static let maxEntries = 10_000

    static func answer(_ request: ControlRequest, _ simulator: Simulator) throws(ControlError) -> Answer {
        var operation: Operation?
        if let name = request.parameter("operation") { operation = try ControlObject.choice(name, "operation") }
        let after = try number(request, "after") ?? 0
        let limit = min(try number(request, "limit") ?? 1_000, maxEntries)
        let wanted = operation
        let (entries, last, counts) = simulator.read { state in
            (
                state.ledger.requests(of: wanted, after: after).prefix(limit), state.ledger.lastNumber,
                Operation.allCases.map { ($0, state.ledger.counts(of: $0)) }
            )
        }
        return Answer(
            200,
            [
                "last": .number(JSONNumber(last)),
                "counts": .object(
                    JSONObject(
                        counts.filter { $0.1.received > 0 }.map { JSONMember(name: $0.0.rawValue, value: object($0.1)) })),
                "requests": .array(entries.map { .object(object($0)) }),
            ])
    }

    static func tokens(_ request: ControlRequest, _ simulator: Simulator) -> Answer {
        if let text = request.parameter("token") {
            guard let token = simulator.find(token: text) else { return Answer(200, ["state": "unknown"]) }
            var object = object(token)
            object["state"] = .string(simulator.state(of: text).rawValue)
            return Answer(200, object)
        }
        if let user = request.parameter("end_user_id") {
            return Answer(
                200,
                [
                    "minted": .array(simulator.tokens(of: user).map { .object(object($0)) }),
                    "live": .array(simulator.liveTokens(of: user).map { .string($0.token) }),
                ])
        }
        let (minted, revoked) = simulator.read { ($0.january.tokens.mintedCount, $0.january.tokens.revokedCount) }
        return Answer(200, ["minted": .number(JSONNumber(minted)), "revoked": .number(JSONNumber(revoked))])
    }

    private static func number(_ request: ControlRequest, _ name: String) throws(ControlError) -> Int? {
        guard let text = request.parameter(name) else { return nil }
        guard let number = ASCII.decimal(text.utf8) else { throw ControlError("\(name) must be a number") }
        return number
    }

    private static func object(_ counts: Ledger.Counts) -> JSONValue {
        .object([
            "received": .number(JSONNumber(counts.received)), "committed": .number(JSONNumber(counts.committed)),
            "succeeded": .number(JSONNumber(counts.succeeded)),
        ])
    }

    private static func object(_ token: MintedToken) -> JSONObject {
        [
            "token": .string(token.token), "end_user_id": .string(token.endUserID),
            "scopes": .array(token.scopes.names.map(JSONValue.string)), "issued": time(token.issued),
            "expires": time(token.expires), "revoked": token.revoked.map(time) ?? .null,
            "request": .number(JSONNumber(token.request)),
        ]
    }

    private static func object(_ entry: RecordedRequest) -> JSONObject {
        var fields: [JSONValue] = []
        entry.fields.forEach { name, value in
            fields.append([.string(String(decoding: name, as: UTF8.self)), .string(String(decoding: value, as: UTF8.self))])
        }
        let query = entry.target.queryBytes.map { "?" + String(decoding: $0, as: UTF8.self) } ?? ""
        var object: JSONObject = [
            "number": .number(JSONNumber(entry.number)), "connection": .number(JSONNumber(entry.connection)),
            "received": time(entry.received), "operation": .string(entry.operation.rawValue),
            "method": .string(entry.method.text), "target": .string(entry.target.path + query), "fields": .array(fields),
            "request_id": .string(entry.requestID), "committed": .bool(entry.committed),
            "token": entry.mintedToken.map(JSONValue.string) ?? .null,
        ]
        // Bytes that are no text are shown as such.
        if let text = String(validating: entry.body, as: UTF8.self) {
            object["body"] = .string(text)
        } else {
            object["body_base64"] = .string(Base64.encode(entry.body))
        }
        switch entry.outcome {
        case .pending: object["outcome"] = "pending"
        case .answered(let status, let code):
            object["outcome"] = "answered"
            object["status"] = .number(JSONNumber(status))
            object["code"] = code.map(JSONValue.string) ?? .null
        case .disrupted(let disruption): object["outcome"] = .string("\(disruption)")
        }
        return object
    }

    private static func time(_ instant: WallInstant) -> JSONValue { .string(CalendarText(instant).dateTime) }
}
