import Primitives
import Revocations
import StrictJSON
import Telemetry

/// What the management API and a sign-out show of a revocation, member by member.
enum RevocationAnswers {
    /// - Parameter endUserID: as whoever asked named them; `nil`: as the state knows them.
    static func object(_ status: RevocationStatus, endUserID: String? = nil) -> JSONObject {
        var object: JSONObject = [
            "id": .string(status.id),
            "end_user_id": .string(endUserID ?? status.endUserID),
            "status": .string(status.isComplete ? "complete" : "pending"),
            "revoked_count": .number(JSONNumber(Int64(status.revokedCount))),
            "blocked": .string(status.block.rawValue),
            "fence_scope": .string(status.fenceScope.rawValue),
            "requested_at": .string(Timestamp.text(status.requestedAt)),
        ]
        if status.isComplete {
            object["completed_at"] = status.completedAt.map { .string(Timestamp.text($0)) } ?? JSONValue.null
        } else {
            object["attempts"] = .number(JSONNumber(Int64(status.attempts)))
            object["last_error"] = status.lastError.map(JSONValue.string) ?? JSONValue.null
        }
        if status.refusesUnknownSessions { object["unknown_sessions"] = "refused" }
        return object
    }

    static func object(_ page: RevocationPage) -> JSONObject {
        ["items": .array(page.items.map { .object(object($0)) }), "next": page.next.map(JSONValue.string) ?? JSONValue.null]
    }

    static func object(_ status: EndUserStatus, endUserID: String) -> JSONObject {
        [
            "end_user_id": .string(endUserID),
            "blocked": .string(status.blocked.rawValue),
            "blocked_since": status.blockedSince.map { .string(Timestamp.text($0)) } ?? JSONValue.null,
            "pending": .bool(status.isPending),
            "in_flight": .number(JSONNumber(Int64(status.inFlightCount))),
        ]
    }
}
