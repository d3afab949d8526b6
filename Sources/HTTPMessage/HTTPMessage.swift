/// HTTP/1.1 messages as a pure core (RFC 9110, RFC 9112): bytes to values and back. No socket, clock, file, log or thread.
///
/// * **In:** ``RequestHeadParser`` and ``ResponseHeadParser`` are given everything received of a message so far and say: need more
///   (`nil`), a head with the number of bytes it took, or ``HTTPParseError``. ``BodyDecoder`` consumes what follows the head.
/// * **Framing** is decided in one place, ``BodyFraming``, for both directions (RFC 9112 section 6.3).
/// * **Out:** ``HeadEncoder`` and ``ChunkedEncoder`` append to a `[UInt8]`; ``FieldBlock`` holds lines that are already encoded.
/// * **Units:** sizes and offsets are bytes. An offset counts from the first byte of the message (heads) or of the message body
///   (decoder).
/// * **Errors:** what is ambiguous is refused and never repaired, because two readings of one message are a security bug even where
///   ours is right. After an error the connection cannot be used again: no parser resynchronises.
/// * **Storage:** a head is one copy of its bytes and one index of its fields; names, values and targets are ranges in that copy.
enum HTTPMessageModule {}
