import Configuration
import HTTPMessage
import Primitives

/// The sections `january`, `token` and `compat`.
package struct JanuaryConfig: Sendable, Equatable {
    package var apiKey: APIKey
    /// For the watch on the file; `nil` when it came from the environment.
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

    /// `root`: of the whole configuration.
    /// Returns `nil` where a problem was recorded without which there is nothing to work with.
    package static func read(_ root: ConfigSection) -> JanuaryConfig? {
        let january = root.section("january")
        let token = root.section("token")
        let compat = root.section("compat")
        defer { for section in [january, token, compat] { section.finish() } }
        let first = readKey("api_key_file", january, isRequired: true)
        let next = readKey("next_api_key_file", january, isRequired: false)
        let baseURL = readBaseURL(january)
        let caFile = january.file("ca_file", maxBytes: 1 << 20)
        let budget = january.seconds("budget_seconds", default: .seconds(8), in: .seconds(1)...(.seconds(60)))
        let connect = january.seconds("connect_seconds", default: .seconds(2), in: .milliseconds(100)...(.seconds(60)))
        let maxConnections = january.integer("max_connections", default: 256, in: 1...10_000)
        let maxInFlight = january.integer("max_in_flight", default: 512, in: 1...100_000)
        let ttl = token.integer("ttl_seconds", default: 1800, in: 300...7200)
        let insertsAlias = compat.boolean("expires_in_alias", default: false)
        if let first, let next, first.key == next.key {
            january.warning("next_api_key_file", "holds the same key as api_key_file, so there is nothing to fail over to")
        }
        if budget > .seconds(10) { january.warning("budget_seconds", "Android apps give up after 10 seconds") }
        guard let first, let baseURL else { return nil }
        return JanuaryConfig(
            apiKey: first.key, apiKeyPath: first.path, nextAPIKey: next?.key, nextAPIKeyPath: next?.path, origin: baseURL.origin,
            pathPrefix: baseURL.pathPrefix, caFile: caFile, budget: budget, connectTimeout: connect,
            maxConnections: maxConnections,
            maxInFlight: maxInFlight, ttlSeconds: ttl, insertsExpiresInAlias: insertsAlias)
    }

    private static func readKey(_ name: String, _ january: ConfigSection, isRequired: Bool) -> (key: APIKey, path: String?)? {
        let file = isRequired ? january.requiredSecretFile(name) : january.secretFile(name)
        guard let file else { return nil }
        do throws(APIKeyProblem) {
            return (try APIKey(file.secret), file.path)
        } catch {
            january.problem(name, "the key \(error.message)")
            return nil
        }
    }

    /// Never with the value: what stands there is a secret.
    private static let noCredentials =
        "must not hold a user name or password; January takes the API key alone, from api_key_file"

    private static func readBaseURL(_ january: ConfigSection) -> (origin: Origin, pathPrefix: String)? {
        let defaultURL = "https://partners.january.ai"
        guard let text = january.string("base_url", default: defaultURL) else { return nil }
        let url: HTTPURL
        do throws(HTTPURLError) {
            url = try HTTPURL.parse(text)
        } catch {
            if error.isAboutCredentials(in: text) {
                january.problem("base_url", noCredentials)
            } else {
                january.invalid("base_url", error.requirement)
            }
            return nil
        }
        guard url.userInfo == nil else {
            january.problem("base_url", noCredentials)
            return nil
        }
        if url.target.utf8.contains(UInt8(ascii: "?")) { january.problem("base_url", "must not have a query") }
        if url.origin.scheme == .http, !url.origin.isLoopback {
            january.problem("base_url", "must be https, or http to a loopback address (got \"\(url.redacted)\")")
        }
        var path = Substring(url.target)
        while path.utf8.last == UInt8(ascii: "/") { path = path.dropLast() }
        // The mistake of who copies a whole address: every mint would be a 404.
        if path.hasSuffix("/v1") || path.contains("/v1.") || path.contains("/auth/") {
            january.invalid("base_url", "must end before the version: requests add /v1.2/… themselves")
        }
        return (url.origin, String(path))
    }
}
