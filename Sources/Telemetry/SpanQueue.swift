import Primitives

/// Spans that wait to be exported. Any thread; never blocks: what does not fit is dropped, and the caller is told.
package final class SpanQueue: Sendable {
    package struct Limits: Sendable, Equatable {
        package var spanCount = 8192
        package var bytes = 8 << 20
        /// So many are worth an export at once.
        package var batchCount = 512
        package var batchBytes = 1 << 20

        package init() {}
    }

    /// What a span that was offered came to.
    package enum Taken: Equatable, Sendable {
        /// Who exports has nothing to be told.
        case quietly
        /// Nothing was waiting before.
        case asTheFirst
        /// A batch is full now.
        case asTheLastOfABatch
        /// It did not fit.
        case dropped
    }

    private struct State {
        var spans: [[UInt8]] = []
        var bytes = 0
    }

    package let limits: Limits
    private let state = Lock(State())

    package init(limits: Limits = Limits()) { self.limits = limits }

    package func offer(_ span: [UInt8]) -> Taken {
        state.withLock { state in
            guard state.spans.count < limits.spanCount, state.bytes + span.count <= limits.bytes else { return .dropped }
            state.spans.append(span)
            state.bytes += span.count
            if state.spans.count == limits.batchCount { return .asTheLastOfABatch }
            return state.spans.count == 1 ? .asTheFirst : .quietly
        }
    }

    /// The oldest spans, as many as make a batch; at least one where there is one.
    package func takeBatch() -> [[UInt8]] {
        state.withLock { state in
            var count = 0
            var bytes = 0
            while count < min(limits.batchCount, state.spans.count),
                count == 0 || bytes + state.spans[count].count <= limits.batchBytes
            {
                bytes += state.spans[count].count
                count += 1
            }
            let batch = Array(state.spans[..<count])
            state.spans.removeFirst(count)
            state.bytes -= bytes
            return batch
        }
    }

    /// Throws everything away and says how much that was.
    package func removeAll() -> Int {
        state.withLock { state in
            let count = state.spans.count
            state = State()
            return count
        }
    }

    package var count: Int { state.withLock { $0.spans.count } }
    package var bytes: Int { state.withLock { $0.bytes } }
}
