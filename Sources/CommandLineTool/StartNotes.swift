import Configuration
import Telemetry
import TokenEndpoint

/// What an operator should know about this start, as lines of the log: warnings, and what is configured but does nothing in this version.
enum StartNotes {
    static func write(_ loaded: LoadedConfiguration, _ config: RootConfig, environment: [String: String], log: Log) {
        warnings(of: loaded, log)
        if config.rateLimits.mode == .shadow {
            log.write(.warning, "rate limits are in shadow mode: they are counted and nobody is refused")
        }
        for name in ["HTTPS_PROXY", "https_proxy"] where !(environment[name] ?? "").isEmpty {
            log.write(.warning, "a proxy is set in the environment; it is ignored", [LogField("variable", name)])
        }
    }
    static func warnings(of loaded: LoadedConfiguration, _ log: Log) {
        for warning in loaded.reader.warnings {
            log.write(.warning, "the configuration is accepted with a warning", [LogField("warning", warning.description)])
        }
    }
}
