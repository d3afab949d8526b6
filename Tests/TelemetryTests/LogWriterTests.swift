import Foundation
import Primitives
import TestSupport
import Testing

@testable import Telemetry

/// A sink that a test can hold and make fail.
private final class HeldSink: LogSink {
    private struct State {
        var bytes: [UInt8] = []
        var fails = false
    }
    private let state = Lock(State())
    /// Signalled by the writer's thread when it enters a write.
    let entered = DispatchSemaphore(value: 0)
    private let gate = DispatchSemaphore(value: 0)
    private let isHeld: Bool

    init(isHeld: Bool = false) { self.isHeld = isHeld }

    func release() { gate.signal() }
    func fail() { state.withLock { $0.fails = true } }
    var text: String { String(decoding: state.withLock { $0.bytes }, as: UTF8.self) }

    func write(_ lines: UnsafeRawBufferPointer) -> Int {
        if isHeld {
            entered.signal()
            gate.wait()
        }
        let copy = Array(lines)
        return state.withLock {
            if $0.fails { return 0 }
            $0.bytes += copy
            return copy.count
        }
    }
}

/// These tests wait for the writer's thread, so each runs on a thread of its own.
@Suite(.serialized) struct LogWriterTests {
    @Test func linesArriveInOrderAndFlushWaitsForThem() async throws {
        try await onThread {
            let sink = HeldSink()
            let writer = try LogWriter.start(sink: sink)
            var expected = ""
            for index in 0..<1_000 {
                writer.append(Array("line \(index)\n".utf8))
                expected += "line \(index)\n"
                if index % 100 == 0 {
                    #expect(writer.flush(within: .seconds(10)))
                    #expect(sink.text == expected)
                }
            }
            #expect(writer.close(within: .seconds(10)))
            #expect(sink.text == expected)
            #expect(writer.droppedCount == 0)
        }
    }

    @Test func aFullQueueDropsAndCountsAndNeverWaits() async throws {
        try await onThread {
            let sink = HeldSink(isHeld: true)
            var limits = LogWriter.Limits()
            limits.lineCount = 3
            let writer = try LogWriter.start(sink: sink, limits: limits)
            writer.append(Array("first\n".utf8))
            sink.entered.wait()
            for index in 0..<5 { writer.append(Array("\(index)\n".utf8)) }
            #expect(writer.droppedCount == 2)
            sink.release()
            sink.entered.wait()
            sink.release()
            #expect(writer.close(within: .seconds(10)))
            #expect(sink.text == "first\n0\n1\n2\n")
            #expect(writer.droppedCount == 2)
        }
    }

    @Test(arguments: [(9, 1), (10, 0), (11, 0)])
    func theQueueIsBoundedInOctets(bytes: Int, dropped: Int) async throws {
        try await onThread {
            let sink = HeldSink(isHeld: true)
            var limits = LogWriter.Limits()
            limits.bytes = bytes
            let writer = try LogWriter.start(sink: sink, limits: limits)
            writer.append(Array("first\n".utf8))
            sink.entered.wait()
            writer.append(Array("1234\n".utf8))
            writer.append(Array("5678\n".utf8))
            #expect(writer.droppedCount == dropped)
            sink.release()
            sink.release()
            #expect(writer.close(within: .seconds(10)))
        }
    }

    @Test func closeIsBoundedWhenTheSinkHangs() async throws {
        try await onThread {
            let sink = HeldSink(isHeld: true)
            let writer = try LogWriter.start(sink: sink)
            writer.append(Array("stuck\n".utf8))
            sink.entered.wait()
            #expect(!writer.flush(within: .milliseconds(10)))
            #expect(!writer.close(within: .milliseconds(10)))
            writer.append(Array("too late\n".utf8))
            #expect(writer.droppedCount == 1)
            sink.release()
            #expect(writer.close(within: .seconds(10)))
            #expect(sink.text == "stuck\n")
        }
    }

    @Test func linesThatTheSinkRefusesAreCounted() async throws {
        try await onThread {
            let sink = HeldSink()
            sink.fail()
            let writer = try LogWriter.start(sink: sink)
            for _ in 0..<3 { writer.append(Array("lost\n".utf8)) }
            #expect(writer.close(within: .seconds(10)))
            #expect(writer.droppedCount == 3)
            #expect(sink.text == "")
        }
    }

    @Test func manyThreadsMayWriteAtOnce() async throws {
        try await onThread {
            let sink = HeldSink()
            let writer = try LogWriter.start(sink: sink)
            let log = Log(format: .text, time: TestTime(), output: writer)
            DispatchQueue.concurrentPerform(iterations: 8) { thread in
                for index in 0..<200 { log.write(.info, "hello", [LogField("thread", thread), LogField("index", index)]) }
            }
            #expect(writer.close(within: .seconds(10)))
            let lines = sink.text.split(separator: "\n")
            #expect(lines.count == 1_600)
            #expect(Set(lines).count == 1_600)
        }
    }

    @Test func standardOutputWritesToItsDescriptor() async throws {
        try await onThread {
            let pipe = Pipe()
            let sink = StandardOutput(descriptor: pipe.fileHandleForWriting.fileDescriptor)
            #expect(!sink.isTerminal)
            let writer = try LogWriter.start(sink: sink)
            writer.append(Array("one\n".utf8))
            #expect(writer.close(within: .seconds(10)))
            try pipe.fileHandleForWriting.close()
            #expect(try pipe.fileHandleForReading.readToEnd() == Data("one\n".utf8))
        }
    }

    @Test func aNonBlockingPipeThatIsFullIsWaitedFor() async throws {
        try await onThread {
            let pipe = Pipe()
            let descriptor = pipe.fileHandleForWriting.fileDescriptor
            #expect(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0)
            let writer = try LogWriter.start(sink: StandardOutput(descriptor: descriptor))
            let line = [UInt8](repeating: UInt8(ascii: "x"), count: 99_999) + [UInt8(ascii: "\n")]
            for _ in 0..<3 { writer.append(line) }
            var received = 0
            while received < 300_000 { received += pipe.fileHandleForReading.availableData.count }
            #expect(writer.close(within: .seconds(10)))
            #expect(received == 300_000)
            #expect(writer.droppedCount == 0)
        }
    }

    @Test func aClosedDescriptorIsCounted() async throws {
        try await onThread {
            let writer = try LogWriter.start(sink: StandardOutput(descriptor: -1))
            writer.append(Array("lost\n".utf8))
            #expect(writer.close(within: .seconds(10)))
            #expect(writer.droppedCount == 1)
        }
    }

    /// Runs a blocking body on a thread of its own: the cooperative pool has few.
    private func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
        }
    }
}
