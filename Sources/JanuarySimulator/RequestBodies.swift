import StrictJSON

/// What a mint asks for, checked by January's published limits and by the settings for those it does not publish.
struct MintOrder: Equatable {
    let endUserID: String
    /// As granted and echoed.
    let scopes: [Scope]
    let lifetimeSeconds: Int

    static let defaultLifetimeSeconds = 1_800
    static let lifetimes: ClosedRange<Int64> = 300...7_200

    static func read(_ body: [UInt8], settings: SimulatorSettings) throws(InvalidRequest) -> MintOrder {
        let object = try RequestBody.object(
            body, known: ["end_user_id", "scopes", "ttl_seconds"], unknown: settings.unknownMembers)
        let user = try RequestBody.endUserID(object, settings: settings)
        guard let list = object["scopes"]?.array else { throw InvalidRequest("scopes must be an array") }
        guard (1...10).contains(list.count) else { throw InvalidRequest("scopes must have 1 to 10 items") }
        var scopes: [Scope] = []
        for item in list {
            guard let scope = item.string.flatMap(Scope.init(rawValue:)) else {
                throw InvalidRequest("scopes holds a value that is no scope")
            }
            if scopes.contains(scope) {
                switch settings.duplicateScopes {
                case .refuse: throw InvalidRequest("scopes must be unique")
                case .collapse: continue
                case .keep: break
                }
            }
            scopes.append(scope)
        }
        var lifetime = defaultLifetimeSeconds
        if let value = object["ttl_seconds"] {
            guard let seconds = value.number?.integer, lifetimes.contains(seconds) else {
                throw InvalidRequest("ttl_seconds must be an integer from 300 to 7200")
            }
            lifetime = Int(seconds)
        }
        return MintOrder(endUserID: user, scopes: scopes, lifetimeSeconds: lifetime)
    }
}

/// 400 `invalid_request` with a message that names the member.
struct InvalidRequest: Error, Equatable {
    let message: String
    init(_ message: String) { self.message = message }
}

enum RequestBody {
    static func object(
        _ body: [UInt8], known: [String], unknown: UnknownMembers
    ) throws(InvalidRequest) -> JSONObject {
        let value: JSONValue
        do {
            value = try JSONValue.parse(body.span.bytes)
        } catch {
            throw InvalidRequest("the body is not JSON: \(error)")
        }
        guard let object = value.object else { throw InvalidRequest("the body must be a JSON object") }
        if unknown == .refuse {
            for member in object.members where !known.contains(where: { $0.hasSameBytes(as: member.name) }) {
                throw InvalidRequest("\(member.name) is not a member of this request")
            }
        }
        return object
    }

    static func endUserID(_ object: JSONObject, settings: SimulatorSettings) throws(InvalidRequest) -> String {
        guard let user = object["end_user_id"]?.string else { throw InvalidRequest("end_user_id must be a string") }
        guard !user.unicodeScalars.allSatisfy(\.properties.isWhitespace) else {
            throw InvalidRequest("end_user_id must not be blank")
        }
        guard settings.lengthUnit.count(user) <= 64 else {
            throw InvalidRequest("end_user_id must have at most 64 characters")
        }
        return user
    }
}
