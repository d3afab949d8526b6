import Primitives

/// A Lua script that Redis runs as one step. Asked for by its digest (EVALSHA); a server that does not know it, after a restart, a fail-over
/// or SCRIPT FLUSH, gets its text (EVAL), which makes it known. `SCRIPT LOAD` is never used: an ACL may forbid it.
package struct RedisScript: Sendable {
    package let source: String
    /// 40 hexadecimal digits: the SHA-1 of the text, which is what Redis calls it by. A name, no protection.
    package let digest: [UInt8]
    /// The first half of the digest's digits, for look-ups among a few scripts of our own.
    let id: UInt64

    package init(_ source: String) {
        self.source = source
        let digest = ScriptDigest.hexadecimal(of: Array(source.utf8))
        self.digest = digest
        id = digest.prefix(16).reduce(0) { $0 << 4 | UInt64(ASCII.hexDigit($1) ?? 0) }
    }

    /// - Parameters:
    ///   - knows: whether this server has run it on this connection: else the text is sent at once, which saves a round trip.
    func command(knows: Bool, keys: [[UInt8]], arguments: [[UInt8]]) -> RedisCommand {
        let argumentBytes = keys.reduce(0) { $0 + $1.count } + arguments.reduce(0) { $0 + $1.count }
        var command = RedisCommand(
            knows ? "EVALSHA" : "EVAL", reservingBytes: argumentBytes + (knows ? 64 : source.utf8.count + 64))
        if knows { command.append(digest) } else { command.append(source) }
        command.append(Int64(keys.count))
        for key in keys { command.append(key) }
        for argument in arguments { command.append(argument) }
        return command
    }
}

/// What one run of a script is about.
package struct RedisScriptCall: Sendable {
    package let keys: [[UInt8]]
    package let arguments: [[UInt8]]

    package init(keys: [[UInt8]], arguments: [[UInt8]]) {
        self.keys = keys
        self.arguments = arguments
    }
}

/// SHA-1 (FIPS 180-4 section 6.1), for the names of scripts and nothing else.
enum ScriptDigest {
    private static let digits = Array("0123456789abcdef".utf8)

    static func hexadecimal(of message: [UInt8]) -> [UInt8] {
        hash(message).flatMap { word in
            stride(from: UInt32(28), through: 0, by: -4).map { digits[Int(word >> $0 & 15)] }
        }
    }

    private static func hash(_ message: [UInt8]) -> [UInt32] {
        var padded = message + [0x80]
        while padded.count % 64 != 56 { padded.append(0) }
        let bits = UInt64(message.count) * 8
        for shift in stride(from: UInt64(56), through: 0, by: -8) { padded.append(UInt8(truncatingIfNeeded: bits >> shift)) }
        var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
        for start in stride(from: 0, to: padded.count, by: 64) { compress(padded[start..<(start + 64)], &state) }
        return state
    }

    private static func compress(_ block: ArraySlice<UInt8>, _ state: inout [UInt32]) {
        func rotated(_ word: UInt32, _ count: UInt32) -> UInt32 { word << count | word >> (32 - count) }
        var words = stride(from: block.startIndex, to: block.endIndex, by: 4).map { index in
            block[index..<(index + 4)].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        }
        for index in 16..<80 {
            words.append(rotated(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], 1))
        }
        var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
        for (index, word) in words.enumerated() {
            let (mixed, constant): (UInt32, UInt32) =
                switch index {
                case ..<20: (b & c | ~b & d, 0x5A82_7999)
                case ..<40: (b ^ c ^ d, 0x6ED9_EBA1)
                case ..<60: (b & c | b & d | c & d, 0x8F1B_BCDC)
                default: (b ^ c ^ d, 0xCA62_C1D6)
                }
            (a, b, c, d, e) = (rotated(a, 5) &+ mixed &+ e &+ constant &+ word, a, rotated(b, 30), c, d)
        }
        for (index, value) in [a, b, c, d, e].enumerated() { state[index] &+= value }
    }
}
