// needs: Sources/Redis/RedisReplyReader.swift
import Primitives
import Redis

// What Redis, or somebody in its place, sends: the same replies wherever the bytes are cut, bounded, and after bytes that are no reply
// nothing more is read.

private struct Outcome: Equatable {
    var replies: [RedisReply] = []
    var failure: RedisReplyReader.Failure?
}

private let limits: RedisReplyReader.Limits = {
    var limits = RedisReplyReader.Limits()
    limits.replyBytes = 2048
    limits.replyElements = 64
    return limits
}()

private func feed(
    _ reader: RedisReplyReader, _ bytes: [UInt8], _ receive: (RedisReply) -> Void
) -> RedisReplyReader.Failure? {
    var failure: RedisReplyReader.Failure?
    bytes.withUnsafeBytes { piece in
        do throws(RedisReplyReader.Failure) {
            try reader.feed(piece) {
                receive($0)
                return true
            }
        } catch {
            failure = error
        }
    }
    return failure
}

private func run(_ bytes: [UInt8], _ ranges: [Range<Int>]) -> Outcome {
    var outcome = Outcome()
    guard let reader = RedisReplyReader(limits: limits) else { return outcome }
    for range in ranges {
        let failure = feed(reader, Array(bytes[range])) { outcome.replies.append($0) }
        guard let failure else { continue }
        outcome.failure = failure
        require(feed(reader, []) { _ in } == failure, "a reader that has failed goes on")
        return outcome
    }
    return outcome
}

private func elements(_ reply: RedisReply) -> Int { 1 + (reply.array ?? []).map(elements).reduce(0, +) }

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    let whole = run(bytes, [0..<bytes.count])
    for reply in whole.replies { require(elements(reply) <= limits.replyElements, "more values than allowed") }
    let cut = run(bytes, pieces(bytes))
    // How much of one reply was there when it became too long depends on the cut; what came before does not.
    if whole.failure != .tooLarge && cut.failure != .tooLarge { require(whole == cut, "in pieces: \(whole) \(cut)") }
    require(zip(whole.replies, cut.replies).allSatisfy { $0 == $1 }, "other replies")
    return 0
}
