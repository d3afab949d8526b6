import Foundation
import TestSupport
import Testing

/// A process that runs out of descriptors. In a child, because the limit is the whole process's.
@Suite(.serialized) struct DescriptorTests {
    private static let healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    /// Silent connections take all there are: one that asks for something is served, in the place of the one that was silent longest.
    @Test func silentConnectionsThatUseUpAllDescriptorsKeepNobodyOut() async throws {
        try await ServerScenario.run(shell: "ulimit -n 64; exec \"$@\"") { scenario in
            try scenario.becomesReady()
            let silent = try (0..<200).map { _ in try RawClient(port: scenario.port) }
            for _ in 0..<20 { #expect(try scenario.exchange(Self.healthz).hasPrefix("HTTP/1.1 200 ")) }
            let answer = try scenario.exchange(ServerScenario.mint(try scenario.session()))
            // With no descriptor left for January it may be refused, but it is answered.
            #expect(answer.hasPrefix("HTTP/1.1 "))
            #expect(try silent[0].receiveAll(allowingReset: true) == [])
            withExtendedLifetime(silent) {}
        }
    }

    /// When every connection is being served there is nobody to close: what is open is served, what waits is accepted later.
    @Test func connectionsThatAreBeingServedGoOnWhileAcceptingPauses() async throws {
        try await ServerScenario.run(shell: "ulimit -n 64; exec \"$@\"") { scenario in
            try scenario.becomesReady()
            // Their content is still to come: they cannot be closed in favour of others.
            let busy = try (0..<100).map { _ in
                let client = try RawClient(port: scenario.port, receiveTimeoutSeconds: 20)
                try client.send("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
                return client
            }
            let before = try Self.processorTicks(of: scenario.server.id)
            usleepMilliseconds(1000)
            let used = try Self.processorTicks(of: scenario.server.id) - before
            // A hundredth of a second each; a loop that spins takes a hundred in a second.
            #expect(used < 50)
            // Each that is finished makes room for one that waits.
            for client in busy {
                try client.send("x")
                #expect(try client.receiveResponses()[0].hasPrefix("HTTP/1.1 200 "))
                client.reset()
            }
        }
    }

    private static func processorTicks(of process: pid_t) throws -> Int {
        let text = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        let fields = (text.split(separator: ")").last ?? "").split(separator: " ")
        return (Int(fields[11]) ?? 0) + (Int(fields[12]) ?? 0)
    }
}
