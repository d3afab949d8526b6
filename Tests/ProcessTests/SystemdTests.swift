import Foundation
import Glibc
import JanuarySimulator
import Primitives
import TestSupport
import Testing

/// The real server under a service manager: its messages, its watchdog, its sockets.
@Suite(.serialized) struct SystemdTests {
    /// What systemd does between fork and exec.
    private static let activated = #"LISTEN_PID=$$ exec "$@""#

    @Test(arguments: [false, true])
    func theManagerIsToldEveryStep(isAbstract: Bool) async throws {
        let socket = try NotifySocket(isAbstract: isAbstract)
        try await ServerScenario.run(environment: ["NOTIFY_SOCKET": socket.name]) { scenario in
            #expect(try socket.receive() == "READY=1\nSTATUS=serving\n")
            for isGood in [true, false] {
                // It waits for the end of a reload whatever that comes to.
                if !isGood { try scenario.write("config.yaml", "nonsense: true\n") }
                let before = Self.monotonicMicroseconds()
                scenario.server.send(SIGHUP)
                let reloading = try socket.receive()
                #expect(reloading.hasPrefix("RELOADING=1\nMONOTONIC_USEC="))
                let stamp = Int(reloading.split(separator: "=").last?.filter(\.isNumber) ?? "") ?? 0
                #expect(stamp >= before && stamp <= Self.monotonicMicroseconds())
                #expect(try socket.receive() == "READY=1\nSTATUS=serving\n")
            }
            scenario.server.send(SIGTERM)
            #expect(try socket.receive() == "STOPPING=1\nSTATUS=draining\n")
            #expect(try scenario.server.wait() == 0)
        }
    }

    @Test func theWatchdogHearsFromItTwiceInItsTime() async throws {
        let socket = try NotifySocket(isAbstract: true)
        try await ServerScenario.run(environment: ["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "400000"]) { scenario in
            let begin = ContinuousClock.now
            for _ in 0..<6 { _ = try socket.receive("WATCHDOG=1") }
            let took = ContinuousClock.now - begin
            // Five intervals of half its time, give or take the first.
            #expect(took >= .milliseconds(600))
            // A process that is stopped says nothing.
            scenario.server.send(SIGSTOP)
            while (try? socket.receive(within: 50)) != nil {}
            #expect(throws: NotifySocket.Failure.self) { try socket.receive(within: 900) }
            scenario.server.send(SIGCONT)
            let again = try socket.receive("WATCHDOG=1")
            #expect(again == "WATCHDOG=1\n")
        }
    }

    /// Names, and whether the management listener gets one of the sockets.
    @Test func inheritedSocketsAreServedByTheirNames() async throws {
        let (first, second) = (try PassedSocket(), try PassedSocket())
        try await ServerScenario.run(
            {
                $0 = $0.replacing(
                    "listen: \"127.0.0.1:0\"\nmanagement: { listen: \"127.0.0.1:0\" }",
                    with: """
                        listen: systemd
                        management: { listen: systemd, token_files: [token] }
                        state: "sqlite:state.db"
                        """)
            },
            environment: ["LISTEN_FDS": "2", "LISTEN_FDNAMES": "management:web"], shell: Self.activated,
            files: ["token": String(repeating: "t", count: 32)], inherited: [first.descriptor, second.descriptor]
        ) { scenario in
            #expect(scenario.managementPort == first.port && scenario.port == second.port)
            let answer = try scenario.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
            #expect(try scenario.get("/healthz").hasPrefix("HTTP/1.1 200 "))
            // Where the socket listens is not in the configuration, so it is guarded like one that is reachable from outside.
            #expect(try scenario.get("/metrics").hasPrefix("HTTP/1.1 401 "))
        }
    }

    /// The environment, and what is said about it.
    @Test(arguments: [
        ([:], "listen: systemd: no sockets were passed to this process"),
        (["LISTEN_FDS": "0"], "listen: systemd: no sockets were passed to this process"),
        (["LISTEN_FDS": "1", "LISTEN_PID": "1"], "listen: systemd: the sockets in LISTEN_FDS are for another process"),
        (["LISTEN_FDS": "1"], "listen: systemd: the sockets in LISTEN_FDS are for another process"),
        (["LISTEN_FDS": "1", "OURS": "1"], "listen: systemd: descriptor 3 is not a stream socket that listens"),
    ])
    func withoutSocketsTheStartIs69(environment: [String: String], message: String) async throws {
        try await onOwnThread {
            let variables = environment.merging([
                "JANUARY_API_KEY": SimulatorSettings.developmentKey, "LISTEN": "systemd", "MANAGEMENT_LISTEN": "off",
                "FEATURES": "food_search", "AUTH_PROVIDER": "oidc", "OIDC_ISSUER": "http://127.0.0.1:1", "OIDC_AUDIENCE": "a",
            ]) { first, _ in first }
            let shell =
                environment["OURS"] == nil ? #"exec 3</dev/null; exec "$@""# : #"exec 3</dev/null; LISTEN_PID=$$ exec "$@""#
            let finished = try Finished([], environment: variables, shell: shell)
            #expect(finished.code == 69)
            #expect(finished.errors.contains(message), "\(finished.errors)")
        }
    }

    /// The socket outlives the process: who connects in between waits for the next one.
    @Test func restartsBehindAnInheritedSocketLoseNoConnection() async throws {
        let socket = try PassedSocket()
        try await ServerScenario.run(
            {
                $0 = $0.replacing("listen: \"127.0.0.1:0\"\nmanagement", with: "listen: systemd\nmanagement").replacing(
                    "delay_seconds: 0", with: "delay_seconds: 15")
            },
            environment: ["LISTEN_FDS": "1", "LISTEN_FDNAMES": "january-token-endpoint.socket"], shell: Self.activated,
            inherited: [socket.descriptor]
        ) { scenario in
            try scenario.becomesReady()
            let load = MintLoad(
                port: socket.port, sessions: try (0..<8).map { try scenario.session("user-\($0)") }, keepsAlive: false)
            var server = scenario.server
            for _ in 0..<5 {
                let before = load.counts.good
                try scenario.eventually("no mints: \(load.counts.bad)") { load.counts.good >= before + 20 }
                let began = ContinuousClock.now
                server.send(SIGTERM)
                #expect(try server.wait() == 0)
                // Nothing has to learn that it goes: the delay is left out.
                #expect(ContinuousClock.now - began < .seconds(10))
                server = try Child(
                    ["serve", "--config", scenario.folder + "config.yaml"],
                    environment: ["LISTEN_FDS": "1", "LISTEN_FDNAMES": "january-token-endpoint.socket"],
                    shell: Self.activated, inherited: [socket.descriptor])
            }
            let before = load.counts.good
            try scenario.eventually("no mints: \(load.counts.bad)") { load.counts.good >= before + 20 }
            #expect(load.stop().bad == [])
            server.send(SIGTERM)
            #expect(try server.wait() == 0)
        }
    }

    /// Who comes before the keys are there waits for them, and is not told to come back.
    @Test func nobodyIsAcceptedFromAnInheritedSocketBeforeTheKeysAreThere() async throws {
        let socket = try PassedSocket()
        let environment = ["LISTEN_FDS": "1", "LISTEN_FDNAMES": "january-token-endpoint.socket"]
        try await ServerScenario.run(
            { $0 = $0.replacing("listen: \"127.0.0.1:0\"\nmanagement", with: "listen: systemd\nmanagement") },
            environment: environment, shell: Self.activated, inherited: [socket.descriptor]
        ) { scenario in
            try scenario.becomesReady()
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
            let client = try RawClient(port: socket.port, receiveTimeoutSeconds: 20)
            try client.send(ServerScenario.mint(try scenario.session(), closes: true))
            var fault = Fault()
            fault.content.refusal = Fault.Refusal(status: 500, code: "internal")
            scenario.simulator.addFault(FaultRule(fault, on: .keySet, times: 1))
            let next = try Child(
                ["serve", "--config", scenario.folder + "config.yaml"], environment: environment, shell: Self.activated,
                inherited: [socket.descriptor])
            let answer = try client.receiveResponses().joined()
            #expect(answer.hasPrefix("HTTP/1.1 201 "), "\(answer)\(next.output)")
            #expect(next.output.contains("key set could not be loaded"))
            next.send(SIGTERM)
            #expect(try next.wait() == 0)
        }
    }

    /// It is said, and the wait for keys ends.
    @Test func withoutKeysItAcceptsAfterAWhileAndASocketThatNobodyTakesIsNamed() async throws {
        let (first, second) = (try PassedSocket(), try PassedSocket())
        try await onOwnThread {
            let variables = [
                "LISTEN_FDS": "2", "LISTEN_FDNAMES": "public:management", "LISTEN": "systemd", "MANAGEMENT_LISTEN": "off",
                "JANUARY_API_KEY": SimulatorSettings.developmentKey, "FEATURES": "food_search", "AUTH_PROVIDER": "oidc",
                "OIDC_ISSUER": "http://127.0.0.1:1", "OIDC_AUDIENCE": "a",
            ]
            let began = ContinuousClock.now
            let server = try Child(
                [], environment: variables, shell: Self.activated, inherited: [first.descriptor, second.descriptor])
            let client = try RawClient(port: first.port, receiveTimeoutSeconds: 20)
            try client.send("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(try client.receiveResponses().joined().hasPrefix("HTTP/1.1 200 "))
            // It has waited for keys until then.
            #expect(ContinuousClock.now - began > .seconds(4))
            let warnings = server.logLines("the configuration is accepted with a warning").compactMap { $0["warning"] as? String }
            #expect(
                warnings.contains {
                    $0.contains(#"nobody accepts from the socket "management" that this process was started with"#)
                }, "\(warnings)")
            server.send(SIGTERM)
            #expect(try server.wait() == 0)
        }
    }

    private static func monotonicMicroseconds() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }
}

/// A listening socket that belongs to somebody else, as a socket unit's.
private final class PassedSocket: Sendable {
    let descriptor: Int32
    let port: UInt16

    init() throws {
        // Far from the numbers that the child gets them as.
        let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let descriptor = fcntl(raw, F_DUPFD_CLOEXEC, 100)
        self.descriptor = descriptor
        close(raw)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 128) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard result else { throw Child.Failure(what: "socket: \(String(cString: strerror(errno)))") }
        port = UInt16(bigEndian: address.sin_port)
    }

    deinit { close(descriptor) }
}
