import Foundation
import Primitives
import TestSupport
import Testing

@testable import Telemetry

@Suite struct SpanQueueTests {
    private static func limits(spans: Int = 10, bytes: Int = 1000, batch: Int = 4, batchBytes: Int = 100) -> SpanQueue.Limits {
        var limits = SpanQueue.Limits()
        limits.spanCount = spans
        limits.bytes = bytes
        limits.batchCount = batch
        limits.batchBytes = batchBytes
        return limits
    }

    private func span(_ count: Int, _ byte: UInt8 = 0) -> [UInt8] { [UInt8](repeating: byte, count: count) }

    @Test func theFirstAndAFullBatchAreTold() {
        let queue = SpanQueue(limits: Self.limits())
        #expect(
            (0..<6).map { _ in queue.offer(span(1)) } == [
                .asTheFirst, .quietly, .quietly, .asTheLastOfABatch, .quietly, .quietly,
            ])
        #expect(queue.takeBatch().count == 4)
        #expect(queue.takeBatch().count == 2)
        #expect(queue.takeBatch().isEmpty)
        #expect(queue.offer(span(1)) == .asTheFirst)
    }

    /// One below, at and one beyond: in number and in bytes.
    @Test func whatDoesNotFitIsDropped() {
        let few = SpanQueue(limits: Self.limits(spans: 3, batch: 2))
        #expect((0..<4).map { _ in few.offer(span(1)) } == [.asTheFirst, .asTheLastOfABatch, .quietly, .dropped])
        #expect(few.count == 3)
        let small = SpanQueue(limits: Self.limits(bytes: 10))
        #expect(small.offer(span(4)) == .asTheFirst)
        #expect(small.offer(span(7)) == .dropped)
        #expect(small.offer(span(6)) == .quietly)
        #expect(small.bytes == 10)
        #expect(small.offer(span(1)) == .dropped)
        _ = small.takeBatch()
        #expect(small.bytes == 0)
        #expect(small.offer(span(10)) == .asTheFirst)
        #expect(small.offer(span(11)) == .dropped)
    }

    @Test func batchesAreTheOldestInOrderAndBoundedInBytes() {
        let queue = SpanQueue(limits: Self.limits(batchBytes: 10))
        for (count, byte) in [(4, 1), (6, 2), (1, 3), (50, 4), (1, 5)] { _ = queue.offer(span(count, UInt8(byte))) }
        #expect(queue.takeBatch().map(\.[0]) == [1, 2])
        #expect(queue.takeBatch().map(\.[0]) == [3])
        // One that is larger than a batch goes by itself.
        #expect(queue.takeBatch().map(\.[0]) == [4])
        #expect(queue.takeBatch().map(\.[0]) == [5])
    }

    @Test func everythingCanBeThrownAway() {
        let queue = SpanQueue(limits: Self.limits())
        for _ in 0..<5 { _ = queue.offer(span(3)) }
        #expect(queue.removeAll() == 5)
        #expect(queue.count == 0 && queue.bytes == 0)
        #expect(queue.removeAll() == 0)
    }

    /// From many threads: what was taken is what was not dropped, each once.
    @Test func nothingIsLostOrDoubledBetweenThreads() async throws {
        let queue = SpanQueue(limits: Self.limits(spans: 64, bytes: 1 << 20, batch: 16, batchBytes: 1 << 20))
        let accepted = Lock<[[UInt8]]>([])
        let taken = Lock<[[UInt8]]>([])
        let left = Lock(4)
        async let consumer: Void = onOwnThread {
            while left.withLock({ $0 }) > 0 || queue.count > 0 {
                let batch = queue.takeBatch()
                taken.withLock { $0 += batch }
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    try await onOwnThread {
                        for number in 0..<2_000 {
                            let span = Array("\(thread) \(number)".utf8)
                            if queue.offer(span) != .dropped { accepted.withLock { $0.append(span) } }
                        }
                        left.withLock { $0 -= 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await consumer
        let (gone, come) = (accepted.withLock { Set($0) }, taken.withLock { $0 })
        #expect(come.count == gone.count && Set(come) == gone)
    }
}
