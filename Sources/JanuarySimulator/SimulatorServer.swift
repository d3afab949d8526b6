import EventLoop
import Primitives
import TLS

/// The listener and its connections. Belongs to one loop.
final class SimulatorServer {
    private let loop: EventLoop
    private let socket: ListeningSocket
    private let tls: TLSServerContext?
    private var acceptor: Acceptor?
    private var connections: [Int: SimulatorConnection] = [:]
    // A cycle until `stop`, so that no callback meets a simulator that is gone.
    private var simulator: Simulator?

    init(loop: EventLoop, socket: ListeningSocket, tls: TLSServerContext?) {
        self.loop = loop
        self.socket = socket
        self.tls = tls
    }

    func start(_ simulator: Simulator) -> SystemError? {
        self.simulator = simulator
        let acceptor = Acceptor(loop: loop, socket: socket, exhausted: { _ in }) { [weak self] descriptor, _ in
            self?.accept(descriptor, simulator)
        }
        self.acceptor = acceptor
        do throws(SystemError) {
            try acceptor.start()
            return nil
        } catch {
            return error
        }
    }

    private func accept(_ descriptor: consuming FileDescriptor, _ simulator: Simulator) {
        let (number, isIgnored) = simulator.connectionOpened()
        let raw = descriptor.raw
        var transport: TLSStream?
        if let tls {
            do throws(TLSError) {
                transport = try TLSStream(server: tls, descriptor: raw)
            } catch {
                simulator.connectionClosed()
                return
            }
        }
        let stream = ByteStream(loop: loop, descriptor: descriptor, transport: transport)
        let connection = SimulatorConnection(
            number: number, stream: stream, loop: loop, simulator: simulator, server: self)
        connections[number] = connection
        do throws(SystemError) {
            if isIgnored { stream.pause() }
            try stream.start(delegate: connection)
        } catch {
            connection.close(reset: true)
        }
    }

    func forget(_ number: Int) { connections[number] = nil }

    var heldCount: Int { connections.values.count { $0.isHeld } }

    func release() { for connection in Array(connections.values) { connection.release() } }

    /// All but those that last carried a control request, whose answer would be cut off.
    func closeConnections(reset: Bool) {
        for connection in Array(connections.values) where !connection.servesControl { connection.close(reset: reset) }
    }

    func stop() {
        acceptor?.stop(drainQueue: false)
        acceptor = nil
        for connection in Array(connections.values) { connection.close(reset: false) }
        simulator = nil
    }
}
