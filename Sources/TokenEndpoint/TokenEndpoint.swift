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
        /// 69: `systemd`, and this process was started without the sockets.
        case nothingInherited(key: String, InheritedSockets.Failure)
        case system(SystemError)
        case tls(TLSError)
        /// 69, or 78 where the configuration has changed what the state relies on.
        case state(StateOpenError)

        package var description: String {
            switch self {
            case .cannotListen(let key, let address, let error) where error.isOtherFileInPlace:
                "\(key): cannot listen on \(address): there is something at this path that is not a socket; it is left alone"
            case .cannotListen(let key, let address, let error): "\(key): cannot listen on \(address): \(error.text)"
            case .nothingInherited(let key, let failure): "\(key): systemd: \(failure)"
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
    /// The configuration in force, and what hangs on it.
    let inForce: InForce
    /// One configuration is put in the place of another at a time.
    let reloadTurn = Semaphore()
    let reloadMetrics: ReloadMetrics
    let certificate: ListenerCertificate
    let endpoints: Lock<[(loop: EventLoop, endpoint: LoopBound<LoopEndpoint>)]>
    let managementEndpoint: Lock<LoopBound<ManagementEndpoint>?>
    package let loops: [EventLoop]
    let server: Server
    private let managementServer: Server?
    let shared: SharedParts
    let readiness: Readiness
    let log: Log
    let time: any TimeSource
    private let hasInheritedSocket: Bool
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
    ///   - environment: where sockets come from that the process was started with (`LISTEN_FDS`).
    ///   - givesUp: asked while another process has the state file, and while connections wait for keys: the process is to end.
    ///   - ready: called once both listeners accept; with the error when they cannot.
    package init(
        config: RootConfig, log: Log, metrics: Metrics, time: any TimeSource = SystemTime(),
        auditOutput: (any LogOutput)? = nil, revocations: (any RevocationControl)? = nil,
        environment: [String: String] = [:], givesUp: @escaping @Sendable () -> Bool = { false },
        ready: @escaping @Sendable (SystemError?) -> Void
    ) throws(StartError) {
        self.log = log
        self.time = time
        self.metrics = metrics
        let publicSockets = try Self.bind("listen", config.listen, environment)
        var managementSockets: [ListeningSocket] = []
        if let address = config.management.address {
            managementSockets = try Self.bind("management.listen", address, environment)
        }
        publicAddress = publicSockets[0].address
        managementAddress = managementSockets.first?.address
        hasInheritedSocket = publicSockets.contains(where: \.isInherited)

        // January, and what key sets need: one TLS context per certificate store, one count of connections for all loops.
        let upstream = try UpstreamParts(config: config, time: time)
        loops = try Self.makeLoops(config.http.loopCount, time)
        let waiting = Lock((count: managementSockets.isEmpty ? 1 : 2, error: SystemError?.none))
        let oneIsReady: @Sendable (SystemError?) -> Void = { error in
            let (done, first) = waiting.withLock { state in
                state.count -= 1
                state.error = state.error ?? error
                return (state.count == 0, state.error)
            }
            if done { ready(first) }
        }
        let management = Lock<LoopBound<ManagementEndpoint>?>(nil)
        let firstLoop = loops[0]
        managementEndpoint = management
        managementServer =
            managementSockets.isEmpty
            ? nil
            : Self.startManagement(
                on: firstLoop, managementSockets, config, metrics, log, endpoint: management, ready: oneIsReady)
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
            config, listening: publicAddress, management: managementAddress, upstream: upstream, log: log, metrics: metrics,
            time: time)
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
        readiness = Readiness(
            lifecycle: lifecycle, verifiers: verifiers, time: time, stateIsWritable: { state.isWritable },
            stateWasRead: {
                state.shared?.state.wasEverReadable ?? true || config.stateRules.whenUnreadable == .allow
            })

        let sharedLimits = try SharedLimits(config, resolver: upstream.resolver, log: log, metrics: metrics, time: time)
        let inForce = InForce(generation, upstream, sharedLimits)
        self.inForce = inForce
        reloadTurn.signal()
        reloadMetrics = ReloadMetrics(metrics, now: time.wall())
        let certificate = ListenerCertificate(config.tls)
        certificate.register(metrics)
        self.certificate = certificate
        server = Server(config: config.http.server)
        shared.metrics.register(metrics, server: server, client: upstream.januaryCounters)
        verifiers.start(
            on: loops[0], makeExchange: Self.keySetExchanges(upstream, tracing), log: log, metrics: metrics,
            current: { inForce.value.generation.verifiers })

        loops[0].execute { [loop = loops[0], clockWatch] in
            let watch = ClockWatch(loop: loop, log: log)
            watch.start()
            clockWatch.withLock { $0 = LoopBound(watch, on: loop) }
        }

        self.revocations = Self.startRevocations(
            state, inForce, on: loops[0], shared: shared, metrics: metrics, tracing: tracing, time: time)
        let control: (any RevocationControl)? = revocations ?? self.revocations

        let endpoints = Lock<[(loop: EventLoop, endpoint: LoopBound<LoopEndpoint>)]>([])
        self.endpoints = endpoints
        let limitKeys = SharedLimits.keys(config)
        let status = StatusReport(
            shared: shared, inForce: inForce, readiness: readiness, server: server, client: upstream.januaryCounters,
            state: state, revocations: self.revocations, metrics: metrics, time: time)
        // Before the last listener is ready, and so before anybody is told that everything is.
        loops[0].execute { [readiness] in
            management.withLock { $0 }?.value.started(
                .init(readiness: readiness, status: status, control: control, tracer: tracing?.tracer(on: firstLoop)))
        }
        let accept: @Sendable () -> Void = { [server, loops] in
            server.start(
                loops: loops, sockets: publicSockets, makeTransport: certificate.makeTransport,
                makeHandler: { [counters = server.counters] loop in
                    let sessions = LoopSessionVerifier(verifiers, loop: loop, metrics: metrics)
                    let connections = upstream.januaryClient(on: loop)
                    let endpoint = LoopEndpoint(
                        loop: loop, shared: shared, limits: sharedLimits?.makeStore(on: loop, shared) ?? shared.localLimits,
                        limitKeys: limitKeys, revocations: control, sharedGate: state.shared?.makeGate(on: loop),
                        tracer: tracing?.tracer(on: loop), counters: counters,
                        generation: LoopGeneration(
                            generation, sessions: sessions, january: JanuaryClient(exchange: connections, time: time),
                            connections: connections))
                    let bound = LoopBound(endpoint, on: loop)
                    endpoints.withLock { $0.append((loop, bound)) }
                    return endpoint
                }, ready: oneIsReady)
        }
        if hasInheritedSocket {
            // Nobody is turned away meanwhile: the queue is kept by whoever made the socket.
            whenReady(until: time.monotonic() + Self.inheritedWait, givesUp, accept)
        } else {
            accept()
        }
    }

    /// So long connections wait in the queue of an inherited socket for key sets and state, rather than be answered 503.
    private static let inheritedWait = Duration.seconds(5)

    private func whenReady(
        until end: MonotonicInstant, _ givesUp: @escaping @Sendable () -> Bool, _ work: @escaping @Sendable () -> Void
    ) {
        if readiness.state().status == 200 || time.monotonic() >= end || givesUp() { return work() }
        after(Self.look) { [self] in whenReady(until: end, givesUp, work) }
    }

    /// - Parameter endpoint: gets the listener's handler, on the loop.
    private static func startManagement(
        on loop: EventLoop, _ sockets: [ListeningSocket], _ config: RootConfig, _ metrics: Metrics, _ log: Log,
        endpoint: Lock<LoopBound<ManagementEndpoint>?>, ready: @escaping @Sendable (SystemError?) -> Void
    ) -> Server {
        var limits = ServerConfig()
        limits.maxConnections = Self.managementConnections
        let server = Server(config: limits)
        server.start(
            loops: [loop], sockets: sockets,
            makeHandler: { loop in
                let made = ManagementEndpoint(loop: loop, metrics: metrics, log: log, config: config)
                endpoint.withLock { $0 = LoopBound(made, on: loop) }
                return made
            }, ready: ready)
        return server
    }

    /// For key sets. An identity provider has no part in our traces.
    static func keySetExchanges(_ upstream: UpstreamParts, _ tracing: Tracing?) -> KeySetCache.MakeExchange {
        { loop, authority in
            let client = upstream.client(for: authority, on: loop)
            guard let tracing else { return client }
            return TracedExchange(client, tracer: tracing.tracer(on: loop), tellsServer: false, names: .byMethod)
        }
    }

    private static func startRevocations(
        _ state: StateParts, _ inForce: InForce, on loop: EventLoop,
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
        service.start(keepDays: inForce.value.config.stateRules.keepDays) {
            let client = ClientInForce(inForce, loop: loop, tracer: tracing?.tracer(on: loop), time: time)
            return JanuaryRevoker(
                service: { inForce.value.generation.january }, client: client.client, shared: shared, time: time,
                callTimeout: { inForce.value.config.january.budget })
        }
        return service
    }

    /// - Returns: at least one.
    private static func bind(
        _ key: String, _ address: ListenAddress, _ environment: [String: String]
    ) throws(StartError) -> [ListeningSocket] {
        if address.isInherited {
            do throws(InheritedSockets.Failure) {
                return try InheritedSockets.take(environment: environment, management: key != "listen")
            } catch {
                throw .nothingInherited(key: key, error)
            }
        }
        do throws(SystemError) {
            return [try ListeningSocket.bind(address.socketAddress, unixMode: address.unixMode)]
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
        let config = inForce.value.config.drain
        shared.lifecycle.beginDraining(until: began + config.timeout)
        server.beginDraining()
        log.write(.info, "draining", [LogField("connections", server.openConnections)])
        // Behind a socket that others have open, too, nothing has to learn that we are going.
        after(hasInheritedSocket ? .zero : config.delay) { [self] in
            server.stopAccepting { [self] in
                server.closeIdle(over: DrainConfig.idleSpread)
                watch(until: began + config.timeout)
            }
        }
        // Whatever the steps above wait for, this is the end.
        after(config.timeout) { [self] in finish() }
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
            guard managementEndpoint.withLock({ $0 })?.value.unansweredCount ?? 0 > 0 else { return finish() }
            after(Self.look) { [self] in answerOperators() }
        }
    }

    /// On the first loop.
    func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) {
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
        inForce.value.generation.verifiers.stop()
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
