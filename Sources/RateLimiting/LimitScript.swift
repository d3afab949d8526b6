import GCRA
import Redis

/// The arithmetic of `GCRA` as one step of Redis, on Redis's clock.
///
/// Lua has no integers: a double holds 53 bits, and nanoseconds since 1970 take 61. So every time is a pair, whole seconds and nanoseconds
/// below 10^9, and each half is exact. A cell is its theoretical arrival as text (`1795996800.000000500`), kept until that moment.
///
/// Keys: January's hold, then one cell for each charge. Arguments: one for each charge, three times in a row: what it costs, how far ahead
/// an arrival may lie after it (the tolerance), how far it may ever lie. Result: what is left of the hold in milliseconds (negative: none),
/// the number of the charge that was refused (0: none), how long it has to wait (seconds, nanoseconds). What stands before a refusal is
/// charged, what stands behind it is not. A cell that lies farther ahead than it may, from a larger limit or a clock that went back, is taken
/// back to there by a refusal, too.
///
/// Replicas of Redis get the effects, not the script: the clock is read once, where it runs.
enum LimitScript {
    static let charge = RedisScript(source(clock: "redis.call('TIME')"))

    /// - Parameters:
    ///   - clock: a Lua expression for `{seconds, microseconds}`.
    ///   - lifetime: a Lua expression for milliseconds, of the cell whose arrival lies `ds`, `dn` ahead.
    static func source(clock: String, lifetime: String = "ds * 1000 + math.ceil(dn / 1e6)") -> String {
        """
        local clock = \(clock)
        local s, n = tonumber(clock[1]), tonumber(clock[2]) * 1000
        local hold = redis.call('PTTL', KEYS[1])
        local function keep(cell, ds, dn)
          local as, an = s + ds, n + dn
          if an >= 1e9 then as, an = as + 1, an - 1e9 end
          redis.call('SET', cell, string.format('%.0f.%09.0f', as, an), 'PX', string.format('%.0f', \(lifetime)))
        end
        for i = 1, #ARGV do
          local cs, cn, ts, tn, rs, rn = string.match(ARGV[i], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
          cs, cn, ts, tn, rs, rn = tonumber(cs), tonumber(cn), tonumber(ts), tonumber(tn), tonumber(rs), tonumber(rn)
          local ds, dn, tooFar = 0, 0, false
          local cell = redis.call('GET', KEYS[i + 1])
          if cell then
            local as, an = string.match(cell, '^(%d+)%.(%d+)$')
            if as then
              ds, dn = tonumber(as) - s, tonumber(an) - n
              if dn < 0 then ds, dn = ds - 1, dn + 1e9 end
              if ds < 0 then ds, dn = 0, 0 end
              if ds > rs or (ds == rs and dn > rn) then ds, dn, tooFar = rs, rn, true end
            end
          end
          local bs, bn = ds, dn
          ds, dn = ds + cs, dn + cn
          if dn >= 1e9 then ds, dn = ds + 1, dn - 1e9 end
          local ws, wn = ds - ts, dn - tn
          if wn < 0 then ws, wn = ws - 1, wn + 1e9 end
          if ws > 0 or (ws == 0 and wn > 0) then
            if tooFar then keep(KEYS[i + 1], bs, bn) end
            return {hold, i, ws, wn}
          end
          if ds > rs or (ds == rs and dn > rn) then ds, dn = rs, rn end
          keep(KEYS[i + 1], ds, dn)
        end
        return {hold, 0, 0, 0}
        """
    }

    /// Keeps the longer of two holds.
    static let hold = RedisScript(
        """
        if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], '1', 'PX', ARGV[1]) end
        return 1
        """)

    /// The argument of one charge.
    static func argument(_ charge: Charge) -> [UInt8] {
        argument(cost: charge.cost, rule: charge.rule, tolerance: charge.rule.tolerance)
    }

    /// Of one that asks nobody: no arrival is too far ahead, but it stays within reach.
    static func penalty(_ charge: Charge) -> [UInt8] {
        argument(cost: charge.cost, rule: charge.rule, tolerance: .max)
    }

    private static func argument(cost: Int, rule: GCRARule, tolerance: Int64) -> [UInt8] {
        let reach = rule.tolerance + rule.increment(of: GCRARule.maxPenalty)
        let times = [rule.increment(of: cost), tolerance, reach]
        return Array(times.map { "\($0 / nanoseconds) \($0 % nanoseconds)" }.joined(separator: " ").utf8)
    }

    private static let nanoseconds: Int64 = 1_000_000_000
}

/// What the script answers.
struct LimitScriptReply: Equatable {
    /// `nil`: January may be asked.
    var hold: Duration?
    /// The index of the charge that was refused, and its wait in nanoseconds.
    var refused: (index: Int, retryAfter: Int64)?

    /// - Returns: nil where it is no answer to so many charges.
    init?(_ reply: RedisReply, chargeCount: Int) {
        guard let values = reply.array, values.count == 4, let hold = values[0].integer, let number = values[1].integer,
            let seconds = values[2].integer, let nanoseconds = values[3].integer, (0...Int64(chargeCount)).contains(number),
            (0..<1_000_000_000).contains(nanoseconds), (0...(1 << 33)).contains(seconds)
        else { return nil }
        if hold > 0 { self.hold = .milliseconds(hold) }
        guard number > 0 else { return }
        guard seconds > 0 || nanoseconds > 0 else { return nil }
        // 2^33 seconds in nanoseconds fit.
        refused = (Int(number) - 1, seconds * 1_000_000_000 + nanoseconds)
    }

    static func == (left: Self, right: Self) -> Bool {
        left.hold == right.hold && left.refused?.index == right.refused?.index
            && left.refused?.retryAfter == right.refused?.retryAfter
    }
}
