import CSystem
import Glibc
import Primitives

/// One non-blocking byte stream: a connected TCP or Unix socket, with TLS or without. It knows bytes, not messages, and has no
/// deadlines of its own: its owner is a ``TimerNode`` or has one.
///
/// Belongs to one loop. An idle stream owns no buffer: it reads into the loop's, and its write queue exists only while the peer does
/// not take what was written.
package final class ByteStream: ReadinessHandler {
    /// Reads of one turn, so that one fast sender does not starve the others: 4 × 64 KiB.
    private static let maxReadsPerTurn = 4

    private enum State {
        case handshaking
        case open
        case closed
    }

    private let loop: EventLoop
    /// Of `descriptor`; not to be used once the state is closed: the number may be somebody else's then.
    private let raw: Int32
    private var descriptor: FileDescriptor?
    private var transport: (any StreamTransport)?
    // A strong reference in both directions until `close`, which cuts it: no callback can reach a freed owner.
    private var delegate: (any ByteStreamDelegate)?
    private var registration: Registration?
    private var writeQueue: [UInt8] = []
    private var writeOffset = 0
    private var state = State.handshaking
    private var mayHaveMore = false
    /// The peer has finished sending, perhaps behind bytes that were not read yet.
    package private(set) var peerEnded = false
    /// The peer has finished sending, and everything it sent was delivered.
    package private(set) var isAtEnd = false
    private var rereadIsDeferred = false
    /// While true nothing is read: the kernel's buffer, and with it the peer, has to wait.
    package private(set) var isPaused = false

    /// - Parameters:
    ///   - descriptor: connected (or connecting, where the first event says how it went), non-blocking.
    ///   - transport: what encrypts; nil for plain bytes.
    package init(loop: EventLoop, descriptor: consuming FileDescriptor, transport: (any StreamTransport)? = nil) {
        self.loop = loop
        raw = descriptor.raw
        self.descriptor = consume descriptor
        self.transport = transport
        if transport == nil { state = .open }
    }

    package var rawDescriptor: Int32 { raw }
    package var pendingWriteBytes: Int { writeQueue.count - writeOffset }
    package var isClosed: Bool { state == .closed }
    package var isHandshaking: Bool { state == .handshaking }

    /// Registers with the loop and begins the handshake, if there is one. Callbacks come only after this call has returned, except those
    /// of a handshake that is over at once.
    ///
    /// - Parameter isUrgent: as in ``EventLoop/register(_:isUrgent:handler:)``.
    package func start(delegate: any ByteStreamDelegate, isUrgent: Bool = false) throws(SystemError) {
        self.delegate = delegate
        registration = try loop.register(raw, isUrgent: isUrgent, handler: self)
    }

    /// Writes now what the kernel takes and queues the rest; the owner bounds what it writes by looking at ``pendingWriteBytes``.
    package func write(_ bytes: [UInt8]) {
        guard state != .closed else { return }
        if state == .handshaking || !writeQueue.isEmpty {
            writeQueue.append(contentsOf: bytes)
            return
        }
        var sent = 0
        let error = bytes.withUnsafeBytes { send($0, &sent) }
        if let error { return fail(error) }
        if sent < bytes.count {
            writeQueue = Array(bytes[sent...])
            writeOffset = 0
        }
    }

    package func pause() { isPaused = true }

    /// Reads again; what arrived meanwhile is delivered from the loop, not from inside this call.
    package func resume() {
        guard isPaused else { return }
        isPaused = false
        if mayHaveMore { deferReading() }
    }

    /// Reads even though no event asks for it: bytes behind an urgent one (RFC 9293 section 3.8.5) wait for a read without one.
    package func readUnasked() {
        guard state == .open else { return }
        mayHaveMore = true
        if !isPaused { deferReading() }
    }

    /// Finishes our side and keeps reading, so that the peer can take what was sent before it sees the end. Only with an empty write
    /// queue.
    package func shutdownWriting() {
        guard state == .open else { return }
        transport?.shutdown()
        _ = Glibc.shutdown(raw, Int32(SHUT_WR))
    }

    /// Ends it now and without a callback. What is still queued is lost.
    /// - Parameter reset: the peer sees a reset instead of an end.
    package func close(reset: Bool = false) {
        guard state != .closed else { return }
        if state == .open && !reset { transport?.shutdown() }
        state = .closed
        if reset {
            var linger = linger(l_onoff: 1, l_linger: 0)
            _ = setsockopt(raw, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
        }
        if let registration { loop.unregister(registration, raw, closes: true) }
        letGo()
    }

    package func loopStopped() {
        state = .closed
        letGo()
    }

    private func letGo() {
        registration = nil
        descriptor = nil
        delegate = nil
        writeQueue = []
        writeOffset = 0
    }

    /// Whether the peer has sent or ended something that was not read yet: asked before an idle connection is used again.
    package func hasUnreadInput() -> Bool {
        if state == .closed || peerEnded || mayHaveMore { return true }
        return peek() != .wouldBlock
    }

    /// Whether bytes of the peer were not read yet: a close would then be a reset, and could destroy what was sent last.
    package func hasUnreadBytes() -> Bool {
        if state == .closed || isAtEnd { return false }
        if transport != nil { return true }
        if case .bytes = peek() { return true }
        return false
    }

    private func peek() -> IOResult {
        var byte: UInt8 = 0
        let count = System.retrying { recv(raw, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) }
        if count > 0 { return .bytes(count) }
        if count == 0 { return .end }
        return errno == EAGAIN ? .wouldBlock : .failed(StreamError(errno: errno))
    }

    // MARK: Events

    package func ready(_ readiness: Readiness) {
        if state == .handshaking {
            advanceHandshake()
            guard state == .open else { return }
        }
        // A transport may have to read before it can write.
        if (readiness.writable || transport != nil) && !writeQueue.isEmpty { flush() }
        guard state == .open else { return }
        if readiness.readable || transport != nil {
            if readiness.ended { peerEnded = true }
            // Nobody reads while paused, so nobody would notice that the answer cannot arrive any more.
            if readiness.broken && isPaused { return fail(StreamError(errno: pendingErrorOrReset())) }
            mayHaveMore = true
            readMore()
        }
    }

    private func advanceHandshake() {
        guard let transport else { return }
        if transport.mayMeetPlainText {
            switch firstByte() {
            case .letter:
                self.transport = nil
                state = .open
                delegate?.streamDidMeetPlainText(self)
                return
            // The server speaks second. Asked now, the transport might read what comes in this moment, and nobody could look at it any more.
            case .notThere: return
            case .other: break
            }
        }
        switch transport.handshake() {
        case .done:
            state = .open
            delegate?.streamDidOpen(self)
        case .wait: break
        case .failed(let error): fail(error)
        }
    }

    private enum FirstByte { case letter, other, notThere }

    /// A letter is what every request in the clear begins with and no TLS record (RFC 8446 section 5.1: 0x16 is a handshake). `other` is also the end
    /// of the stream, or an error, which the transport finds by itself.
    private func firstByte() -> FirstByte {
        var byte: UInt8 = 0
        let count = System.retrying { recv(raw, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) }
        if count < 0 && errno == EAGAIN { return .notThere }
        return count == 1 && (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? .letter : .other
    }

    private func flush() {
        var sent = 0
        let offset = writeOffset
        let error = writeQueue.withUnsafeBytes { send(UnsafeRawBufferPointer(rebasing: $0[offset...]), &sent) }
        if let error { return fail(error) }
        writeOffset += sent
        if writeOffset == writeQueue.count {
            writeQueue = []
            writeOffset = 0
            delegate?.streamDidDrain(self)
        }
    }

    private func send(_ bytes: UnsafeRawBufferPointer, _ sent: inout Int) -> StreamError? {
        while sent < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
            switch transport?.write(rest) ?? System.send(raw, rest) {
            case .bytes(let count): sent += count
            case .wouldBlock: return nil
            case .end: return .reset
            case .failed(let error): return error
            }
        }
        return nil
    }

    private func deferReading() {
        guard !rereadIsDeferred else { return }
        rereadIsDeferred = true
        loop.deferWork {
            self.rereadIsDeferred = false
            self.readMore()
        }
    }

    private func readMore() {
        for _ in 0..<Self.maxReadsPerTurn {
            guard state == .open, !isPaused, mayHaveMore, !isAtEnd else { return }
            let buffer = loop.readBuffer
            switch transport?.read(into: buffer) ?? System.receive(raw, into: buffer) {
            case .bytes(let count):
                // A short read has emptied the kernel's buffer: the next bytes bring a new event. A transport keeps bytes of its own,
                // and behind the last bytes of a peer that has ended there is the end to be read.
                if count < buffer.count && transport == nil && !peerEnded { mayHaveMore = false }
                delegate?.stream(self, didReceive: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            case .wouldBlock:
                mayHaveMore = false
                return
            case .end:
                mayHaveMore = false
                peerEnded = true
                isAtEnd = true
                delegate?.streamDidEnd(self)
                return
            case .failed(let error):
                return fail(error)
            }
        }
        if state == .open && !isPaused && mayHaveMore { deferReading() }
    }

    private func pendingErrorOrReset() -> Int32 {
        let number = System.pendingError(raw)
        return number == 0 ? ECONNRESET : number
    }

    private func fail(_ error: StreamError) {
        guard state != .closed else { return }
        let delegate = self.delegate
        // Behind the transport's own last words, such as a TLS alert, a reset would overtake them.
        if case .transport = error { close() } else { close(reset: true) }
        delegate?.stream(self, didFail: error)
    }
}

/// What turns bytes of the stream into bytes on the descriptor, for example TLS. Belongs to the stream and its loop.
package protocol StreamTransport: AnyObject {
    /// Called at each event until it answers `done` or `failed`.
    func handshake() -> HandshakeStep
    /// `.wouldBlock` for want of either direction: the stream is watched for both.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult
    /// Says goodbye if that is possible without waiting.
    func shutdown()
    /// The peer has to begin, nothing of it was read yet, and it may have mistaken the port.
    var mayMeetPlainText: Bool { get }
}

extension StreamTransport {
    package var mayMeetPlainText: Bool { false }
}

package enum HandshakeStep: Equatable, Sendable {
    case done
    case wait
    case failed(StreamError)
}

/// The owner of a stream. All calls come on the loop.
package protocol ByteStreamDelegate: AnyObject {
    /// The handshake is over. Not called for plain streams, which are open from the start.
    func streamDidOpen(_ stream: ByteStream)
    /// The peer speaks in the clear where it was to begin a handshake. The stream is open, without its transport: for an answer that says so, and
    /// for nothing else.
    func streamDidMeetPlainText(_ stream: ByteStream)
    /// The bytes are the loop's buffer: valid during the call only.
    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer)
    /// The peer has finished sending; writing may still work. Told once.
    func streamDidEnd(_ stream: ByteStream)
    /// All that was written has gone to the kernel.
    func streamDidDrain(_ stream: ByteStream)
    /// The stream is over and already closed.
    func stream(_ stream: ByteStream, didFail error: StreamError)
}

extension ByteStreamDelegate {
    package func streamDidMeetPlainText(_ stream: ByteStream) {
        stream.close()
        self.stream(stream, didFail: .transport("not_tls"))
    }
}
