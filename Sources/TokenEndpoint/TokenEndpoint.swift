import EventLoop
import HTTPClient
import HTTPMessage
import HTTPServer
import January
import Primitives
import Revocations
import Sessions
import TLS
import Telemetry

/// **Start reading here.** Builds every part from the configuration, and runs the process's life: start, drain, stop.
///
/// A request's way: `HTTPServer` reads a whole message on its loop → ``LoopEndpoint`` routes it → ``MintHandler`` takes it through its steps
/// (address limit, session, end user, policy, limits, admission, mint, delivery) → ``Problem`` or January's own bytes go back → ``OutcomeRecorder`` makes metrics
/// and log line of the one ``RequestOutcome``.
///
/// Shapes: one `Server` for the public listener on all loops, one for management on the first. Each loop has its own handler,
/// verifier and HTTP client; what they share is in ``SharedParts``. There are no globals.
package final class TokenEndpoint: Sendable {
    package enum StartError: Error, CustomStringConvertible {
        /// 69: another process listens there, or the address is not ours.
        case cannotListen(key: String, address: String, SystemError)
        case system(SystemError)
        case tls(TLSError)
        /// 69, or 78 where the configuration has changed what the state relies on.
        case state(StateOpenError)

        package var description: String {
            switch self {
            case .cannotListen(let key, let address, let error) where error.isOtherFileInPlace:
                "\(key): cannot listen on \(address): there is something at this path that is not a socket; it is left alone"
            case .cannotListen(let key, let address, let error): "\(key): cannot listen on \(address): \(error.text)"
            case .system(let error): "cannot start: \(error)"
            case .tls(let error): "cannot prepare TLS: \(error.reason)"
            case .state(let error): error.description
            }
        }
    }

    package static let version = "0.1.0"
    /// Probes, scrapers and operators: more than they need, and far from all descriptors of a process.
    static let managementConnections = 256
    package static let userAgent = "january-token-endpoint/\(version)"

    package let publicAddress: SocketAddress
    package let managementAddress: SocketAddress?
    package let metrics: Metrics
    private let config: RootConfig
    let loops: [EventLoop]
    private let server: Server
    private let managementServer: Server?
    private let management: Lock<LoopBound<ManagementEndpoint>?>
    private let shared: SharedParts
    private let generation: Generation
    private let readiness: Readiness
    private let log: Log
    private let time: any TimeSource
    private let clockWatch = Lock<LoopBound<ClockWatch>?>(nil)
    let state: StateParts
    let revocations: RevocationService?
    let tracing: Tracing?
    private let stopped = Lock<(@Sendable () -> Void)?>(nil)

    /// Opens the listeners first, so that an address in use is found before anything else has happened. The management listener answers at
    /// once, the public one when the state is open.
    ///
    /// - Parameters:
    ///   - auditOutput: of `audit.file`; `nil`: audit records are lines of the log.
    ///   - revocations: instead of the state's own, for tests of the management API.
    ///   - givesUp: asked while another process has the state file.
    ///   - ready: called once both listeners accept; with the error when they cannot.
    package init(
        config: RootConfig, log: Log, metrics: Metrics, time: any TimeSource = SystemTime(),
        auditOutput: (any LogOutput)? = nil, revocations: (any RevocationControl)? = nil,
        givesUp: () -> Bool = { false },
        ready: @escaping @Sendable (SystemError?) -> Void
    ) throws(StartError) {
        self.config = config
        self.log = log
        self.time = time
        self.metrics = metrics
        let publicSocket = try Self.bind("listen", config.listen)
        var managementSocket: ListeningSocket?
        if let address = config.management.address { managementSocket = try Self.bind("management.listen", address) }
        publicAddress = publicSocket.address
        managementAddress = managementSocket?.address

        // January, and what key sets need: one TLS context per certificate store, one count of connections for all loops.
        let upstream = try UpstreamParts(config: config, time: time)
        loops = try Self.makeLoops(config.http.loopCount, time)
        let waiting = Lock((count: managementSocket == nil ? 1 : 2, error: SystemError?.none))
        let oneIsReady: @Sendable (SystemError?) -> Void = { error in
            let (done, first) = waiting.withLock { state in
                state.count -= 1
                state.error = state.error ?? error
                return (state.count == 0, state.error)
            }
            if done { ready(first) }
        }
        let management = Lock<LoopBound<ManagementEndpoint>?>(nil)
        self.management = management
        let firstLoop = loops[0]
        managementServer = managementSocket.map {
            Self.startManagement(on: firstLoop, $0, config, metrics, log, endpoint: management, ready: oneIsReady)
        }
        let state: StateParts
        do throws(StartError) {
            state = try StateParts.open(
                config, on: loops[0], resolver: upstream.resolver, log: log, time: time, givesUp: givesUp)
        } catch {
            for loop in loops { loop.stop {} }
            throw error
        }
        self.state = state
        let tracing = try Tracing.start(
            config, listening: publicAddress, upstream: upstream, log: log, metrics: metrics, time: time)
        self.tracing = tracing
        let lifecycle = Lifecycle()
        let keys = KeyRing(first: config.january.apiKey, next: config.january.nextAPIKey, userAgent: Self.userAgent)
        let shared = SharedParts(
            config: config, lifecycle: lifecycle, keys: keys, log: log, auditOutput: auditOutput, metrics: metrics, time: time,
            mintsInFlight: state.mintsInFlight, fences: state.store?.fences, hash: state.hash)
        self.shared = shared
        let january = JanuaryService(
            origin: config.january.origin, pathPrefix: config.january.pathPrefix, keys: keys, mintBreaker: shared.mintBreaker)
        let verifiers = SessionVerifiers(config.sessions)
        let generation = Generation(config: config, january: january, verifiers: verifiers)
        self.generation = generation
        readiness = Readiness(
            lifecycle: lifecycle, verifiers: verifiers, time: time, stateIsWritable: { state.isWritable },
            stateWasRead: {
                state.shared?.state.wasEverReadable ?? true || config.stateRules.whenUnreadable == .allow
            })

        let sharedLimits = try SharedLimits(config, resolver: upstream.resolver, log: log, metrics: metrics, time: time)
        server = Server(config: config.http.server)
        shared.metrics.register(metrics, server: server, client: upstream.januaryCounters)
        verifiers.start(
            on: loops[0],
            makeExchange: { loop, authority in
                let client = upstream.client(for: authority, on: loop)
                guard let tracing else { return client }
                return TracedExchange(client, tracer: tracing.tracer(on: loop), tellsServer: false, names: .byMethod)
            }, log: log, metrics: metrics)

        loops[0].execute { [loop = loops[0], clockWatch] in
            let watch = ClockWatch(loop: loop, log: log)
            watch.start()
            clockWatch.withLock { $0 = LoopBound(watch, on: loop) }
        }

        self.revocations = Self.startRevocations(
            state, config, january, upstream, on: loops[0], shared: shared, metrics: metrics, tracing: tracing, time: time)
        let control: (any RevocationControl)? = revocations ?? self.revocations

        let status = StatusReport(
            shared: shared, generation: generation, readiness: readiness, server: server, client: upstream.januaryCounters,
            limiterHealth: sharedLimits?.health, state: state, revocations: self.revocations, time: time)
        // Before the last listener is ready, and so before anybody is told that everything is.
        loops[0].execute { [readiness] in
            management.withLock { $0 }?.value.started(
                .init(readiness: readiness, status: status, control: control, tracer: tracing?.tracer(on: firstLoop)))
        }
        server.start(
            loops: loops, sockets: [publicSocket],
            makeHandler: { loop in
                let sessions = LoopSessionVerifier(verifiers, loop: loop, metrics: metrics)
                let client = JanuaryClient(exchange: upstream.januaryClient(on: loop), time: time)
                return LoopEndpoint(
                    loop: loop, shared: shared, limits: sharedLimits?.makeStore(on: loop, shared) ?? shared.localLimits,
                    revocations: control, sharedGate: state.shared?.makeGate(on: loop),
                    tracer: tracing?.tracer(on: loop),
                    generation: LoopGeneration(generation, sessions: sessions, january: client))
            }, ready: oneIsReady)
    }

    /// - Parameter endpoint: gets the listener's handler, on the loop.
    private static func startManagement(
        on loop: EventLoop, _ socket: ListeningSocket, _ config: RootConfig, _ metrics: Metrics, _ log: Log,
        endpoint: Lock<LoopBound<ManagementEndpoint>?>, ready: @escaping @Sendable (SystemError?) -> Void
    ) -> Server {
        var limits = ServerConfig()
        limits.maxConnections = Self.managementConnections
        let server = Server(config: limits)
        server.start(
            loops: [loop], sockets: [socket],
            makeHandler: { loop in
                let made = ManagementEndpoint(loop: loop, metrics: metrics, log: log, config: config)
                endpoint.withLock { $0 = LoopBound(made, on: loop) }
                return made
            }, ready: ready)
        return server
    }

    private static func startRevocations(
        _ state: StateParts, _ config: RootConfig, _ january: JanuaryService, _ upstream: UpstreamParts, on loop: EventLoop,
        shared: SharedParts, metrics: Metrics, tracing: Tracing?, time: any TimeSource
    ) -> RevocationService? {
        let store: any RevocationStore
        let keyOf: @Sendable (String) -> EndUserKey?
        if let parts = state.shared {
            store = parts.store
            keyOf = { parts.state.key(of: $0) }
        } else if let file = state.store {
            store = file
            keyOf = { [hash = state.hash] in EndUserKey($0, under: hash) }
        } else {
            return nil
        }
        let service = RevocationService(
            loop: loop, store: store, keyOf: keyOf, clock: StateClock(time, shared: state.shared?.clock), log: shared.log,
            events: { shared.record($0) })
        state.registerMetrics(metrics, service: service, time: time)
        let timeout = config.january.budget
        service.start(keepDays: config.stateRules.keepDays) {
            var exchange = upstream.januaryClient(on: loop)
            if let tracing {
                exchange = TracedExchange(exchange, tracer: tracing.tracer(on: loop), tellsServer: true, names: .byPath)
            }
            return JanuaryRevoker(
                service: { january }, client: JanuaryClient(exchange: exchange, time: time), shared: shared, time: time,
                callTimeout: timeout)
        }
        return service
    }

    private static func bind(_ key: String, _ address: ListenAddress) throws(StartError) -> ListeningSocket {
        do throws(SystemError) {
            return try ListeningSocket.bind(address.socketAddress, unixMode: address.unixMode)
        } catch {
            throw .cannotListen(key: key, address: address.description, error)
        }
    }

    private static func makeLoops(_ count: Int, _ time: any TimeSource) throws(StartError) -> [EventLoop] {
        var loops: [EventLoop] = []
        for index in 0..<count {
            do throws(SystemError) {
                let loop = try EventLoop(name: String(index), time: time)
                loop.start()
                loops.append(loop)
            } catch {
                throw .system(error)
            }
        }
        return loops
    }

    // MARK: Drain

    /// Ends the service without dropping anything that was accepted, in this order: say so (readiness, `Connection: close`), wait for
    /// proxies to notice, take what is in the listener's queue and close it, close idle connections over two seconds, serve the rest.
    ///
    /// - Parameter done: when nothing is open any more, or the time is up.
    package func drain(done: @escaping @Sendable () -> Void) {
        let isFirst = stopped.withLock { stopped in
            guard stopped == nil else { return false }
            stopped = done
            return true
        }
        guard isFirst else { return }
        let began = time.monotonic()
        shared.lifecycle.beginDraining(until: began + config.drain.timeout)
        server.beginDraining()
        log.write(.info, "draining", [LogField("connections", server.openConnections)])
        after(config.drain.delay) { [self] in
            server.stopAccepting { [self] in
                server.closeIdle(over: DrainConfig.idleSpread)
                watch(until: began + config.drain.timeout)
            }
        }
        // Whatever the steps above wait for, this is the end.
        after(config.drain.timeout) { [self] in finish() }
    }

    private func watch(until end: MonotonicInstant) {
        // A mint whose client has hung up has no connection any more; it finishes all the same.
        if server.openConnections == 0 && shared.mintsInFlight.count == 0 { return answerOperators() }
        after(Self.look) { [self] in watch(until: end) }
    }

    private static let look = Duration.milliseconds(20)

    /// Who asked for a revocation that is not complete is told that it is durable and goes on with the next process, before the listener closes.
    private func answerOperators() {
        revocations?.stop()
        loops[0].execute { [self] in
            guard management.withLock({ $0 })?.value.unansweredCount ?? 0 > 0 else { return finish() }
            after(Self.look) { [self] in answerOperators() }
        }
    }

    private func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) {
        let loop = loops[0]
        loop.execute { loop.schedule(LoopTimer(work), after: delay) }
    }

    private func finish() {
        guard let done = stopped.withLock({ $0.take() }) else { return }
        let open = server.openConnections
        if open > 0 { log.write(.warning, "the drain is over and connections are still open", [LogField("connections", open)]) }
        revocations?.stop()
        // What it has answered is written meanwhile.
        after(Self.look) { [self] in stop(then: done) }
    }

    /// Ends everything now.
    package func stop(then done: @escaping @Sendable () -> Void) {
        generation.verifiers.stop()
        managementServer?.closeAll {}
        revocations?.stop()
        let closed: @Sendable () -> Void = { [self] in
            // The last requests are over, so no more spans come.
            guard let tracing else { return closeState(then: done) }
            tracing.stop { [self] in closeState(then: done) }
        }
        server.closeAll { [self] in
            let left = Lock(loops.count)
            for loop in loops {
                loop.stop {
                    let last = left.withLock { count in
                        count -= 1
                        return count == 0
                    }
                    if last { closed() }
                }
            }
        }
    }

    /// After the loops: nothing asks the state any more. In order only when no mint of this process can still be committed at January.
    private func closeState(then done: @escaping @Sendable () -> Void) {
        guard let store = state.store else { return done() }
        let mints = state.mintsInFlight
        store.close(isOrderly: mints.count == 0 && mints.hasNoUnanswered(now: time.monotonic()), then: done)
    }

    package var openConnections: Int { server.openConnections }
}
