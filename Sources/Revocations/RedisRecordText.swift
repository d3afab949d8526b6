import Primitives

/// A record as text: fifteen lines, the phase first and the completion eighth, where a script looks for them, the end-user ID last because it
/// alone may hold anything.
enum RedisRecordText {
    static func encode(_ record: RevocationRecord) -> String {
        let fields: [String] = [
            String(record.phase.rawValue), record.id.text, record.key.text, record.block.rawValue,
            number(record.requestedAt), number(record.fencedAt), String(record.generation),
            record.completedAt.map(number) ?? "", String(record.revokedCount), String(record.attempts), record.lastError ?? "",
            record.lifts ? "1" : "0", number(record.lateAt), number(record.nextAt), record.endUserID ?? "",
        ]
        return fields.joined(separator: "\n")
    }

    static func decode(_ bytes: [UInt8]) -> RevocationRecord? {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        let fields = text.split(separator: "\n", maxSplits: 14, omittingEmptySubsequences: false).map(String.init)
        guard fields.count == 15, let phase = UInt8(fields[0]).flatMap(RevocationRecord.Phase.init(rawValue:)),
            let id = RevocationID(fields[1]), let key = Hex.decode(Array(fields[2].utf8)).flatMap({ EndUserKey($0) }),
            let block = RevocationBlock(rawValue: fields[3]), let requested = instant(fields[4]), let fenced = instant(fields[5]),
            let generation = Int(fields[6]), let revoked = Int(fields[8]), let attempts = Int(fields[9]),
            let late = instant(fields[12]), let next = instant(fields[13])
        else { return nil }
        var record = RevocationRecord(
            id: id, key: key, endUserID: fields[14].isEmpty ? nil : fields[14], phase: phase, block: block,
            requestedAt: requested,
            fencedAt: fenced, generation: generation, lateAt: late, nextAt: next)
        record.completedAt = instant(fields[7])
        record.revokedCount = revoked
        record.attempts = attempts
        record.lastError = fields[10].isEmpty ? nil : fields[10]
        record.lifts = fields[11] == "1"
        return record
    }

    static func number(_ instant: WallInstant) -> String { String(instant.nanosecondsSinceEpoch) }
    static func instant(_ text: String) -> WallInstant? { Int64(text).map { WallInstant(nanosecondsSinceEpoch: $0) } }
    /// A score: Redis counts in doubles, which hold milliseconds exactly.
    static func milliseconds(_ instant: WallInstant) -> String { String(instant.nanosecondsSinceEpoch / 1_000_000) }
    /// Seconds with a fraction, for comparing with a session's beginning; never earlier than the instant.
    static func seconds(_ instant: WallInstant) -> String { String(instant.fractionalSeconds) }
}
