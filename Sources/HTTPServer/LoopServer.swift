import EventLoop
import HTTPMessage
import Primitives

/// The part of a ``Server`` that lives on one loop: its connections and its handler.
final class LoopServer {
    let loop: EventLoop
    private(set) var config: ServerConfig
    /// Of the configuration; counted out once, because every request needs it.
    private(set) var idleNanoseconds: Int64
    let handler: any RequestHandler
    let counters: ServerCounters
    private let addresses: AddressCounter
    var table = ConnectionTable()
    var encoder = ResponseEncoder()
    private(set) var isDraining = false
    private(set) var isClosingIdle = false
    private var acceptors: [Acceptor] = []
    private let makeTransport: TransportFactory?
    /// Asks the other loops to close their longest waiting connection; false when none has one.
    private let makeRoomElsewhere: () -> Bool

    init(
        loop: EventLoop, config: ServerConfig, handler: any RequestHandler, counters: ServerCounters,
        addresses: AddressCounter, makeTransport: TransportFactory?, makeRoomElsewhere: @escaping () -> Bool
    ) {
        self.loop = loop
        self.config = config
        idleNanoseconds = config.idleTimeout.wholeNanoseconds
        self.handler = handler
        self.counters = counters
        self.addresses = addresses
        self.makeTransport = makeTransport
        self.makeRoomElsewhere = makeRoomElsewhere
    }

    /// Time-outs that run already end as they began.
    func replace(_ config: ServerConfig) {
        self.config = config
        idleNanoseconds = config.idleTimeout.wholeNanoseconds
    }

    func listen(on socket: ListeningSocket) throws(SystemError) {
        let acceptor = Acceptor(
            loop: loop, socket: socket,
            exhausted: { [weak self] _ in self?.counters.refusedForDescriptors.add(1) },
            makeRoom: { [weak self] in self?.closeLongestWaiting() ?? false },
            accepted: { [weak self] descriptor, peer in self?.accept(descriptor, peer) })
        try acceptor.start()
        acceptors.append(acceptor)
    }

    private func accept(_ descriptor: consuming FileDescriptor, _ peer: SocketAddress) {
        // Before room is made: the one who opens too many does not push others out.
        // Without a limit nobody is counted: that would cost every connection a lock.
        let entry = config.maxConnectionsPerAddress == nil ? .exempt : addresses.enter(peer)
        switch entry {
        case .refused: counters.refusedForAddress.add(1)
        case .exempt: _ = serve(descriptor, peer, isCounted: false)
        case .counted: if !serve(descriptor, peer, isCounted: true) { addresses.leave(peer) }
        }
    }

    /// - Returns: whether there is a connection now, or was; false where the descriptor was closed without one.
    private func serve(_ descriptor: consuming FileDescriptor, _ peer: SocketAddress, isCounted: Bool) -> Bool {
        let excess = counters.open.load() - config.maxConnections
        if excess >= 0 && !makeRoom(excess: excess) {
            counters.refusedForMaxConnections.add(1)
            return false  // The descriptor goes here, and with it the connection.
        }
        var transport: (any StreamTransport)?
        if let makeTransport {
            // Never without it: nobody may talk in the clear to a listener that encrypts.
            guard let made = makeTransport(descriptor.raw) else {
                counters.refusedForDescriptors.add(1)
                return false
            }
            transport = made
        }
        counters.accepted.add(1)
        counters.open.add(1)
        let stream = ByteStream(loop: loop, descriptor: descriptor, transport: transport)
        let connection = ServerConnection(stream: stream, peer: peer, isCounted: isCounted, server: self)
        do throws(SystemError) {
            try connection.start()
        } catch {
            counters.refusedForDescriptors.add(1)
        }
        return true
    }

    /// How far the bound may be exceeded until other loops have closed what they were asked to.
    private static let maxExcess = 16

    /// Closes the connection that has waited longest for a complete head. Only if every one is being served does the new one go.
    private func makeRoom(excess: Int) -> Bool {
        if closeLongestWaiting() { return true }
        return excess < Self.maxExcess && counters.waiting.load() > table.waitingCount && makeRoomElsewhere()
    }

    func closeLongestWaiting() -> Bool {
        guard let victim = table.longestWaiting(turn: loop.turn) else { return false }
        counters.closedForRoom.add(1)
        victim.close()
        return true
    }

    func startWaiting(_ slot: Int32) {
        if table.startWaiting(slot, turn: loop.turn) { counters.waiting.add(1) }
    }

    /// It has its last response: the first to go when room is needed.
    func startLingering(_ slot: Int32) {
        if table.startWaiting(slot, turn: loop.turn, first: true) { counters.waiting.add(1) }
    }

    func stopWaiting(_ slot: Int32) {
        if table.stopWaiting(slot) { counters.waiting.add(-1) }
    }

    /// - Parameter isCounted: it is one of the connections of its address.
    func connectionClosed(_ slot: Int32, peer: SocketAddress, isCounted: Bool) {
        stopWaiting(slot)
        table.remove(slot)
        counters.open.add(-1)
        if isCounted { addresses.leave(peer) }
    }

    // MARK: Drain

    /// From now on every response closes its connection.
    func beginDraining() { isDraining = true }

    func stopAccepting() {
        // What waits for a socket that others have, too, is left to them.
        for acceptor in acceptors { acceptor.stop(drainQueue: !acceptor.socket.isInherited) }
        acceptors = []
    }

    /// Closes what waits between requests, spread over `duration` so that clients do not all come back at once elsewhere. Who has
    /// connected and not asked yet has the whole of it: its request is on its way.
    func closeIdle(over duration: Duration) {
        isClosingIdle = true
        let idle = table.all.filter(\.isIdle)
        for (index, connection) in idle.enumerated() {
            let share =
                connection.hasHadRequest
                ? Int64(index) * duration.wholeNanoseconds / Int64(idle.count) : duration.wholeNanoseconds
            let timer = LoopTimer { [weak connection] in connection?.closeIfIdle() }
            loop.schedule(timer, at: loop.now.advanced(byNanoseconds: share))
        }
    }

    func closeAll() {
        for connection in table.all { connection.close(reset: false) }
    }
}

/// Makes the transport of an accepted connection; `nil` when that fails, and the connection is closed.
package typealias TransportFactory = @Sendable (_ descriptor: Int32) -> (any StreamTransport)?
