import Primitives
import Testing

@testable import TokenEndpoint

/// Each state with each event, without a socket.
@Suite struct SpanExportMachineTests {
    private typealias Machine = SpanExportMachine

    private static func at(_ seconds: Double) -> MonotonicInstant { MonotonicInstant(nanoseconds: Int64(seconds * 1e9)) }

    private static func machine(in state: Machine.State) -> Machine {
        var machine = Machine()
        switch state {
        case .idle: break
        case .gathering: _ = machine.spansCame(isFull: false, now: at(0))
        case .sending: _ = machine.spansCame(isFull: true, now: at(0))
        case .pausing:
            _ = machine.spansCame(isFull: true, now: at(0))
            _ = machine.exportEnded(.failed(retryAfter: nil), waiting: 0, isFull: false, jitter: 0, now: at(1))
        case .holding:
            _ = machine.spansCame(isFull: true, now: at(0))
            _ = machine.exportEnded(.failed(retryAfter: .seconds(100)), waiting: 0, isFull: false, jitter: 0, now: at(1))
        case .flushing:
            _ = machine.spansCame(isFull: false, now: at(0))
            _ = machine.flush(waiting: 1)
        case .ended: _ = machine.flush(waiting: 0)
        }
        #expect(machine.state == state)
        return machine
    }

    private static let sending = Machine.State.sending(attempt: 1, since: at(0))
    private static let pausing = Machine.State.pausing(attempt: 1, since: at(0))
    private static let all: [Machine.State] = [.idle, .gathering, sending, pausing, .holding, .flushing, .ended]

    @Test func spansThatComeAreGatheredForASecondOrUntilABatchIsFull() {
        for state in Self.all {
            var machine = Self.machine(in: state)
            let action = machine.spansCame(isFull: false, now: Self.at(5))
            #expect(action == (state == .idle ? .wait(until: Self.at(6)) : .none), "\(state)")
            #expect(machine.state == (state == .idle ? .gathering : state))
            machine = Self.machine(in: state)
            let full = machine.spansCame(isFull: true, now: Self.at(5))
            let sends = state == .idle || state == .gathering
            #expect(full == (sends ? .sendNext : .none), "\(state)")
            #expect(machine.state == (sends ? .sending(attempt: 1, since: Self.at(5)) : state))
        }
    }

    @Test func theTimerSendsWhatWaits() {
        for state in Self.all {
            for waiting in [0, 1] {
                var machine = Self.machine(in: state)
                let action = machine.timerFired(waiting: waiting, now: Self.at(9))
                switch state {
                case .gathering, .holding:
                    #expect(action == (waiting > 0 ? .sendNext : .none))
                    #expect(machine.state == (waiting > 0 ? .sending(attempt: 1, since: Self.at(9)) : .idle))
                case .pausing:
                    #expect(action == .sendAgain)
                    #expect(machine.state == .sending(attempt: 2, since: Self.at(0)))
                case .idle, .sending, .flushing, .ended:
                    #expect(action == .none)
                    #expect(machine.state == state)
                }
            }
        }
    }

    @Test func anAnswerThatNobodyWaitsForChangesNothing() {
        for state in Self.all where state != Self.sending && state != .flushing {
            for outcome in [Machine.Outcome.delivered, .refused, .failed(retryAfter: nil)] {
                var machine = Self.machine(in: state)
                let action = machine.exportEnded(outcome, waiting: 3, isFull: true, jitter: 0, now: Self.at(2))
                #expect(action == .none)
                #expect(machine.state == state)
            }
        }
    }

    @Test func afterADeliveryTheNextBatchGoesAtOnceWhereItIsFull() {
        for (waiting, isFull, expected, state) in [
            (0, false, .none, .idle), (3, false, .wait(until: Self.at(3)), .gathering),
            (512, true, .sendNext, .sending(attempt: 1, since: Self.at(2))),
        ] as [(Int, Bool, Machine.Action, Machine.State)] {
            var machine = Self.machine(in: Self.sending)
            let action = machine.exportEnded(.delivered, waiting: waiting, isFull: isFull, jitter: 0, now: Self.at(2))
            #expect(action == expected)
            #expect(machine.state == state)
        }
    }

    @Test func whatIsRefusedIsDroppedAndTheNextGoesOn() {
        for (waiting, isFull, expected) in [
            (0, false, .drop(thenWaitUntil: nil)), (3, false, .drop(thenWaitUntil: Self.at(3))), (512, true, .dropAndSendNext),
        ] as [(Int, Bool, Machine.Action)] {
            var machine = Self.machine(in: Self.sending)
            let action = machine.exportEnded(.refused, waiting: waiting, isFull: isFull, jitter: 0, now: Self.at(2))
            #expect(action == expected)
        }
    }

    @Test func whatFailsIsSentAgainLaterAndLaterAndThenDropped() {
        var machine = Self.machine(in: Self.sending)
        var now = 0.0
        var pauses: [Double] = []
        for attempt in 1...4 {
            let action = machine.exportEnded(.failed(retryAfter: nil), waiting: 9, isFull: false, jitter: 0, now: Self.at(now))
            guard case .wait(let until) = action else { return #expect(Bool(false), "\(attempt): \(action)") }
            pauses.append(Double((until - Self.at(now)).wholeNanoseconds) / 1e9)
            now = Double(until.nanoseconds) / 1e9
            let again = machine.timerFired(waiting: 9, now: until)
            #expect(again == .sendAgain)
        }
        #expect(pauses == [1, 2, 4, 8])
        let last = machine.exportEnded(.failed(retryAfter: nil), waiting: 9, isFull: true, jitter: 0, now: Self.at(now))
        #expect(last == .drop(thenWaitUntil: Self.at(now + 16)))
        #expect(machine.state == .holding)
        // Nothing hurries a collector that is down.
        let hurry = machine.spansCame(isFull: true, now: Self.at(now + 1))
        #expect(hurry == .none)
        let next = machine.timerFired(waiting: 9, now: Self.at(now + 16))
        #expect(next == .sendNext)
    }

    @Test func aPauseIsShortenedByAtMostAQuarter() {
        for (jitter, seconds) in [(0.0, 1.0), (0.5, 0.875), (1, 0.75)] {
            var machine = Self.machine(in: Self.sending)
            let action = machine.exportEnded(.failed(retryAfter: nil), waiting: 0, isFull: false, jitter: jitter, now: Self.at(0))
            #expect(action == .wait(until: Self.at(seconds)))
        }
    }

    /// What the collector asks for is kept to; where the batch would grow too old for it, the batch goes, and not the wait.
    @Test(arguments: [
        (0.0, SpanExportMachine.Action.wait(until: at(2.75))), (7, .wait(until: at(9))), (58, .wait(until: at(60))),
        (58.5, .drop(thenWaitUntil: at(60.5))), (299, .drop(thenWaitUntil: at(301))), (300, .drop(thenWaitUntil: at(302))),
        (301, .drop(thenWaitUntil: at(302))), (1e6, .drop(thenWaitUntil: at(302))),
    ])
    func retryAfterIsHonoured(seconds: Double, expected: SpanExportMachine.Action) {
        var machine = Self.machine(in: Self.sending)
        let action = machine.exportEnded(
            .failed(retryAfter: .nanoseconds(Int64(seconds * 1e9))), waiting: 0, isFull: false, jitter: 1, now: Self.at(2))
        #expect(action == expected)
    }

    @Test func aFlushSendsWhatThereIsOnceAndEnds() {
        for state in Self.all {
            for waiting in [0, 2] {
                var machine = Self.machine(in: state)
                let action = machine.flush(waiting: waiting)
                switch state {
                case .idle, .gathering, .holding: #expect(action == (waiting > 0 ? .sendNext : .finish))
                case .pausing: #expect(action == .sendAgain)
                case .sending, .flushing, .ended: #expect(action == .none)
                }
                if state != .ended { #expect(machine.state == (action == .finish ? .ended : .flushing)) }
            }
        }
        for (outcome, waiting, expected) in [
            (.delivered, 2, .sendNext), (.delivered, 0, .finish), (.refused, 2, .finish), (.failed(retryAfter: nil), 2, .finish),
        ] as [(Machine.Outcome, Int, Machine.Action)] {
            var machine = Self.machine(in: .flushing)
            let action = machine.exportEnded(outcome, waiting: waiting, isFull: false, jitter: 0, now: Self.at(1))
            #expect(action == expected)
        }
    }

    @Test func theDeadlineOfAFlushEndsItInEveryState() {
        for state in Self.all {
            var machine = Self.machine(in: state)
            let action = machine.flushDeadlinePassed()
            #expect(action == (state == .ended ? .none : .finish))
            #expect(machine.state == .ended)
        }
    }
}
