/// Revocations that keep their promise: after a 200 nothing that the fence forbids is sent to January or delivered, and every token January
/// answered with before is revoked.
///
/// ``Fence`` and ``RevocationRecord`` are what is kept; ``UserState`` has the rules that change them, ``SweepMachine`` the ones for what has to be
/// proven before a revocation is complete. Both are pure. ``RevocationStore`` makes changes durable (``SQLiteRevocationStore``); ``RevocationService``
/// calls January until the proof is there. A mint meets them at its gate: ``MintsInFlight`` is entered in the same step that finds no fence
/// in ``FenceTable``, and left after January's answer has been compared with the fence once more.
///
/// Shapes: end users are ``EndUserKey`` (a keyed hash) in the state and plain `String` only in unfinished work and in memory.
/// Errors: ``StateError`` (cannot be read or written now), ``StateOpenError`` (at the start), ``RevocationError`` (to who asks).
/// Threads: the service's work belongs to one loop, the state file to its own thread; tables of mints and fences are for all loops.
enum RevocationsModule {}
