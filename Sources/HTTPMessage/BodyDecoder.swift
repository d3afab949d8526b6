/// Takes the framing off a message body as it arrives. Consumes every byte it is given until the message is complete; what is left
/// then belongs to the next message.
package struct BodyDecoder: Sendable {
    package struct Progress: Sendable, Equatable {
        /// Bytes of the input that were used.
        package let consumed: Int
        package let isComplete: Bool
    }

    private enum State: Sendable {
        case length(remaining: Int)
        case chunked(ChunkedDecoder)
        case untilClose
        case complete
    }

    private let bodyBytes: Int
    private let discards: Bool
    private var state: State
    /// Bytes of the body consumed so far, framing included.
    private var position = 0
    /// Content decoded so far, kept or discarded.
    package private(set) var contentCount = 0

    /// `limits.bodyBytes` bounds the content; `chunkLineBytes`, `fieldsBytes` and `fieldLines` the chunk lines and trailers. With
    /// `discards` the content is counted and checked, but not kept.
    package init(framing: BodyFraming, limits: HTTPLimits, discards: Bool = false) {
        bodyBytes = limits.bodyBytes
        self.discards = discards
        switch framing {
        case .none: state = .complete
        case .length(let count): state = count == 0 ? .complete : .length(remaining: count)
        case .chunked: state = .chunked(ChunkedDecoder(limits: limits))
        case .untilClose: state = .untilClose
        }
    }

    package var isComplete: Bool {
        if case .complete = state { true } else { false }
    }

    /// A body that announces more than the limit is refused (413) at once, also with no byte of it here.
    package mutating func decode(_ bytes: RawSpan, into content: inout [UInt8]) throws(HTTPParseError) -> Progress {
        switch state {
        case .complete: return Progress(consumed: 0, isComplete: true)
        case .length(let remaining):
            guard remaining <= bodyBytes &- contentCount else { throw HTTPParseError(.contentTooLarge, at: position) }
            let count = min(remaining, bytes.byteCount)
            keep(bytes, 0..<count, &content)
            position &+= count
            state = count == remaining ? .complete : .length(remaining: remaining &- count)
            return Progress(consumed: count, isComplete: count == remaining)
        case .untilClose:
            let count = bytes.byteCount
            guard count <= bodyBytes &- contentCount else {
                throw HTTPParseError(.contentTooLarge, at: position &+ bodyBytes &- contentCount)
            }
            keep(bytes, 0..<count, &content)
            position &+= count
            return Progress(consumed: count, isComplete: false)
        case .chunked(var decoder):
            var offset = 0
            while let chunk = try decoder.next(bytes, &offset, position: position, room: bodyBytes &- contentCount) {
                keep(bytes, chunk, &content)
            }
            position &+= offset
            let isComplete = decoder.isComplete
            state = isComplete ? .complete : .chunked(decoder)
            return Progress(consumed: offset, isComplete: isComplete)
        }
    }

    /// The peer will send no more. `true`: the message is complete. A body cut short is an error and must not be used
    /// (RFC 9112 section 8).
    @discardableResult
    package mutating func finishAtEOF() throws(HTTPParseError) -> Bool {
        switch state {
        case .complete: return true
        case .untilClose:
            state = .complete
            return true
        case .length, .chunked: throw HTTPParseError(.incomplete, at: position)
        }
    }

    @inline(__always)
    private mutating func keep(_ bytes: RawSpan, _ range: Range<Int>, _ content: inout [UInt8]) {
        contentCount &+= range.count
        if !discards, !range.isEmpty { content.append(bytes.extracting(range)) }
    }
}
