import GCRA
import HTTPClient
import HTTPServer
import January
import Primitives
import RateLimiting
import Revocations
import Sessions
import StrictJSON
import Telemetry

/// `/status.json`: how the process does, for people and dashboards. Numbers and names of the configuration only: no address, session, end user
/// or key. What it costs is bounded by the number of loops, key sets and shards of the limits; nothing is searched.
final class StatusReport: Sendable {
    private static let maxKeyIDLength = 128

    private let shared: SharedParts
    private let inForce: InForce
    private var generation: Generation { inForce.value.generation }
    private let readiness: Readiness
    private let server: Server
    private let client: HTTPClientCounters
    private let state: StateParts
    private let revocations: RevocationService?
    private let counts: StatusCounts
    private let time: any TimeSource
    private let startedAt: MonotonicInstant
    private let started: WallInstant

    init(
        shared: SharedParts, inForce: InForce, readiness: Readiness, server: Server, client: HTTPClientCounters,
        state: StateParts, revocations: RevocationService?, metrics: Metrics, time: any TimeSource
    ) {
        self.shared = shared
        self.inForce = inForce
        self.readiness = readiness
        self.server = server
        self.client = client
        self.state = state
        self.revocations = revocations
        self.time = time
        counts = StatusCounts(metrics: metrics)
        startedAt = time.monotonic()
        started = time.wall()
    }

    func body() -> [UInt8] {
        let now = time.monotonic()
        let readiness = readiness.state()
        let body: JSONObject = [
            "status": .string(readiness.name), "reasons": .array(readiness.reasons.map(JSONValue.string)),
            "version": .string(TokenEndpoint.version), "time": .string(Timestamp.text(time.wall())),
            "started_at": .string(Timestamp.text(started)), "uptime_seconds": .seconds(now - startedAt),
            "drain_ends_in_seconds": .seconds(shared.lifecycle.drainEnd.map { max(.zero, $0 - now) }),
            "loops": .count(generation.config.http.loopCount), "answers": counts.answers, "connections": connections(),
            "mints": mints(), "january": january(now), "sessions": counts.sessions,
            "key_sets": .array(generation.verifiers.keySets.map { Self.keySet($0, now) }), "limits": limits(now),
            "state": stateOfRevocations(), "reloads": counts.reloads,
        ]
        return body.encoded()
    }

    private func connections() -> JSONValue {
        let counters = server.counters
        let refused: Int =
            counters.refusedForMaxConnections.load() + counters.refusedForAddress.load() + counters.refusedForDescriptors.load()
        return .object([
            "open": .count(counters.open.load()), "most": .count(generation.config.http.server.maxConnections),
            "waiting": .count(counters.waiting.load()), "accepted_total": .count(counters.accepted.load()),
            "refused_total": .count(refused),
        ])
    }

    private func mints() -> JSONValue {
        let load = shared.load.snapshot
        return .object([
            "in_flight": .count(shared.mintsInFlight.count), "most": .count(generation.config.january.maxInFlight),
            "waiting": .count(load.waiting), "at_january": .count(load.serving),
            "service_seconds": .seconds(load.serviceTime),
            "overloaded_total": .count(shared.metrics.overloaded.value),
            "undelivered_total": counts.sum(of: "undelivered_tokens_total"),
            "seconds": StatusCounts.histogram(shared.recorder.mintDuration),
        ])
    }

    private func january(_ now: MonotonicInstant) -> JSONValue {
        let key = shared.keys.keys.current
        return .object([
            "connections": .object([
                "idle": .count(client.idle), "leased": .count(client.leased), "connecting": .count(client.connecting),
                "most": .count(generation.config.january.maxConnections),
            ]),
            "held_back_for": .array(shared.mintBreaker.openReasons(now: now).map { .string($0.rawValue) }),
            "api_key": .object(["slot": .string(key.slot.rawValue), "fingerprint": .string(key.key.fingerprint)]),
            "answers": counts.januaryAnswers, "seconds": StatusCounts.histogram(shared.metrics.januaryDuration),
            "security_events_total": counts.sum(of: "security_events_total"),
        ])
    }

    private static func keySet(_ cache: KeySetCache, _ now: MonotonicInstant) -> JSONValue {
        let state = cache.state
        let snapshot = state.snapshot
        return .object([
            "name": .string(cache.name), "keys": snapshot.map { JSONValue.count($0.set.keys.count) } ?? .null,
            "key_ids": snapshot.map { .array($0.set.keys.map { $0.keyID.map { .string(shortened($0)) } ?? .null }) } ?? .null,
            "age_seconds": .seconds(snapshot.map { now - $0.loadedAt }),
            "usable_seconds": .seconds(snapshot.map { max(.zero, $0.expiresAt - now) }),
            "last_used_seconds": .seconds(snapshot?.lastUsed.map { now - $0 }),
            "failing_seconds": .seconds(state.failingSince.map { now - $0 }),
        ])
    }

    /// The provider's word, which may be as long as the provider likes.
    private static func shortened(_ keyID: String) -> String {
        keyID.unicodeScalars.count <= maxKeyIDLength
            ? keyID : String(String.UnicodeScalarView(keyID.unicodeScalars.prefix(maxKeyIDLength))) + "…"
    }

    // MARK: Limits

    private func limits(_ now: MonotonicInstant) -> JSONValue {
        let config = generation.config.rateLimits
        let usage = shared.localLimits.usage
        let names = RateLimits.order + (generation.config.selfService.isOn ? [.selfService] : [])
        return .object([
            "store": .string(config.store.redis == nil ? "memory" : "redis"),
            "degraded": .bool(inForce.value.limits?.health.isDegraded ?? false), "mode": .string(config.mode.rawValue),
            "cells": .count(usage.cells), "most_cells": .count(MemoryLimitStore.maxCells),
            "evictions_total": .count(usage.evictions),
            "rules": .array(names.compactMap { name in config.rule(of: name).map { limit(name, $0, now) } }),
        ])
    }

    private func limit(_ name: LimitName, _ rule: GCRARule, _ now: MonotonicInstant) -> JSONValue {
        let refusals = shared.limitMetrics.refusals(by: name)
        return .object([
            "limit": .string(name.rawValue), "requests": .count(rule.requests),
            "per_seconds": .seconds(.nanoseconds(rule.period)), "burst": .count(rule.burst),
            "refused_total": .count(refusals.count),
            "last_refused": refusals.last.map { Self.refusal($0, rule, now) } ?? JSONValue.null,
        ])
    }

    /// How full the cell is now that refused last, unless it was charged or penalized since.
    private static func refusal(_ last: LimitMetrics.Refusal, _ rule: GCRARule, _ now: MonotonicInstant) -> JSONValue {
        let used = Double(max(0, last.theoreticalArrival - now.nanoseconds)) / Double(rule.emissionInterval)
        let wait = last.theoreticalArrival + rule.emissionInterval - rule.tolerance - now.nanoseconds
        return .object([
            "seconds_ago": .seconds(now - last.at), "used": .rounded(used), "of": .count(rule.burst),
            "admits_again_in_seconds": .seconds(.nanoseconds(max(0, wait))),
        ])
    }

    // MARK: State

    private func stateOfRevocations() -> JSONValue {
        let oldest = revocations?.counts.oldestPending.map {
            max(0, time.wall().nanosecondsSinceEpoch - $0.nanosecondsSinceEpoch)
        }
        if let shared = state.shared, let counts = revocations?.counts {
            return .object([
                "store": .string("redis"), "writable": .bool(shared.state.isReadable),
                "revocations_pending": .count(counts.pending),
                "oldest_pending_seconds": .seconds(oldest.map { Duration.nanoseconds($0) }), "fences": .count(counts.fences),
            ])
        }
        guard let store = state.store else { return .object(["store": .string("none")]) }
        return .object([
            "store": .string("sqlite"), "writable": .bool(store.isWritable),
            "revocations_pending": .count(store.fences.pendingCount),
            "oldest_pending_seconds": .seconds(oldest.map { Duration.nanoseconds($0) }),
            "fences": .count(store.fences.fenceCount),
        ])
    }
}
