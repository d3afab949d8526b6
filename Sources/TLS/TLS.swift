/// TLS 1.2 and 1.3 by OpenSSL, for both sides of a connection.
///
/// * ``TLSClientContext`` and ``TLSServerContext`` are made once from PEM bytes and shared by all loops; ``TLSStream`` is one connection
///   over a non-blocking descriptor and belongs to one loop.
/// * A client always verifies the chain and the name (RFC 9525: subjectAltName only, the common name is not looked at; an IP address
///   needs an IP entry). There is no way to turn it off.
/// * Sessions are resumed per host and port out of a bounded table in the client context.
/// * Failures are ``TLSError``, whose `reason` is a metric label. OpenSSL's error queue is emptied before and after each call, so that
///   one connection's failure cannot show up in another's.
/// * Closing the transport without close_notify is a failure, not an end (RFC 8446 section 6.1): a truncated message is never taken for
///   a whole one.
enum TLSModule {}
