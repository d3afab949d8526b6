import Foundation
import JanuarySimulator
import Primitives
import TestSupport

/// Clients that mint without a pause, each on a thread and a connection of its own, until they are told to stop.
final class MintLoad: Sendable {
    struct Counts: Sendable {
        var good = 0
        /// What was not a 201, the first few of them.
        var bad: [String] = []
    }

    private struct State {
        var counts = Counts()
        var isOver = false
        var running = 0
    }

    private let state = Lock(State())
    private let ended = Semaphore()

    /// - Parameters:
    ///   - keepsAlive: asks again on the same connection until the server closes it.
    ///   - sessions: one for each client.
    init(port: UInt16, sessions: [String], keepsAlive: Bool = true) {
        state.withLock { $0.running = sessions.count }
        for session in sessions {
            Thread.detachNewThread { [self] in
                run(port, session, keepsAlive)
                let isLast = state.withLock { state in
                    state.running -= 1
                    return state.running == 0
                }
                if isLast { ended.signal() }
            }
        }
    }

    var counts: Counts { state.withLock { $0.counts } }

    func stop() -> Counts {
        state.withLock { $0.isOver = true }
        ended.wait()
        return counts
    }

    private func run(_ port: UInt16, _ session: String, _ keepsAlive: Bool) {
        var client: RawClient?
        while !state.withLock({ $0.isOver }) {
            do {
                let connection = try client ?? RawClient(port: port, receiveTimeoutSeconds: 20)
                try connection.send(ServerScenario.mint(session, closes: !keepsAlive))
                let answer = try connection.receiveResponses().joined()
                client = keepsAlive && !answer.contains("\r\nConnection: close\r\n") ? connection : nil
                note(answer.hasPrefix("HTTP/1.1 201 ") ? nil : answer)
            } catch {
                client = nil
                note("\(error)")
            }
        }
    }

    private func note(_ failure: String?) {
        state.withLock { state in
            if let failure {
                if state.counts.bad.count < 5 { state.counts.bad.append(failure) }
            } else {
                state.counts.good += 1
            }
        }
    }
}
