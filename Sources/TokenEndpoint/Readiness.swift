import Primitives
import Sessions
import StrictJSON
import Synchronization

/// Whether traffic may come. Once ready it stays ready until the drain: what all replicas share must not take them all out at once.
final class Readiness: Sendable {
    /// So long the other key sets may fail before one that has loaded is enough.
    private static let patience: Duration = .seconds(30)

    private let lifecycle: Lifecycle
    private let verifiers: Lock<SessionVerifiers>
    private let time: any TimeSource
    private let stateIsWritable: @Sendable () -> Bool
    private let stateWasRead: @Sendable () -> Bool
    private let wasReady = Atomic<Bool>(false)

    init(
        lifecycle: Lifecycle, verifiers: SessionVerifiers, time: any TimeSource,
        stateIsWritable: @escaping @Sendable () -> Bool = { true },
        stateWasRead: @escaping @Sendable () -> Bool = { true }
    ) {
        self.stateIsWritable = stateIsWritable
        self.stateWasRead = stateWasRead
        self.lifecycle = lifecycle
        self.verifiers = Lock(verifiers)
        self.time = time
    }

    func replace(_ verifiers: SessionVerifiers) { self.verifiers.withLock { $0 = verifiers } }

    enum State: Equatable {
        case starting(waitingFor: [String])
        case ready
        case degraded(reasons: [String])
        case draining

        var status: Int {
            switch self {
            case .ready, .degraded: 200
            case .starting, .draining: 503
            }
        }

        var name: String {
            switch self {
            case .starting: "starting"
            case .ready: "ready"
            case .degraded: "degraded"
            case .draining: "draining"
            }
        }

        /// Of a state that is not as it should be.
        var reasons: [String] {
            switch self {
            case .starting(let reasons), .degraded(let reasons): reasons
            case .ready, .draining: []
            }
        }

        var body: [UInt8] {
            func object(_ status: String, _ name: String? = nil, _ list: [String] = []) -> [UInt8] {
                var members = [JSONMember(name: "status", value: .string(status))]
                if let name { members.append(JSONMember(name: name, value: .array(list.map(JSONValue.string)))) }
                return JSONValue.object(JSONObject(members)).encoded()
            }
            switch self {
            case .starting(let waitingFor): return object("starting", "waiting_for", waitingFor)
            case .ready: return object("ready")
            case .degraded(let reasons): return object("degraded", "reasons", reasons)
            case .draining: return object("draining")
            }
        }
    }

    func state() -> State {
        if lifecycle.isDraining { return .draining }
        let now = time.monotonic()
        let keySets = verifiers.withLock { $0 }.keySets
        let missing = keySets.filter { $0.state.snapshot == nil }
        let haveFailedLong = missing.allSatisfy { keySet in
            keySet.state.failingSince.map { now - $0 >= Self.patience } ?? false
        }
        let hasState = stateWasRead()
        if hasState && (missing.isEmpty || (missing.count < keySets.count && haveFailedLong)) {
            wasReady.store(true, ordering: .relaxed)
        }
        // This process's own: another replica may do better.
        guard stateIsWritable() else { return .starting(waitingFor: ["state"]) }
        guard wasReady.load(ordering: .relaxed) else {
            return .starting(waitingFor: missing.map { "jwks:\($0.name)" } + (hasState ? [] : ["state"]))
        }
        let failing = keySets.filter { $0.state.snapshot == nil || $0.state.failingSince != nil }
        return failing.isEmpty ? .ready : .degraded(reasons: failing.map { "jwks:\($0.name)" })
    }
}
