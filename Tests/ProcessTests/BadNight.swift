import Foundation
import TestSupport

/// What a process might say every two seconds of five minutes in which January has a bad minute.
struct BadNight {
    private static let bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    private var turn = 0
    private var totals = ["201 ok": 418_230, "401 invalid_session": 3_121, "429 rate_limited": 57, "403 access_revoked": 12]
    private var mints = [Int](repeating: 0, count: 14)
    private var calls = [Int](repeating: 0, count: 14)
    private var random = SeededRandom(seed: 7)

    mutating func next() -> String {
        turn += 1
        let isBad = (70..<105).contains(turn)
        let minted = Int(44 + 14 * sin(Double(turn) / 11)) / (isBad ? 3 : 1) + Int(random.next() % 6)
        totals["201 ok", default: 0] += minted
        totals["401 invalid_session", default: 0] += Int(random.next() % 4)
        totals["429 rate_limited", default: 0] += random.next() % 9 == 0 ? 3 : 0
        if isBad { totals["503 january_unavailable", default: 0] += 6 + Int(random.next() % 14) }
        if isBad { totals["504 january_timeout", default: 0] += Int(random.next() % 4) }
        for _ in 0..<minted {
            let bucket = (isBad ? 8 : 5) + [0, 0, 1, 1, 1, 1, 1, 1, 1, 2][Int(random.next() % 10)]
            mints[bucket] += 1
            calls[bucket - Int(random.next() % 2)] += 1
        }
        let answers = totals.sorted { $0.key < $1.key }.map { key, total -> [String: Any] in
            let words = key.split(separator: " ")
            return ["method": "POST", "status": Int(words[0]) ?? 0, "code": String(words[1]), "total": total]
        }
        let failed = [totals["503 january_unavailable"] ?? 0, totals["504 january_timeout"] ?? 0]
        let none = NSNull()
        func limit(_ name: String, _ requests: Int, _ burst: Int, _ refused: Int) -> [String: Any] {
            let last: Any = refused == 0 ? none : ["seconds_ago": 12.5, "used": 9.5, "of": burst, "admits_again_in_seconds": 5]
            return [
                "limit": name, "requests": requests, "per_seconds": 60, "burst": burst, "refused_total": refused,
                "last_refused": last,
            ]
        }
        let answer: [String: Any] = [
            "status": "ready", "reasons": [String](), "version": "0.1.0", "started_at": "2026-11-28T04:11:09.310Z",
            "uptime_seconds": 215_000 + 2 * turn, "drain_ends_in_seconds": none, "loops": 2, "answers": answers,
            "connections": ["open": 310 + turn % 23, "most": 10_000, "refused_total": 0],
            "mints": [
                "in_flight": isBad ? 61 + Int(random.next() % 9) : 3 + Int(random.next() % 4), "most": 512, "waiting": 0,
                "overloaded_total": 0,
                "undelivered_total": 4, "seconds": ["up_to": Self.bounds, "counts": mints],
            ],
            "january": [
                "connections": ["idle": 14, "leased": 5, "connecting": 0, "most": 256], "held_back_for": [String](),
                "api_key": ["slot": "first", "fingerprint": "9f86d081"], "security_events_total": 0,
                "seconds": ["up_to": Self.bounds, "counts": calls],
                "answers": [
                    ["operation": "mint", "status": 201, "code": "ok", "total": totals["201 ok"] ?? 0],
                    ["operation": "mint", "status": 503, "code": "other", "total": failed[0]],
                    ["operation": "mint", "status": none, "code": "none", "total": failed[1]],
                    ["operation": "revoke", "status": 200, "code": "ok", "total": 41],
                ],
            ],
            "sessions": [
                [
                    "verifier": "auth0", "verdict": "accepted", "reason": "person",
                    "total": (totals["201 ok"] ?? 0) + failed[0] + failed[1],
                ],
                ["verifier": "auth0", "verdict": "refused", "reason": "expired", "total": totals["401 invalid_session"] ?? 0],
            ],
            "key_sets": [
                [
                    "name": "auth0", "keys": 3, "age_seconds": 300 + 2 * turn, "usable_seconds": 86_000, "last_used_seconds": 0.2,
                    "failing_seconds": none,
                ]
            ],
            "limits": [
                "store": "redis", "degraded": false, "mode": "enforce", "cells": 8_312, "most_cells": 1_000_000,
                "rules": [
                    limit("per_address", 600, 600, 0), limit("per_session", 6, 10, totals["429 rate_limited"] ?? 0),
                    limit("per_end_user", 12, 30, 0),
                ],
            ],
            "state": [
                "store": "redis", "writable": true, "revocations_pending": isBad ? 2 : 0,
                "oldest_pending_seconds": isBad ? 2 * (turn - 70) as Any : none, "fences": 154,
            ],
            "reloads": ["ok_total": 3, "failed_total": 0],
        ]
        return String(decoding: (try? JSONSerialization.data(withJSONObject: answer)) ?? Data(), as: UTF8.self)
    }
}
