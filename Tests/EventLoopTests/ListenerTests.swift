import Glibc
import Primitives
import TestSupport
import Testing

@testable import EventLoop

/// Listening sockets and their files.
@Suite(.serialized) struct ListenerTests {
    private static let loopback = SocketAddress.ip(.v4(0x7F00_0001), port: 0)

    private static func path(_ name: String) -> String { "/tmp/january-\(getpid())-\(name)" }

    /// As a parent process makes it: blocking, and inherited by whoever is started.
    private static func listeningDescriptor(_ address: SocketAddress) throws -> Int32 {
        let descriptor = socket(address.family, Int32(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0)
        try #require(address.withKernelForm { Glibc.bind(descriptor, $0, $1) } == 0)
        try #require(Glibc.listen(descriptor, 16) == 0)
        return descriptor
    }

    @Test func aSocketThatIsGivenIsAcceptedFrom() async throws {
        let descriptor = try Self.listeningDescriptor(Self.loopback)
        let socket = try ListeningSocket(adopting: FileDescriptor(adopting: descriptor))
        let port = try #require(socket.address.port)
        #expect(port != 0)
        #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
        #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        try await withLoop { loop in
            let accepted = Promise<SocketAddress>("a connection")
            let acceptor = Lock<LoopBound<Acceptor>?>(nil)
            await loop.run {
                let made = Acceptor(
                    loop: loop, socket: socket, exhausted: { _ in }, accepted: { _, peer in accepted.fulfil(peer) })
                try? made.start()
                acceptor.withLock { $0 = LoopBound(made, on: loop) }
            }
            let client = try RawClient(port: port)
            #expect(try await accepted.value().ip?.isLoopback == true)
            await loop.run { acceptor.withLock { $0?.value.stop(drainQueue: true) } }
            withExtendedLifetime(client) {}
        }
    }

    @Test func whatIsNoSocketIsNotTaken() throws {
        let descriptor = open("/dev/null", O_RDONLY)
        #expect(throws: SystemError("getsockname", ENOTSOCK)) {
            try ListeningSocket(adopting: FileDescriptor(adopting: descriptor))
        }
    }

    @Test func theFileOfASocketThatIsGivenStays() throws {
        let path = Self.path("given.sock")
        defer { unlink(path) }
        let address = try #require(SocketAddress("unix:\(path)"))
        let socket = try ListeningSocket(adopting: FileDescriptor(adopting: try Self.listeningDescriptor(address)))
        #expect(socket.address == address)
        socket.removeFile()
        #expect(access(path, F_OK) == 0)
    }

    @Test func theFileOfOurOwnSocketIsTakenAway() throws {
        let path = Self.path("own.sock")
        defer { unlink(path) }
        let socket = try ListeningSocket.bind(try #require(SocketAddress("unix:\(path)")))
        #expect(access(path, F_OK) == 0)
        socket.removeFile()
        #expect(access(path, F_OK) != 0)
        socket.removeFile()
    }

    /// The next process may have begun to listen there already.
    @Test func aFileThatSomebodyElseHasPutThereStays() throws {
        let path = Self.path("next.sock")
        defer { unlink(path) }
        let address = try #require(SocketAddress("unix:\(path)"))
        let old = try ListeningSocket.bind(address)
        unlink(path)
        let next = try ListeningSocket.bind(address)
        old.removeFile()
        #expect(access(path, F_OK) == 0)
        next.removeFile()
        #expect(access(path, F_OK) != 0)
    }

    @Test func whatIsNoSocketFileIsNeverReplaced() throws {
        let (file, link, folder) = (Self.path("plain"), Self.path("link"), Self.path("folder"))
        defer {
            for path in [file, link] { unlink(path) }
            rmdir(folder)
        }
        let made = open(file, O_WRONLY | O_CREAT, 0o600)
        #expect(write(made, "precious", 8) == 8)
        close(made)
        #expect(symlink(file, link) == 0)
        #expect(mkdir(folder, 0o700) == 0)
        for path in [file, link, folder] {
            #expect(throws: SystemError("bind", ENOTSOCK)) {
                try ListeningSocket.bind(try #require(SocketAddress("unix:\(path)")))
            }
            var status = stat()
            #expect(lstat(path, &status) == 0)
            #expect(status.st_mode & S_IFMT != S_IFSOCK)
        }
        var status = stat()
        #expect(stat(file, &status) == 0)
        #expect(status.st_size == 8)
    }
}
