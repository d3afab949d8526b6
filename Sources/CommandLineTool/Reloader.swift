import Configuration
import EventLoop
import Primitives
import Telemetry
import TokenEndpoint

/// Reads the configuration again, on a thread of its own: at SIGHUP all of it, when a file it names has changed those files. One reload runs
/// at a time; what is asked for meanwhile becomes one more.
final class Reloader: Sendable {
    private struct State {
        var loaded: LoadedConfiguration.Files
        var endpoint: TokenEndpoint?
        /// SIGHUP came before there was anything to reload.
        var isWanted = false
    }

    private let file: String?
    private let environment: [String: String]
    private let log: Log
    private let isTerminal: Bool
    private let manager: ServiceManager
    private let time: any TimeSource
    private let thread = SerialThread<ReloadCause>(name: "reload", capacity: 64)
    private let state: Lock<State>
    private let watcher = Lock<FileWatcher?>(nil)

    /// - Parameter loaded: what the process was started with.
    init(
        _ invocation: Invocation, _ loaded: LoadedConfiguration.Files, log: Log, isTerminal: Bool, manager: ServiceManager,
        time: any TimeSource
    ) {
        file = LoadedConfiguration.file(invocation)
        environment = invocation.environment
        self.log = log
        self.isTerminal = isTerminal
        self.manager = manager
        self.time = time
        state = Lock(State(loaded: loaded))
    }

    /// The server listens: from now on it can be reloaded, and its files are watched.
    func start(_ endpoint: TokenEndpoint) {
        do throws(SystemError) {
            try thread.start { [self] causes in run(causes) }
            let watcher = try FileWatcher(time: time) { [self] in request(.files) }
            self.watcher.withLock { $0 = watcher }
            if !watcher.isReporting {
                log.write(.warning, "changes of files are not reported by the system; they are looked at once a minute")
            }
        } catch {
            log.write(.error, "the configuration cannot be reloaded", [LogField("error", error.description)])
        }
        let (loaded, isWanted) = state.withLock { state in
            state.endpoint = endpoint
            return (state.loaded, state.isWanted)
        }
        watch(loaded)
        if isWanted { request(.signal) }
    }

    func request(_ cause: ReloadCause) {
        let isReady = state.withLock { state in
            if state.endpoint == nil && cause == .signal { state.isWanted = true }
            return state.endpoint != nil
        }
        // A queue that is full holds a reload that has not begun: it will see everything.
        if isReady { _ = thread.submit(cause) }
    }

    private func watch(_ loaded: LoadedConfiguration.Files) {
        watcher.withLock { $0 }?.watch(loaded.paths, readAfter: loaded.readAt)
    }

    /// On the thread.
    private func run(_ causes: [ReloadCause]) {
        let cause: ReloadCause = causes.contains(.signal) ? .signal : .files
        let (endpoint, last) = state.withLock { ($0.endpoint, $0.loaded) }
        guard let endpoint else { return }
        manager.reloading(now: time.monotonic())
        defer { manager.ready("serving") }
        let loaded =
            cause == .signal
            ? LoadedConfiguration(file: file, environment: environment, time: time)
            : LoadedConfiguration(again: last, environment: environment, time: time)
        guard var config = loaded.config else {
            return endpoint.reloadRefused(loaded.reader.problems.map(\.description), cause: cause)
        }
        OpenFiles.fit(&config, log)
        guard endpoint.reload(to: config, cause: cause) == .reloaded else { return }
        log.apply(level: config.log.level, format: config.log.format(isTerminal: isTerminal))
        switch cause {
        case .signal: StartNotes.write(loaded, config, environment: environment, log: log)
        // A secret that others may read now, above all.
        case .files: StartNotes.warnings(of: loaded, log)
        }
        let files = loaded.files
        state.withLock { $0.loaded = files }
        watch(files)
    }
}
