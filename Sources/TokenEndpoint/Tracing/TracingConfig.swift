import Configuration
import HTTPMessage
import Primitives
import Sessions

/// The section `tracing`.
package struct TracingConfig: Sendable, Equatable {
    /// Where spans go; `nil`: nothing is traced.
    package var collector: Collector?
    /// `tracing.sample_ratio`, 0…1: of the requests, whatever they say themselves.
    package var sampleRatio = 1.0

    package struct Collector: Sendable, Equatable {
        package var origin: Origin
        /// Ends in `/v1/traces`; may have a query.
        package var target: String
        package var login: BasicLogin?
        /// Instead of the system's certificates.
        package var caFile: ConfigFile?

        /// For every output.
        package var redacted: String { SpanURL.text(origin, target) }
    }

    /// Below what `otlp_url` names, as OTLP/HTTP has it for traces.
    static let signalPath = "/v1/traces"
    private static let grpcPort = 4317

    package init() {}

    /// Spans go to the same collector, and are as many.
    func isSamePlace(as other: Self) -> Bool {
        sampleRatio == other.sampleRatio && collector?.origin == other.collector?.origin
            && collector?.target == other.collector?.target
    }

    package static func read(_ section: ConfigSection) -> TracingConfig {
        var config = TracingConfig()
        let text = section.string("otlp_url", default: "") ?? ""
        config.sampleRatio = section.number("sample_ratio", default: 1, in: 0...1)
        let login = section.basicLogin()
        let caFile = section.file("ca_file", maxBytes: 1 << 20)
        section.finish()
        guard !text.isEmpty else {
            for key in ["username", "password_file", "ca_file"] where section.has(key) {
                section.problem(key, "is for otlp_url, which is not given")
            }
            return config
        }
        guard let url = readURL(text, section) else { return config }
        config.collector = Collector(origin: url.origin, target: target(url.target), login: login, caFile: caFile)
        if url.origin.scheme == .http, !url.origin.isLoopback {
            if login != nil {
                section.problem("otlp_url", "must be https where a password is sent")
            } else if !PrivateAddress.contains(host: url.origin.host) {
                section.warning("otlp_url", "is plain http to a public address: spans are sent unencrypted")
            }
        }
        if url.origin.port == grpcPort {
            section.warning("otlp_url", "4317 is the port of OTLP over gRPC; spans are sent over HTTP, most often to 4318")
        }
        return config
    }

    private static func readURL(_ text: String, _ section: ConfigSection) -> HTTPURL? {
        let url: HTTPURL
        do throws(HTTPURLError) {
            url = try HTTPURL.parse(text)
        } catch {
            section.invalid("otlp_url", error.requirement)
            return nil
        }
        // Never with the value: what stands there is a secret.
        if url.userInfo != nil {
            section.problem(
                "otlp_url", "must not hold a user name or password; use username and password_file beside it")
            return nil
        }
        return url
    }

    /// The base URL of a collector, or the whole one of its traces: both are in use, and the end tells them apart.
    static func target(_ written: String) -> String {
        let parts = written.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var path = parts[0]
        while path.utf8.last == UInt8(ascii: "/") { path = path.dropLast() }
        let whole = path.hasSuffix(signalPath) ? String(path) : path + signalPath
        return parts.count > 1 ? "\(whole)?\(parts[1])" : whole
    }
}

/// URLs as they appear in spans and lines.
enum SpanURL {
    /// Without user information, which origins have none of; a query may hold anything.
    static func text(_ origin: Origin, _ target: String) -> String {
        let path = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return "\(origin)\(path[0])\(path.count > 1 ? "?REDACTED" : "")"
    }
}
