import Foundation
import JanuarySimulator
import Primitives
import TestSupport
import Testing

/// Many at once. A few threads play all clients: each sends on all its connections before it reads from any.
@Suite(.serialized)
struct LoadTests {
    private static let threads = 4

    struct Tally: Sendable {
        var minted = 0
        var broken = 0
        /// Whatever must not be, as text.
        var wrong: [String] = []

        mutating func add(_ response: String, user: String) {
            guard let answer = try? EndpointFixture.parse(response) else { return wrong.append(response) }
            switch (answer.status, answer.code) {
            case (201, _) where answer.json["end_user_id"] as? String == user: minted += 1
            // January closed the connection in the instant a request was on its way.
            case (503, "january_unavailable") where answer.fields["january-request-id"] == nil: broken += 1
            default: wrong.append("\(user): \(response)")
            }
        }

        static func + (left: Tally, right: Tally) -> Tally {
            Tally(minted: left.minted + right.minted, broken: left.broken + right.broken, wrong: left.wrong + right.wrong)
        }
    }

    /// Sends `rounds` times one request for each of `pipelined` users on each connection, then reads all answers.
    private static func run(
        _ fixture: EndpointFixture, thread: Int, connections: Int, rounds: Int, pipelined: Int,
        session: (_ user: String) throws -> String
    ) throws -> Tally {
        let clients = try (0..<connections).map { _ in try RawClient(port: fixture.port, receiveTimeoutSeconds: 60) }
        var tally = Tally()
        for round in 0..<rounds {
            var users: [[String]] = []
            for (index, client) in clients.enumerated() {
                let names = (0..<pipelined).map { "user-\(thread)-\(index)-\(round % 16)-\($0)" }
                users.append(names)
                try client.send(try names.map { EndpointFixture.mintRequest(try session($0)) }.joined())
            }
            for (client, names) in zip(clients, users) {
                for (response, user) in zip(try client.receiveResponses(names.count), names) { tally.add(response, user: user) }
            }
        }
        return tally
    }

    private static func runAll(
        _ fixture: EndpointFixture, connections: Int, rounds: Int, pipelined: Int
    ) async throws -> Tally {
        let threads = Self.threads
        return try await withThrowingTaskGroup(of: Tally.self) { group in
            for thread in 0..<threads {
                let share = connections / threads + (thread < connections % threads ? 1 : 0)
                group.addTask {
                    try await onOwnThread {
                        var sessions: [String: String] = [:]
                        return try run(fixture, thread: thread, connections: share, rounds: rounds, pipelined: pipelined) {
                            if let session = sessions[$0] { return session }
                            let session = try fixture.session($0)
                            sessions[$0] = session
                            return session
                        }
                    }
                }
            }
            return try await group.reduce(Tally(), +)
        }
    }

    @Test
    func everyTokenOf200UsersAtOnceBelongsToItsUser() async throws {
        let fixture = try await EndpointFixture()
        // January answers none before all 50 connections have asked.
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint, times: 50))
        async let result = Self.runAll(fixture, connections: 50, rounds: 1, pipelined: 4)
        try await fixture.awaitMintsReceived(50)
        fixture.simulator.release()
        let tally = try await result
        #expect(tally.wrong == [])
        #expect(tally.minted == 200)
        #expect(fixture.mintsReceived == 200)
        let owners = fixture.simulator.requests(of: .mint).compactMap { $0.json?.object?["end_user_id"]?.string }
        #expect(Set(owners).count == 200)
        let mismatches = try await fixture.metric("user_header_mismatch_total")
        #expect(mismatches == 0)
    }

    /// `JANUARY_LOAD_MINTS`: how many; 20,000 where time does not matter.
    private static var mints: Int {
        ProcessInfo.processInfo.environment["JANUARY_LOAD_MINTS"].flatMap(Int.init) ?? 1_600
    }

    @Test
    func connectionsThatJanuaryClosesAtRandomCauseNoFailureThatIsNotJanuarys() async throws {
        let fixture = try await EndpointFixture()
        fixture.simulator.addFault(
            FaultRule(.idleClose(after: .zero ... .milliseconds(4)), on: .mint, times: nil, probability: 0.3), seed: 7)
        fixture.simulator.addFault(
            FaultRule(.idleClose(after: .zero ... .milliseconds(4), withReset: true), on: .mint, times: nil, probability: 0.2),
            seed: 8)
        let connections = 32
        let rounds = (Self.mints + connections - 1) / connections
        let tally = try await Self.runAll(fixture, connections: connections, rounds: rounds, pipelined: 1)
        // A few requests cross a close on the wire, which nobody can see coming; most do not.
        #expect(tally.broken * 4 <= connections * rounds)
        let counts = fixture.simulator.counts(of: .mint)
        #expect(tally.wrong == [])
        #expect(tally.minted + tally.broken == connections * rounds)
        // What broke was never read by January, and nothing was sent twice: a token for each 201 and not one more.
        #expect(counts.committed == tally.minted)
        #expect(counts.received == tally.minted)
        let undelivered = try await fixture.metric("undelivered_tokens_total")
        #expect(undelivered == 0)
    }
}
