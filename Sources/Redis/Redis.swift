/// A client for one Redis server (or one that speaks its protocol), over our own loops.
///
/// * ``RedisURL`` and ``RedisConfig`` say where it is: read from the configuration, printed without user and password.
/// * ``RedisService`` is what the clients of all loops share, with the ``RedisAccess`` in force; ``RedisClient`` is one loop's: calls are pipelined on few kept connections
///   (``RedisConnection``), each with a deadline, and fail at once while Redis cannot be reached. Nothing waits for Redis but the call.
/// * ``RedisCommand`` is one command, ``RedisReply`` its reply, ``RedisScript`` a Lua script with what to do when Redis has forgotten it.
/// * Replies are parsed and commands formatted by hiredis (RESP2); sockets, TLS and timers are those of the target `EventLoop`.
/// * Sizes are bytes, times `Duration` (how long) or `MonotonicInstant` (until when). Failures are ``RedisError``, whose question is whether
///   the command may have run: nothing that was sent is ever sent again from here.
enum RedisModule {}
