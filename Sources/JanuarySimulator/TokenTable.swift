import Primitives
import StrictJSON

/// What a token is at an instant.
package enum TokenState: String, Sendable, Hashable {
    case live
    /// Revoked, and the authentication cache has noticed.
    case revoked
    case expired
    /// Never issued, or forgotten some time after its expiry.
    case unknown
}

/// A minted token as tests and the control interface see it.
package struct MintedToken: Sendable, Equatable {
    package let token: String
    package let endUserID: String
    package let scopes: ScopeSet
    package let issued: WallInstant
    package let expires: WallInstant
    package let revoked: WallInstant?
    /// Number of the request that minted it, as in the ledger.
    package let request: Int
}

/// Every token minted, newest `capacity` of them.
///
/// Tokens are `ct-` and 43 letters and digits, so that one fits six words: a table of a million tokens does without a million strings.
package struct TokenTable: Sendable {
    /// A token's 46 bytes in six words, zero filled.
    private struct Key: Sendable, Hashable {
        private var a, b, c, d, e, f: UInt64

        init?(_ bytes: some Collection<UInt8>) {
            guard bytes.count == TokenTable.tokenBytes else { return nil }
            var words: InlineArray<6, UInt64> = .init(repeating: 0)
            var index = 0
            for byte in bytes {
                words[index >> 3] |= UInt64(byte) << UInt64((index & 7) * 8)
                index += 1
            }
            (a, b, c, d, e, f) = (words[0], words[1], words[2], words[3], words[4], words[5])
        }

        var text: String {
            var bytes: [UInt8] = []
            bytes.reserveCapacity(48)
            for word in [a, b, c, d, e, f] {
                for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift * 8))) }
            }
            return String(decoding: bytes.prefix(TokenTable.tokenBytes), as: UTF8.self)
        }
    }

    private struct Record: Sendable {
        let key: Key
        let user: String
        let scopes: ScopeSet
        let issued: WallInstant
        let expires: WallInstant
        let request: Int
        var revoked: WallInstant?
    }

    /// End users are told apart by their bytes; `String` alone would take two spellings of an accent for one.
    private struct UserKey: Sendable, Hashable {
        let id: String
        init(_ id: String) { self.id = id }
        static func == (left: Self, right: Self) -> Bool { left.id.hasSameBytes(as: right.id) }
        func hash(into hasher: inout Hasher) {
            var id = id
            id.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    /// Serial numbers of one user's tokens, oldest first.
    private struct UserTokens: Sendable {
        var all: [Int] = []
        /// Not revoked; some may have expired.
        var unrevoked: [Int] = []

        mutating func append(_ serial: Int) {
            all.append(serial)
            unrevoked.append(serial)
        }
    }

    static let tokenBytes = 46
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    /// More tokens than this: the older half is forgotten.
    private let capacity: Int
    private var records: [Record] = []
    /// Serial number of `records[0]`.
    private var base = 0
    private var byKey: [Key: Int] = [:]
    private var byUser: [UserKey: UserTokens] = [:]
    private var random: SplitMix

    package private(set) var mintedCount = 0
    package private(set) var revokedCount = 0

    init(capacity: Int, seed: UInt64) {
        self.capacity = max(2, capacity)
        random = SplitMix(seed: seed)
    }

    /// Issues a token and returns its 46 bytes.
    mutating func mint(
        user: String, scopes: ScopeSet, now: WallInstant, lifetime: Duration, request: Int
    ) -> [UInt8] {
        if records.count >= capacity { forgetOlderHalf() }
        let bytes = newToken()
        guard let key = Key(bytes) else { return bytes }
        let serial = base + records.count
        records.append(
            Record(key: key, user: user, scopes: scopes, issued: now, expires: now + lifetime, request: request, revoked: nil))
        byKey[key] = serial
        byUser[UserKey(user), default: UserTokens()].append(serial)
        mintedCount += 1
        return bytes
    }

    /// Stops up to `limit` live tokens of `user`, newest first, and says how many it stopped.
    ///
    /// - Parameter sparing: tokens younger than this survive (a token minted at the same instant may).
    mutating func revoke(user: String, now: WallInstant, limit: Int, sparing: Duration?) -> Int {
        guard var tokens = byUser[UserKey(user)] else { return 0 }
        // Taken out of the table while it is changed: no copy of the arrays.
        byUser[UserKey(user)] = nil
        var stopped = 0
        var spared: [Int] = []
        while stopped < limit, let serial = tokens.unrevoked.popLast() {
            let record = records[serial - base]
            guard record.expires > now else { continue }
            if let sparing, record.issued + sparing >= now {
                spared.append(serial)
                continue
            }
            records[serial - base].revoked = now
            stopped += 1
        }
        tokens.unrevoked.append(contentsOf: spared.reversed())
        byUser[UserKey(user)] = tokens
        revokedCount += stopped
        return stopped
    }

    func state(
        of token: some Collection<UInt8>, now: WallInstant, settings: SimulatorSettings
    ) -> (state: TokenState, user: String, scopes: ScopeSet) {
        guard let key = Key(token), let serial = byKey[key] else { return (.unknown, "", ScopeSet([])) }
        let record = records[serial - base]
        return (Self.state(of: record, now: now, settings: settings), record.user, record.scopes)
    }

    private static func state(of record: Record, now: WallInstant, settings: SimulatorSettings) -> TokenState {
        if now >= record.expires + settings.purgeDelay { return .unknown }
        if let revoked = record.revoked, now >= revoked + settings.revocationDelay { return .revoked }
        return now >= record.expires ? .expired : .live
    }

    package func tokens(of user: String) -> [MintedToken] {
        (byUser[UserKey(user)]?.all ?? []).map { minted(records[$0 - base]) }
    }

    /// Tokens of `user` that January would accept now: one revoked a moment ago counts until the revocation takes effect.
    package func live(of user: String, now: WallInstant, settings: SimulatorSettings) -> [MintedToken] {
        (byUser[UserKey(user)]?.all ?? []).map { records[$0 - base] }
            .filter { Self.state(of: $0, now: now, settings: settings) == .live }
            .map { minted($0) }
    }

    package func find(_ token: String) -> MintedToken? {
        guard let key = Key(token.utf8), let serial = byKey[key] else { return nil }
        return minted(records[serial - base])
    }

    /// Every token still in the table, oldest first.
    package func all() -> [MintedToken] { records.map { minted($0) } }

    private func minted(_ record: Record) -> MintedToken {
        MintedToken(
            token: record.key.text, endUserID: record.user, scopes: record.scopes, issued: record.issued,
            expires: record.expires, revoked: record.revoked, request: record.request)
    }

    private mutating func newToken() -> [UInt8] {
        var bytes = Array("ct-".utf8)
        bytes.reserveCapacity(Self.tokenBytes)
        while bytes.count < Self.tokenBytes {
            var word = random.next()
            // 62^10 is below 2^60: ten characters of a word are evenly spread enough.
            for _ in 0..<min(10, Self.tokenBytes - bytes.count) {
                bytes.append(Self.alphabet[Int(word % 62)])
                word /= 62
            }
        }
        return bytes
    }

    private mutating func forgetOlderHalf() {
        let dropped = records.count / 2
        for record in records.prefix(dropped) { byKey[record.key] = nil }
        records.removeFirst(dropped)
        base += dropped
        byUser = byUser.compactMapValues { tokens in
            var kept = tokens
            kept.all.removeAll { $0 < base }
            kept.unrevoked.removeAll { $0 < base }
            return kept.all.isEmpty ? nil : kept
        }
    }
}
