import EventLoop
import HTTPMessage
import Primitives
import TLS

/// One pooled HTTP/1.1 client for everything the service asks of others.
///
/// * ``HTTPClient`` is the shell of one loop: it dials, times and moves bytes. ``ConnectionBudget`` and ``HTTPClientCounters`` are what the
///   clients of all loops share.
/// * ``PoolStateMachine`` (connections and waiting requests of one origin) and ``ExchangeStateMachine`` (one request and its response on
///   one connection) are pure: events in, one action out.
/// * Sizes are bytes, times `Duration` (how long) or `MonotonicInstant` (until when). Failures are `UpstreamError`, whose question is
///   whether a byte was sent: a request is sent again, once and on a fresh connection, only when provably none was (refused, DNS, TLS, a
///   kept connection found closed).
/// * HTTP/1.1 by RFC 9110 and 9112. Redirects are answers like any other and are not followed. Content is returned without its coding;
///   the fields are as they came.
///
/// Belongs to one loop.
package final class HTTPClient: HTTPExchange {
    /// Finished exchanges kept for later requests.
    private static let spareExchanges = 256
    /// The send buffer is kept for the next request up to this.
    private static let maxScratchBytes = 256 * 1024

    let loop: EventLoop
    let tls: TLSClientContext?
    let config: HTTPClientConfig
    let resolver: Resolver
    package let counters: HTTPClientCounters
    private let budget: ConnectionBudget
    private var member: ConnectionBudget.Member?
    private var pools: [OriginPool] = []
    private var spare: [Exchange] = []
    private var sweep: LoopTimer?
    private var sweepAt = MonotonicInstant.distantFuture
    private var isDraining = false
    /// The bytes of the request that is being sent, head and content in one piece.
    private(set) var scratch: [UInt8] = []
    /// Why the last handshake failed, for a log line.
    package internal(set) var lastTLSError: TLSError?
    package var lastTLSFailure: StaticString? { lastTLSError?.reason }
    package private(set) var brokenResponseFields: Fields?

    /// - Parameters:
    ///   - tls: without it, https origins fail with `tls`.
    ///   - budget: shared with the clients of the other loops.
    package init(
        loop: EventLoop, tls: TLSClientContext?, budget: ConnectionBudget, config: HTTPClientConfig = HTTPClientConfig(),
        resolver: Resolver, counters: HTTPClientCounters = HTTPClientCounters()
    ) {
        self.loop = loop
        self.tls = tls
        self.budget = budget
        self.config = config
        self.resolver = resolver
        self.counters = counters
        scratch.reserveCapacity(2048)
        let weakSelf = LoopBound(WeakClient(self), on: loop)
        let member = ConnectionBudget.Member(
            wake: { loop.execute { weakSelf.value.client?.placeMayBeFree() } },
            shed: { loop.execute { weakSelf.value.client?.shedOne() } })
        self.member = member
        budget.join(member)
    }

    deinit { if let member { budget.leave(member) } }

    // MARK: HTTPExchange

    package func send(
        _ request: consuming UpstreamRequest, deadline: MonotonicInstant, beforeSend: (() -> Bool)?,
        completion: @escaping (Result<UpstreamResponse, UpstreamError>) -> Void
    ) {
        loop.assertCurrent()
        guard !isDraining else { return completion(.failure(.notSent(.cancelled))) }
        guard let pool = pool(for: request.origin) else { return completion(.failure(.notSent(.tooManyWaiting))) }
        let exchange = spare.popLast() ?? Exchange(client: self)
        exchange.request = request
        exchange.deadline = deadline
        exchange.beforeSend = beforeSend
        exchange.completion = completion
        exchange.isRetry = false
        begin(exchange, in: pool)
    }

    // MARK: Life

    /// No new requests; idle connections are closed, the others as soon as their exchange is over. Requests in line are still served.
    package func drain() {
        loop.assertCurrent()
        for pool in pools {
            for id in pool.machine.drain() { pool.connection(id)?.close() }
            pool.report(to: counters)
        }
        isDraining = true
    }

    /// Ends everything now: what was sent fails as `closed_early`, what was not as `cancelled`. The client refuses requests afterwards.
    package func close() {
        drain()
        if let sweep { loop.cancel(sweep) }
        for pool in pools {
            for exchange in pool.machine.takeWaiting() { finish(exchange, .failure(.notSent(.cancelled))) }
            for connection in pool.connections { connection?.giveUp(.broken(.closedEarly)) }
            pool.report(to: counters)
        }
        if let member { budget.leave(member) }
        member = nil
    }

    // MARK: Requests

    private func begin(_ exchange: Exchange, in pool: OriginPool) {
        let limit = exchange.waitsUntil
        let action = pool.machine.request(exchange, deadline: limit, needsFresh: exchange.isRetry, now: loop.now)
        if pool.machine.hasStale { closeStale(pool) }
        switch action {
        case .lease(let id):
            pool.connection(id)?.run(exchange)
        case .wait:
            exchange.state = .waiting(pool)
            loop.schedule(exchange, at: limit)
            fill(pool)
        case .refuse(.tooManyWaiting): finish(exchange, .failure(.notSent(.tooManyWaiting)))
        case .refuse(.draining): finish(exchange, .failure(.notSent(.cancelled)))
        case .refuse(.tooLate): finish(exchange, .failure(unsentTimeout(exchange)))
        }
        pool.report(to: counters)
    }

    /// Writes the request into ``scratch``. False when the target is none; then nothing may be sent.
    func encode(_ exchange: Exchange, for pool: OriginPool) -> Bool {
        // One very large request must not keep its memory for ever.
        scratch.removeAll(keepingCapacity: scratch.capacity <= Self.maxScratchBytes)
        return exchange.request?.write(hostLine: pool.hostLine, to: &scratch) ?? false
    }

    func deadlinePassed(_ exchange: Exchange) {
        switch exchange.state {
        case .unused: return
        case .waiting(let pool):
            _ = pool.machine.withdraw(exchange)
            if budget.isWanted, let member, !pools.contains(where: { $0.machine.needsConnection }) { budget.stopWaiting(member) }
            pool.report(to: counters)
            finish(exchange, .failure(unsentTimeout(exchange)))
        case .active(let connection): connection.giveUp(.timedOut(sent: true))
        }
    }

    private func unsentTimeout(_ exchange: Exchange) -> UpstreamError {
        exchange.deadline <= loop.now ? .timedOut(sent: false) : .notSent(.tooLate)
    }

    /// The exchange has failed on a connection that is closed: once more, or over.
    ///
    /// - Parameter fields: of the response, where its head had come.
    func failed(_ exchange: Exchange, _ error: UpstreamError, _ fields: Fields?) {
        guard mayRetry(exchange, error), case .active(let connection) = exchange.state else {
            return finish(exchange, .failure(error), brokenResponseFields: fields)
        }
        exchange.isRetry = true
        begin(exchange, in: connection.pool)
    }

    /// A connection could not be opened. The first in line has used up one attempt.
    func openingFailed(_ connection: ClientConnection, _ reason: UpstreamError.NotSentReason) {
        let pool = connection.pool
        pool.put(nil, at: connection.id)
        let exchange = pool.machine.connectFailed(connection.id, now: loop.now)
        if let exchange {
            if mayRetry(exchange, .notSent(reason)) {
                exchange.isRetry = true
                begin(exchange, in: pool)
            } else {
                finish(exchange, .failure(.notSent(reason)))
            }
        }
        fill(pool)
        pool.report(to: counters)
    }

    /// Only what is proof that no byte went out, and only once. A connection that could not be made in time is no reason to spend the same
    /// time again.
    private func mayRetry(_ exchange: Exchange, _ error: UpstreamError) -> Bool {
        guard let request = exchange.request, request.retriesWhenUnsent, !exchange.isRetry, !isClosed else { return false }
        switch error {
        case .notSent(.refused), .notSent(.dns), .notSent(.tls), .notSent(.closedBeforeSend): return true
        case .notSent(.connectTimeout), .notSent(.tooManyWaiting), .notSent(.tooLate), .notSent(.cancelled), .broken, .timedOut:
            return false
        }
    }

    private var isClosed: Bool { member == nil }

    func finish(
        _ exchange: Exchange, _ result: Result<UpstreamResponse, UpstreamError>, brokenResponseFields fields: Fields? = nil
    ) {
        loop.cancel(exchange)
        let completion = exchange.completion
        exchange.completion = nil
        exchange.beforeSend = nil
        exchange.request = nil
        exchange.state = .unused
        if spare.count < Self.spareExchanges { spare.append(exchange) }
        brokenResponseFields = fields
        completion?(result)
        brokenResponseFields = nil
    }

    // MARK: Connections

    /// What becomes of a connection that is free.
    func act(_ action: PoolStateMachine<Exchange>.FreeAction, on connection: ClientConnection) {
        let pool = connection.pool
        switch action {
        case .none: break
        case .serve(let exchange): connection.run(exchange)
        case .keepIdle: sweep(by: pool.machine.expiry(of: connection.id))
        case .close: connection.close()
        }
        pool.report(to: counters)
    }

    func closed(_ connection: ClientConnection) {
        let pool = connection.pool
        pool.put(nil, at: connection.id)
        pool.machine.closed(connection.id)
        fill(pool)
        pool.report(to: counters)
    }

    /// Opens as many connections as requests wait for, within the budget.
    private func fill(_ pool: OriginPool) {
        guard !pool.isFilling else { return }
        pool.isFilling = true
        defer { pool.isFilling = false }
        openAll(pool)
        guard pool.machine.needsConnection, let member else { return }
        // No place is free. One of our own idle connections to somebody else is the nearest.
        while pool.machine.needsConnection, shedOne(except: pool) { openAll(pool) }
        guard pool.machine.needsConnection else { return }
        budget.wait(member)
        openAll(pool)
        if !pools.contains(where: { $0.machine.needsConnection }) { budget.stopWaiting(member) }
    }

    private func openAll(_ pool: OriginPool) {
        while let id = pool.machine.nextConnection() {
            let connection = ClientConnection(client: self, pool: pool, id: id)
            pool.put(connection, at: id)
            connection.open()
        }
    }

    /// A place was given back somewhere, and we are the first in line.
    private func placeMayBeFree() {
        for pool in pools where pool.machine.needsConnection {
            fill(pool)
            pool.report(to: counters)
        }
        budget.passOn()
    }

    private func shedOne() { _ = shedOne(except: nil) }

    private func shedOne(except: OriginPool?) -> Bool {
        for pool in pools where pool !== except {
            guard let id = pool.machine.shed() else { continue }
            pool.connection(id)?.close()
            return true
        }
        return false
    }

    // MARK: Pools

    private func pool(for origin: Origin) -> OriginPool? {
        for pool in pools where pool.origin == origin { return pool }
        if pools.count >= config.maxOrigins {
            guard let unused = pools.firstIndex(where: { $0.isUnused }) else { return nil }
            pools.remove(at: unused)
        }
        let pool = OriginPool(origin: origin, limits: config.pool, budget: budget, member: member)
        pools.append(pool)
        return pool
    }

    private func closeStale(_ pool: OriginPool) {
        for id in pool.machine.takeStale(now: loop.now) { pool.connection(id)?.close() }
    }

    /// One timer for the idle connections of all pools.
    private func sweep(by expiry: MonotonicInstant?) {
        guard let expiry, expiry < sweepAt else { return }
        sweepAt = expiry
        let timer = sweep ?? LoopTimer { [weak self] in self?.sweepNow() }
        sweep = timer
        loop.cancel(timer)
        loop.schedule(timer, at: expiry)
    }

    private func sweepNow() {
        sweepAt = .distantFuture
        for pool in pools {
            closeStale(pool)
            sweep(by: pool.machine.nextExpiry)
            pool.report(to: counters)
        }
    }
}

extension UpstreamRequest {
    /// Head and content. False when the target is none.
    fileprivate func write(hostLine: [UInt8], to output: inout [UInt8]) -> Bool {
        do throws(FieldError) {
            try HeadEncoder.requestLine(method, target: target, to: &output)
        } catch {
            return false
        }
        output.append(contentsOf: hostLine)
        HeadEncoder.block(fields, to: &output)
        switch method {
        case .post, .put, .patch: HeadEncoder.contentLength(body.count, to: &output)
        case .get, .head, .delete, .connect, .options, .trace, .other:
            if !body.isEmpty { HeadEncoder.contentLength(body.count, to: &output) }
        }
        HeadEncoder.end(to: &output)
        output.append(contentsOf: body)
        return true
    }
}

/// For closures that must not keep the client alive.
private final class WeakClient {
    weak var client: HTTPClient?
    init(_ client: HTTPClient) { self.client = client }
}
