import Foundation
import TestSupport

/// A real proxy with our file for it in `deploy/`, changed in nothing but addresses, ports and file names (and in what a test asks for),
/// in front of a relay in front of the endpoint. For one test thread.
final class DeployedProxy {
    enum Kind: String {
        case nginx, haproxy, caddy

        var program: String? {
            let folders = ["/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"]
            return folders.map { $0 + rawValue }.first { FileManager.default.isExecutableFile(atPath: $0) }
        }
        var isInstalled: Bool { program != nil }

        var file: String {
            switch self {
            case .nginx: "deploy/nginx/january.conf"
            case .haproxy: "deploy/haproxy/haproxy.cfg"
            case .caddy: "deploy/caddy/Caddyfile"
            }
        }
    }

    static let name = "api.acme.example"
    let relay: RecordingRelay
    let port: UInt16
    let folder: String
    private let process: Child

    /// - Parameter changes: texts of the file and what stands in their place; each must be there.
    init(_ kind: Kind, endpoint: UInt16, changes: [(String, String)] = []) throws {
        guard let program = kind.program else { throw Child.Failure(what: "\(kind) is not installed") }
        relay = try RecordingRelay(to: endpoint)
        port = try LoopbackListener.freePort()
        folder = FileManager.default.temporaryDirectory.appending(path: "january-proxy-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let identity = try TestCertificates.shared.get().issue("DNS:\(Self.name),DNS:localhost")
        try Data(identity.certificate).write(to: URL(filePath: folder + "acme.pem"))
        try Data(identity.privateKey).write(to: URL(filePath: folder + "acme.key"))
        try Data(identity.certificate + identity.privateKey).write(to: URL(filePath: folder + "both.pem"))
        try Data(TestCertificates.shared.get().authority).write(to: URL(filePath: folder + "ca.pem"))

        var text = try DeploymentTests.text(kind.file)
        var places: [(String, String)]
        switch kind {
        case .nginx:
            places = [
                ("listen 443 ssl http2", "listen 127.0.0.1:\(port) ssl http2"), ("/etc/ssl/acme", folder + "acme"),
                ("server 127.0.0.1:8787", "server 127.0.0.1:\(relay.port)"),
            ]
        case .haproxy:
            places = [
                ("bind :443", "bind 127.0.0.1:\(port)"), ("/etc/haproxy/acme.pem", folder + "both.pem"),
                ("127.0.0.1:8787", "127.0.0.1:\(relay.port)"),
            ]
        case .caddy:
            places = [
                ("\n\(Self.name) {", "\n\(Self.name):\(port), localhost:\(port) {\n\tbind 127.0.0.1"),
                ("/etc/ssl/acme", folder + "acme"),
                ("to 127.0.0.1:8787", "to 127.0.0.1:\(relay.port)"), ("admin off", "admin off\n\tauto_https disable_redirects"),
            ]
        }
        places += changes
        for (old, new) in places {
            guard text.contains(old) else { throw Child.Failure(what: "\(kind.file) has no \"\(old)\"") }
            text = text.replacing(old, with: new)
        }
        var arguments: [String]
        switch kind {
        case .nginx:
            // The rest of this nginx does what a file for tokens has to withstand: it caches, compresses and has pages for errors.
            text = """
                daemon off; master_process off; pid \(folder)pid; error_log \(folder)log;
                events { worker_connections 64; }
                http {
                access_log off; gzip on; gzip_proxied any; gzip_types application/json; gzip_min_length 1;
                client_body_temp_path \(folder)body; proxy_temp_path \(folder)proxy; fastcgi_temp_path \(folder)f;
                uwsgi_temp_path \(folder)u; scgi_temp_path \(folder)s;
                proxy_cache_path \(folder)cache keys_zone=all:1m; proxy_cache all; proxy_cache_methods GET HEAD POST;
                proxy_cache_valid any 10m; proxy_ignore_headers Cache-Control; proxy_intercept_errors on;
                error_page 401 403 429 502 503 504 /error.html;
                \(text)
                }
                """
            arguments = ["-p", folder, "-e", folder + "log", "-c", folder + "file"]
        case .haproxy: arguments = ["-db", "-q", "-f", folder + "file"]
        case .caddy: arguments = ["run", "--adapter", "caddyfile", "--config", folder + "file"]
        }
        try ServerScenario.write(folder + "file", text)
        let environment = ["HOME": folder, "XDG_DATA_HOME": folder + "data", "XDG_CONFIG_HOME": folder + "config"]
        process = try Child(arguments, environment: environment, program: program)
        let end = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < end {
            if (try? ask(["-X", "OPTIONS"]).status) == 204 { return }
            usleepMilliseconds(20)
        }
        throw Child.Failure(what: "\(kind) does not answer: \(log)")
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    var log: String {
        process.output + process.errors + ((try? String(contentsOfFile: folder + "log", encoding: .utf8)) ?? "")
    }

    /// One request through the proxy, from a connection of its own.
    /// - Parameters:
    ///   - arguments: what curl is told besides.
    ///   - source: the client's address.
    func ask(
        _ arguments: [String] = [], path: String = "/january/client-token", version: String = "--http1.1",
        from source: String = "127.0.0.2"
    ) throws -> HTTPAnswer {
        let fixed = [
            "-sS", "-i", "--path-as-is", "--max-time", "20", version, "--cacert", folder + "ca.pem", "--interface", source,
            "--resolve", "\(Self.name):\(port):127.0.0.1",
        ]
        let curl = try Finished(fixed + arguments + ["https://\(Self.name):\(port)\(path)"], program: "/usr/bin/curl")
        var bytes = Array(curl.output.utf8)[...]
        guard curl.code == 0, let answer = HTTPAnswer(next: &bytes), bytes.isEmpty else {
            throw Child.Failure(what: "curl \(curl.code): \(curl.output)\(curl.errors)\(log)")
        }
        return answer
    }

    /// A client that sends one request and stays connected until it is gone.
    func stayConnected(_ request: String) throws -> Child {
        // "-quiet" keeps the connection when its input is over.
        let arguments = ["s_client", "-quiet", "-connect", "127.0.0.1:\(port)", "-servername", Self.name]
        return try Child(arguments, input: request, program: "/usr/bin/openssl")
    }

}
