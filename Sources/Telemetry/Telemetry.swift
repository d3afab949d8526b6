/// What operators read: log lines and metrics.
///
/// * ``Log`` makes one line per record (JSON or text) and hands it to a ``LogOutput``: ``LogWriter`` (a bounded queue and a thread of
///   its own in front of a ``LogSink``) in the server, ``LogMemory`` in tests. A message is a `StaticString`, data goes into fields, and
///   a ``LogValue`` cannot hold a `Secret`. Nothing here blocks a loop: what does not fit in the queue is dropped and counted.
/// * ``Metrics`` holds counters, gauges and histograms and prints the Prometheus text format 0.0.4. Handles are looked up once; adding
///   is one relaxed atomic addition. Label values are bounded: a family takes at most ``Metrics/maxSeries`` series, later ones are
///   counted together as `other`.
/// * ``EndUserHash`` is how an end user appears in logs and records.
/// * ``TraceContext`` and ``TraceState`` are the fields of W3C Trace Context, ``SpanText`` and ``SpanEnvelope`` the JSON of OTLP, ``SpanQueue``
///   what waits to be exported. Who exports is not here: that takes a network.
///
/// Units: seconds in metrics, milliseconds in fields named `…_ms`, UTC in timestamps. Failures: nothing here throws but
/// ``LogWriter/start(sink:limits:)``; a line that cannot be written is lost and counted (`log_dropped_total`).
enum TelemetryModule {}
