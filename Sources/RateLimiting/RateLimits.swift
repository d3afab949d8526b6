import Configuration
import GCRA
import Primitives

/// The section `rate_limits`.
package struct RateLimits: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        case enforce
        /// Counts what would be refused, and refuses nothing.
        case shadow
    }

    package var store: LimitStoreConfig = .memory
    package var mode: Mode = .enforce
    package var perAddress: GCRARule? = standardPerAddress
    package var perSession: GCRARule? = standardPerSession
    package var perEndUser: GCRARule? = standardPerEndUser
    package var all: GCRARule?
    /// Sign-outs per person; not configurable.
    package static let selfService = GCRARule(requests: 6, periodNanoseconds: 3600 * second, burst: 6)

    package static let off = RateLimits(perAddress: nil, perSession: nil, perEndUser: nil)
    package static let standardPerAddress = GCRARule(requests: 600, periodNanoseconds: 60 * second, burst: 600)
    package static let standardPerSession = GCRARule(requests: 6, periodNanoseconds: 60 * second, burst: 10)
    package static let standardPerEndUser = GCRARule(requests: 12, periodNanoseconds: 60 * second, burst: 30)
    private static let second: Int64 = 1_000_000_000

    package init(
        store: LimitStoreConfig = .memory, mode: Mode = .enforce, perAddress: GCRARule? = standardPerAddress,
        perSession: GCRARule? = standardPerSession, perEndUser: GCRARule? = standardPerEndUser, all: GCRARule? = nil
    ) {
        self.store = store
        self.mode = mode
        self.perAddress = perAddress
        self.perSession = perSession
        self.perEndUser = perEndUser
        self.all = all
    }

    /// The four in the order in which they are asked.
    package static let order: [LimitName] = [.address, .session, .endUser, .all]

    package func rule(of limit: LimitName) -> GCRARule? {
        switch limit {
        case .address: perAddress
        case .session: perSession
        case .endUser: perEndUser
        case .all: all
        case .selfService: Self.selfService
        }
    }

    package static func read(_ section: ConfigSection) -> RateLimits {
        RateLimits(
            store: .read(section), mode: section.choice("mode", default: .enforce),
            perAddress: read("per_address", section, default: standardPerAddress),
            perSession: read("per_session", section, default: standardPerSession),
            perEndUser: read("per_end_user", section, default: standardPerEndUser),
            all: read("all", section, default: nil))
    }

    /// `{requests, per_seconds, burst}`, or `false`. What is left out has its default; a limit that is off by default has none.
    private static func read(_ key: String, _ section: ConfigSection, default standard: GCRARule?) -> GCRARule? {
        let limit: ConfigSection
        switch section.sectionUnlessFalse(key) {
        case .off: return nil
        case .section(let given): limit = given
        case .absent:
            guard standard != nil else {
                section.record(key, false)
                return nil
            }
            limit = section.section(key)
        }
        if standard == nil {
            for key in ["requests", "per_seconds", "burst"] where !limit.has(key) { limit.problem(key, "required") }
        }
        let requests = limit.integer("requests", default: standard?.requests ?? 1, in: GCRARule.requestRange)
        let period = limit.seconds(
            "per_seconds", default: .nanoseconds(standard?.period ?? 60 * second), in: .milliseconds(1) ... .seconds(86_400))
        let burst = limit.integer("burst", default: standard?.burst ?? 1, in: GCRARule.burstRange)
        if Double(requests) > Double(GCRARule.maxRequestsPerSecond) * period.fractionalSeconds {
            limit.problem("requests", "must not be more than \(GCRARule.maxRequestsPerSecond) a second")
        }
        limit.finish()
        return GCRARule(requests: requests, periodNanoseconds: period.wholeNanoseconds, burst: burst)
    }
}
