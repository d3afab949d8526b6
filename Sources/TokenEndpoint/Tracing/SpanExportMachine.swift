import Primitives

/// When spans are exported, and again, and given up. Pure: events in, one action out; batch and queue are the shell's.
///
/// One export is under way at a time. What a collector may ask again for is sent again after a pause, a few times and not for longer than a
/// batch may live; then it is dropped, and the collector gets its rest before the next one.
struct SpanExportMachine {
    struct Settings: Sendable, Equatable {
        /// From the first span that waits to the export, where no batch is full before.
        var gathering = Duration.seconds(1)
        /// Of one batch.
        var maxAttempts = 5
        /// From the first attempt of a batch to its last.
        var maxAge = Duration.seconds(60)
        /// After the first failure; doubled with each further one.
        var firstPause = Duration.seconds(1)
        /// Of what `Retry-After` asks for.
        var maxHold = Duration.seconds(300)
    }

    enum State: Equatable {
        case idle
        /// The timer is running for what has come in.
        case gathering
        case sending(attempt: Int, since: MonotonicInstant)
        /// A batch is kept and sent again when the timer fires.
        case pausing(attempt: Int, since: MonotonicInstant)
        /// No batch, and none is sent until the timer fires.
        case holding
        /// The last exports before the end: what fails now is not sent again.
        case flushing
        case ended
    }

    enum Action: Equatable {
        case none
        case wait(until: MonotonicInstant)
        case sendNext
        case sendAgain
        /// Drops the batch; then, where there is one, the wait.
        case drop(thenWaitUntil: MonotonicInstant?)
        case dropAndSendNext
        /// Drops whatever is left.
        case finish
    }

    enum Outcome: Equatable {
        case delivered
        /// Another attempt could not change anything.
        case refused
        /// - retryAfter: as the collector asks.
        case failed(retryAfter: Duration?)
    }

    private(set) var state = State.idle
    private let settings: Settings

    init(settings: Settings = Settings()) { self.settings = settings }

    // MARK: Events

    /// Spans have come in. `isFull`: enough for a batch.
    mutating func spansCame(isFull: Bool, now: MonotonicInstant) -> Action {
        switch state {
        case .idle, .gathering:
            if isFull { return sendNext(now) }
            if state == .gathering { return .none }
            state = .gathering
            return .wait(until: now + settings.gathering)
        case .sending, .pausing, .holding, .flushing, .ended: return .none
        }
    }

    mutating func timerFired(waiting: Int, now: MonotonicInstant) -> Action {
        switch state {
        case .gathering, .holding:
            guard waiting > 0 else {
                state = .idle
                return .none
            }
            return sendNext(now)
        case .pausing(let attempt, let since):
            state = .sending(attempt: attempt + 1, since: since)
            return .sendAgain
        case .idle, .sending, .flushing, .ended: return .none
        }
    }

    /// - Parameters:
    ///   - isFull: another whole batch waits already.
    ///   - jitter: 0…1, so that replicas do not come back in the same instant.
    mutating func exportEnded(
        _ outcome: Outcome, waiting: Int, isFull: Bool, jitter: Double, now: MonotonicInstant
    ) -> Action {
        switch state {
        case .sending(let attempt, let since):
            switch outcome {
            case .delivered: return goOn(waiting: waiting, isFull: isFull, now: now)
            case .refused: return drop(then: goOn(waiting: waiting, isFull: isFull, now: now))
            case .failed(let retryAfter):
                // Whatever is asked for, never faster than we would by ourselves.
                let own = self.pause(after: attempt, jitter)
                let pause = retryAfter.map { max(own, min($0, settings.maxHold)) } ?? own
                let until = now + pause
                if attempt < settings.maxAttempts, until <= since + settings.maxAge {
                    state = .pausing(attempt: attempt, since: since)
                    return .wait(until: until)
                }
                state = .holding
                return .drop(thenWaitUntil: until)
            }
        case .flushing:
            guard outcome == .delivered, waiting > 0 else { return finish() }
            return .sendNext
        case .idle, .gathering, .pausing, .holding, .ended: return .none
        }
    }

    /// The process ends: everything once more, at once.
    mutating func flush(waiting: Int) -> Action {
        switch state {
        case .idle, .gathering, .holding:
            guard waiting > 0 else { return finish() }
            state = .flushing
            return .sendNext
        case .pausing:
            state = .flushing
            return .sendAgain
        case .sending:
            state = .flushing
            return .none
        case .flushing, .ended: return .none
        }
    }

    /// So long and no longer.
    mutating func flushDeadlinePassed() -> Action {
        state == .ended ? .none : finish()
    }

    // MARK: Parts

    private mutating func finish() -> Action {
        state = .ended
        return .finish
    }

    private mutating func sendNext(_ now: MonotonicInstant) -> Action {
        state = .sending(attempt: 1, since: now)
        return .sendNext
    }

    private mutating func goOn(waiting: Int, isFull: Bool, now: MonotonicInstant) -> Action {
        if isFull { return sendNext(now) }
        state = waiting > 0 ? .gathering : .idle
        return waiting > 0 ? .wait(until: now + settings.gathering) : .none
    }

    private func drop(then action: Action) -> Action {
        switch action {
        case .sendNext: .dropAndSendNext
        case .wait(let until): .drop(thenWaitUntil: until)
        case .none, .sendAgain, .drop, .dropAndSendNext, .finish: .drop(thenWaitUntil: nil)
        }
    }

    private func pause(after attempt: Int, _ jitter: Double) -> Duration {
        let pause = settings.firstPause * (1 << min(attempt - 1, 16))
        return pause - pause * (0.25 * jitter)
    }
}
