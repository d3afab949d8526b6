import CSystem
import Glibc
import Primitives

/// Why a name has no addresses. Bounded: every case is a metric label.
package enum ResolveError: String, Error, Equatable, Sendable {
    /// The name does not exist or has no address.
    case notFound = "not_found"
    /// The resolver failed: no server, a broken answer, a local limit.
    case failed
    /// Too many names wait for the resolver's threads.
    case tooBusy = "too_busy"
}

/// Names to addresses, for all loops. `getaddrinfo` blocks for many seconds when the name server is silent and cannot be cancelled, so it
/// runs on a few threads of its own, and nothing here waits for it longer than it has to:
///
/// * one look-up per name at a time, shared by everybody who asks for it meanwhile;
/// * ``Settings/waitingNames`` names wait for a thread; more are refused;
/// * when an answer takes longer than ``Settings/patience``, or the look-up fails, the last good addresses are used.
///
/// Cache: key is the name; an answer is used for ``Settings/freshFor`` (`getaddrinfo` does not tell the TTL); the last good addresses are
/// used for ``Settings/staleFor`` when there is nothing better, for ``Settings/failureFor`` at a time; failures are not kept. At most
/// ``Settings/cachedNames`` names, the one asked for least recently goes first.
package final class Resolver: Sendable {
    package struct Settings: Sendable, Equatable {
        package var threads = 4
        package var waitingNames = 64
        package var patience: Duration = .seconds(1)
        package var freshFor: Duration = .seconds(30)
        package var failureFor: Duration = .seconds(1)
        package var staleFor: Duration = .seconds(24 * 3600)
        package var cachedNames = 256

        package init() {}
    }

    package typealias Answer = Result<[IPAddress], ResolveError>
    /// Called on one of the resolver's threads; may block.
    package typealias Lookup = @Sendable (_ name: String) -> Answer

    private let core: ResolverCore

    package init(time: any TimeSource = SystemTime(), settings: Settings = Settings(), lookup: @escaping Lookup = Resolver.system)
    {
        core = ResolverCore(time: time, settings: settings, lookup: lookup)
    }

    deinit { core.stop() }

    /// Finds the addresses of `name`, in the order in which they should be tried.
    /// - Parameters:
    ///   - name: an IP address is its own answer, without a thread.
    ///   - loop: the calling loop.
    ///   - completion: called exactly once on `loop`, inside this call when the answer is known. No time limit of its own: without earlier
    ///     good addresses it comes when the system gives up.
    package func resolve(_ name: String, on loop: EventLoop, completion: @escaping (Answer) -> Void) {
        loop.assertCurrent()
        if let address = IPAddress(name) { return completion(.success([address])) }
        let pending = PendingAnswer(completion)
        switch core.ask(name, PendingOnLoop(pending: LoopBound(pending, on: loop), loop: loop)) {
        case .known(let answer): completion(answer)
        case .later(let fallback, let since):
            guard let fallback else { return }
            let timer = LoopTimer { [weak pending] in pending?.finish(.success(fallback)) }
            pending.timer = timer
            loop.schedule(timer, at: since)
        }
    }

    /// `getaddrinfo`: hosts file, name servers, and the order of RFC 6724.
    package static let system: Lookup = { name in
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(name, nil, &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard status == 0 else {
            return .failure(status == EAI_NONAME || status == EAI_NODATA ? .notFound : .failed)
        }
        var addresses: [IPAddress] = []
        var next = list
        while let entry = next?.pointee {
            next = entry.ai_next
            guard let raw = entry.ai_addr else { continue }
            var storage = sockaddr_storage()
            let length = min(Int(entry.ai_addrlen), MemoryLayout<sockaddr_storage>.size)
            withUnsafeMutableBytes(of: &storage) { $0.copyMemory(from: UnsafeRawBufferPointer(start: raw, count: length)) }
            if let address = SocketAddress(storage)?.ip, !addresses.contains(address) { addresses.append(address) }
        }
        return addresses.isEmpty ? .failure(.notFound) : .success(addresses)
    }
    /// Not in the C library's Swift module; the value is the GNU extension's.
    private static let EAI_NODATA: Int32 = -5
}

/// One caller's wait; belongs to its loop.
private final class PendingAnswer {
    private var completion: ((Resolver.Answer) -> Void)?
    var timer: LoopTimer?

    init(_ completion: @escaping (Resolver.Answer) -> Void) { self.completion = completion }

    /// The look-up and the timer may both come; the first counts.
    func finish(_ answer: Resolver.Answer) {
        guard let completion else { return }
        self.completion = nil
        completion(answer)
    }
}

private struct PendingOnLoop: Sendable {
    let pending: LoopBound<PendingAnswer>
    let loop: EventLoop

    func deliver(_ answer: Resolver.Answer) {
        let pending = pending
        let loop = loop
        loop.execute {
            let pending = pending.value
            if let timer = pending.timer { loop.cancel(timer) }
            pending.finish(answer)
        }
    }
}

/// What the threads keep alive, so that a resolver can go while one of them still hangs in the system.
private final class ResolverCore: Sendable {
    enum Reply {
        case known(Resolver.Answer)
        /// The answer comes by mail; from the instant on the addresses may be used instead.
        case later(fallback: [IPAddress]?, at: MonotonicInstant)
    }

    private struct Entry {
        var answer: Resolver.Answer?
        var answerEnds: MonotonicInstant
        var lastGood: [IPAddress] = []
        var lastGoodEnds: MonotonicInstant
        var lookupStarted: MonotonicInstant?
        var callers: [PendingOnLoop] = []
        var lastAsked: MonotonicInstant

        func fallback(_ now: MonotonicInstant) -> [IPAddress]? {
            lastGood.isEmpty || lastGoodEnds <= now ? nil : lastGood
        }
    }

    private struct State {
        var entries: [String: Entry] = [:]
        var queue: [String] = []
        var threads = 0
        var busyThreads = 0
        var isStopped = false
    }

    private let time: any TimeSource
    private let settings: Resolver.Settings
    private let lookup: Resolver.Lookup
    private let state = Lock(State())
    private let work = Semaphore()

    init(time: any TimeSource, settings: Resolver.Settings, lookup: @escaping Resolver.Lookup) {
        self.time = time
        self.settings = settings
        self.lookup = lookup
    }

    func ask(_ name: String, _ caller: PendingOnLoop) -> Reply {
        let now = time.monotonic()
        let (reply, startsThread, wakesThread) = state.withLock { state -> (Reply, Bool, Bool) in
            var entry =
                state.entries.removeValue(forKey: name)
                ?? Entry(answerEnds: now, lastGoodEnds: now, lastAsked: now)
            entry.lastAsked = now
            defer { state.entries[name] = entry }
            if let answer = entry.answer, now < entry.answerEnds { return (.known(answer), false, false) }
            let fallback = entry.fallback(now)
            if let started = entry.lookupStarted {
                if let fallback, started + settings.patience <= now { return (.known(.success(fallback)), false, false) }
                entry.callers.append(caller)
                return (.later(fallback: fallback, at: started + settings.patience), false, false)
            }
            let mayStart = state.threads < settings.threads && state.queue.count >= state.threads - state.busyThreads
            guard state.queue.count < settings.waitingNames + settings.threads - state.busyThreads else {
                return (.known(fallback.map { .success($0) } ?? .failure(.tooBusy)), false, false)
            }
            Self.makeRoom(in: &state, for: settings.cachedNames)
            entry.lookupStarted = now
            entry.callers = [caller]
            state.queue.append(name)
            if mayStart { state.threads += 1 }
            return (.later(fallback: fallback, at: now + settings.patience), mayStart, true)
        }
        if startsThread { startThread() }
        if wakesThread { work.signal() }
        return reply
    }

    /// The threads end when nobody waits any more: who has asked is answered.
    func stop() {
        let threads = state.withLock { state in
            state.isStopped = true
            return state.threads
        }
        for _ in 0..<threads { work.signal() }
    }

    private static func makeRoom(in state: inout State, for capacity: Int) {
        guard state.entries.count >= capacity else { return }
        let oldest = state.entries.lazy.filter { $0.value.lookupStarted == nil }.min { $0.value.lastAsked < $1.value.lastAsked }
        if let oldest { state.entries[oldest.key] = nil }
    }

    // MARK: Threads

    private func startThread() {
        if NamedThread.start("resolver", { self.runThread() }) != 0 { threadIsMissing() }
    }

    /// No thread could be made. Without any, what waits would wait for ever: it fails now.
    private func threadIsMissing() {
        let names = state.withLock { state -> [String] in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            defer { state.queue = [] }
            return state.queue
        }
        for name in names { finish(name, .failure(.failed)) }
    }

    private func runThread() {
        while true {
            work.wait()
            let (name, isStopped) = state.withLock { state -> (String?, Bool) in
                guard !state.queue.isEmpty else { return (nil, state.isStopped) }
                state.busyThreads += 1
                return (state.queue.removeFirst(), state.isStopped)
            }
            guard let name else {
                if isStopped { return }
                continue
            }
            let answer = lookup(name)
            state.withLock { $0.busyThreads -= 1 }
            finish(name, answer)
        }
    }

    private func finish(_ name: String, _ answer: Resolver.Answer) {
        let now = time.monotonic()
        let (callers, delivered) = state.withLock { state -> ([PendingOnLoop], Resolver.Answer) in
            guard var entry = state.entries.removeValue(forKey: name) else { return ([], answer) }
            defer { state.entries[name] = entry }
            let callers = entry.callers
            entry.callers = []
            entry.lookupStarted = nil
            if case .success(let addresses) = answer {
                entry.lastGood = addresses
                entry.lastGoodEnds = now + settings.staleFor
                entry.answer = answer
                entry.answerEnds = now + settings.freshFor
                return (callers, answer)
            }
            guard let fallback = entry.fallback(now) else {
                // Not remembered: who tries again means it, and there is one look-up per name at a time anyway.
                entry.answer = nil
                return (callers, answer)
            }
            entry.answer = .success(fallback)
            entry.answerEnds = now + settings.failureFor
            return (callers, .success(fallback))
        }
        for caller in callers { caller.deliver(delivered) }
    }
}
