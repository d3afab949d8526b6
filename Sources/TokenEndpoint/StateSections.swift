import Configuration

/// What else the configuration says about the state: `state_must_exist`, `state_durability`, `revocations.when_unreadable`,
/// `fences.keep_days`, `end_user_id.accept_new_mapping`.
package struct StateRules: Sendable, Equatable {
    package enum WhenUnreadable: String, Sendable, CaseIterable {
        /// Not knowing whether there is a fence is not "there is none".
        case refuse
        case allow
    }

    package enum Durability: String, Sendable, CaseIterable { case normal, strict }

    package var mustExist: Bool
    package var durability: Durability
    package var whenUnreadable: WhenUnreadable
    /// 0: for ever.
    package var keepDays: Int
    package var acceptsNewMapping: Bool

    static func read(_ root: ConfigSection) -> StateRules {
        let fences = root.section("fences")
        let rules = StateRules(
            mustExist: root.boolean("state_must_exist", default: false),
            durability: root.choice("state_durability", default: Durability.normal),
            whenUnreadable: root.section("revocations").choice("when_unreadable", default: WhenUnreadable.refuse),
            keepDays: fences.integer("keep_days", default: 0, in: 0...36_500),
            acceptsNewMapping: root.section("end_user_id").boolean("accept_new_mapping", default: false))
        fences.finish()
        if rules.acceptsNewMapping {
            root.section("end_user_id").warning(
                "accept_new_mapping",
                "lets the next start make everybody somebody else without asking; take it away after one start")
        }
        if rules.keepDays > 0 {
            fences.warning("keep_days", "blocks end after so many days, also those of deleted accounts")
        }
        if rules.whenUnreadable == .allow {
            root.section("revocations").warning(
                "when_unreadable", "lets blocked people in whenever the state cannot be read")
        }
        return rules
    }
}
