import HTTPMessage
import Primitives

/// One connection's way through its requests, as a value: bytes and events in, one action out. No socket, clock or buffer of its own.
///
/// The caller keeps the bytes that were not consumed and shows them again with what came after them.
struct ConnectionStateMachine {
    enum State {
        /// Between requests: no byte of the next one has come (the empty line that may precede it aside).
        case idle
        /// An incomplete head.
        case head
        /// The head was admitted and its content is being read.
        case content(BodyDecoder)
        /// The handler has the request; nothing more is read.
        case serving
        /// The last response is out or on its way; what still comes is thrown away until the peer ends.
        case lingering
        case closed
    }

    enum Step {
        /// Nothing can be done with what is there. Nothing of it was consumed.
        case needMore
        /// A head: the caller asks its handler and calls ``admit(_:)``.
        case head(RequestHead)
        /// Content was consumed and there is more of it to come.
        case contentProgress
        /// The message is whole; the state is `serving`.
        case complete
        /// The connection is lost for further requests.
        case refuse(HTTPParseError)
        /// Thrown away.
        case discarded
    }

    private(set) var state = State.idle
    private var parser: RequestHeadParser

    init(limits: HTTPLimits) { parser = RequestHeadParser(limits: limits) }

    /// - Parameters:
    ///   - bytes: what was not consumed yet, from its first byte; not empty.
    ///   - content: gets what belongs to the content of the request.
    /// - Returns: the step, and how many of the bytes it took.
    mutating func receive(_ bytes: RawSpan, content: inout [UInt8]) -> (step: Step, consumed: Int) {
        switch state {
        case .idle, .head:
            do throws(HTTPParseError) {
                guard let parsed = try parser.parse(bytes) else {
                    // A leading empty line is not the beginning of a request (RFC 9112 section 2.2).
                    if parser.hasBegun { state = .head }
                    return (.needMore, 0)
                }
                parser.reset()
                return (.head(parsed.head), parsed.byteCount)
            } catch {
                state = .serving
                return (.refuse(error), bytes.byteCount)
            }
        case .content(var decoder):
            state = .idle  // The decoder must not be copied while it is changed.
            do throws(HTTPParseError) {
                let progress = try decoder.decode(bytes, into: &content)
                if progress.isComplete {
                    state = .serving
                    return (.complete, progress.consumed)
                }
                state = .content(decoder)
                return (progress.consumed == 0 ? .needMore : .contentProgress, progress.consumed)
            } catch {
                state = .serving
                return (.refuse(error), bytes.byteCount)
            }
        case .serving: return (.needMore, 0)
        case .lingering, .closed: return (.discarded, bytes.byteCount)
        }
    }

    /// After `.head`: reads the content, or passes on at once when there is none.
    /// - Returns: whether the message is whole already.
    mutating func admit(_ head: RequestHead, limits: HTTPLimits, keepsContent: Bool) -> Bool {
        guard head.framing.hasContent else {
            state = .serving
            return true
        }
        state = .content(BodyDecoder(framing: head.framing, limits: limits, discards: !keepsContent))
        return false
    }

    /// After `.head`: the request is answered without its content, and the connection closes.
    mutating func skipContent() { state = .serving }

    /// The response is out. - Returns: whether the connection goes on to the next request.
    mutating func responded(closes: Bool) -> Bool {
        guard case .serving = state else { return false }
        state = closes ? .lingering : .idle
        return !closes
    }

    mutating func timedOut() { state = .serving }
    mutating func close() { state = .closed }

    var isIdle: Bool { if case .idle = state { true } else { false } }
    var isServing: Bool { if case .serving = state { true } else { false } }
    /// No complete head is there: the connection may be closed in favour of another one.
    var isWaiting: Bool {
        switch state {
        case .idle, .head: true
        case .content, .serving, .lingering, .closed: false
        }
    }
}
