import EventLoop
import Primitives
import Redis

/// Writes that count as done when they are on Redis's disk (WAITAOF). Redis answers nothing else on a connection that waits for that, so they have
/// connections of their own, and those that come while all of these wait go together, with one wait for all of them: with `appendfsync
/// everysec` Redis syncs once a second, whatever is asked.
///
/// Confined to the loop of its clients.
final class DurableWrites {
    typealias Completion = (Result<(reply: RedisReply, isOnDisk: Bool), RedisError>) -> Void

    private struct Write {
        let call: RedisScriptCall
        let completion: Completion
    }

    private final class Lane {
        let client: RedisClient
        var isBusy = false
        init(_ client: RedisClient) { self.client = client }
    }

    static let maxWaiting = 1024
    static let maxTogether = 128
    /// For one batch; a write that waits for a lane waits at most as long again.
    private static let callTimeout = Duration.seconds(2)
    private static let waitForDisk = RedisCommand(words: ["WAITAOF", "1", "0", "1500"])

    private let loop: EventLoop
    private let script: RedisScript
    private let lanes: [Lane]
    private var waiting: [Write] = []

    /// - Parameter clients: one connection each.
    init(loop: EventLoop, script: RedisScript, clients: [RedisClient]) {
        self.loop = loop
        self.script = script
        lanes = clients.map(Lane.init)
    }

    /// `completion`: exactly once, on the loop.
    func submit(_ call: RedisScriptCall, completion: @escaping Completion) {
        loop.assertCurrent()
        guard waiting.count < Self.maxWaiting else { return completion(.failure(.tooManyWaiting)) }
        waiting.append(Write(call: call, completion: completion))
        send()
    }

    private func send() {
        while !waiting.isEmpty, let lane = lanes.first(where: { !$0.isBusy }) {
            let batch = Array(waiting.prefix(Self.maxTogether))
            waiting.removeFirst(batch.count)
            lane.isBusy = true
            lane.client.run(
                script, calls: batch.map(\.call), followedBy: Self.waitForDisk, deadline: loop.now + Self.callTimeout
            ) { [self] result in
                lane.isBusy = false
                finish(batch, result)
                send()
            }
        }
    }

    private func finish(_ batch: [Write], _ result: Result<[(reply: RedisReply, next: RedisReply)], RedisError>) {
        switch result {
        case .failure(let error): for write in batch { write.completion(.failure(error)) }
        case .success(let replies):
            for (write, (reply, waited)) in zip(batch, replies) {
                if let error = reply.error {
                    write.completion(.failure(.server(error)))
                } else {
                    write.completion(.success((reply, waited.array?.first?.integer == 1)))
                }
            }
        }
    }
}
