import Glibc
import Primitives
import TestSupport
import Testing

@testable import EventLoop

/// Real sockets on loopback: the test is the client.
@Suite(.serialized)
struct ByteStreamTests {
    /// Answers what it is told to; records what it saw.
    private final class Peer: ByteStreamDelegate {
        var received: [UInt8] = []
        var onReceive: (Peer, ByteStream) -> Void = { _, _ in }
        var onEnd: (Peer, ByteStream) -> Void = { _, _ in }
        var onFail: (StreamError) -> Void = { _ in }
        var onDrain: () -> Void = {}
        func streamDidOpen(_ stream: ByteStream) {}
        func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
            received.append(contentsOf: bytes)
            onReceive(self, stream)
        }
        func streamDidEnd(_ stream: ByteStream) { onEnd(self, stream) }
        func streamDidDrain(_ stream: ByteStream) { onDrain() }
        func stream(_ stream: ByteStream, didFail error: StreamError) { onFail(error) }
    }

    /// Listens on a free port; `configure` sets up each accepted peer on the loop.
    private func listening(
        on loop: EventLoop, configure: @escaping @Sendable (Peer) -> Void, accepted: @escaping (ByteStream) -> Void = { _ in }
    ) async throws -> UInt16 {
        let socket = try ListeningSocket.bind(try #require(SocketAddress("127.0.0.1:0")))
        let started = Promise<Bool>("listen")
        let hook = LoopBoundHook(accepted)
        loop.execute {
            let acceptor = Acceptor(loop: loop, socket: socket, exhausted: { _ in }) { descriptor, _ in
                let stream = ByteStream(loop: loop, descriptor: descriptor)
                let peer = Peer()
                configure(peer)
                hook.call(stream)
                started.fulfil((try? stream.start(delegate: peer)) != nil)
            }
            started.fulfil((try? acceptor.start()) != nil)
        }
        let value1 = try await started.value()
        #expect(value1)
        return try #require(socket.address.port)
    }

    private struct LoopBoundHook: @unchecked Sendable {
        // Sendable: called on the loop only.
        let call: (ByteStream) -> Void
        init(_ call: @escaping (ByteStream) -> Void) { self.call = call }
    }

    @Test
    func whatIsSentComesBackWholeHoweverLarge() async throws {
        try await withLoop { loop in
            let port = try await listening(
                on: loop,
                configure: { peer in
                    peer.onReceive = { peer, stream in
                        stream.write(peer.received)
                        peer.received = []
                    }
                    peer.onEnd = { _, stream in if stream.pendingWriteBytes == 0 { stream.close() } }
                })
            // 8 MiB are more than all buffers between: both directions have to wait for the other.
            let bytes = (0..<8 * 1024 * 1024).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
            let echoed = try await onOwnThread {
                let client = try RawClient(port: port)
                let sender = pthread_t.spawn { try? client.send(bytes) }
                var echoed: [UInt8] = []
                while echoed.count < bytes.count { echoed += try client.receive() }
                sender.join()
                return echoed
            }
            #expect(echoed == bytes)
        }
    }

    @Test
    func aPausedStreamReadsNothingUntilItIsResumed() async throws {
        try await withLoop { loop in
            let first = Promise<Bool>("first bytes")
            let all = Promise<Int>("all bytes")
            let port = try await listening(
                on: loop,
                configure: { peer in
                    peer.onReceive = { peer, stream in
                        if !first.isFulfilled {
                            stream.pause()
                            first.fulfil(true)
                            loop.schedule(LoopTimer { stream.resume() }, after: .milliseconds(50))
                        }
                        if peer.received.count == 300_000 { all.fulfil(peer.received.count) }
                    }
                })
            async let sent: Void = onOwnThread {
                let client = try RawClient(port: port)
                try client.send([UInt8](repeating: 7, count: 300_000))
                _ = try client.receiveAll(allowingReset: true)
            }
            let value2 = try await all.value()
            #expect(value2 == 300_000)
            loop.stop()
            _ = try? await sent
        }
    }

    @Test
    func aResetIsToldEvenToAStreamThatIsPaused() async throws {
        try await withLoop { loop in
            let paused = Promise<Bool>("bytes")
            let failed = Promise<StreamError>("reset")
            let port = try await listening(
                on: loop,
                configure: { peer in
                    peer.onReceive = { _, stream in
                        stream.pause()
                        paused.fulfil(true)
                    }
                    peer.onFail = { failed.fulfil($0) }
                })
            let client = try RawClient(port: port)
            try client.send("x")
            _ = try await paused.value()
            client.reset()
            let value3 = try await failed.value()
            #expect(value3 == .reset)
        }
    }

    @Test
    func theEndBehindTheLastBytesIsToldAfterThem() async throws {
        try await withLoop { loop in
            let ended = Promise<[UInt8]>("end")
            let port = try await listening(
                on: loop,
                configure: { peer in
                    peer.onEnd = { peer, stream in
                        ended.fulfil(peer.received)
                        stream.write(Array("bye".utf8))
                        stream.close()
                    }
                })
            let client = try RawClient(port: port)
            try client.send("hello")
            client.finishSending()
            let value4 = try await ended.value()
            #expect(value4 == Array("hello".utf8))
            let answer = try await onOwnThread { try client.receiveAll() }
            #expect(answer == Array("bye".utf8))
        }
    }

    /// Each write of ours brings an event on which the end could be read again.
    @Test
    func theEndIsToldOnce() async throws {
        try await withLoop { loop in
            let ends = Lock(0)
            let port = try await listening(
                on: loop,
                configure: { peer in
                    peer.onEnd = { _, stream in
                        #expect(stream.isAtEnd)
                        ends.withLock { $0 += 1 }
                        stream.write([UInt8](repeating: 1, count: 4 << 20))
                    }
                })
            let client = try RawClient(port: port)
            client.finishSending()
            let count = try await onOwnThread {
                var count = 0
                while count < 4 << 20 { count += try client.receive().count }
                return count
            }
            #expect(count == 4 << 20)
            // Events that were there are behind it.
            for _ in 0..<3 { _ = await loop.run { true } }
            #expect(ends.withLock { $0 } == 1)
        }
    }

    @Test
    func whatCameBeforeTheEndIsReadAfterAPause() async throws {
        try await withLoop { loop in
            let paused = Promise<Bool>("the first bytes")
            let ended = Promise<Int>("the end")
            let streams = Lock<LoopBound<ByteStream>?>(nil)
            let port = try await listening(
                on: loop,
                configure: { peer in
                    peer.onReceive = { _, stream in
                        guard !paused.isFulfilled else { return }
                        stream.pause()
                        streams.withLock { $0 = LoopBound(stream, on: loop) }
                        paused.fulfil(true)
                    }
                    peer.onEnd = { peer, stream in
                        ended.fulfil(peer.received.count)
                        stream.close()
                    }
                })
            let client = try RawClient(port: port)
            try client.send("x")
            _ = try await paused.value()
            try client.send([UInt8](repeating: 7, count: 100_000))
            client.finishSending()
            try await eventually("the end to be announced") {
                await loop.run { streams.withLock { $0?.value.peerEnded ?? false } }
            }
            #expect(await loop.run { streams.withLock { $0?.value.isAtEnd } } == false)
            _ = await loop.run { streams.withLock { $0?.value.resume() } }
            let count = try await ended.value()
            #expect(count == 100_001)
        }
    }

    @Test
    func aLoopThatStopsClosesItsConnections() async throws {
        let client = try await withLoop { loop in
            let received = Promise<Bool>("bytes")
            let port = try await listening(on: loop, configure: { peer in peer.onReceive = { _, _ in received.fulfil(true) } })
            let client = try RawClient(port: port)
            try client.send("x")
            _ = try await received.value()
            return client
        }
        #expect(try await onOwnThread { try client.receiveAll() } == [])
    }

    // MARK: Listeners

    @Test
    func anAcceptedConnectionSendsWithoutDelay() async throws {
        try await withLoop { loop in
            let delay = Promise<Int32>("the option")
            let port = try await listening(
                on: loop, configure: { _ in },
                accepted: { stream in
                    var value: Int32 = 0
                    var length = socklen_t(MemoryLayout<Int32>.size)
                    getsockopt(stream.rawDescriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &value, &length)
                    delay.fulfil(value)
                })
            let client = try RawClient(port: port)
            let value = try await delay.value()
            #expect(value == 1)
            client.finishSending()
        }
    }

    /// Such as one that the parent process has shut down: each accept fails, and an event says at once that it may be tried again.
    @Test
    func aListenerThatFailsIsTriedNowAndThenAndStopsAtOnce() async throws {
        try await withLoop { loop in
            let socket = try ListeningSocket.bind(try #require(SocketAddress("127.0.0.1:0")))
            let failures = Lock(0)
            let acceptors = Lock<LoopBound<Acceptor>?>(nil)
            await loop.run {
                let acceptor = Acceptor(
                    loop: loop, socket: socket, exhausted: { _ in failures.withLock { $0 += 1 } }, accepted: { _, _ in })
                try? acceptor.start()
                acceptors.withLock { $0 = LoopBound(acceptor, on: loop) }
            }
            shutdown(socket.descriptor.raw, Int32(SHUT_RDWR))
            try await eventually("the first failures") { failures.withLock { $0 } >= 2 }
            // With the pause between two of them not even a slow machine sees many; without it there are thousands.
            #expect(failures.withLock { $0 } < 100)
            await loop.run { acceptors.withLock { $0?.value.stop(drainQueue: true) } }
        }
    }

    @Test
    func aSecondListenerOnTheSameAddressIsRefused() throws {
        let first = try ListeningSocket.bind(try #require(SocketAddress("127.0.0.1:0")))
        #expect(throws: SystemError("bind", EADDRINUSE)) { try ListeningSocket.bind(first.address) }
    }

    @Test
    func aDeadSocketFileIsReplacedAndALiveOneIsNot() throws {
        let path = "/tmp/january-test-\(getpid()).sock"
        defer { unlink(path) }
        let address = try #require(SocketAddress("unix:\(path)"))
        var live: ListeningSocket? = try ListeningSocket.bind(address)
        #expect(throws: SystemError("bind", EADDRINUSE)) { try ListeningSocket.bind(address) }
        #expect(live != nil)
        live = nil
        let again = try ListeningSocket.bind(address)
        var status = stat()
        #expect(stat(path, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o660)
        #expect(again.address == address)
    }
}

extension pthread_t {
    /// A thread of its own for one half of a blocking conversation.
    fileprivate static func spawn(_ work: @escaping @Sendable () -> Void) -> pthread_t {
        final class Box {
            let work: @Sendable () -> Void
            init(_ work: @escaping @Sendable () -> Void) { self.work = work }
        }
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { raw in
                if let raw { Unmanaged<Box>.fromOpaque(raw).takeRetainedValue().work() }
                return nil
            }, Unmanaged.passRetained(Box(work)).toOpaque())
        return thread
    }

    fileprivate func join() { pthread_join(self, nil) }
}
