import Configuration
import EventLoop
import Glibc
import Primitives
import Telemetry
import TokenEndpoint

/// `serve`: start, listen, wait for a signal, drain.
enum ServeCommand {
    /// So long the last lines of the log may take. Whoever reads them may have gone.
    private static let flushLimit = Duration.seconds(1)

    static func run(_ invocation: Invocation) -> ExitCode {
        ProcessSettings.ignoreBrokenPipes()
        let loaded = LoadedConfiguration(invocation)
        guard var config = loaded.config else { return loaded.refuse(invocation.console) }
        // One for each loop, one for all others: they allocate a line of the log or a name now and then.
        Allocator.configure(arenas: config.http.loopCount + 1)
        let output = StandardOutput()
        let writer: LogWriter
        do throws(LogWriter.StartError) {
            writer = try LogWriter.start(sink: output)
        } catch {
            invocation.console.complain("\(CommandLineTool.name): cannot start a thread")
            return .failed
        }
        var audit: AuditOutput?
        do throws(AuditOutput.Failure) {
            audit = try AuditOutput(config.audit)
        } catch {
            switch error {
            case .cannotOpen(let path, let error):
                // A mistake in the configuration: starting again would not help.
                loaded.auditFileFails(path, error)
                return loaded.refuse(invocation.console)
            case .noThread:
                invocation.console.complain("\(CommandLineTool.name): cannot start a thread")
                return .failed
            }
        }
        let time = SystemTime()
        let log = Log(
            level: config.log.level, format: config.log.format(isTerminal: output.isTerminal), time: time, output: writer)
        OpenFiles.fit(&config, log)
        StartNotes.write(loaded, config, environment: invocation.environment, log: log)
        let metrics = Metrics()
        ProcessMetrics.register(in: metrics)
        metrics.registerBuildInfo(version: TokenEndpoint.version)
        metrics.counters("log_dropped_total", help: "Lines of the log that were lost.") { [([], Double(writer.droppedCount))] }

        let manager = ServiceManager(environment: invocation.environment)
        let reloader = Reloader(
            invocation, loaded.files, log: log, isTerminal: output.isTerminal, manager: manager, time: time)
        let life = ServerLife(log: log, reloader: reloader, manager: manager, reopen: { [audit] in audit?.reopen(log) })
        // Before anything listens: a signal that comes during the start is answered like any other.
        let signals = SignalWatcher([SIGTERM, SIGINT, SIGHUP]) { life.received($0) }
        do throws(TokenEndpoint.StartError) {
            let endpoint = try TokenEndpoint(
                config: config, log: log, metrics: metrics, time: time, auditOutput: audit?.writer,
                environment: invocation.environment, givesUp: { life.hasBeenSignalled }
            ) { life.listening($0) }
            life.started(endpoint, config: config)
        } catch {
            life.failed(error)
        }
        let memory = MemoryKeeper()
        let ending = life.wait()
        withExtendedLifetime((signals, memory)) {}
        if let message = ending.message { invocation.console.complain("\(CommandLineTool.name): \(message)") }
        audit?.writer.close(within: flushLimit)
        writer.close(within: flushLimit)
        return ending.code
    }
}

/// How many connections the limit of open files leaves room for.
enum OpenFiles {
    /// Descriptors beside connections: listeners, loops, log, files that are read again.
    private static let spareDescriptors = 64

    /// The soft limit of open files is raised to the hard one; what does not fit below it is not accepted, instead of failing later.
    static func fit(_ config: inout RootConfig, _ log: Log) {
        let limit = ProcessSettings.raiseOpenFileLimit()
        let wanted = config.http.server.maxConnections
        let others = config.january.maxConnections + spareDescriptors
        guard limit < wanted + others else { return }
        let fitting = max(1, limit - others)
        config.http.server.maxConnections = fitting
        log.write(
            .warning, "the limit of open files is too low for max_connections; fewer are accepted",
            [
                LogField("open_files", limit), LogField("needed", wanted + others), LogField("max_connections", wanted),
                LogField("accepted_connections", fitting),
            ])
    }
}
