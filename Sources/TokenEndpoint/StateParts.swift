import EventLoop
import HTTPMessage
import January
import Primitives
import Revocations
import Telemetry

/// What the process keeps beyond its end: opened at the start, closed last.
struct StateParts: Sendable {
    let mintsInFlight: MintsInFlight
    /// With `state: sqlite:…`.
    let store: SQLiteRevocationStore?
    /// With `state: redis://…`.
    var shared: SharedStateParts?
    let hash: EndUserHash

    /// What decides who is who, as it is kept beside the fences.
    static func identity(_ config: RootConfig) -> [String: String] {
        var identity = config.endUsers.identity(namespaces: config.sessions.verifiers.map(\.namespace)).record
        identity["sessions.verifiers[].prefix"] = config.sessions.verifiers.map { $0.endUserPrefix ?? "" }.sorted()
            .joined(separator: "\n")
        return identity
    }

    /// Blocks while another process has the file.
    static func open(
        _ config: RootConfig, on loop: EventLoop, resolver: Resolver, log: Log, time: any TimeSource, givesUp: () -> Bool
    ) throws(TokenEndpoint.StartError) -> StateParts {
        let mints = MintsInFlight(maxCount: config.january.maxInFlight)
        if case .redis(let redis) = config.state {
            let hash = config.log.hashSecret == nil ? EndUserHash.late() : EndUserHash(config.log)
            let shared = try SharedStateParts.open(
                redis, config, recordHash: hash, on: loop, resolver: resolver, log: log, time: time)
            return StateParts(mintsInFlight: mints, store: nil, shared: shared, hash: hash)
        }
        guard case .sqlite(let path) = config.state else {
            return StateParts(mintsInFlight: mints, store: nil, hash: EndUserHash(config.log))
        }
        var options = SQLiteState.Options(path: path)
        options.mustExist = config.stateRules.mustExist
        options.waitsFor = config.drain.timeout + .seconds(5)
        options.acceptsNewIdentity = config.stateRules.acceptsNewMapping
        options.hashSecret = config.log.hashSecret?.secret
        options.identity = identity(config)
        do throws(StateOpenError) {
            let state = try SQLiteState.open(options, time: time, givesUp: givesUp) {
                log.write(
                    .warning, "another process has the state file; waiting for it to end",
                    [LogField("path", path), LogField("limit_seconds", Int(options.waitsFor.components.seconds))])
            }
            report(state, log)
            let store: SQLiteRevocationStore
            do throws(SystemError) {
                store = try SQLiteRevocationStore(state, mints: mints, time: time)
            } catch {
                throw .unusable(path: path, reason: error.text)
            }
            return StateParts(mintsInFlight: mints, store: store, hash: state.hash)
        } catch {
            throw .state(error)
        }
    }

    private static func report(_ state: SQLiteState, _ log: Log) {
        let path = LogField("path", state.path)
        if state.findings.isNew {
            log.write(.warning, "the state file is new: it holds no fences", [path, LogField("store_id", state.storeID)])
        } else {
            log.write(
                .info, "state opened",
                [
                    path, LogField("store_id", state.storeID), LogField("fences", state.fences.fenceCount),
                    LogField("pending", state.fences.pendingCount), LogField("unclean", .boolean(state.findings.wasUnclean)),
                ])
        }
        if state.findings.mayLackChanges {
            log.write(
                .warning,
                "the last process did not end in order and its log is not there: the last fences may be lost, unless this is a backup",
                [path])
        }
        if let mode = state.findings.openFolderMode {
            log.write(
                .warning, "the folder of the state file is open to others; make its mode 0700",
                [path, LogField("mode", String(mode, radix: 8))])
        }
        if !state.findings.acceptedChanges.isEmpty {
            log.write(
                .warning, "the end-user mapping has changed and was accepted: older fences may hold for nobody",
                [LogField("keys", state.findings.acceptedChanges.joined(separator: ", "))])
        }
    }

    /// For readiness: a local state that cannot be written takes no traffic.
    var isWritable: Bool { store?.isWritable ?? true }

    func registerMetrics(_ metrics: Metrics, service: RevocationService, time: any TimeSource) {
        metrics.gauges("revocation_oldest_pending_seconds", help: "Age of the oldest revocation that is not complete.") {
            let age = service.counts.oldestPending.map {
                Double(time.wall().nanosecondsSinceEpoch - $0.nanosecondsSinceEpoch) / 1e9
            }
            return [([], max(0, age ?? 0))]
        }
        shared?.registerMetrics(metrics, service: service)
        guard let store else { return }
        metrics.gauges("revocations_pending", help: "Revocations that are not complete.") {
            [([], Double(store.fences.pendingCount))]
        }
        metrics.gauges("fences", help: "End users with a fence.") { [([], Double(store.fences.fenceCount))] }
        metrics.gauges("state_writable", help: "1: the last write of the state succeeded.") { [([], store.isWritable ? 1 : 0)] }
    }
}

/// January's revocation for the service, on its loop.
final class JanuaryRevoker: TokenRevoker {
    private let service: @Sendable () -> JanuaryService
    /// Of the configuration in force, on the loop.
    private let client: () -> JanuaryClient
    private let shared: SharedParts
    private let time: any TimeSource
    private let callTimeout: @Sendable () -> Duration

    init(
        service: @escaping @Sendable () -> JanuaryService, client: @escaping () -> JanuaryClient, shared: SharedParts,
        time: any TimeSource, callTimeout: @escaping @Sendable () -> Duration
    ) {
        self.service = service
        self.client = client
        self.shared = shared
        self.time = time
        self.callTimeout = callTimeout
    }

    func revoke(_ endUserID: String, completion: @escaping (SweepResult) -> Void) {
        let shared = shared
        client().revoke(service(), endUserID: endUserID, deadline: time.monotonic() + callTimeout()) { outcome in
            shared.metrics.count(outcome)
            if let slot = outcome.switchedTo { shared.keySwitched(to: slot) }
            completion(Self.result(outcome))
            shared.revoked(outcome)
        }
    }

    private static func result(_ outcome: RevocationOutcome) -> SweepResult {
        switch outcome.result {
        case .success(let count): return .revoked(count)
        case .failure(let failure):
            // Where the breaker answered, this end user had no part in it.
            guard outcome.first != nil else { return .held(max(failure.retryAfter ?? .seconds(1), .milliseconds(100))) }
            return .failed(reason: outcome.reason, retryAfter: outcome.retryAfter)
        }
    }
}
