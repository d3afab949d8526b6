import Configuration
import EventLoop
import HTTPMessage
import Primitives
import Telemetry

/// Sends what waits in the queue to the collector: the shell of ``SpanExportMachine``, on a loop of its own, which serves nobody else.
///
/// Memory: the queue, one batch under way and its content. A collector that is down, slow or silent costs that and nothing more.
final class SpanExporter {
    /// From the first byte of the connection to the last of the answer.
    static let exportTimeout = Duration.seconds(10)
    /// What goes on failing is said again so often.
    private static let warningInterval = Duration.seconds(600)

    private struct Batch {
        let content: [UInt8]
        let spanCount: Int
    }

    private let loop: EventLoop
    private let exchange: any HTTPExchange
    private let collector: TracingConfig.Collector
    private let fields: FieldBlock
    private let envelope: SpanEnvelope
    private let queue: SpanQueue
    private let counters: SpanCounters
    private let log: Log
    private var machine: SpanExportMachine
    private var batch: Batch?
    private var timer: LoopTimer?
    private var finished: (() -> Void)?
    private var isFailing = false
    private var lastWarning: MonotonicInstant?

    init(
        loop: EventLoop, exchange: any HTTPExchange, collector: TracingConfig.Collector, envelope: SpanEnvelope, queue: SpanQueue,
        counters: SpanCounters, log: Log, settings: SpanExportMachine.Settings = .init()
    ) {
        self.loop = loop
        self.exchange = exchange
        self.collector = collector
        self.envelope = envelope
        self.queue = queue
        self.counters = counters
        self.log = log
        fields = Self.fields(collector.login)
        machine = SpanExportMachine(settings: settings)
        timer = LoopTimer { [weak self] in self?.timerFired() }
    }

    static func fields(_ login: BasicLogin?) -> FieldBlock {
        var fields = FieldBlock()
        fields.append(.contentType, literal: "application/json")
        do throws(FieldError) {
            try fields.append(.userAgent, TokenEndpoint.userAgent)
            if let login {
                try fields.append(.authorization, secret: login.credentials, prefix: "Basic ")
            }
        } catch {
            preconditionFailure("our own name and base64 are field values")
        }
        return fields
    }

    // MARK: Events

    func spansCame(isFull: Bool) { run(machine.spansCame(isFull: isFull, now: loop.now)) }

    private func timerFired() { run(machine.timerFired(waiting: queue.count, now: loop.now)) }

    /// Exports what waits, once and for at most `timeout`; what is left then is dropped.
    func flush(within timeout: Duration, then done: @escaping () -> Void) {
        guard machine.state != .ended else { return done() }
        finished = done
        let deadline = LoopTimer { [self] in run(machine.flushDeadlinePassed()) }
        loop.schedule(deadline, after: timeout)
        run(machine.flush(waiting: queue.count))
    }

    private func ended(_ result: Result<UpstreamResponse, UpstreamError>) {
        // The end came first: what was under way is counted already.
        guard let batch else { return }
        let answer = ExportAnswer(result, spanCount: batch.spanCount, now: loop.time.wall())
        if answer.outcome == .delivered {
            counters.exported.add(UInt64(batch.spanCount - answer.rejectedCount))
            if answer.rejectedCount > 0 { counters.dropped(.rejected, answer.rejectedCount) }
            self.batch = nil
        }
        report(answer)
        let reason: SpanCounters.Reason = answer.outcome == .refused ? .refused : .failed
        let action = machine.exportEnded(
            answer.outcome, waiting: queue.count, isFull: queue.count >= queue.limits.batchCount,
            jitter: Double.random(in: 0...1), now: loop.now)
        run(action, dropping: reason)
    }

    // MARK: Actions

    private func run(_ action: SpanExportMachine.Action, dropping reason: SpanCounters.Reason = .failed) {
        switch action {
        case .none: break
        case .wait(let until): wait(until)
        case .sendNext: sendNext()
        case .sendAgain: send()
        case .drop(let until):
            drop(reason)
            if let until { wait(until) }
        case .dropAndSendNext:
            drop(reason)
            sendNext()
        case .finish: finish()
        }
    }

    private func wait(_ until: MonotonicInstant) {
        guard let timer else { return }
        loop.schedule(timer, at: until)
    }

    private func sendNext() {
        if let timer { loop.cancel(timer) }
        let spans = queue.takeBatch()
        batch = Batch(content: envelope.content(spans), spanCount: spans.count)
        send()
    }

    private func send() {
        guard let batch else { return }
        let request = UpstreamRequest(
            method: .post, origin: collector.origin, target: collector.target, fields: fields, body: batch.content)
        // Answered on the loop and never inside this call but for errors, which the machine takes as any other.
        exchange.send(request, deadline: loop.now + Self.exportTimeout, beforeSend: nil) { [self] in ended($0) }
    }

    private func drop(_ reason: SpanCounters.Reason) {
        if let batch { counters.dropped(reason, batch.spanCount) }
        batch = nil
    }

    private func finish() {
        drop(.shutdown)
        let left = queue.removeAll()
        if left > 0 { counters.dropped(.shutdown, left) }
        if let timer { loop.cancel(timer) }
        timer = nil
        let done = finished
        finished = nil
        done?()
    }

    // MARK: Log: changes, never spans

    private func report(_ answer: ExportAnswer) {
        if answer.outcome == .delivered {
            if isFailing { log.write(.info, "spans are exported again", [LogField("url", collector.redacted)]) }
            isFailing = false
            return
        }
        let isNew = !isFailing || lastWarning.map { loop.now - $0 >= Self.warningInterval } ?? true
        isFailing = true
        guard isNew else { return }
        lastWarning = loop.now
        var fields = [LogField("url", collector.redacted), LogField("reason", answer.reason)]
        if let status = answer.status { fields.append(LogField("status", status)) }
        if answer.reason == UpstreamError.NotSentReason.tls.rawValue, let reason = exchange.lastTLSFailure {
            fields.append(LogField("tls", reason.description))
        }
        log.write(.warning, "spans cannot be exported; requests go on", fields)
    }
}

/// What became of spans. Any thread.
final class SpanCounters: Sendable {
    /// Bounded: the label `reason`.
    enum Reason: String, CaseIterable, Sendable {
        /// The queue was full.
        case queueFull = "queue_full"
        /// Another attempt could not have changed the collector's answer.
        case refused
        /// No attempt got through.
        case failed
        /// Taken out of a batch by the collector.
        case rejected
        /// Left when the process ended.
        case shutdown
    }

    let exported: Counter
    private let dropped: [Reason: Counter]

    init(_ metrics: Metrics, queue: SpanQueue) {
        exported = metrics.counter("spans_exported_total", help: "Spans that the collector has taken.")
        // Every series from the start, so that an alert on its increase sees the first one.
        var dropped: [Reason: Counter] = [:]
        for reason in Reason.allCases {
            dropped[reason] = metrics.counter(
                "spans_dropped_total", help: "Spans that were lost.", labels: [("reason", reason.rawValue)])
        }
        self.dropped = dropped
        metrics.gauges("spans_waiting", help: "Spans that wait to be exported.") { [([], Double(queue.count))] }
    }

    func dropped(_ reason: Reason, _ count: Int = 1) { dropped[reason]?.add(UInt64(count)) }
}
