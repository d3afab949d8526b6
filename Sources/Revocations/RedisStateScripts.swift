import Redis

/// The keys and scripts of a shared state. Each script first compares the store's ID with the one its caller knows: a server that came back
/// empty, or another one, changes nothing and answers -1.
///
/// The braces keep all keys in one slot of a cluster: a script reads and writes several users' keys. Scores of mints are milliseconds on
/// Redis's own clock, read where the script runs; those of due work are milliseconds on the same clock as the replicas know it
/// (``SharedState/clock``).
enum RedisStateScripts {
    static let prefix = "january-endpoint:{state}:"
    /// The store itself: its ID, the key of the hashes, counters.
    static let store = key("store")
    /// What the end-user mapping was.
    static let identity = key("identity")
    /// End users by when their work is next due.
    static let due = key("due")
    /// End users with an unfinished revocation, by its number.
    static let pending = key("pending")
    /// End users by the time of their fence, in seconds.
    static let fences = key("fences")
    /// IDs of revocations by their number.
    static let list = key("revocations")

    static func key(_ name: String) -> [UInt8] { Array((prefix + name).utf8) }
    static func user(_ key: EndUserKey) -> [UInt8] { self.key("user:" + key.text) }
    static func flight(_ key: EndUserKey) -> [UInt8] { self.key("flight:" + key.text) }
    static func lease(_ key: EndUserKey) -> [UInt8] { self.key("lease:" + key.text) }
    static func revocation(_ id: RevocationID) -> [UInt8] { self.key("revocation:" + id.text) }

    private static let guardText = "if redis.call('HGET', KEYS[1], 'store_id') ~= ARGV[1] then return {-1} end\n"
    private static let clockText = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)

        """

    // MARK: The store

    /// KEYS: store. ARGV: a new ID and key, `1` where they may be made. Answers ID, hash key.
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

    /// Compares what decides who is who with what is recorded. KEYS: store, identity. ARGV: store, `1` where a change is accepted, then
    /// names and values. Answers 0, or 1 where it is refused, and the names that differ.
    static let identify = RedisScript(
        guardText + """
            local recorded, wanted, changed = {}, {}, {}
            local all = redis.call('HGETALL', KEYS[2])
            for index = 1, #all, 2 do recorded[all[index]] = all[index + 1] end
            for index = 3, #ARGV, 2 do wanted[ARGV[index]] = ARGV[index + 1] end
            if #all > 0 then
              for name, value in pairs(wanted) do if (recorded[name] or '') ~= value then changed[#changed + 1] = name end end
              for name, value in pairs(recorded) do
                if not wanted[name] and value ~= '' then changed[#changed + 1] = name end
              end
              if #changed > 0 and ARGV[2] ~= '1' then return {1, unpack(changed)} end
            end
            if #all == 0 or #changed > 0 then
              redis.call('DEL', KEYS[2])
              redis.call('HSET', KEYS[2], unpack(ARGV, 3))
            end
            return {0, unpack(changed)}
            """)

    // MARK: Mints

    /// What a mint meets. `decide` answers 0 free, 1 revoked, 2 in progress.
    private static let decideText =
        clockText + """
            local function decide(started)
              local user = redis.call('HMGET', KEYS[2], 'block', 'since', 'pending')
              if user[1] == 'user' then return 1 end
              if user[1] == 'sessions' and (started == '' or tonumber(started) <= tonumber(user[2])) then return 1 end
              if user[1] and user[1] ~= '' and user[1] ~= 'sessions' then return 1 end
              if user[3] == '1' then return 2 end
              return 0
            end

            """

    /// One step: no fence, and in flight. KEYS: store, user, flight. ARGV: store, session's beginning or nothing, milliseconds until the
    /// deadline, the mint's name. The set outlives the last deadline in it by more than 75 s.
    static let enter = RedisScript(
        guardText + decideText + """
            local decision = decide(ARGV[2])
            if decision == 0 then
              redis.call('ZADD', KEYS[3], now + ARGV[3], 'm' .. ARGV[4])
              redis.call('PEXPIRE', KEYS[3], 180000)
            end
            return {decision}
            """)

    /// The second look. ARGV: store, session's beginning, the mint's name, `keep`, `leave` or `unanswered`. A mint that is no longer in
    /// flight was written off by a revocation which has gone on without it: nothing of it may be sent or delivered.
    static let look = RedisScript(
        guardText + decideText + """
            local decision = decide(ARGV[2])
            local name = 'm' .. ARGV[3]
            if decision == 0 and not redis.call('ZSCORE', KEYS[3], name) then decision = 2 end
            if ARGV[4] ~= 'keep' then redis.call('ZREM', KEYS[3], name) end
            if ARGV[4] == 'unanswered' then
              redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - 75000)
              redis.call('ZADD', KEYS[3], now + 75000, 'u' .. ARGV[3])
              redis.call('PEXPIRE', KEYS[3], 180000)
            end
            return {decision}
            """)

    /// KEYS: store, user, flight. Answers how many are under way, how many got no answer.
    static let mints = RedisScript(
        guardText + clockText + """
            local awaiting, unanswered = 0, 0
            local all = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
            for index = 1, #all, 2 do
              local left = tonumber(all[index + 1]) - now
              if string.sub(all[index], 1, 1) == 'm' then
                if left > 0 then awaiting = awaiting + 1 elseif left > -75000 then unanswered = unanswered + 1 end
              elseif left > 0 then
                unanswered = unanswered + 1
              end
            end
            return {0, awaiting, unanswered}
            """)

    // MARK: Work

    /// Asked by the replica that works on it before each of its steps: whether it still may, and what mints there are. A mint that has passed its
    /// deadline belongs to a replica that died or stood still: it is written off, so that whoever wakes up later delivers nothing.
    /// KEYS: store, user, flight, lease, due. ARGV: store, this replica, milliseconds of a lease, the work's ID, now, end user.
    /// Answers 2 where another has it or the work is no longer the same.
    static let older = RedisScript(
        guardText + clockText + """
            local holder = redis.call('GET', KEYS[4])
            if holder and holder ~= ARGV[2] then return {2} end
            if redis.call('HGET', KEYS[2], 'work_id') ~= ARGV[4] then return {2} end
            redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
            redis.call('ZADD', KEYS[5], 'XX', 'GT', ARGV[5] + ARGV[3], ARGV[6])
            redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - 75000)
            local awaiting, unanswered = 0, 0
            local all = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
            for index = 1, #all, 2 do
              local name, at = all[index], tonumber(all[index + 1])
              if string.sub(name, 1, 1) == 'm' then
                if at > now then
                  awaiting = awaiting + 1
                else
                  unanswered = unanswered + 1
                  redis.call('ZREM', KEYS[3], name)
                  redis.call('ZADD', KEYS[3], at + 75000, 'u' .. string.sub(name, 2))
                end
              elseif at > now then
                unanswered = unanswered + 1
              else
                redis.call('ZREM', KEYS[3], name)
              end
            end
            return {0, awaiting, unanswered}
            """)

    /// KEYS: store, user, lease. ARGV: store. Answers version, block, since, work, lease.
    static let read = RedisScript(
        guardText + """
            local user = redis.call('HMGET', KEYS[2], 'version', 'block', 'since', 'work')
            return {0, user[1] or '0', user[2] or '', user[3] or '', user[4] or '', redis.call('GET', KEYS[3]) or ''}
            """)

    /// Replaces one user's state unless it has changed, or the lease has, which the change may depend on. KEYS: store, user, due, pending,
    /// fences, list, lease, then one for each record. ARGV: store, version, end user, block, since, pending, work, due, the work's ID, this
    /// replica, `1` where another held the lease, then ID and text of each record.
    ///
    /// Versions are numbers of the store: one that was removed with its user never comes back.
    static let write = RedisScript(
        guardText + """
            if (redis.call('HGET', KEYS[2], 'version') or '0') ~= ARGV[2] then return {1} end
            local holder = redis.call('GET', KEYS[7])
            if ((holder and holder ~= ARGV[10]) and '1' or '0') ~= ARGV[11] then return {1} end
            for index = 8, #KEYS do
              local at = 12 + (index - 8) * 2
              redis.call('SET', KEYS[index], ARGV[at + 1])
              if not redis.call('ZSCORE', KEYS[6], ARGV[at]) then
                redis.call('ZADD', KEYS[6], redis.call('HINCRBY', KEYS[1], 'numbers', 1), ARGV[at])
              end
            end
            if ARGV[4] == '' and ARGV[7] == '' then
              redis.call('DEL', KEYS[2])
            else
              redis.call('HSET', KEYS[2], 'version', redis.call('HINCRBY', KEYS[1], 'versions', 1), 'block', ARGV[4],
                'since', ARGV[5], 'pending', ARGV[6], 'work', ARGV[7], 'work_id', ARGV[9])
            end
            if ARGV[8] == '' then redis.call('ZREM', KEYS[3], ARGV[3]) else redis.call('ZADD', KEYS[3], ARGV[8], ARGV[3]) end
            if ARGV[6] == '1' then
              redis.call('ZADD', KEYS[4], redis.call('ZSCORE', KEYS[6], ARGV[9]), ARGV[3])
            else
              redis.call('ZREM', KEYS[4], ARGV[3])
            end
            if ARGV[4] == '' then redis.call('ZREM', KEYS[5], ARGV[3]) else redis.call('ZADD', KEYS[5], ARGV[5], ARGV[3]) end
            return {0}
            """)

    /// Takes due work. KEYS: store, due. ARGV: store, now, limit, this replica, milliseconds of a lease, prefix. Answers the next time and
    /// then the work. What others have taken is put off until their lease ends.
    static let claim = RedisScript(
        guardText + """
            local found = {0, ''}
            for _, user in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])) do
              local lease = ARGV[6] .. 'lease:' .. user
              local work = redis.call('HGET', ARGV[6] .. 'user:' .. user, 'work')
              if not work or work == '' then
                redis.call('ZREM', KEYS[2], user)
              elseif redis.call('SET', lease, ARGV[4], 'NX', 'PX', ARGV[5]) then
                redis.call('ZADD', KEYS[2], ARGV[2] + ARGV[5], user)
                found[#found + 1] = work
              else
                redis.call('ZADD', KEYS[2], ARGV[2] + math.max(redis.call('PTTL', lease), 100), user)
              end
            end
            local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
            found[2] = next[2] or ''
            return found
            """)

    /// KEYS: store, lease. ARGV: store, this replica, milliseconds.
    static let take = RedisScript(
        guardText + """
            if redis.call('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3]) then return {1} end
            if redis.call('GET', KEYS[2]) == ARGV[2] then return {1} end
            return {0}
            """)

    /// KEYS: store, due, then leases. ARGV: store, this replica, milliseconds, now, then end users.
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

    /// KEYS: store, lease. ARGV: store, this replica.
    static let release = RedisScript(
        guardText + """
            if redis.call('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
            return {0}
            """)

    // MARK: Looking

    /// KEYS: store, revocation. ARGV: store.
    static let find = RedisScript(guardText + "return {0, redis.call('GET', KEYS[2]) or ''}")

    /// KEYS: store, pending, fences. ARGV: store, prefix. Answers counts and the work that was asked for first.
    static let counts = RedisScript(
        guardText + """
            local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
            local work = oldest and redis.call('HGET', ARGV[2] .. 'user:' .. oldest, 'work') or ''
            return {0, redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]), work}
            """)

    /// KEYS: store, list, pending. ARGV: store, `1` pending only, limit, ID or nothing, prefix. Answers records' texts; {1} where the ID
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
            for _, name in ipairs(
              redis.call('ZRANGEBYSCORE', ARGV[2] == '1' and KEYS[3] or KEYS[2], after, '+inf', 'LIMIT', 0, ARGV[3])) do
              local text
              if ARGV[2] == '1' then
                text = redis.call('HGET', ARGV[5] .. 'user:' .. name, 'work')
              else
                text = redis.call('GET', ARGV[5] .. 'revocation:' .. name)
              end
              if text then found[#found + 1] = text end
            end
            return found
            """)

    /// Old fences without work, and old revocations that are over; so many of each are looked at. KEYS: store, fences, list. ARGV: store,
    /// seconds and nanoseconds since 1970, prefix. Answers how many went.
    static let forget = RedisScript(
        guardText + """
            local gone = 0
            for _, user in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[2], 'LIMIT', 0, 500)) do
              local key = ARGV[4] .. 'user:' .. user
              if (redis.call('HGET', key, 'work') or '') == '' then
                redis.call('DEL', key)
                redis.call('ZREM', KEYS[2], user)
                gone = gone + 1
              end
            end
            for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, 499)) do
              local key = ARGV[4] .. 'revocation:' .. id
              local phase, completed = string.match(
                redis.call('GET', key) or '2', '^(%d)[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n([^\\n]*)')
              if not phase or (phase == '2' and completed ~= '' and tonumber(completed) < tonumber(ARGV[3])) then
                redis.call('DEL', key)
                redis.call('ZREM', KEYS[3], id)
                gone = gone + 1
              end
            end
            return {0, gone}
            """)
}
