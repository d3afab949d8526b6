/// January's side of the endpoint: what is asked, what is believed of the answer, and when January is left alone.
///
/// A mint is one `POST {base_url}/v1.2/auth/client-tokens` (``MintRequest``). Its 201 is delivered only after ``MintAnswer`` has checked
/// every member against what was asked for; everything else becomes one ``JanuaryFailure``. ``Breaker`` decides whether January is asked
/// at all, ``KeyRing`` with which key, and ``JanuaryClient`` puts them in order for one mint.
///
/// Shapes: bodies are bytes, identifiers are `String` compared byte for byte, never by canonical equivalence. Times are
/// `MonotonicInstant` (deadlines) and `Duration` (waits); HTTP dates meet the wall clock in ``RetryAfter`` only.
/// Errors: ``JanuaryFailure`` and ``MintAnswerProblem``, closed, each with a bounded `reason`. No HTTP status of ours is chosen here.
/// Threads: ``JanuaryClient`` belongs to its loop; ``Breaker`` and ``KeyRing`` are shared by all of them.
enum JanuaryModule {}
