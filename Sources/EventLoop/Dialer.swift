import CSystem
import Glibc
import Primitives

package enum DialError: Error, Equatable, Sendable {
    /// The list of addresses was empty.
    case noAddress
    /// No address answered in time.
    case timedOut
    /// All addresses failed; the last failure.
    case failed(StreamError)
    case system(SystemError)
}

/// What dialling came to. The descriptor is connected, non-blocking, and the receiver's.
package enum DialResult: ~Copyable {
    case connected(FileDescriptor, SocketAddress)
    case failed(DialError)
}

/// Opens one connection to the first of several addresses that answers: the next address is tried 250 ms after the one before, or at once
/// when that has failed, and the families take turns (RFC 8305 sections 4 and 5). Belongs to one loop, used once.
package final class Dialer {
    /// RFC 8305 section 8: the recommended Connection Attempt Delay.
    package static let standardStagger: Duration = .milliseconds(250)
    package static let standardTimeout: Duration = .seconds(2)

    private enum State {
        case created
        case dialling
        case over
    }

    private let loop: EventLoop
    private let addresses: [SocketAddress]
    private let timeout: Duration
    private let stagger: Duration
    private var completion: ((consuming DialResult) -> Void)?
    private var state = State.created
    private var next = 0
    private var attempts: [Attempt] = []
    private var lastError = DialError.noAddress
    private var staggerTimer: LoopTimer?
    private var timeoutTimer: LoopTimer?

    /// - Parameters:
    ///   - timeout: for all addresses together.
    ///   - completion: called exactly once on the loop, unless cancelled; inside ``start()`` when all fail at once.
    package init(
        loop: EventLoop, addresses: [SocketAddress], timeout: Duration = standardTimeout, stagger: Duration = standardStagger,
        completion: @escaping (consuming DialResult) -> Void
    ) {
        self.loop = loop
        self.addresses = Self.interleaved(addresses)
        self.timeout = timeout
        self.stagger = stagger
        self.completion = completion
    }

    package func start() {
        loop.assertCurrent()
        guard case .created = state else { return }
        state = .dialling
        let timer = LoopTimer { [weak self] in self?.finish(.failed(.timedOut)) }
        timeoutTimer = timer
        loop.schedule(timer, after: timeout)
        tryNext()
    }

    /// Closes what is under way. There is no completion.
    package func cancel() {
        completion = nil
        end()
    }

    /// RFC 8305 section 4: the order is kept, but the families take turns, beginning with the first address's.
    package static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let family = addresses.first?.family else { return [] }
        let preferred = addresses.filter { $0.family == family }
        let others = addresses.filter { $0.family != family }
        var order: [SocketAddress] = []
        for index in 0..<max(preferred.count, others.count) {
            if index < preferred.count { order.append(preferred[index]) }
            if index < others.count { order.append(others[index]) }
        }
        return order
    }

    private func tryNext() {
        // A loop, not recursion: an address that fails at once makes way for the next in the same turn.
        while case .dialling = state, next < addresses.count {
            let address = addresses[next]
            next += 1
            guard let attempt = begin(address) else { continue }
            attempts.append(attempt)
            if attempt.isConnected { return succeed(attempt) }
            scheduleNext()
            return
        }
        if case .dialling = state, attempts.isEmpty { finish(.failed(lastError)) }
    }

    private func scheduleNext() {
        guard next < addresses.count else { return }
        let timer = staggerTimer ?? LoopTimer { [weak self] in self?.tryNext() }
        staggerTimer = timer
        // Cancelled first: moving a timer to an earlier or later slot must not leave the old one.
        loop.cancel(timer)
        loop.schedule(timer, after: stagger)
    }

    /// `nil` when it failed at once, which `lastError` tells.
    private func begin(_ address: SocketAddress) -> Attempt? {
        let raw = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard raw >= 0 else {
            lastError = .system(SystemError("socket"))
            return nil
        }
        let descriptor = FileDescriptor(adopting: raw)
        // Requests are written whole: nothing is gained by waiting for more.
        if case .ip = address { System.setOption(raw, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
        let result = address.withKernelForm { connect(raw, $0, $1) }
        let number = errno
        if result == 0 { return Attempt(descriptor, address, isConnected: true, dialer: self) }
        // EINTR: the connection goes on being made, as with EINPROGRESS.
        guard number == EINPROGRESS || number == EINTR else {
            lastError = .failed(StreamError(errno: number))
            return nil
        }
        let attempt = Attempt(descriptor, address, isConnected: false, dialer: self)
        do {
            attempt.registration = try loop.register(raw, handler: attempt)
        } catch {
            lastError = .system(error)
            return nil
        }
        return attempt
    }

    fileprivate func ready(_ attempt: Attempt, _ readiness: Readiness) {
        guard case .dialling = state, readiness.writable, let raw = attempt.raw else { return }
        let number = System.pendingError(raw)
        if number == 0 { return succeed(attempt) }
        lastError = .failed(StreamError(errno: number))
        attempt.end(loop)
        attempts.removeAll { $0 === attempt }
        tryNext()
    }

    private func succeed(_ attempt: Attempt) {
        attempt.unregister(loop)
        guard let descriptor = attempt.takeDescriptor() else { return }
        finish(.connected(descriptor, attempt.address))
    }

    private func finish(_ result: consuming DialResult) {
        guard case .dialling = state else { return }
        let completion = completion
        self.completion = nil
        end()
        completion?(result)
    }

    private func end() {
        state = .over
        for attempt in attempts { attempt.end(loop) }
        attempts = []
        if let staggerTimer { loop.cancel(staggerTimer) }
        if let timeoutTimer { loop.cancel(timeoutTimer) }
    }
}

/// One address that is being tried.
private final class Attempt: ReadinessHandler {
    private var descriptor: FileDescriptor?
    /// As long as this object has the descriptor.
    private(set) var raw: Int32?
    let address: SocketAddress
    let isConnected: Bool
    var registration: Registration?
    private weak var dialer: Dialer?

    init(_ descriptor: consuming FileDescriptor, _ address: SocketAddress, isConnected: Bool, dialer: Dialer) {
        raw = descriptor.raw
        self.descriptor = consume descriptor
        self.address = address
        self.isConnected = isConnected
        self.dialer = dialer
    }

    func ready(_ readiness: Readiness) { dialer?.ready(self, readiness) }

    func unregister(_ loop: EventLoop) {
        if let registration, let raw { loop.unregister(registration, raw) }
        registration = nil
    }

    func takeDescriptor() -> FileDescriptor? {
        raw = nil
        return descriptor.take()
    }

    /// Unregisters and closes.
    func end(_ loop: EventLoop) {
        unregister(loop)
        raw = nil
        descriptor = nil
    }
}
