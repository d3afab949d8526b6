import EventLoop
import HTTPMessage
import Primitives

/// The life of one server over some loops: starting, running, draining, stopped. Called from any thread.
package final class Server: Sendable {
    private struct Part: Sendable {
        let loop: EventLoop
        let server: LoopBound<LoopServer>
    }

    package let counters = ServerCounters()
    private let config: Lock<ServerConfig>
    private let addresses: AddressCounter
    private let parts = Lock<[Part]>([])
    private let sockets = Lock<[ListeningSocket]>([])

    package init(config: ServerConfig) {
        self.config = Lock(config)
        addresses = AddressCounter(limit: config.maxConnectionsPerAddress ?? .max, exempt: config.proxies)
    }

    /// For a reload: limits and time-outs of what begins from now on. Connections that are open stay.
    package func replace(_ config: ServerConfig) {
        self.config.withLock { $0 = config }
        addresses.replace(limit: config.maxConnectionsPerAddress ?? .max, exempt: config.proxies)
        onEachLoop { $0.replace(config) }
    }

    /// Makes a handler on each loop and begins to accept from each socket on all of them.
    ///
    /// - Parameters:
    ///   - makeHandler: called once on each loop.
    ///   - ready: called once, when all loops accept, or with the first error.
    package func start(
        loops: [EventLoop], sockets: [ListeningSocket], makeTransport: TransportFactory? = nil,
        makeHandler: @escaping @Sendable (EventLoop) -> any RequestHandler,
        ready: @escaping @Sendable (SystemError?) -> Void
    ) {
        self.sockets.withLock { $0 = sockets }
        let waiting = Lock((count: loops.count, error: SystemError?.none))
        for loop in loops {
            loop.execute { [self] in
                let part = LoopServer(
                    loop: loop, config: config.withLock { $0 }, handler: makeHandler(loop), counters: counters,
                    addresses: addresses,
                    makeTransport: makeTransport, makeRoomElsewhere: { [weak self] in self?.makeRoom(besides: loop) ?? false })
                var failure: SystemError?
                do throws(SystemError) {
                    for socket in sockets { try part.listen(on: socket) }
                } catch {
                    failure = error
                }
                let bound = Part(loop: loop, server: LoopBound(part, on: loop))
                parts.withLock { $0.append(bound) }
                let (done, error) = waiting.withLock { state in
                    state.count -= 1
                    state.error = state.error ?? failure
                    return (state.count == 0, state.error)
                }
                if done { ready(error) }
            }
        }
    }

    /// Another loop closes its longest waiting connection soon; until then one connection more than the bound is open.
    private func makeRoom(besides loop: EventLoop) -> Bool {
        let others = parts.withLock { $0 }.filter { $0.loop !== loop }
        guard let other = others.randomElement() else { return false }
        other.loop.execute { _ = other.server.value.closeLongestWaiting() }
        return true
    }

    // MARK: Drain, in this order

    /// Every response from now on carries `Connection: close`.
    package func beginDraining() { onEachLoop { $0.beginDraining() } }

    /// What waits in the listeners' queues is accepted, then nothing more. `done` runs on the last loop to finish.
    package func stopAccepting(done: @escaping @Sendable () -> Void) {
        removeFiles()
        onEachLoop({ $0.stopAccepting() }, done: done)
    }

    /// Before the queues are emptied, so that nothing comes into them afterwards. A next process has no file to replace.
    private func removeFiles() {
        let sockets = self.sockets.withLock { sockets in
            defer { sockets = [] }
            return sockets
        }
        for socket in sockets { socket.removeFile() }
    }

    package func closeIdle(over duration: Duration) { onEachLoop { $0.closeIdle(over: duration) } }

    /// Everything ends now, the listeners included.
    package func closeAll(done: @escaping @Sendable () -> Void) {
        removeFiles()
        onEachLoop({ $0.closeAll() }, done: done)
    }

    package var openConnections: Int { counters.open.load() }

    private func onEachLoop(
        _ work: @escaping @Sendable (LoopServer) -> Void, done: @escaping @Sendable () -> Void = {}
    ) {
        let parts = self.parts.withLock { $0 }
        if parts.isEmpty { return done() }
        let left = Lock(parts.count)
        for part in parts {
            part.loop.execute {
                work(part.server.value)
                let last = left.withLock { count in
                    count -= 1
                    return count == 0
                }
                if last { done() }
            }
        }
    }
}
