import JanuarySimulator
import Primitives
import TestSupport
import Testing

/// What cannot be answered inside the budget is refused at once. January's times are played by moving the clock, so every figure is exact.
@Suite(.serialized)
struct OverloadTests {
    private static let hold = FaultRule(.disrupted(.holdBeforeCommit), on: .mint)

    private static func fixture(connections: Int, more: String = "") async throws -> EndpointFixture {
        try await EndpointFixture(january: "max_connections: \(connections)", more: more, isTimeFrozen: true)
    }

    /// A mint that January answers after `time`.
    private static func mint(_ fixture: EndpointFixture, taking time: Duration, _ user: String) async throws {
        let before = fixture.mintsReceived
        fixture.simulator.addFault(hold)
        async let answer = fixture.mint(try fixture.session(user))
        try await fixture.awaitMintsReceived(before + 1)
        await fixture.advance(by: time)
        fixture.simulator.release()
        let status = try await answer.status
        #expect(status == 201)
    }

    /// Keeps `count` connections busy: the answers come when the simulator releases them.
    private static func occupy(
        _ fixture: EndpointFixture, _ count: Int, _ group: inout ThrowingTaskGroup<Int, any Error>
    ) async throws {
        let before = fixture.mintsReceived
        fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint, times: count))
        for index in 0..<count {
            let session = try fixture.session("busy-\(index)")
            group.addTask { try await fixture.mint(session).status }
        }
        try await fixture.awaitMintsReceived(before + count)
    }

    private static func wait(
        _ fixture: EndpointFixture, _ user: String, _ group: inout ThrowingTaskGroup<Int, any Error>
    ) async throws {
        let session = try fixture.session(user)
        let before = try await fixture.metric("mints_waiting")
        group.addTask { try await fixture.mint(session).status }
        try await fixture.awaitMetric("mints_waiting", before + 1)
    }

    /// The third of three that come while January needs more than half the budget cannot be answered in time, and is told so at once.
    @Test func whatCannotBeAnsweredInTimeIsRefusedAtOnce() async throws {
        let fixture = try await Self.fixture(connections: 2)
        try await Self.mint(fixture, taking: .seconds(5), "first")
        try await withThrowingTaskGroup(of: Int.self) { group in
            try await Self.occupy(fixture, 2, &group)
            let refused = try await fixture.mint(try fixture.session("third"))
            #expect(refused.status == 503 && refused.code == "overloaded")
            #expect((1...30).contains(try #require(refused.fields["retry-after"].flatMap(Int.init))))
            let line = try await fixture.requestLine(of: refused)
            #expect(line["reason"]?.string == "no_time_left" && line["code"]?.string == "overloaded")
            let count = try await fixture.metric("overloaded_total")
            #expect(count == 1)
            let service = try await fixture.metric("january_service_seconds")
            #expect(service == 5)
            #expect(fixture.mintsReceived == 3)
            fixture.simulator.release()
            for try await status in group { #expect(status == 201) }
        }
        // As soon as a connection is free the next one is sent, whatever was measured.
        let next = try await fixture.mint(try fixture.session("third"))
        #expect(next.status == 201)
    }

    /// Measured quick, a mint waits for its turn; not measured, one may wait for each connection.
    @Test(arguments: [(measured: true, waiting: 5), (measured: false, waiting: 2)])
    func whoCanBeAnsweredInTimeWaits(measured: Bool, waiting: Int) async throws {
        let fixture = try await Self.fixture(connections: 2)
        if measured { try await Self.mint(fixture, taking: .milliseconds(100), "first") }
        try await withThrowingTaskGroup(of: Int.self) { group in
            try await Self.occupy(fixture, 2, &group)
            for index in 0..<waiting { try await Self.wait(fixture, "waiting-\(index)", &group) }
            if !measured {
                let refused = try await fixture.mint(try fixture.session("one-more"))
                #expect(refused.code == "overloaded")
            }
            fixture.simulator.release()
            for try await status in group { #expect(status == 201) }
        }
        try await fixture.awaitMetric("mints_waiting", 0)
    }

    /// January hangs: the longer nothing comes, the less can still be answered, and who comes then hears it at once.
    @Test func whileJanuaryHangsTheNextOneIsRefusedAtOnce() async throws {
        let fixture = try await Self.fixture(connections: 1)
        try await Self.mint(fixture, taking: .milliseconds(100), "first")
        try await withThrowingTaskGroup(of: Int.self) { group in
            try await Self.occupy(fixture, 1, &group)
            await fixture.advance(by: .milliseconds(7_600))
            let refused = try await fixture.mint(try fixture.session("third"))
            #expect(refused.status == 503 && refused.code == "overloaded")
            fixture.simulator.release()
            for try await status in group { #expect(status == 201) }
        }
    }

    /// January has become slow while somebody waited: a mint that would be answered too late is not made.
    @Test func aMintWhoseTurnComesTooLateIsNotSent() async throws {
        let fixture = try await Self.fixture(connections: 1)
        for index in 0..<8 { try await Self.mint(fixture, taking: .milliseconds(100), "quick-\(index)") }
        try await withThrowingTaskGroup(of: Int.self) { group in
            try await Self.occupy(fixture, 1, &group)
            let session = try fixture.session("late")
            async let late = fixture.mint(session)
            try await fixture.awaitMetric("mints_waiting", 1)
            await fixture.advance(by: .milliseconds(7_400))
            fixture.simulator.release()
            for try await status in group { #expect(status == 201) }
            let answer = try await late
            #expect(answer.status == 504 && answer.code == "january_timeout")
            let line = try await fixture.requestLine(of: answer)
            #expect(line["reason"]?.string == "turn_came_too_late")
            #expect(fixture.mintsReceived == 9)
        }
    }

    /// Who is turned away for load has used up nothing of what is theirs.
    @Test func aMintThatIsShedCostsNoLimit() async throws {
        let fixture = try await Self.fixture(
            connections: 1, more: "rate_limits: { per_address: false, per_session: { requests: 1, per_seconds: 3600, burst: 1 } }"
        )
        try await Self.mint(fixture, taking: .seconds(5), "first")
        let session = try fixture.session("shed")
        try await withThrowingTaskGroup(of: Int.self) { group in
            try await Self.occupy(fixture, 1, &group)
            for _ in 0..<3 {
                let refused = try await fixture.mint(session)
                #expect(refused.code == "overloaded")
            }
            fixture.simulator.release()
            for try await status in group { #expect(status == 201) }
        }
        let minted = try await fixture.mint(session)
        #expect(minted.status == 201)
        let limited = try await fixture.mint(session)
        #expect(limited.code == "rate_limited")
    }

    /// Not one instant for all.
    @Test func whoIsShedIsToldDifferentTimes() async throws {
        let fixture = try await EndpointFixture(january: "max_in_flight: 1")
        fixture.simulator.addFault(Self.hold)
        let session = try fixture.session("first")
        async let first = fixture.mint(session)
        try await fixture.awaitMintsReceived(1)
        var told: Set<Int> = []
        // Three values, each with a third of the draws.
        for _ in 0..<60 where told.count < 3 {
            let refused = try await fixture.mint(session)
            #expect(refused.code == "overloaded")
            told.insert(try #require(refused.fields["retry-after"].flatMap(Int.init)))
        }
        #expect(told.count >= 3 && told.allSatisfy { (1...30).contains($0) })
        fixture.simulator.release()
        let status = try await first.status
        #expect(status == 201)
    }

    /// Ten times what January can take at once, while it needs a quarter of the budget: as many are served as connections and two rounds behind
    /// them, the rest is refused, and when the rush is over nothing is left behind.
    @Test func tenTimesOverloadIsServedAsFarAsItGoesAndNothingIsLeftBehind() async throws {
        let fixture = try await Self.fixture(connections: 4)
        // Often enough that there is no doubt about it.
        for index in 0..<6 { try await Self.mint(fixture, taking: .seconds(2), "before-\(index)") }
        var statuses: [Int: Int] = [:]
        for round in 0..<3 {
            let before = fixture.mintsReceived
            try await withThrowingTaskGroup(of: Int.self) { group in
                try await Self.occupy(fixture, 4, &group)
                for index in 0..<8 { try await Self.wait(fixture, "waiting-\(round)-\(index)", &group) }
                for index in 0..<28 {
                    let refused = try await fixture.mint(try fixture.session("refused-\(round)-\(index)"))
                    statuses[refused.status, default: 0] += 1
                    #expect(refused.code == "overloaded")
                }
                for answered in [8, 12] {
                    fixture.simulator.addFault(FaultRule(.disrupted(.holdBeforeCommit), on: .mint, times: 4))
                    await fixture.advance(by: .seconds(2))
                    fixture.simulator.release()
                    try await fixture.awaitMintsReceived(before + answered)
                }
                await fixture.advance(by: .seconds(2))
                fixture.simulator.release()
                for try await status in group { statuses[status, default: 0] += 1 }
            }
        }
        #expect(statuses == [201: 36, 503: 84])
        #expect(fixture.simulator.counts(of: .mint).committed == 42)
        try await fixture.awaitMetric("in_flight", 0)
        try await fixture.awaitMetric("mints_waiting", 0)
        let shed = try await fixture.metric("overloaded_total")
        #expect(shed == 84)
    }
}
