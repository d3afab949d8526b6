/// What every target may use and nothing knows where it came from: bytes, text in ASCII, encodings, secrets, locks and time.
///
/// * Bytes are `[UInt8]` where they are owned and `RawSpan` where they are only looked at.
/// * Time is a parameter everywhere: ``MonotonicInstant`` for deadlines, ``WallInstant`` for claims and records. Nothing here reads
///   a clock; `SystemTime` in the target `EventLoop` does.
/// * ``Secret`` is the only type that holds a key, session or token for longer than a function call.
enum PrimitivesModule {}
