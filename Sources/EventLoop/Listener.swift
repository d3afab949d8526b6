import CSystem
import Glibc
import Primitives

/// A listening socket, shared by all loops. It is made outside the server and given to it: by ``bind(_:backlog:unixMode:)`` or from a
/// parent that already listens.
///
/// One socket per address, without `SO_REUSEPORT`: that would let a second server start silently, and closing such a listener resets
/// connections that wait in its queue.
package final class ListeningSocket: Sendable {
    let descriptor: FileDescriptor
    /// With the port that the kernel chose, where port 0 was asked for.
    package let address: SocketAddress
    /// The socket file that ``bind(_:backlog:unixMode:)`` made. A file that came with the descriptor belongs to whoever made that.
    private let file: SocketFile?
    /// Somebody else holds it open, too: what we do not accept is accepted by whoever comes after us.
    package let isInherited: Bool

    private struct SocketFile {
        let path: String
        let device: dev_t
        let inode: ino_t

        init?(_ path: String) {
            var status = stat()
            guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return nil }
            self.path = path
            device = status.st_dev
            inode = status.st_ino
        }
    }

    /// Takes the socket's file away: for after the last accept. One that somebody else has put in its place stays.
    package func removeFile() {
        guard let file, let current = SocketFile(file.path) else { return }
        if current.device == file.device && current.inode == file.inode { _ = unlink(file.path) }
    }

    /// - Parameter descriptor: already listening, for example inherited (`LISTEN_FDS`).
    package convenience init(adopting descriptor: consuming FileDescriptor) throws(SystemError) {
        try self.init(descriptor, file: nil, isInherited: true)
    }

    private init(_ descriptor: consuming FileDescriptor, file: SocketFile?, isInherited: Bool) throws(SystemError) {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let raw = descriptor.raw
        let result = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(raw, $0, &length) }
        }
        guard result == 0, let address = SocketAddress(storage) else { throw SystemError("getsockname") }
        _ = fcntl(raw, F_SETFL, fcntl(raw, F_GETFL) | O_NONBLOCK)
        _ = fcntl(raw, F_SETFD, FD_CLOEXEC)
        // Accepted connections inherit it (tcp(7) on Linux): no call for each. Responses are written whole, nothing is gained by waiting.
        if address.ip != nil { System.setOption(raw, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
        self.address = address
        self.file = file
        self.isInherited = isInherited
        self.descriptor = descriptor
    }

    /// - Parameter unixMode: the mode of the socket file; a file nobody listens on is replaced, a live one is `EADDRINUSE`.
    package static func bind(
        _ address: SocketAddress, backlog: Int32 = 4096, unixMode: mode_t = 0o660
    ) throws(SystemError) -> ListeningSocket {
        let raw = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard raw >= 0 else { throw SystemError("socket") }
        let descriptor = FileDescriptor(adopting: raw)
        var file: SocketFile?
        switch address {
        case .ip(let ip, _):
            // Connections of the last process in TIME_WAIT must not keep the next one from starting; a live listener still does.
            System.setOption(raw, SOL_SOCKET, SO_REUSEADDR, 1)
            if case .v6 = ip { System.setOption(raw, Int32(IPPROTO_IPV6), IPV6_V6ONLY, ip.isWildcard ? 0 : 1) }
            guard address.withKernelForm({ Glibc.bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
        case .unix(let path):
            try bindUnix(raw, address, path: path, mode: unixMode)
            file = SocketFile(path)
        }
        guard listen(raw, backlog) == 0 else { throw SystemError("listen") }
        return try ListeningSocket(descriptor, file: file, isInherited: false)
    }

    private static func bindUnix(_ raw: Int32, _ address: SocketAddress, path: String, mode: mode_t) throws(SystemError) {
        // The mode is right from the first instant: no other user can connect between bind and chmod.
        let old = umask(0o777 & ~mode)
        defer { umask(old) }
        if address.withKernelForm({ Glibc.bind(raw, $0, $1) }) == 0 { return }
        guard errno == EADDRINUSE else { throw SystemError("bind") }
        // A file of somebody else's is never touched.
        guard SocketFile(path) != nil else { throw SystemError("bind", ENOTSOCK) }
        if isLive(address) { throw SystemError("bind", EADDRINUSE) }
        guard unlink(path) == 0 else { throw SystemError("bind") }
        guard address.withKernelForm({ Glibc.bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
    }

    private static func isLive(_ address: SocketAddress) -> Bool {
        let probe = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard probe >= 0 else { return true }
        let descriptor = FileDescriptor(adopting: probe)
        let result = address.withKernelForm { connect(descriptor.raw, $0, $1) }
        // A full queue (EAGAIN) has somebody behind it; refused means nobody.
        return result == 0 || errno != ECONNREFUSED
    }
}

/// Accepts on one loop. Where several loops accept from the same socket, the kernel wakes one of them for each connection.
package final class Acceptor: ReadinessHandler {
    /// Connections taken in one turn, so that a flood of them does not starve those that are open.
    private static let maxPerTurn = 64
    /// Connections taken from the queue when the acceptor stops: as many as a queue holds, not as many as a flood can bring.
    private static let maxAtStop = 4096
    /// The pause when descriptors or memory have run out: nothing spins, and what is open is served.
    private static let pause: Duration = .milliseconds(100)

    private let loop: EventLoop
    package let socket: ListeningSocket
    private let accepted: (consuming FileDescriptor, SocketAddress) -> Void
    private let exhausted: (SystemError) -> Void
    private let makeRoom: () -> Bool
    private var registration: Registration?
    private var isStopped = false
    private var mayMakeRoom = true
    private lazy var resumeTimer = LoopTimer { [weak self] in self?.resume() }

    /// - Parameters:
    ///   - accepted: gets the connection (non-blocking, close-on-exec, `TCP_NODELAY`) and the address of its peer.
    ///   - exhausted: descriptors or memory ran out, and accepting pauses for 100 ms.
    ///   - makeRoom: asked before that, once for one connection: closes another one in its favour, or answers false.
    package init(
        loop: EventLoop, socket: ListeningSocket, exhausted: @escaping (SystemError) -> Void,
        makeRoom: @escaping () -> Bool = { false },
        accepted: @escaping (consuming FileDescriptor, SocketAddress) -> Void
    ) {
        self.loop = loop
        self.socket = socket
        self.exhausted = exhausted
        self.makeRoom = makeRoom
        self.accepted = accepted
    }

    package func start() throws(SystemError) {
        registration = try loop.registerListener(socket.descriptor.raw, handler: self)
    }

    /// Accepts nothing more; with `drainQueue` what waits in the kernel's queue is taken first, so that no connection is reset.
    package func stop(drainQueue: Bool) {
        if drainQueue { for _ in 0..<Self.maxAtStop where !acceptOne() { break } }
        isStopped = true
        pauseAccepting()
        loop.cancel(resumeTimer)
    }

    package func ready(_ readiness: Readiness) {
        for _ in 0..<Self.maxPerTurn where !acceptOne() { return }
    }

    package func loopStopped() {
        isStopped = true
        registration = nil
    }

    /// - Returns: whether there may be another one.
    private func acceptOne() -> Bool {
        guard !isStopped else { return false }
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let raw = System.retrying {
            withUnsafeMutablePointer(to: &storage) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    Int(january_accept(socket.descriptor.raw, $0, &length))
                }
            }
        }
        guard raw < 0 else {
            let descriptor = FileDescriptor(adopting: Int32(raw))
            mayMakeRoom = true
            guard let peer = SocketAddress(storage) else { return true }
            accepted(descriptor, peer)
            return true
        }
        switch errno {
        case EAGAIN: return false
        case ECONNABORTED, EPERM, EPROTO, ENOPROTOOPT, ENETDOWN, ENETUNREACH, EHOSTDOWN, EHOSTUNREACH, ENONET, EOPNOTSUPP,
            ETIMEDOUT:
            // This connection was gone before we took it, or a firewall forbade it (accept(2)): the next one may be better.
            return true
        default:
            System.stopOnOurBug("accept4")
            let error = SystemError("accept4")
            // Only our own limit is cured by closing something of ours.
            if error.number == EMFILE && mayMakeRoom {
                mayMakeRoom = false
                if makeRoom() { return true }
            }
            pauseAccepting()
            loop.schedule(resumeTimer, after: Self.pause)
            exhausted(error)
            return false
        }
    }

    private func pauseAccepting() {
        guard let registration else { return }
        loop.unregister(registration, socket.descriptor.raw)
        self.registration = nil
    }

    private func resume() {
        guard !isStopped, registration == nil else { return }
        do throws(SystemError) {
            try start()
        } catch {
            loop.schedule(resumeTimer, after: Self.pause)
        }
    }
}
