import Configuration
import Primitives

/// Which requests get a line.
package enum LogRequests: String, Sendable, CaseIterable {
    /// Status 500 and over, and refusals the operator can cure.
    case errors
    case all
    case none
}

/// How an end user appears in logs and audit records.
package enum LogEndUserID: String, Sendable, CaseIterable { case hash, plain }

/// The section `log`.
package struct LogConfig: Sendable, Equatable {
    /// `log.level`: of lines of type `log`.
    package var level = LogLevel.info
    /// `log.format`; nil: text on a terminal, JSON anywhere else.
    package var format: LogFormat?
    /// `log.requests`
    package var requests = LogRequests.errors
    /// `log.end_user_id`
    package var endUserID = LogEndUserID.hash
    /// `log.hash_secret_file`; nil: a random key of this process (``EndUserHash/random()``).
    package var hashSecret: SecretFile?

    /// Shorter keys are worth a warning: who has the logs could try keys until a known person's hash comes out.
    static let goodSecretBytes = 16

    package init() {}

    package static func read(_ section: ConfigSection) -> LogConfig {
        var config = LogConfig()
        config.level = section.choice("level", default: config.level)
        config.format = section.optionalChoice("format", as: LogFormat.self)
        config.requests = section.choice("requests", default: config.requests)
        config.endUserID = section.choice("end_user_id", default: config.endUserID)
        config.hashSecret = section.secretFile("hash_secret_file")
        if let secret = config.hashSecret?.secret, secret.byteCount < goodSecretBytes {
            section.warning("hash_secret_file", "has fewer than \(goodSecretBytes) bytes: the hashes can be guessed")
        }
        section.finish()
        return config
    }

    /// The format in force. Pure: `isTerminal` is ``StandardOutput/isTerminal`` of where the log goes.
    package func format(isTerminal: Bool) -> LogFormat { format ?? (isTerminal ? .text : .json) }
}
