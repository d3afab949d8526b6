import Dispatch
import EventLoop
import HTTPMessage
import JOSE
import Primitives
import StrictJSON
import TLS

/// The simulator on one port. Start it, talk to it over HTTP, and look at or change its state from any thread:
///
///     let simulator = try Simulator(.init(), time: time)
///     try simulator.start()
///     simulator.addFault(.init(.disrupted(.resetAfterCommit), on: .mint))
///     …
///     #expect(simulator.requests(of: .mint).count == 1)
package final class Simulator: Sendable {
    package struct Configuration: Sendable {
        package var address = SocketAddress.ip(.v4(0x7F00_0001), port: 0)
        package var settings = SimulatorSettings()
        /// The identity provider's issuer; ``origin`` and `/idp` when `nil`.
        package var issuer: String?
        /// Algorithms that have a key from the start. RSA keys take about 0.1 s each to make.
        package var algorithms: [JWSAlgorithm] = [.rs256, .es256, .edDSA]
        package var sharedSecret: Secret?
        /// Requests remembered in full.
        package var ledgerCapacity = 10_000
        /// Tokens remembered, about 400 bytes each; January knows no older one, live or not.
        package var tokenCapacity = 200_000
        /// Of tokens, request IDs and key IDs; random when `nil`.
        package var seed: UInt64?
        package var tls: TLSServerContext?

        package init() {}
    }

    private let state: Lock<SimulatorState>
    private let configuration: Configuration
    package let time: any TimeSource
    private let loop: EventLoop
    private let socket: ListeningSocket
    private let server: LoopBound<SimulatorServer>

    /// Binds the port and makes the keys; nothing is accepted before ``start()``.
    package init(
        _ configuration: Configuration = Configuration(), time: any TimeSource = SystemTime()
    ) throws(SystemError) {
        self.configuration = configuration
        self.time = time
        socket = try ListeningSocket.bind(configuration.address)
        loop = try EventLoop(name: "simulator", time: SystemTime())
        let server = SimulatorServer(loop: loop, socket: socket, tls: configuration.tls)
        self.server = LoopBound(server, on: loop)
        var random = SystemRandomNumberGenerator()
        state = Lock(SimulatorState(configuration, seed: configuration.seed ?? random.next()))
        if configuration.issuer == nil {
            let issuer = origin + "/idp"
            state.withLock { $0.identity.issuer = issuer }
        }
        for algorithm in configuration.algorithms where !algorithm.isSymmetric { rotateKey(algorithm) }
    }

    /// Accepts from here on. Returns when it does.
    package func start() throws(SystemError) {
        loop.start()
        let server = server
        let result = onLoop { [self] in server.value.start(self) }
        if let error = result { throw error }
    }

    /// Closes every connection and the port. Returns when nothing runs any more.
    package func stop() {
        let server = server
        onLoop { server.value.stop() }
        let done = DispatchSemaphore(value: 0)
        loop.stop { done.signal() }
        done.wait()
    }

    /// Runs `work` on the loop and waits for it; directly when called there.
    private func onLoop<Result: Sendable>(_ work: @escaping @Sendable () -> Result) -> Result {
        if loop.isCurrent { return work() }
        let box = Lock<Result?>(nil)
        let done = DispatchSemaphore(value: 0)
        loop.execute {
            let result = work()
            box.withLock { $0 = result }
            done.signal()
        }
        while true {
            done.wait()
            if let result = box.withLock({ $0 }) { return result }
        }
    }

    // MARK: Where it is

    package var address: SocketAddress { socket.address }
    package var port: Int { Int(socket.address.port ?? 0) }
    /// `http://127.0.0.1:PORT`
    package var origin: String { "\(configuration.tls == nil ? "http" : "https")://\(socket.address)" }

    // MARK: Time

    package var now: WallInstant {
        let offset = state.withLock { $0.clockOffset }
        return time.wall() + offset
    }

    /// Moves the simulator's clock, forwards or back: tokens and sessions see it, faults' delays do not.
    package func moveClock(by duration: Duration) { state.withLock { $0.clockOffset += duration } }
    package func setClockOffset(_ offset: Duration) { state.withLock { $0.clockOffset = offset } }

    // MARK: State

    /// Everything, as it is at one instant. Copies: for a look at one thing there are cheaper ways below.
    package func snapshot() -> SimulatorState { state.withLock { $0 } }

    package var settings: SimulatorSettings { state.withLock { $0.january.settings } }

    package func configure(_ change: @Sendable (inout SimulatorSettings) -> Void) {
        state.withLock { change(&$0.january.settings) }
    }

    package func read<Result: Sendable>(_ body: @Sendable (SimulatorState) -> Result) -> Result {
        state.withLock { body($0) }
    }

    package func requests(of operation: Operation? = nil, after number: Int = 0) -> [RecordedRequest] {
        state.withLock { $0.ledger.requests(of: operation, after: number) }
    }

    package func counts(of operation: Operation) -> Ledger.Counts { state.withLock { $0.ledger.counts(of: operation) } }

    package func tokens(of user: String) -> [MintedToken] { state.withLock { $0.january.tokens.tokens(of: user) } }

    package func liveTokens(of user: String) -> [MintedToken] {
        let now = now
        return state.withLock { $0.january.tokens.live(of: user, now: now, settings: $0.january.settings) }
    }

    package func find(token: String) -> MintedToken? { state.withLock { $0.january.tokens.find(token) } }

    /// What January would say to this token now.
    package func state(of token: String) -> TokenState {
        let now = now
        return state.withLock { $0.january.tokens.state(of: token.utf8, now: now, settings: $0.january.settings).state }
    }

    /// Forgets the requests; tokens, settings and faults stay.
    package func clearLedger() { state.withLock { $0.ledger.clear() } }

    /// As after the start, but for the identity provider's keys and the numbers of requests, which go on.
    package func reset() {
        let configuration = configuration
        state.withLock { state in
            state.january = JanuarySide(
                settings: configuration.settings, tokenCapacity: configuration.tokenCapacity, seed: state.newSeed())
            state.ledger.clear()
            state.faults.removeAll()
            state.clockOffset = .zero
            state.identity.discoveryOverrides = [:]
            state.documentCacheControl = nil
        }
        release()
    }

    // MARK: Faults

    /// - Parameter seed: of the rule's chances; random when `nil`.
    /// - Returns: the number by which it is taken away again.
    @discardableResult
    package func addFault(_ rule: FaultRule, seed: UInt64? = nil) -> Int {
        state.withLock { state in state.faults.add(rule, seed: seed ?? state.newSeed()) }
    }

    @discardableResult
    package func removeFault(id: Int) -> Bool { state.withLock { $0.faults.remove(id: id) } }

    package func clearFaults() { state.withLock { $0.faults.removeAll() } }

    /// New connections are accepted and never read.
    package func ignoreConnections(_ ignores: Bool) { state.withLock { $0.faults.ignoresConnections = ignores } }

    /// Lets everything go on that is held.
    package func release() {
        let server = server
        loop.execute { server.value.release() }
    }

    /// Requests that are held at this moment.
    package var heldCount: Int {
        let server = server
        return onLoop { server.value.heldCount }
    }

    package func closeConnections(reset: Bool = false) {
        let server = server
        onLoop { server.value.closeConnections(reset: reset) }
    }

    // MARK: Identity provider

    /// A new current key of that algorithm. Makes the key outside the lock; on the loop (a control request) nothing is answered
    /// meanwhile, for RSA about 0.1 s.
    @discardableResult
    package func rotateKey(_ algorithm: JWSAlgorithm, old: IdentityProvider.KeyStatus = .retired) -> String {
        let keyID = newKeyID(algorithm)
        let key = SigningKey.generate(algorithm, keyID: keyID)
        state.withLock { $0.identity.rotate(to: key, keyID: keyID, old: old) }
        return keyID
    }

    /// A key that is published and does not sign yet.
    @discardableResult
    package func publishUpcomingKey(_ algorithm: JWSAlgorithm) -> String {
        let keyID = newKeyID(algorithm)
        let key = SigningKey.generate(algorithm, keyID: keyID)
        state.withLock { $0.identity.add(key, keyID: keyID, status: .upcoming) }
        return keyID
    }

    @discardableResult
    package func setKeyStatus(_ status: IdentityProvider.KeyStatus, of keyID: String) -> Bool {
        state.withLock { $0.identity.set(status, of: keyID) }
    }

    package func changeIdentity(_ change: @Sendable (inout IdentityProvider) -> Void) {
        state.withLock { change(&$0.identity) }
    }

    package func setDocumentCacheControl(_ value: String?) { state.withLock { $0.documentCacheControl = value } }

    /// A signed session. An algorithm without a key gets one.
    package func session(_ order: SessionOrder) throws(SessionOrderError) -> String {
        let needsKey = !order.algorithm.isSymmetric && order.keyID == nil
        if needsKey, state.withLock({ $0.identity.currentKey(order.algorithm) == nil }) { rotateKey(order.algorithm) }
        let now = now
        // Signing takes its time: not under the lock.
        let identity = state.withLock { $0.identity }
        return try identity.sign(order, now: now)
    }

    private func newKeyID(_ algorithm: JWSAlgorithm) -> String {
        state.withLock { $0.newID("\(algorithm.rawValue.lowercased())-") }
    }

    // MARK: For the server

    func arrive(_ head: RequestHead, body: [UInt8], connection: Int) -> SimulatorState.Arrival {
        let authority = head.authority.map { String(decoding: $0, as: UTF8.self) } ?? "\(socket.address)"
        let origin = "\(configuration.tls == nil ? "http" : "https")://\(authority)"
        let wall = time.wall()
        return state.withLock { state in
            state.arrive(head, body: body, connection: connection, origin: origin, now: wall + state.clockOffset)
        }
    }

    func perform(_ arrival: SimulatorState.Arrival) -> (answer: Answer, date: String) {
        let wall = time.wall()
        return state.withLock { state in
            let now = wall + state.clockOffset
            return (state.perform(arrival, now: now), state.date(now))
        }
    }

    func abandon(_ arrival: SimulatorState.Arrival) { state.withLock { $0.abandon(arrival) } }

    func dateText() -> String {
        let wall = time.wall()
        return state.withLock { $0.date(wall + $0.clockOffset) }
    }

    func newRequestID() -> String { state.withLock { $0.newID("req_") } }

    /// - Returns: the connection's number, and whether it is to be ignored.
    func connectionOpened() -> (number: Int, isIgnored: Bool) {
        state.withLock {
            $0.connections.accepted += 1
            $0.connections.open += 1
            return ($0.connections.accepted, $0.faults.ignoresConnections)
        }
    }

    func connectionClosed() { state.withLock { $0.connections.open -= 1 } }
}
