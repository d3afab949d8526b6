/// An HTTP/1.1 server over event loops: accepts, reads whole messages within limits and time-outs, and hands each to a
/// ``RequestHandler``, one per loop. It knows nothing of routes, sessions or January.
///
/// * One owner per connection: ``ServerConnection`` runs on its loop and carries out what ``ConnectionStateMachine``, which is pure,
///   says. Pipelined requests are answered in order, one at a time; while one is served nothing more is read.
/// * Every wait has a name in ``ServerConfig``, and every buffer a bound: a connection holds at most one incomplete head (request line and
///   fields), one content and one read of 64 KiB.
/// * What is malformed or ambiguous is answered once and the connection closed (RFC 9112 sections 2.2, 3 and 6.3); nothing behind it is
///   served.
/// * A listener is given to it; it never opens one.
enum HTTPServerModule {}
