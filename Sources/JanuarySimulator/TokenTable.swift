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

/// Every token minted, the newest `capacity` of them.
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

    /// Serial numbers of one user's tokens, oldest first. Those of forgotten tokens are passed over and go with the next compaction.
    private struct UserTokens: Sendable {
        var all = Serials()
        /// Not revoked; some may have expired.
        var unrevoked = Serials()

        mutating func append(_ serial: Int) {
            all.values.append(serial)
            unrevoked.values.append(serial)
        }

        mutating func forget(before base: Int) {
            all.forget(before: base)
            unrevoked.forget(before: base)
        }
    }

    /// A queue in an array: what is gone at the front is cut off when it is more than half.
    private struct Serials: Sendable {
        var values: [Int] = []
        private var start = 0

        var live: ArraySlice<Int> { values[start...] }

        mutating func forget(before base: Int) {
            while start < values.count, values[start] < base { start += 1 }
            if start > values.count / 2 {
                values.removeFirst(start)
                start = 0
            }
        }

        mutating func popLast() -> Int? { values.count > start ? values.popLast() : nil }
    }

    static let tokenBytes = 46
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    /// More tokens than this: the oldest is forgotten for each new one, also if it is live.
    private let capacity: Int
    /// A ring: the token of serial number `n` lies at `n % capacity`.
    private var records: [Record] = []
    /// The oldest serial number that is still here.
    private var base = 0
    private var nextSerial = 0
    private var byKey: [Key: Int] = [:]
    private var byUser: [UserKey: UserTokens] = [:]
    private var random: SplitMix

    package private(set) var mintedCount = 0
    package private(set) var revokedCount = 0

    init(capacity: Int, seed: UInt64) {
        self.capacity = max(1, capacity)
        random = SplitMix(seed: seed)
    }

    /// Issues a token and returns its 46 bytes.
    mutating func mint(
        user: String, scopes: ScopeSet, now: WallInstant, lifetime: Duration, request: Int
    ) -> [UInt8] {
        let bytes = newToken()
        guard let key = Key(bytes) else { return bytes }
        if nextSerial - base == capacity { forgetOldest() }
        let serial = nextSerial
        nextSerial += 1
        let record = Record(
            key: key, user: user, scopes: scopes, issued: now, expires: now + lifetime, request: request, revoked: nil)
        if records.count < capacity { records.append(record) } else { records[serial % capacity] = record }
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
            let record = self[serial]
            guard record.expires > now else { continue }
            if let sparing, record.issued + sparing >= now {
                spared.append(serial)
                continue
            }
            records[serial % capacity].revoked = now
            stopped += 1
        }
        tokens.unrevoked.values.append(contentsOf: spared.reversed())
        byUser[UserKey(user)] = tokens
        revokedCount += stopped
        return stopped
    }

    func state(
        of token: some Collection<UInt8>, now: WallInstant, settings: SimulatorSettings
    ) -> (state: TokenState, user: String, scopes: ScopeSet) {
        guard let key = Key(token), let serial = byKey[key] else { return (.unknown, "", ScopeSet([])) }
        let record = self[serial]
        return (Self.state(of: record, now: now, settings: settings), record.user, record.scopes)
    }

    private static func state(of record: Record, now: WallInstant, settings: SimulatorSettings) -> TokenState {
        if now >= record.expires + settings.purgeDelay { return .unknown }
        if let revoked = record.revoked, now >= revoked + settings.revocationDelay { return .revoked }
        return now >= record.expires ? .expired : .live
    }

    package func tokens(of user: String) -> [MintedToken] {
        (byUser[UserKey(user)]?.all.live ?? []).map { minted(self[$0]) }
    }

    /// Tokens of `user` that January would accept now: one revoked a moment ago counts until the revocation takes effect.
    package func live(of user: String, now: WallInstant, settings: SimulatorSettings) -> [MintedToken] {
        (byUser[UserKey(user)]?.all.live ?? []).map { self[$0] }
            .filter { Self.state(of: $0, now: now, settings: settings) == .live }
            .map { minted($0) }
    }

    package func find(_ token: String) -> MintedToken? {
        guard let key = Key(token.utf8), let serial = byKey[key] else { return nil }
        return minted(self[serial])
    }

    /// Every token still in the table, oldest first.
    package func all() -> [MintedToken] { (base..<nextSerial).map { minted(self[$0]) } }

    private subscript(serial: Int) -> Record { records[serial % capacity] }

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

    private mutating func forgetOldest() {
        let record = self[base]
        base += 1
        byKey[record.key] = nil
        let user = UserKey(record.user)
        guard var tokens = byUser.removeValue(forKey: user) else { return }
        tokens.forget(before: base)
        if !tokens.all.live.isEmpty { byUser[user] = tokens }
    }
}
