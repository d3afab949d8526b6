import CHiredis

/// Bytes in, replies out: hiredis' reader with builders of our own that count what they build.
///
/// Belongs to one connection. A reader that has failed stays failed: after bytes that are no reply nobody knows where the next begins.
package final class RedisReplyReader {
    package struct Limits: Sendable, Equatable {
        /// Of one reply, as it came.
        package var replyBytes = 1 << 20
        /// Values of one reply, the arrays that hold them included.
        package var replyElements = 16_384

        package init() {}
    }

    package enum Failure: Error, Equatable, Sendable {
        /// No RESP2, or arrays more than eight deep.
        case malformed
        case tooLarge
    }

    private let raw: UnsafeMutablePointer<redisReader>
    private let builder: ReplyBuilder
    private let limits: Limits
    private var failure: Failure?
    /// Bytes that belong to no complete reply yet.
    private var openBytes = 0

    package init?(limits: Limits = Limits()) {
        guard let raw = redisReaderCreateWithFunctions(BuilderFunctions.shared.pointer) else { return nil }
        self.raw = raw
        self.limits = limits
        builder = ReplyBuilder(maxElements: limits.replyElements)
        raw.pointee.privdata = Unmanaged.passUnretained(builder).toOpaque()
    }

    deinit { redisReaderFree(raw) }

    /// - Parameter receive: called for each reply that is complete with these bytes; false stops, and the rest of the bytes is kept.
    package func feed(_ bytes: UnsafeRawBufferPointer, _ receive: (RedisReply) -> Bool) throws(Failure) {
        if let failure { throw failure }
        if !bytes.isEmpty {
            openBytes += bytes.count
            guard redisReaderFeed(raw, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) == REDIS_OK else {
                throw fail(.malformed)
            }
        }
        while true {
            var object: UnsafeMutableRawPointer?
            guard redisReaderGetReply(raw, &object) == REDIS_OK else {
                throw fail(builder.isOverfull ? .tooLarge : .malformed)
            }
            guard object != nil else {
                if openBytes > limits.replyBytes { throw fail(.tooLarge) }
                return
            }
            let restBytes = raw.pointee.len - raw.pointee.pos
            // What came in one piece with the next replies is bounded by what is read at once.
            openBytes = restBytes
            guard let reply = builder.take() else { throw fail(.malformed) }
            if !receive(reply) { return }
        }
    }

    private func fail(_ failure: Failure) -> Failure {
        self.failure = failure
        return failure
    }
}

/// The values of the reply that is being read, in the order in which they came: an array stands before its elements.
private final class ReplyBuilder {
    enum Value {
        case null
        case integer(Int64)
        case string([UInt8])
        case status([UInt8])
        case error(RedisServerError)
        case array(count: Int)
    }

    private let maxElements: Int
    private var values: [Value] = []
    private(set) var isOverfull = false

    init(maxElements: Int) { self.maxElements = maxElements }

    /// - Returns: a token that is not null, or null when there is no room, which the reader takes for an error.
    func append(_ value: Value, elements: Int = 0) -> UnsafeMutableRawPointer? {
        guard values.count < maxElements, elements >= 0, elements < maxElements else {
            isOverfull = true
            return nil
        }
        values.append(value)
        return UnsafeMutableRawPointer(bitPattern: values.count)
    }

    func take() -> RedisReply? {
        defer { values.removeAll(keepingCapacity: values.count <= 256) }
        var next = 0
        let reply = reply(&next)
        return next == values.count ? reply : nil
    }

    /// As deep as hiredis allows: eight.
    private func reply(_ next: inout Int) -> RedisReply? {
        guard next < values.count else { return nil }
        let value = values[next]
        next += 1
        switch value {
        case .null: return .null
        case .integer(let number): return .integer(number)
        case .string(let bytes): return .string(bytes)
        case .status(let bytes): return .status(bytes)
        case .error(let error): return .error(error)
        case .array(let count):
            var elements: [RedisReply] = []
            elements.reserveCapacity(count)
            for _ in 0..<count {
                guard let element = reply(&next) else { return nil }
                elements.append(element)
            }
            return .array(elements)
        }
    }
}

/// The table of functions that hiredis calls; one for the process.
private struct BuilderFunctions: @unchecked Sendable {
    // Sendable: the table is written before anybody else can see it and read ever after; it is never freed.
    let pointer: UnsafeMutablePointer<redisReplyObjectFunctions>

    static let shared = BuilderFunctions()

    private init() {
        pointer = .allocate(capacity: 1)
        pointer.initialize(
            to: redisReplyObjectFunctions(
                createString: { task, text, count in
                    guard let task, let builder = BuilderFunctions.builder(task) else { return nil }
                    let bytes = Array(UnsafeRawBufferPointer(start: text, count: count))
                    switch task.pointee.type {
                    case REDIS_REPLY_ERROR: return builder.append(.error(RedisServerError(text: bytes)))
                    case REDIS_REPLY_STATUS: return builder.append(.status(bytes))
                    default: return builder.append(.string(bytes))
                    }
                },
                createArray: { task, count in
                    guard let task else { return nil }
                    return BuilderFunctions.builder(task)?.append(.array(count: Int(count)), elements: Int(count))
                },
                createInteger: { task, number in
                    guard let task else { return nil }
                    return BuilderFunctions.builder(task)?.append(.integer(Int64(number)))
                },
                createNil: { task in
                    guard let task else { return nil }
                    return BuilderFunctions.builder(task)?.append(.null)
                },
                // The tokens are no memory.
                freeObject: { _ in }))
    }

    private static func builder(_ task: UnsafePointer<redisReadTask>) -> ReplyBuilder? {
        // Alive: the reader that calls belongs to the object that owns the builder.
        task.pointee.privdata.map { Unmanaged<ReplyBuilder>.fromOpaque($0).takeUnretainedValue() }
    }
}
