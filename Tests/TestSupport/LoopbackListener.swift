import Glibc
import Primitives

/// A listening socket on the loopback for doubles that play a peer in blocking code: one thread accepts, one serves each connection.
///
/// The accepting thread alone closes the listening socket: closed by somebody else, its number could be another test's socket before the
/// thread has come to `accept`, and take that one's connections.
package final class LoopbackListener: Sendable {
    package struct Failure: Error { package let what: String }

    private struct State {
        var open: Set<Int32> = []
        var accepted = 0
        var isStopped = false
    }

    package let port: UInt16
    private let descriptor: Int32
    private let accepts: Bool
    private let state = Lock(State())

    /// - Parameters:
    ///   - accepts: false: connections stay in the queue.
    ///   - givesAway: `serve` closes its connection itself, and ``stop()`` leaves it alone.
    ///   - serve: on the connection's own thread; connections count from 0. Where it returns, the connection is closed.
    package init(
        backlog: Int32 = 64, accepts: Bool = true, givesAway: Bool = false, serve: @escaping @Sendable (Int32, Int) -> Void
    ) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(what: "socket: \(String(cString: strerror(errno)))") }
        guard let port = Self.bind(descriptor), listen(descriptor, backlog) == 0 else {
            close(descriptor)
            throw Failure(what: "listen: \(String(cString: strerror(errno)))")
        }
        self.port = port
        self.descriptor = descriptor
        self.accepts = accepts
        guard accepts else { return }
        let state = state
        detach {
            while true {
                let connection = accept(descriptor, nil, nil)
                let number = state.withLock { state -> Int? in
                    guard connection >= 0, !state.isStopped else { return nil }
                    if !givesAway { state.open.insert(connection) }
                    state.accepted += 1
                    return state.accepted - 1
                }
                if let number {
                    detach {
                        serve(connection, number)
                        if givesAway { return }
                        state.withLock { _ = $0.open.remove(connection) }
                        close(connection)
                    }
                } else if connection >= 0 {
                    close(connection)
                }
                if state.withLock({ $0.isStopped }) { break }
            }
            close(descriptor)
        }
    }

    package var acceptedCount: Int { state.withLock { $0.accepted } }
    package var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Nobody can connect any more, and whoever reads from a connection reads its end.
    package func stop() {
        state.withLock { state in
            state.isStopped = true
            for connection in state.open { shutdown(connection, Int32(SHUT_RDWR)) }
        }
        // Ends the accept.
        shutdown(descriptor, Int32(SHUT_RDWR))
        if !accepts { close(descriptor) }
    }

    /// Of the loopback, for a program that takes no port 0. Nobody else asks for it in the moment between.
    package static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        guard descriptor >= 0, let port = bind(descriptor) else {
            throw Failure(what: "no free port: \(String(cString: strerror(errno)))")
        }
        return port
    }

    private static func bind(_ descriptor: Int32) -> UInt16? {
        var address = loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        return isBound ? UInt16(bigEndian: address.sin_port) : nil
    }
}

package func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
    return address
}

/// A thread of its own that ends when `work` does.
package func detach(_ work: @escaping @Sendable () -> Void) {
    final class Work: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    var thread = pthread_t()
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    let argument = Unmanaged.passRetained(Work(work)).toOpaque()
    pthread_create(
        &thread, &attributes,
        { argument in
            guard let argument else { return nil }
            Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().run()
            return nil
        }, argument)
    pthread_attr_destroy(&attributes)
}
