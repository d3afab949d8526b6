import Foundation
import Glibc
import JanuarySimulator
import TestSupport
import Testing

/// Three replicas behind a proxy, restarted one after the other while apps mint: no app notices.
@Suite(.serialized) struct RollingRestartTests {
    enum Program: String, CaseIterable, Sendable {
        case nginx, haproxy

        var path: String { "/usr/sbin/\(rawValue)" }
        static var installed: [Program] { allCases.filter { FileManager.default.isExecutableFile(atPath: $0.path) } }
    }

    private static let restarts = 20

    @Test(.enabled(if: !Program.installed.isEmpty, "neither nginx nor HAProxy is installed"), arguments: Program.installed)
    func twentyRestartsUnderLoadFailNoRequest(program: Program) async throws {
        try await onOwnThread {
            let group = try Replicas(program)
            let load = MintLoad(port: group.proxyPort, sessions: try (0..<6).map { try group.session("user-\($0)") })
            for round in 0..<Self.restarts {
                let before = load.counts.good
                try group.eventually("no mints: \(load.counts.bad)") { load.counts.good >= before + 30 }
                try group.restart(round % 3)
            }
            let counts = load.stop()
            #expect(counts.bad == [])
            #expect(counts.good > Self.restarts * 30)
        }
    }

    private final class Replicas {
        let simulator: Simulator
        let proxyPort: UInt16
        private let program: Program
        private let folder: String
        private var ports: [(listen: UInt16, management: UInt16)] = []
        private var servers: [Child] = []
        private let proxy = Process()

        init(_ program: Program) throws {
            self.program = program
            var configuration = Simulator.Configuration()
            configuration.algorithms = [.es256]
            simulator = try Simulator(configuration)
            try simulator.start()
            folder = FileManager.default.temporaryDirectory.appending(path: "january-rolling-\(UUID().uuidString)").path + "/"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try ServerScenario.write(folder + "api_key", SimulatorSettings.developmentKey)
            proxyPort = try LoopbackListener.freePort()
            for index in 0..<3 {
                let (listen, management) = (try LoopbackListener.freePort(), try LoopbackListener.freePort())
                ports.append((listen, management))
                let text = ServerScenario.configuration(simulator)
                    .replacing(
                        "listen: \"127.0.0.1:0\"\nmanagement: { listen: \"127.0.0.1:0\" }",
                        with: """
                            listen: "127.0.0.1:\(listen)"
                            management: { listen: "127.0.0.1:\(management)" }
                            http: { loops: 1 }
                            """
                    )
                    .replacing("delay_seconds: 0", with: "delay_seconds: 1")
                try ServerScenario.write(folder + "\(index).yaml", text)
                servers.append(try start(index))
            }
            let file = folder + "proxy.conf"
            try Data((program == .nginx ? nginx() : haproxy()).utf8).write(to: URL(filePath: file))
            proxy.executableURL = URL(filePath: program.path)
            proxy.arguments = program == .nginx ? ["-c", file, "-p", folder, "-e", folder + "error.log"] : ["-f", file]
            proxy.standardOutput = FileHandle.nullDevice
            proxy.standardError = FileHandle.nullDevice
            try proxy.run()
            try eventually("the proxy does not answer") { (try? self.get(proxyPort))?.hasPrefix("HTTP/1.1 200 ") == true }
        }

        deinit {
            if proxy.isRunning {
                kill(proxy.processIdentifier, SIGKILL)
                proxy.waitUntilExit()
            }
            simulator.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }

        /// What was never sent may go to another replica; what was sent never. What it does not use it closes before the endpoint does, as in
        /// `deploy/nginx`: a request never crosses a close.
        private func nginx() -> String {
            """
            daemon off; master_process off; pid \(folder)pid; error_log \(folder)error.log;
            events { worker_connections 256; }
            http {
              access_log off;
              client_body_temp_path \(folder)body; proxy_temp_path \(folder)proxy;
              fastcgi_temp_path \(folder)f; uwsgi_temp_path \(folder)u; scgi_temp_path \(folder)s;
              upstream january {
                \(ports.map { "server 127.0.0.1:\($0.listen) max_fails=1 fail_timeout=1s;" }.joined(separator: " "))
                keepalive 16; keepalive_timeout 300ms;
              }
              server {
                listen 127.0.0.1:\(proxyPort);
                location / {
                  proxy_pass http://january; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_next_upstream error;
                }
              }
            }
            """
        }

        private func haproxy() -> String {
            """
            defaults
              mode http
              timeout connect 1s
              timeout client 20s
              timeout server 20s
              retries 3
              option redispatch 1
            frontend apps
              bind 127.0.0.1:\(proxyPort)
              default_backend january
            backend january
              option httpchk GET /healthz
              http-check expect status 200
              default-server inter 100ms fall 1 rise 1
              \(ports.enumerated().map { "server s\($0) 127.0.0.1:\($1.listen) check" }.joined(separator: "\n  "))

            """
        }

        func session(_ subject: String) throws -> String {
            try simulator.session(SessionOrder(subject: subject, audience: ["app"]))
        }

        private func get(_ port: UInt16, _ path: String = "/healthz") throws -> String {
            let client = try RawClient(port: port, receiveTimeoutSeconds: 20)
            try client.send("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
            return try client.receiveResponses().joined()
        }

        private func start(_ index: Int) throws -> Child {
            let server = try Child(["serve", "--config", folder + "\(index).yaml"])
            _ = try server.logLine("listening")
            try eventually("not ready") {
                (try? self.get(ports[index].management, "/readyz"))?.hasPrefix("HTTP/1.1 200 ") == true
            }
            return server
        }

        func restart(_ index: Int) throws {
            servers[index].send(SIGTERM)
            let code = try servers[index].wait()
            #expect(code == 0)
            servers[index] = try start(index)
            // The next one must not go before the proxy knows that this one is back: after fail_timeout, or the next look.
            usleepMilliseconds(program == .nginx ? 1_200 : 500)
        }

        func eventually(_ what: @autoclosure () -> String, _ condition: () -> Bool) throws {
            let end = ContinuousClock.now + .seconds(20)
            while ContinuousClock.now < end {
                if condition() { return }
                usleepMilliseconds(10)
            }
            throw Child.Failure(what: what())
        }

    }
}
