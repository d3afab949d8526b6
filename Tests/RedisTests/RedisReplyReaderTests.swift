import TestSupport
import Testing

@testable import Redis

@Suite struct RedisReplyReaderTests {
    struct Row: Sendable {
        let wire: String
        let replies: [RedisReply]
    }

    static let rows: [Row] = [
        Row(wire: "+OK\r\n", replies: [.status(Array("OK".utf8))]),
        Row(wire: ":0\r\n:-1\r\n:9223372036854775807\r\n", replies: [.integer(0), .integer(-1), .integer(.max)]),
        Row(wire: "$-1\r\n*-1\r\n", replies: [.null, .null]),
        Row(wire: "$0\r\n\r\n", replies: [.string([])]),
        Row(wire: "$5\r\na\r\nb\0\r\n", replies: [.string(Array("a\r\nb\0".utf8))]),
        Row(wire: "*0\r\n", replies: [.array([])]),
        Row(
            wire: "*3\r\n:1\r\n*2\r\n$1\r\nx\r\n*0\r\n$-1\r\n+PONG\r\n",
            replies: [
                .array([.integer(1), .array([.string([0x78]), .array([])]), .null]), .status(Array("PONG".utf8)),
            ]),
        Row(wire: "-ERR nonsense\r\n", replies: [.error(.other)]),
        Row(wire: "*1\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n", replies: [.array([.error(.noScript)])]),
    ]

    private func feed(_ reader: RedisReplyReader, _ pieces: [[UInt8]]) throws(RedisReplyReader.Failure) -> [RedisReply] {
        var replies: [RedisReply] = []
        for piece in pieces {
            // A plain error from the closure would hide the typed one.
            let result: Result<Void, RedisReplyReader.Failure> = piece.withUnsafeBytes { bytes in
                do throws(RedisReplyReader.Failure) {
                    try reader.feed(bytes) { reply in
                        replies.append(reply)
                        return true
                    }
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            try result.get()
        }
        return replies
    }

    @Test(arguments: rows) func aReplyIsTheSameWholeAndCutAtEveryByte(row: Row) throws {
        let wire = Array(row.wire.utf8)
        for cut in 0...wire.count {
            let reader = try #require(RedisReplyReader())
            #expect(try feed(reader, [Array(wire[..<cut]), Array(wire[cut...])]) == row.replies)
        }
        let reader = try #require(RedisReplyReader())
        #expect(try feed(reader, wire.map { [$0] }) == row.replies)
    }

    @Test(arguments: [
        "OK\r\n", "%1\r\n", "_\r\n", "\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", ":\r\n", ":1x\r\n", ":9223372036854775808\r\n",
        String(repeating: "*1\r\n", count: 9),
    ])
    func whatIsNoReplyEndsTheReader(wire: String) throws {
        let reader = try #require(RedisReplyReader())
        #expect(throws: RedisReplyReader.Failure.malformed) { try feed(reader, [Array(wire.utf8)]) }
        // Nobody knows where the next reply would begin.
        #expect(throws: RedisReplyReader.Failure.malformed) { try feed(reader, [Array("+OK\r\n".utf8)]) }
    }

    @Test func arraysAreEightDeepAndNoDeeper() throws {
        for (depth, isFine) in [(8, true), (9, false)] {
            let reader = try #require(RedisReplyReader())
            let wire = Array((String(repeating: "*1\r\n", count: depth) + ":1\r\n").utf8)
            if isFine {
                #expect(try feed(reader, [wire]).count == 1)
            } else {
                #expect(throws: RedisReplyReader.Failure.malformed) { try feed(reader, [wire]) }
            }
        }
    }

    @Test(arguments: [(9, true), (10, true), (11, false)])
    func aReplyHasAtMostItsElements(count: Int, isFine: Bool) throws {
        var limits = RedisReplyReader.Limits()
        limits.replyElements = 11
        let reader = try #require(RedisReplyReader(limits: limits))
        let wire = Array(("*\(count)\r\n" + String(repeating: ":1\r\n", count: count)).utf8)
        if isFine {
            #expect(try feed(reader, [wire]) == [.array(Array(repeating: .integer(1), count: count))])
            // The bound is each reply's own.
            #expect(try feed(reader, [wire]).count == 1)
        } else {
            #expect(throws: RedisReplyReader.Failure.tooLarge) { try feed(reader, [wire]) }
        }
    }

    /// An announcement alone takes no memory, and numbers that do not fit are not taken for smaller ones.
    @Test(arguments: [
        ("*1000000000\r\n", RedisReplyReader.Failure.tooLarge), ("*2147483647\r\n", .tooLarge), ("*2147483648\r\n", .malformed),
        ("*4294967295\r\n", .malformed), ("*4294967297\r\n", .malformed), ("*9223372036854775807\r\n", .malformed),
    ])
    func anArrayThatIsAnnouncedTooLargeIsRefusedAtOnce(wire: String, expected: RedisReplyReader.Failure) throws {
        let reader = try #require(RedisReplyReader())
        #expect(throws: expected) { try feed(reader, [Array(wire.utf8)]) }
    }

    @Test(arguments: [(99, true), (100, true), (101, false)])
    func anUnfinishedReplyHasAtMostItsBytes(count: Int, isFine: Bool) throws {
        var limits = RedisReplyReader.Limits()
        limits.replyBytes = 100
        let reader = try #require(RedisReplyReader(limits: limits))
        let wire = Array("$100000\r\n".utf8)
        let pieces = [wire] + Array(repeating: [0x61], count: count - wire.count)
        if isFine {
            #expect(try feed(reader, pieces) == [])
        } else {
            #expect(throws: RedisReplyReader.Failure.tooLarge) { try feed(reader, pieces) }
        }
    }

    @Test func aLineWithoutEndIsBounded() throws {
        var limits = RedisReplyReader.Limits()
        limits.replyBytes = 1000
        let reader = try #require(RedisReplyReader(limits: limits))
        #expect(throws: RedisReplyReader.Failure.tooLarge) {
            try feed(reader, Array(repeating: Array("+aaaaaaaaa".utf8), count: 101))
        }
    }

    // MARK: Random

    private func random(_ generator: inout SeededRandom, depth: Int) -> (RedisReply, [UInt8]) {
        switch Int.random(in: 0..<(depth > 0 ? 6 : 5), using: &generator) {
        case 0: return (.null, Array("$-1\r\n".utf8))
        case 1:
            let number = Int64.random(in: .min ... .max, using: &generator)
            return (.integer(number), Array(":\(number)\r\n".utf8))
        case 2:
            let text = (0..<Int.random(in: 0..<40, using: &generator)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            return (.string(text), Array("$\(text.count)\r\n".utf8) + text + [13, 10])
        case 3:
            let text = (0..<Int.random(in: 0..<20, using: &generator)).map { _ in UInt8.random(in: 32...126, using: &generator) }
            return (.status(text), [UInt8(ascii: "+")] + text + [13, 10])
        case 4: return (.error(.readOnly), Array("-READONLY You can't write against a read only replica.\r\n".utf8))
        default:
            let elements = (0..<Int.random(in: 0..<6, using: &generator)).map { _ in random(&generator, depth: depth - 1) }
            return (.array(elements.map(\.0)), Array("*\(elements.count)\r\n".utf8) + elements.flatMap(\.1))
        }
    }

    @Test(arguments: [1, 2, 3, 4]) func randomRepliesComeOutAsTheyWentInHoweverTheyAreCut(seed: UInt64) throws {
        var generator = SeededRandom(seed: seed)
        for _ in 0..<200 {
            let expected = (0..<Int.random(in: 1..<8, using: &generator)).map { _ in random(&generator, depth: 6) }
            var rest = expected.flatMap(\.1)[...]
            var pieces: [[UInt8]] = []
            while !rest.isEmpty {
                let count = Int.random(in: 1...max(1, min(rest.count, 30)), using: &generator)
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            let reader = try #require(RedisReplyReader())
            let replies = try feed(reader, pieces)
            #expect(replies == expected.map(\.0), "seed \(seed)")
        }
    }

    /// Whatever comes ends in replies or in one failure, the same whole and in single bytes, within the bounds.
    @Test(arguments: [11, 12, 13, 14]) func damagedRepliesAreTheSameWholeAndCut(seed: UInt64) throws {
        var generator = SeededRandom(seed: seed)
        var limits = RedisReplyReader.Limits()
        limits.replyBytes = 4096
        limits.replyElements = 100
        for _ in 0..<300 {
            var wire = (0..<3).flatMap { _ in random(&generator, depth: 4).1 }
            for _ in 0..<Int.random(in: 1...4, using: &generator) where !wire.isEmpty {
                let index = Int.random(in: 0..<wire.count, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: wire[index] = Array("*$:+-0123456789\r\n".utf8).randomElement(using: &generator) ?? 0
                case 1: wire.remove(at: index)
                default: wire.insert(UInt8.random(in: 0...255, using: &generator), at: index)
                }
            }
            func outcome(_ pieces: [[UInt8]]) throws -> ([RedisReply], RedisReplyReader.Failure?) {
                let reader = try #require(RedisReplyReader(limits: limits))
                var replies: [RedisReply] = []
                do throws(RedisReplyReader.Failure) {
                    for piece in pieces { replies += try feed(reader, [piece]) }
                    return (replies, nil)
                } catch {
                    return (replies, error)
                }
            }
            let cut = try outcome(wire.map { [$0] })
            let whole = try outcome([wire])
            // Of the whole, the replies in front of the damage are lost with the call that failed.
            if whole.1 == nil { #expect(whole.0 == cut.0, "seed \(seed)") }
            #expect(whole.1 == cut.1, "seed \(seed)")
        }
    }
}
