import Configuration
import Primitives
import TLS

/// A Redis server as the configuration names it: a URL and the keys beside it.
package struct RedisConfig: Sendable, Equatable {
    /// The keys of a section that belong to one URL.
    package struct Keys: Sendable {
        package var url: String
        package var username: String
        package var passwordFile: String
        package var caFile: String

        package init(
            url: String, username: String = "username", passwordFile: String = "password_file", caFile: String = "ca_file"
        ) {
            self.url = url
            self.username = username
            self.passwordFile = passwordFile
            self.caFile = caFile
        }
    }

    /// With user and password, wherever they came from.
    package var url: RedisURL
    /// For `rediss://`, in the place of the system's authorities.
    package var caFile: ConfigFile?

    private static let maxCABytes = 1 << 20

    package init(url: RedisURL, caFile: ConfigFile? = nil) {
        self.url = url
        self.caFile = caFile
    }

    /// The same server and database, whatever they are asked with.
    package func isSamePlace(as other: RedisConfig) -> Bool {
        (url.usesTLS, url.host, url.port, url.database) == (other.url.usesTLS, other.url.host, other.url.port, other.url.database)
    }

    /// Whether a value is meant to be a Redis URL, right or wrong.
    package static func isURL(_ text: String) -> Bool {
        let text = text.lowercased()
        return text.hasPrefix("redis:") || text.hasPrefix("rediss:")
    }

    /// Reads the keys beside the URL, and the URL where there is one.
    ///
    /// A password in the URL is accepted from the environment; in the file it is a problem that names its proper place, because the file is
    /// copied, shown and committed.
    ///
    /// - Parameter text: the value at `keys.url`; nil where it is no Redis URL: then the keys beside it have no meaning, which is a problem.
    /// - Returns: nil where there is no URL or a problem is recorded.
    package static func read(_ section: ConfigSection, _ keys: Keys, text: String?) -> RedisConfig? {
        let username = section.string(keys.username)
        let password = section.secretFile(keys.passwordFile)
        let caFile = section.file(keys.caFile, maxBytes: maxCABytes)
        guard let text else {
            for key in [keys.username, keys.passwordFile, keys.caFile] where section.has(key) {
                section.problem(key, "is for a redis:// URL at \(keys.url)")
            }
            return nil
        }
        var url: RedisURL
        do throws(RedisURL.Problem) {
            url = try RedisURL.parse(text)
        } catch {
            section.problem(keys.url, error.message)
            return nil
        }
        if url.password != nil, case .file = section.source(keys.url) {
            section.problem(
                keys.url, "must not hold a password in the file; use \(keys.username) and \(keys.passwordFile) beside it")
            return nil
        }
        if let username {
            if username.isEmpty {
                section.problem(keys.username, "must not be empty")
            } else if url.username == nil {
                url.username = username
            } else if case .file = section.source(keys.url) {
                section.problem(keys.username, "may not be given together with a user in \(keys.url)")
            }
        }
        if url.password == nil { url.password = password?.secret }
        if url.username != nil && url.password == nil && !section.has(keys.passwordFile) {
            section.problem(
                url.username == username ? keys.username : keys.url, "has a user without a password; set \(keys.passwordFile)")
        }
        if caFile != nil && !url.usesTLS { section.problem(keys.caFile, "is for rediss:// only") }
        return RedisConfig(url: url, caFile: caFile)
    }

    /// Certificates are tried with the configuration, so that a bad file is found with the key that names it.
    package func checkCertificates(_ section: ConfigSection, _ keys: Keys) {
        guard let caFile else { return }
        do throws(TLSError) {
            _ = try TLSClientContext(trust: .authorities(pem: caFile.bytes))
        } catch {
            section.problem(keys.caFile, "holds no certificates that can be used (\(error.reason))")
        }
    }
}
