import HTTPMessage
import Primitives

/// One connection's way through its requests, as a value: bytes and events in, one action out. No socket, clock or buffer of its own.
///
/// The caller keeps the bytes that were not consumed and shows them again with what came after them. What an unfinished message needs
/// is in a box of its own: a connection between requests is one word.
///
/// | state | event | next state |
/// | --- | --- | --- |
/// | idle | empty line | idle |
/// | idle, head | part of a head | head |
/// | idle, head | whole head | serving |
/// | idle, head, content | malformed or too large | serving (the refusal is the response) |
/// | serving | `admit` of a head with content | content |
/// | content | last byte of the content | serving |
/// | head, content | `timedOut` | serving |
/// | idle | `refusedUnasked` | serving |
/// | serving | `responded`, the connection goes on | idle |
/// | serving | `responded`, the connection closes | lingering |
/// | any | `close` | closed |
///
/// Every other pair changes nothing.
struct ConnectionStateMachine {
    enum State {
        /// Between requests: no byte of the next one has come (empty lines that may precede it aside).
        case idle
        /// An incomplete head.
        case head(UnfinishedHead)
        /// The head was admitted and its content is being read.
        case content(UnfinishedContent)
        /// The handler has the request; nothing more is read.
        case serving
        /// The last response is out or on its way; what still comes is thrown away until the peer ends.
        case lingering
        case closed
    }

    final class UnfinishedHead {
        fileprivate var parser: RequestHeadParser
        fileprivate init(_ parser: RequestHeadParser) { self.parser = parser }
    }

    final class UnfinishedContent {
        fileprivate var decoder: BodyDecoder
        fileprivate init(_ decoder: BodyDecoder) { self.decoder = decoder }
    }

    enum Step {
        /// Nothing can be done with what is there. Nothing of it was consumed.
        case needMore
        /// A whole head: the caller asks its handler and calls ``admit(_:limits:keepsContent:)`` if the content is to be read.
        case head(RequestHead)
        /// Content was consumed and there is more of it to come.
        case contentProgress
        /// The content is whole.
        case complete
        /// The connection is lost for further requests.
        case refuse(HTTPParseError)
        /// Thrown away.
        case discarded
    }

    private(set) var state = State.idle

    /// - Parameters:
    ///   - bytes: what was not consumed yet, from its first byte; not empty.
    ///   - content: gets what belongs to the content of the request.
    /// - Returns: the step, and how many of the bytes it took.
    mutating func receive(
        _ bytes: RawSpan, limits: HTTPLimits, content: inout [UInt8]
    ) -> (step: Step, consumed: Int) {
        switch state {
        case .idle:
            var parser = RequestHeadParser(limits: limits)
            let result = parse(&parser, bytes)
            // An empty line is not the beginning of a request (RFC 9112 section 2.2).
            if case .needMore = result.step, parser.hasBegun { state = .head(UnfinishedHead(parser)) }
            return result
        case .head(let unfinished): return parse(&unfinished.parser, bytes)
        case .content(let unfinished): return decode(&unfinished.decoder, bytes, &content)
        case .serving: return (.needMore, 0)
        case .lingering, .closed: return (.discarded, bytes.byteCount)
        }
    }

    private mutating func parse(_ parser: inout RequestHeadParser, _ bytes: RawSpan) -> (step: Step, consumed: Int) {
        do throws(HTTPParseError) {
            guard let parsed = try parser.parse(bytes) else { return (.needMore, 0) }
            state = .serving
            return (.head(parsed.head), parsed.byteCount)
        } catch {
            state = .serving
            return (.refuse(error), bytes.byteCount)
        }
    }

    private mutating func decode(
        _ decoder: inout BodyDecoder, _ bytes: RawSpan, _ content: inout [UInt8]
    ) -> (step: Step, consumed: Int) {
        do throws(HTTPParseError) {
            let progress = try decoder.decode(bytes, into: &content)
            guard progress.isComplete else { return (.contentProgress, progress.consumed) }
            state = .serving
            return (.complete, progress.consumed)
        } catch {
            state = .serving
            return (.refuse(error), bytes.byteCount)
        }
    }

    /// After a head: its content is read before the request is served.
    /// - Returns: whether there is content to wait for.
    mutating func admit(_ head: RequestHead, limits: HTTPLimits, keepsContent: Bool) -> Bool {
        guard case .serving = state, head.framing.hasContent else { return false }
        state = .content(UnfinishedContent(BodyDecoder(framing: head.framing, limits: limits, discards: !keepsContent)))
        return true
    }

    /// The response is out or on its way.
    mutating func responded(closes: Bool) {
        if case .serving = state { state = closes ? .lingering : .idle }
    }

    /// What was begun will not be finished: the response to it comes next.
    mutating func timedOut() {
        switch state {
        case .head, .content: state = .serving
        case .idle, .serving, .lingering, .closed: break
        }
    }

    /// Whatever it asks is not served: the response that says so comes next.
    mutating func refusedUnasked() { if case .idle = state { state = .serving } }

    mutating func close() { state = .closed }

    var isIdle: Bool { if case .idle = state { true } else { false } }
    var isServing: Bool { if case .serving = state { true } else { false } }
    var isLingering: Bool { if case .lingering = state { true } else { false } }
    /// No complete head is there.
    var isWaiting: Bool {
        switch state {
        case .idle, .head: true
        case .content, .serving, .lingering, .closed: false
        }
    }
}
