/// Who may ask how often: the limits, their stores, and the client address they count by.
///
/// Shapes: a ``LimitName`` says which limit, a ``LimitKey`` whose cell (a keyed digest, never the plain value), a ``Charge`` asks one
/// cell, ``Charges`` asks up to four in order, a ``LimitStore`` answers with a ``LimitDecision``. ``ClientAddress`` finds out whom a
/// request counts for; ``RateLimits`` is the section `rate_limits`. The arithmetic is in `GCRA`.
/// Errors: a store has none; one that cannot answer lets its fallback decide. Source: ITU-T I.371; RFC 6585 section 4; RFC 7239.
package enum LimitName: String, Sendable, Hashable, CaseIterable {
    case address = "per_address"
    case session = "per_session"
    case endUser = "per_end_user"
    case all = "all"
    /// Sign-outs of one person (`revocations.self_service`); not configurable.
    case selfService = "self_service"
}
