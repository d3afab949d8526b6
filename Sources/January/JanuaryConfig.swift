import Configuration
import HTTPMessage
import Primitives

/// The sections `january`, `token` and `compat`.
package struct JanuaryConfig: Sendable, Equatable {
    /// `nil` only where a problem was recorded.
    package var apiKey: APIKey?
    package var apiKeyPath: String?
    package var nextAPIKey: APIKey?
    package var nextAPIKeyPath: String?
    package var origin: Origin
    /// The base URL's path without a slash at its end.
    package var pathPrefix: String
    /// Instead of the system's certificates.
    package var caFile: ConfigFile?
    /// From the complete head of an app's request to the first byte of our answer.
    package var budget: Duration
    package var connectTimeout: Duration
    package var maxConnections: Int
    package var maxInFlight: Int
    /// `token.ttl_seconds`.
    package var ttlSeconds: Int
    /// `compat.expires_in_alias`.
    package var insertsExpiresInAlias: Bool

    private static let defaultBaseURL = "https://partners.january.ai"

    /// - Parameter root: of the whole configuration.
    package static func read(_ root: ConfigSection) -> JanuaryConfig {
        let january = root.section("january")
        let baseURL = readBaseURL(january)
        let first = readKey("api_key", january)
        if first == nil, !january.has("api_key_file"), !january.has("api_key") {
            january.problem("api_key_file", "is required: a file with the January API key, or the environment variable JANUARY_API_KEY")
        }
        let next = readKey("next_api_key", january)
        return JanuaryConfig(
            apiKey: first?.key, apiKeyPath: first?.path, nextAPIKey: next?.key, nextAPIKeyPath: next?.path,
            origin: baseURL.origin, pathPrefix: baseURL.pathPrefix, caFile: january.file("ca_file", maxBytes: 1 << 20),
            budget: january.seconds("budget_seconds", default: .seconds(8), in: .seconds(1) ... .seconds(60)),
            connectTimeout: january.seconds("connect_seconds", default: .seconds(2), in: .milliseconds(100) ... .seconds(60)),
            maxConnections: january.integer("max_connections", default: 256, in: 1...10_000),
            maxInFlight: january.integer("max_in_flight", default: 512, in: 1...100_000),
            ttlSeconds: root.section("token").integer("ttl_seconds", default: 1800, in: 300...7200),
            insertsExpiresInAlias: root.section("compat").boolean("expires_in_alias", default: false))
    }
}
