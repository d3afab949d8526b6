import HTTPMessage
import JOSE
import Primitives
import StrictJSON

struct ControlRequest {
    let method: String
    let target: RequestTarget
    let body: [UInt8]

    /// `+` is a plus sign; of a name that comes twice the first counts.
    func parameter(_ name: String) -> String? {
        guard let query = target.queryBytes else { return nil }
        for pair in query.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            if let first = parts.first, first.elementsEqual(name.utf8) {
                return parts.count == 2 ? Self.decoded(parts[1]) : ""
            }
        }
        return nil
    }

    private static func decoded(_ bytes: ArraySlice<UInt8>) -> String {
        var output: [UInt8] = []
        var index = bytes.startIndex
        while index < bytes.endIndex {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.endIndex, let high = ASCII.hexDigit(bytes[index + 1]),
                let low = ASCII.hexDigit(bytes[index + 2])
            {
                output.append(high << 4 | low)
                index += 3
            } else {
                output.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: output, as: UTF8.self)
    }
}

/// The remote control, `/control/…`: JSON in, JSON out. Everything it can do is a method of ``Simulator``.
///
/// | Request | Does |
/// | --- | --- |
/// | GET `health` | says where it is: `origin`, `issuer` |
/// | GET, PATCH `settings` | January's settings (``SettingsJSON``) |
/// | GET, PUT `keys` | API keys; PUT `{key, state}`, `state` one of `valid`, `other_version`, `deleted` |
/// | GET, POST, DELETE `faults`, DELETE `faults/ID` | what goes wrong (``FaultJSON``); POST gives `{id}` |
/// | POST `release` | lets held requests go on |
/// | POST `connections` | `{ignore, close: "end" | "reset"}` |
/// | GET, POST `clock` | POST `{advance_seconds}` or `{offset_seconds}` |
/// | GET, DELETE `ledger` | requests; `?operation=&after=&limit=` |
/// | GET `tokens` | `?end_user_id=` or `?token=`; without: counts |
/// | POST `reset` | as after the start; keys of the identity provider stay |
/// | POST `session` | signs a session: `{sub, aud, iss, alg, kid, expires_in, issued_ago, claims, header}`; `subs` signs several |
/// | GET `identity`, POST `identity/rotate`, `identity/upcoming`, `identity/status` | keys of the identity provider |
/// | PATCH `identity` | `{issuer, discovery, cache_control}` |
enum ControlRoutes {
    static func answer(_ request: ControlRequest, _ simulator: Simulator) -> Answer {
        do throws(ControlError) {
            return try route(request, simulator)
        } catch {
            return .failure(error.status, error.status == 404 ? "not_found" : "invalid_request", error.message)
        }
    }

    private static let ok = Answer(200, [Answer.Member("ok", true)])

    private static func route(_ request: ControlRequest, _ simulator: Simulator) throws(ControlError) -> Answer {
        let path = String(request.target.path.dropFirst("/control/".count))
        var body = try ControlObject(request.body)
        switch (request.method, path) {
        case ("GET", "health"):
            let issuer = simulator.read { $0.identity.issuer }
            return Answer(200, ["origin": .string(simulator.origin), "issuer": .string(issuer)])
        case ("GET", "settings"): return Answer(200, SettingsJSON.object(simulator.settings))
        case ("PATCH", "settings"):
            var settings = simulator.settings
            try SettingsJSON.apply(&body, to: &settings)
            let changed = settings
            simulator.configure { $0 = changed }
            return Answer(200, SettingsJSON.object(changed))
        case ("GET", "keys"):
            let keys = simulator.settings.keys.sorted { $0.key < $1.key }
            return Answer(200, JSONObject(keys.map { JSONMember(name: $0.key, value: .string($0.value.rawValue)) }))
        case ("PUT", "keys"): return try putKey(&body, simulator)
        case ("GET", "faults"):
            let entries = simulator.read { $0.faults.entries }
            return Answer(200, ["faults": .array(entries.map { .object(FaultJSON.object($0)) })])
        case ("POST", "faults"):
            let (rule, seed) = try FaultJSON.rule(&body)
            return Answer(201, ["id": .number(JSONNumber(simulator.addFault(rule, seed: seed)))])
        case ("DELETE", "faults"):
            simulator.clearFaults()
            return ok
        case ("DELETE", _) where path.hasPrefix("faults/"):
            guard let id = ASCII.decimal(path.dropFirst(7).utf8), simulator.removeFault(id: id) else {
                throw ControlError("there is no such fault", status: 404)
            }
            return ok
        case ("POST", "release"):
            simulator.release()
            return ok
        case ("POST", "connections"): return try connections(&body, simulator)
        case ("GET", "clock"): return clock(simulator)
        case ("POST", "clock"):
            if let offset = try body.seconds("offset_seconds", negative: true) { simulator.setClockOffset(offset) }
            if let step = try body.seconds("advance_seconds", negative: true) { simulator.moveClock(by: step) }
            try body.finish()
            return clock(simulator)
        case ("GET", "ledger"): return try LedgerJSON.answer(request, simulator)
        case ("DELETE", "ledger"):
            simulator.clearLedger()
            return ok
        case ("GET", "tokens"): return LedgerJSON.tokens(request, simulator)
        case ("POST", "reset"):
            simulator.reset()
            return ok
        case ("POST", "session"): return try session(&body, simulator)
        case (_, _) where path == "identity" || path.hasPrefix("identity/"):
            return try identity(request.method, path, &body, simulator)
        default: throw ControlError("\(request.method) /control/\(path) is not known", status: 404)
        }
    }

    private static func putKey(_ body: inout ControlObject, _ simulator: Simulator) throws(ControlError) -> Answer {
        guard let key = try body.string("key") else { throw ControlError("key is required") }
        let state = try body.choice("state", of: KeyState.self) ?? .valid
        try body.finish()
        simulator.configure { $0.keys[key] = state }
        return ok
    }

    private static func connections(_ body: inout ControlObject, _ simulator: Simulator) throws(ControlError) -> Answer {
        if let ignores = try body.bool("ignore") { simulator.ignoreConnections(ignores) }
        let close = try body.string("close")
        try body.finish()
        switch close {
        case nil: break
        // The connection this came on stays.
        case "end": simulator.closeConnections()
        case "reset": simulator.closeConnections(reset: true)
        default: throw ControlError("close must be end or reset")
        }
        let counts = simulator.read { $0.connections }
        return Answer(200, ["accepted": .number(JSONNumber(counts.accepted)), "open": .number(JSONNumber(counts.open))])
    }

    private static func clock(_ simulator: Simulator) -> Answer {
        let offset = simulator.read { $0.clockOffset }
        return Answer(
            200, ["now": .string(CalendarText(simulator.now).dateTime), "offset_seconds": SettingsJSON.seconds(offset)])
    }

    // MARK: Identity provider

    /// Sessions of one request: signing with RSA takes about 1 ms each, and nothing is answered meanwhile.
    private static let maxSessions = 1_000

    private static func session(_ body: inout ControlObject, _ simulator: Simulator) throws(ControlError) -> Answer {
        var order = SessionOrder(subject: try body.string("sub"))
        let subjects = try body.strings("subs")
        order.audience = try body.stringOrStrings("aud") ?? []
        order.issuer = try body.string("iss")
        order.algorithm = try body.choice("alg") ?? .es256
        order.keyID = try body.string("kid")
        if body.value("expires_in") != nil { order.expiresIn = try body.seconds("expires_in", negative: true) }
        order.issuedAgo = try body.seconds("issued_ago", negative: true) ?? .zero
        order.claims = try body.object("claims") ?? [:]
        order.header = try body.object("header") ?? [:]
        try body.finish()
        do {
            guard let subjects else {
                return Answer(201, ["token": .string(try simulator.session(order))])
            }
            guard subjects.count <= maxSessions else { throw ControlError("subs holds more than \(maxSessions)") }
            var tokens: [JSONValue] = []
            for subject in subjects {
                order.subject = subject
                tokens.append(.string(try simulator.session(order)))
            }
            return Answer(201, ["tokens": .array(tokens)])
        } catch let error as ControlError {
            throw error
        } catch {
            throw ControlError("\(error)")
        }
    }

    private static func identity(
        _ method: String, _ path: String, _ body: inout ControlObject, _ simulator: Simulator
    ) throws(ControlError) -> Answer {
        switch (method, path) {
        case ("GET", "identity"): break
        case ("PATCH", "identity"):
            let issuer = try body.string("issuer")
            let overrides = try body.object("discovery")
            if body.value("cache_control") != nil { simulator.setDocumentCacheControl(try body.string("cache_control")) }
            try body.finish()
            simulator.changeIdentity { identity in
                if let issuer { identity.issuer = issuer }
                if let overrides { identity.discoveryOverrides = overrides }
            }
        case ("POST", "identity/rotate"), ("POST", "identity/upcoming"):
            let algorithm = try body.choice("alg", of: JWSAlgorithm.self) ?? .es256
            guard !algorithm.isSymmetric else { throw ControlError("alg must be asymmetric") }
            let old = try body.choice("old", of: IdentityProvider.KeyStatus.self) ?? .retired
            try body.finish()
            let keyID =
                path == "identity/rotate"
                ? simulator.rotateKey(algorithm, old: old) : simulator.publishUpcomingKey(algorithm)
            return Answer(201, ["kid": .string(keyID)])
        case ("POST", "identity/status"):
            guard let keyID = try body.string("kid"), let status = try body.choice("status", of: IdentityProvider.KeyStatus.self)
            else { throw ControlError("kid and status are required") }
            try body.finish()
            guard simulator.setKeyStatus(status, of: keyID) else { throw ControlError("there is no such key", status: 404) }
        default: throw ControlError("\(method) /control/\(path) is not known", status: 404)
        }
        let identity = simulator.read { $0.identity }
        return Answer(
            200,
            [
                "issuer": .string(identity.issuer),
                "keys": .array(
                    identity.keys.map {
                        .object([
                            "kid": .string($0.keyID), "alg": .string($0.algorithm.rawValue),
                            "status": .string($0.status.rawValue),
                        ])
                    }),
            ])
    }
}
