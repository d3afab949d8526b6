import EventLoop
import Glibc
import Primitives
import Telemetry
import TokenEndpoint

/// The life of `serve` as one state: starting, serving, draining, ended. Events come from loops and from the queue of signals; the main
/// thread waits for the end.
final class ServerLife: Sendable {
    struct Ending: Sendable {
        let code: ExitCode
        /// For standard error.
        var message: String?
    }

    private struct State {
        var endpoint: TokenEndpoint?
        /// The listeners accept.
        var isListening = false
        var isAnnounced = false
        var signalCount = 0
        var watchdog: LoopWatchdog?
        /// Said once the listeners accept.
        var announcement: [LogField] = []
    }

    private let state = Lock(State())
    private let ending = Outcome<Ending>()
    private let log: Log
    /// Opens again what is written to, on the queue of signals.
    private let reopen: @Sendable () -> Void
    private let reloader: Reloader
    private let manager: ServiceManager

    init(log: Log, reloader: Reloader, manager: ServiceManager, reopen: @escaping @Sendable () -> Void = {}) {
        self.log = log
        self.reloader = reloader
        self.manager = manager
        self.reopen = reopen
    }

    // MARK: Start

    /// Both listeners accept, or one of them does not.
    func listening(_ error: SystemError?) {
        if let error { return finish(Ending(code: .unavailable, message: "cannot listen: \(error.text)")) }
        state.withLock { $0.isListening = true }
        announce()
        drainIfSignalled()
    }

    func started(_ endpoint: TokenEndpoint, config: RootConfig) {
        var fields = [
            LogField("listen", endpoint.publicAddress.description), LogField("version", TokenEndpoint.version),
            LogField("token_path", config.tokenPaths.first ?? ""),
        ]
        if let address = endpoint.managementAddress { fields.append(LogField("management", address.description)) }
        state.withLock { state in
            state.endpoint = endpoint
            state.announcement = fields
        }
        announce()
        drainIfSignalled()
    }

    /// Not before the loops accept: a drain that only some of them hear of would leave the others open.
    private func drainIfSignalled() {
        let endpoint = state.withLock { $0.isListening && $0.signalCount > 0 ? $0.endpoint : nil }
        if let endpoint { drain(endpoint) }
    }

    func failed(_ error: TokenEndpoint.StartError) {
        // The wait for the state was given up because somebody asked this process to end: it has nothing to drain.
        if case .state(.inUse) = error, hasBeenSignalled { return finish(Ending(code: .ok)) }
        switch error {
        case .state(.changed): finish(Ending(code: .configuration, message: error.description))
        case .cannotListen, .nothingInherited, .state: finish(Ending(code: .unavailable, message: error.description))
        case .system, .tls: finish(Ending(code: .failed, message: error.description))
        }
    }

    private func announce() {
        let started = state.withLock { state -> (TokenEndpoint, [LogField])? in
            guard state.isListening, let endpoint = state.endpoint, !state.isAnnounced else { return nil }
            state.isAnnounced = true
            state.watchdog = LoopWatchdog(manager, loops: endpoint.loops)
            state.watchdog?.start()
            return (endpoint, state.announcement)
        }
        guard let (endpoint, fields) = started else { return }
        log.write(.info, "listening", fields)
        reloader.start(endpoint)
        manager.ready("serving")
    }

    // MARK: Signals

    /// Somebody wants this process to end, whatever the start still waits for.
    var hasBeenSignalled: Bool { state.withLock { $0.signalCount > 0 } }

    func received(_ signal: Int32) {
        if signal == SIGHUP {
            reopen()
            return reloader.request(.signal)
        }
        let (count, endpoint) = state.withLock { state in
            state.signalCount += 1
            return (state.signalCount, state.endpoint)
        }
        log.write(.info, "signal", [LogField("signal", signal == SIGINT ? "SIGINT" : "SIGTERM")])
        manager.stopping()
        if count > 1 {
            let open = endpoint?.openConnections ?? 0
            log.write(.warning, "ended by a second signal", [LogField("connections", open)])
            finish(Ending(code: open == 0 ? .ok : .failed))
        } else {
            drainIfSignalled()
        }
    }

    private func drain(_ endpoint: TokenEndpoint) {
        endpoint.drain { [self] in
            log.write(.info, "drained")
            finish(Ending(code: .ok))
        }
    }

    // MARK: End

    private func finish(_ ending: Ending) { self.ending.set(ending) }

    /// Blocks until there is an ending. The first one counts.
    func wait() -> Ending { ending.wait() }
}
