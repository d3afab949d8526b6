import Configuration
import EventLoop
import Primitives
import TokenEndpoint

/// What is allowed and most likely not meant, found out from more than one key, the clock or what the process was started with. Said where the
/// other warnings of a configuration are: by `check`, at a start and at a reload.
enum StartWarnings {
    static func add(_ config: RootConfig, to reader: ConfigReader, environment: [String: String], now: WallInstant) {
        let root = reader.root
        if let text = config.tls?.expiryWarning(now: now) { root.section("tls").warning("certificate_file", text) }
        if let text = drain(config) { root.section("drain").warning("timeout_seconds", text) }
        let unclaimed = InheritedSockets.unclaimed(
            environment: environment, takesPublic: config.listen.isInherited,
            takesManagement: config.management.address?.isInherited == true)
        for name in unclaimed {
            let isManagement = name == InheritedSockets.managementName
            (isManagement ? root.section("management") : root).warning(
                "listen",
                "nobody accepts from the socket \(ConfigText.quoted(name)) that this process was started with: who connects to it waits for ever; set it to systemd, or take the socket unit away"
            )
        }
    }

    /// Mints that come between the signal and the end of the listener are served only while they still fit.
    private static func drain(_ config: RootConfig) -> String? {
        let delay = config.listen.isInherited ? .zero : config.drain.delay
        let budget = config.january.budget
        guard config.drain.timeout < delay + budget else { return nil }
        return
            "is less than drain.delay_seconds and january.budget_seconds together (\((delay + budget).fractionalSeconds)): mints that come in the delay are refused with 503"
    }
}
