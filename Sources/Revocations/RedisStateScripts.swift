import Redis

/// The keys and scripts of a shared state. Each script first compares the store's ID with the one its caller knows: a server that came back
/// empty, or another one, changes nothing and answers -1.
///
/// Times are milliseconds; those of mints are on Redis's own clock.
enum RedisStateScripts {
    static let prefix = "january-endpoint:"
    /// Everything about the store itself: its ID, the key of the hashes, what the end-user mapping was.
    static let state = key("state")
    /// End users by when their work is next due.
    static let due = key("due")
    /// End users by when their unfinished revocation was asked for.
    static let pending = key("pending")
    /// End users by the time of their fence.
    static let fences = key("fences")
    /// Revocations by their number.
    static let list = key("revocations")

    static func key(_ name: String) -> [UInt8] { Array((prefix + name).utf8) }
    static func user(_ key: EndUserKey) -> [UInt8] { self.key("user:" + key.text) }
    static func flight(_ key: EndUserKey) -> [UInt8] { self.key("flight:" + key.text) }
    static func lease(_ key: EndUserKey) -> [UInt8] { self.key("lease:" + key.text) }
    static func revocation(_ id: RevocationID) -> [UInt8] { self.key("revocation:" + id.text) }

    private static let guardText = "if redis.call('HGET', KEYS[1], 'store_id') ~= ARGV[1] then return {-1} end\n"

    /// KEYS: state. ARGV: a new ID and key, `1` where they may be made. Answers ID, hash key.
    static let open = RedisScript(
        """
        local id = redis.call('HGET', KEYS[1], 'store_id')
        if not id then
          if ARGV[3] ~= '1' then return {0} end
          redis.call('HSET', KEYS[1], 'store_id', ARGV[1], 'hash_key', ARGV[2])
          id = ARGV[1]
        end
        return {1, id, redis.call('HGET', KEYS[1], 'hash_key') or ''}
        """)

    /// What a mint meets. `decide` answers 0 free, 1 revoked, 2 in progress.
    private static let decideText = """
        local function decide(started)
          local user = redis.call('HMGET', KEYS[2], 'block', 'since', 'pending')
          if user[1] == 'user' then return 1 end
          if user[1] == 'sessions' and (started == '' or tonumber(started) <= tonumber(user[2])) then return 1 end
          if user[3] == '1' then return 2 end
          return 0
        end
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)

        """

    /// One step: no fence, and in flight. KEYS: state, user, flight. ARGV: store, session's beginning or nothing, milliseconds until the
    /// deadline, the mint's name. The set goes 75 s after the last deadline in it.
    static let enter = RedisScript(
        guardText + decideText + """
            local decision = decide(ARGV[2])
            if decision == 0 then
              redis.call('ZADD', KEYS[3], now + ARGV[3], 'm' .. ARGV[4])
              redis.call('PEXPIRE', KEYS[3], 180000)
            end
            return {decision}
            """)

    /// The second look. ARGV: store, session's beginning, the mint's name, `keep`, `leave` or `unanswered`.
    static let look = RedisScript(
        guardText + decideText + """
            local decision = decide(ARGV[2])
            if ARGV[4] ~= 'keep' then redis.call('ZREM', KEYS[3], 'm' .. ARGV[3]) end
            if ARGV[4] == 'unanswered' then
              redis.call('ZADD', KEYS[3], now + 75000, 'u' .. ARGV[3])
              redis.call('PEXPIRE', KEYS[3], 180000)
            end
            return {decision}
            """)

    /// KEYS: state, user, flight. Answers how many await their answer, how many got none. A mint whose replica died has passed its deadline.
    static let mints = RedisScript(
        guardText + decideText + """
            redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - 75000)
            local awaiting, unanswered = 0, 0
            local all = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
            for index = 1, #all, 2 do
              local left = tonumber(all[index + 1]) - now
              if string.sub(all[index], 1, 1) == 'm' then
                if left > 0 then awaiting = awaiting + 1 else unanswered = unanswered + 1 end
              elseif left > 0 then
                unanswered = unanswered + 1
              end
            end
            return {0, awaiting, unanswered}
            """)

    /// KEYS: state, user, lease. ARGV: store. Answers version, block, since, work, lease.
    static let read = RedisScript(
        guardText + """
            local user = redis.call('HMGET', KEYS[2], 'version', 'block', 'since', 'work')
            return {0, user[1] or '0', user[2] or '', user[3] or '', user[4] or '', redis.call('GET', KEYS[3]) or ''}
            """)

    /// Replaces one user's state unless it has changed. KEYS: state, user, due, pending, fences, list, then one for each record.
    /// ARGV: store, version, end user, block, since, pending, work, due, requested, then ID and text of each record.
    static let write = RedisScript(
        guardText + """
            local version = redis.call('HGET', KEYS[2], 'version') or '0'
            if version ~= ARGV[2] then return {1} end
            if ARGV[4] == '' and ARGV[7] == '' then
              redis.call('DEL', KEYS[2])
            else
              redis.call('HSET', KEYS[2], 'version', version + 1, 'block', ARGV[4], 'since', ARGV[5], 'pending', ARGV[6],
                'work', ARGV[7])
            end
            if ARGV[8] == '' then redis.call('ZREM', KEYS[3], ARGV[3]) else redis.call('ZADD', KEYS[3], ARGV[8], ARGV[3]) end
            if ARGV[6] == '1' then redis.call('ZADD', KEYS[4], ARGV[9], ARGV[3]) else redis.call('ZREM', KEYS[4], ARGV[3]) end
            if ARGV[4] == '' then redis.call('ZREM', KEYS[5], ARGV[3]) else redis.call('ZADD', KEYS[5], ARGV[5], ARGV[3]) end
            for index = 7, #KEYS do
              local at = 10 + (index - 7) * 2
              redis.call('SET', KEYS[index], ARGV[at + 1])
              if not redis.call('ZSCORE', KEYS[6], ARGV[at]) then
                redis.call('ZADD', KEYS[6], redis.call('HINCRBY', KEYS[1], 'numbers', 1), ARGV[at])
              end
            end
            return {0}
            """)

    /// Takes due work. KEYS: state, due. ARGV: store, now, limit, this replica, milliseconds of a lease, prefix. Answers the next time and
    /// then the work. What others have taken is put off until their lease ends.
    static let claim = RedisScript(
        guardText + """
            local found = {0, ''}
            for _, user in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])) do
              local lease = ARGV[6] .. 'lease:' .. user
              if redis.call('SET', lease, ARGV[4], 'NX', 'PX', ARGV[5]) then
                redis.call('ZADD', KEYS[2], ARGV[2] + ARGV[5], user)
                found[#found + 1] = redis.call('HGET', ARGV[6] .. 'user:' .. user, 'work') or ''
              else
                redis.call('ZADD', KEYS[2], ARGV[2] + math.max(redis.call('PTTL', lease), 100), user)
              end
            end
            local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
            found[2] = next[2] or ''
            return found
            """)

    /// KEYS: state, lease. ARGV: store, this replica, milliseconds.
    static let take = RedisScript(
        guardText + """
            if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return {1} end
            if redis.call('GET', KEYS[2]) == ARGV[2] then return {1} end
            return {0}
            """)

    /// KEYS: state, due, then leases. ARGV: store, this replica, milliseconds, now, then end users.
    static let renew = RedisScript(
        guardText + """
            for index = 3, #KEYS do
              if redis.call('GET', KEYS[index]) == ARGV[2] then
                redis.call('PEXPIRE', KEYS[index], ARGV[3])
                redis.call('ZADD', KEYS[2], 'XX', 'GT', ARGV[4] + ARGV[3], ARGV[index + 2])
              end
            end
            return {0}
            """)

    /// KEYS: state, lease. ARGV: store, this replica.
    static let release = RedisScript(
        guardText + """
            if redis.call('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
            return {0}
            """)

    /// KEYS: state, pending, fences. ARGV: store. Answers counts and the oldest.
    static let counts = RedisScript(
        guardText + """
            local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
            return {0, redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]), oldest[2] or ''}
            """)

    /// KEYS: state, list, pending. ARGV: store, `1` pending only, limit, ID or nothing, prefix. Answers records' texts; {1} where the ID
    /// is unknown.
    static let page = RedisScript(
        guardText + """
            local after = '-inf'
            if ARGV[4] ~= '' then
              local number = redis.call('ZSCORE', KEYS[2], ARGV[4])
              if not number then return {1} end
              after = '(' .. number
            end
            local found = {0}
            local offset = 0
            while #found <= tonumber(ARGV[3]) do
              local ids = redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf', 'LIMIT', offset, 200)
              if #ids == 0 then break end
              offset = offset + #ids
              for _, id in ipairs(ids) do
                local text = redis.call('GET', ARGV[5] .. 'revocation:' .. id)
                if text and (ARGV[2] ~= '1' or string.sub(text, 1, 2) == '0\\n') and #found <= tonumber(ARGV[3]) then
                  found[#found + 1] = text
                end
              end
            end
            return found
            """)
}
