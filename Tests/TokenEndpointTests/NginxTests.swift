import Foundation
import TestSupport
import Testing

@testable import TokenEndpoint

/// The limit per address behind a real nginx, as its users configure it.
@Suite(.serialized) struct NginxTests {
    private static let program = "/usr/sbin/nginx"
    private static var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: program) }

    /// One nginx in a folder of its own, in the foreground; ended with this object.
    private final class Proxy {
        let port: UInt16
        private let process = Process()
        private let folder: URL

        /// - Parameter location: what stands beside `proxy_pass`.
        init(upstream: UInt16, location: String) throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("nginx-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            port = try LoopbackListener.freePort()
            let text = """
                daemon off; master_process off; pid \(folder.path)/pid; error_log \(folder.path)/error.log;
                events { worker_connections 64; }
                http {
                  access_log off;
                  client_body_temp_path \(folder.path)/body; proxy_temp_path \(folder.path)/proxy;
                  fastcgi_temp_path \(folder.path)/f; uwsgi_temp_path \(folder.path)/u; scgi_temp_path \(folder.path)/s;
                  server {
                    listen 127.0.0.1:\(port);
                    location / { proxy_pass http://127.0.0.1:\(upstream); proxy_http_version 1.1; \(location) }
                  }
                }
                """
            let file = folder.appendingPathComponent("nginx.conf")
            try Data(text.utf8).write(to: file)
            process.executableURL = URL(fileURLWithPath: program)
            process.arguments = ["-c", file.path, "-p", folder.path, "-e", folder.path + "/error.log"]
            try process.run()
        }

        deinit {
            // It inherits the blocked signals of the test's thread, SIGTERM among them.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            try? FileManager.default.removeItem(at: folder)
        }
    }

    private func statuses(
        _ fixture: EndpointFixture, _ proxy: Proxy, from source: String, fields: [String]
    ) async throws -> [Int] {
        var statuses: [Int] = []
        for field in fields {
            statuses.append(try await fixture.mint("bad", fields: [field], from: source, port: proxy.port).status)
        }
        return statuses
    }

    @Test(
        .enabled(if: isInstalled, "nginx is not installed"),
        arguments: [
            ("", "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", "X-Forwarded-For: 198.51.100."),
            // Both fields arrive; the one that is not configured is passed on as the client sent it.
            ("", "proxy_set_header X-Forwarded-For $remote_addr;", "Forwarded: for=198.51.100."),
            (
                "trusted_proxy_field: forwarded", "proxy_set_header Forwarded \"for=$remote_addr\";",
                "X-Forwarded-For: 198.51.100."
            ),
        ])
    func aForgedFieldDoesNotHelpBehindNginx(more: String, location: String, forged: String) async throws {
        let fixture = try await EndpointFixture(
            more: """
                trusted_proxies: [127.0.0.1]
                \(more)
                rate_limits:
                  per_address: { requests: 1, per_seconds: 600, burst: 6 }
                  per_session: false
                  per_end_user: false
                """)
        let proxy = try Proxy(upstream: fixture.port, location: location)
        try await eventually("nginx answers") {
            (try? await fixture.exchange("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", port: proxy.port))?
                .status == 200
        }
        let fields = (1...4).map { "\(forged)\($0)" }
        // Refused sessions count as three.
        #expect(try await statuses(fixture, proxy, from: "127.0.0.2", fields: fields) == [401, 401, 429, 429])
        #expect(try await statuses(fixture, proxy, from: "127.0.0.3", fields: fields) == [401, 401, 429, 429])
        #expect(try await fixture.metric("unconfigured_proxy_total") == 0)
    }
}
