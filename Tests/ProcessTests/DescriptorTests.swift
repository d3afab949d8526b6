import Foundation
import TestSupport
import Testing

/// A process that runs out of descriptors. In a child, because the limit is the whole process's.
///
/// The public listener accepts no more than fit below the limit; the management listener, whose own bound is above it, uses up the rest.
@Suite(.serialized) struct DescriptorTests {
    private static let healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    private static let limit = "ulimit -n 200; exec \"$@\""

    private static func run(_ body: @escaping @Sendable (ServerScenario) throws -> Void) async throws {
        try await ServerScenario.run(
            { $0 = $0.replacing("api_key_file: api_key,", with: "api_key_file: api_key, max_connections: 16,") }, shell: limit
        ) { scenario in
            try scenario.becomesReady()
            // With its connection to January, so that nothing has to be opened for the next one.
            let kept = try RawClient(port: scenario.port, receiveTimeoutSeconds: 20)
            try kept.send(ServerScenario.mint(try scenario.session()))
            #expect(try kept.receiveResponses()[0].hasPrefix("HTTP/1.1 201 "))
            try body(scenario)
            try kept.send(ServerScenario.mint(try scenario.session()))
            #expect(try kept.receiveResponses()[0].hasPrefix("HTTP/1.1 201 "))
        }
    }

    /// Whoever asks for something is served, in the place of the connection that was silent longest.
    @Test func silentConnectionsThatUseUpAllDescriptorsKeepNobodyOut() async throws {
        try await Self.run { scenario in
            let silent = try (0..<300).map { _ in try RawClient(port: scenario.managementPort) }
            for _ in 0..<20 {
                #expect(try scenario.exchange(Self.healthz, port: scenario.managementPort).hasPrefix("HTTP/1.1 200 "))
            }
            #expect(try silent[0].receiveAll(allowingReset: true) == [])
            withExtendedLifetime(silent) {}
        }
    }

    /// When every connection is being served there is nobody to close: what is open is served, what waits is accepted later.
    @Test func connectionsThatAreBeingServedGoOnWhileAcceptingPauses() async throws {
        try await Self.run { scenario in
            // Their content is still to come: they cannot be closed in favour of others.
            let busy = try (0..<250).map { _ in
                let client = try RawClient(port: scenario.managementPort, receiveTimeoutSeconds: 20)
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
