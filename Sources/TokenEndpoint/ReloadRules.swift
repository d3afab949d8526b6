import EndUsers
import Primitives
import Sessions

/// What a running process cannot change. Pure.
enum ReloadRules {
    /// The keys whose change needs a restart, in the order of the documentation.
    static func keysThatNeedARestart(_ old: RootConfig, _ new: RootConfig) -> [String] {
        var keys: [String] = []
        func check(_ key: String, _ isSame: Bool) { if !isSame { keys.append(key) } }
        // Sockets stay open through a reload, so that no connection is lost.
        check("listen", old.listen == new.listen)
        check("management.listen", old.management.address == new.management.address)
        check("tls", (old.tls == nil) == (new.tls == nil))
        check("http.loops", old.http.loopCount == new.http.loopCount)
        // Fences would be left behind.
        check("state", isSamePlace(old.state, new.state))
        check("state_durability", old.stateRules.durability == new.stateRules.durability)
        check("revocations.when_unreadable", old.stateRules.whenUnreadable == new.stateRules.whenUnreadable)
        check("fences.keep_days", old.stateRules.keepDays == new.stateRules.keepDays)
        // Fences and logs would name people in another way.
        check("log.hash_secret_file", isSame(old.log.hashSecret?.secret, new.log.hashSecret?.secret))
        check("audit.file", old.audit.file == new.audit.file)
        check("tracing", new.tracing.isSamePlace(as: old.tracing))
        // Everybody would become somebody else.
        keys += mapping(new).differences(from: mapping(old))
        check("sessions.verifiers[].prefix", prefixes(old) == prefixes(new))
        return keys
    }

    /// A changed secret file changes neither who is who nor how people are named: those secrets stay, whatever their files hold now.
    /// - Returns: the keys that were held back.
    static func keepIdentity(of old: RootConfig, in new: inout RootConfig) -> [String] {
        var keys: [String] = []
        if mapping(new).differences(from: mapping(old)) == [secretKey] {
            new.endUsers = old.endUsers
            keys.append(secretKey)
        }
        if let before = old.log.hashSecret, let after = new.log.hashSecret, !before.secret.equals(after.secret) {
            new.log.hashSecret = before
            keys.append("log.hash_secret_file")
        }
        return keys
    }

    /// Keys that count at a start only, and mean nothing to a process that runs: taken, and said to have no effect yet.
    static func keysForTheNextStart(_ old: RootConfig, _ new: RootConfig) -> [String] {
        var keys: [String] = []
        if old.stateRules.mustExist != new.stateRules.mustExist { keys.append("state_must_exist") }
        if old.stateRules.acceptsNewMapping != new.stateRules.acceptsNewMapping { keys.append("end_user_id.accept_new_mapping") }
        // The same collector with another password or authority.
        if old.tracing != new.tracing { keys.append("tracing") }
        return keys
    }

    /// User, password and authority of a Redis may change: what is kept there stays the same.
    private static func isSamePlace(_ old: StateConfig, _ new: StateConfig) -> Bool {
        if case (.redis(let before), .redis(let after)) = (old, new) { return after.isSamePlace(as: before) }
        return old == new
    }

    private static let secretKey = "end_user_id.secret_file"

    private static func mapping(_ config: RootConfig) -> EndUserMapping.Identity {
        config.endUsers.identity(namespaces: config.sessions.verifiers.map(\.namespace))
    }

    private static func prefixes(_ config: RootConfig) -> [String] {
        Set(config.sessions.verifiers.map { $0.endUserPrefix ?? "" }).sorted()
    }

    private static func isSame(_ old: Secret?, _ new: Secret?) -> Bool {
        switch (old, new) {
        case (nil, nil): true
        case (let old?, let new?): old.equals(new)
        case (nil, _?), (_?, nil): false
        }
    }
}
