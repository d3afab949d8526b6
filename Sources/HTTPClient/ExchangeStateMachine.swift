import HTTPMessage

/// One request and its response on one connection. Pure: bytes and events in, one step out.
///
/// What has become of the request and how far the response is are two independent questions (a server may answer before it has read
/// everything), so there are two states. Nothing but a response that is complete by its own framing (RFC 9112 section 6.3) is a success.
package struct ExchangeStateMachine: Sendable {
    package enum Sending: Equatable, Sendable {
        /// No byte has been given to the kernel: the request may be sent elsewhere.
        case nothing
        case partly
        case all
    }

    private enum Receiving {
        case head(informationalHeads: Int)
        case body(ResponseHead, BodyDecoder)
        /// The head had come, and the rest never will.
        case broken(ResponseHead)
        case over
    }

    package enum Step: Equatable, Sendable {
        case needMore
        /// The response is whole; see ``takeResponse()``. `isReusable` false: the connection has to be closed.
        case complete(isReusable: Bool)
        /// The connection has to be closed.
        case failed(UpstreamError)
    }

    /// 1xx heads before the response; more is a server that never answers.
    private static let maxInformationalHeads = 16

    private let method: Method
    private let limits: HTTPLimits
    package private(set) var sending = Sending.nothing
    private var receiving = Receiving.head(informationalHeads: 0)
    private var parser: ResponseHeadParser
    /// A head that has not arrived in full; empty as long as heads come in one piece.
    private var partialHead: [UInt8] = []
    private var content: [UInt8] = []
    private var response: ResponseHead?

    /// - Parameters:
    ///   - limits: for the head of the response.
    ///   - maxResponseBytes: for its content as it is on the wire.
    package init(method: Method, limits: HTTPLimits, maxResponseBytes: Int) {
        self.method = method
        var limits = limits
        limits.bodyBytes = maxResponseBytes
        self.limits = limits
        parser = ResponseHeadParser(limits: limits)
    }

    // MARK: Events

    /// The first byte is about to be given to the kernel.
    package mutating func requestBegins() {
        if sending == .nothing { sending = .partly }
    }

    package mutating func requestSent() { sending = .all }

    package mutating func received(_ bytes: RawSpan) -> Step {
        // Before the request there is nothing a server could be answering.
        guard sending != .nothing else { return fail(.notSent(.closedBeforeSend)) }
        do {
            return try step(bytes)
        } catch {
            // Content that is too large has been told apart by ``decode``.
            return fail(.broken(.malformed))
        }
    }

    /// The server has finished sending.
    package mutating func ended() -> Step {
        guard sending != .nothing else { return fail(.notSent(.closedBeforeSend)) }
        guard case .body(let head, var decoder) = receiving else { return fail(.broken(.closedEarly)) }
        // Only a body that ends with the connection is complete now; a cut chunk or length is not.
        guard let isComplete = try? decoder.finishAtEOF(), isComplete else { return fail(.broken(.closedEarly)) }
        return complete(head, isReusable: false)
    }

    /// The connection broke.
    package mutating func reset() -> Step {
        fail(sending == .nothing ? .notSent(.closedBeforeSend) : .broken(.reset))
    }

    /// After `.complete`, once.
    package mutating func takeResponse() -> UpstreamResponse? {
        guard let head = response else { return nil }
        response = nil
        return UpstreamResponse(status: head.status, fields: head.fields, body: content)
    }

    /// The head of a response that is not whole, or never became so.
    package var incompleteHead: ResponseHead? {
        switch receiving {
        case .body(let head, _), .broken(let head): head
        case .head, .over: nil
        }
    }

    // MARK: Parts

    private mutating func step(_ bytes: RawSpan) throws(HTTPParseError) -> Step {
        var offset = 0
        while case .head(let count) = receiving {
            guard let parsed = try parseHead(bytes, &offset) else { return .needMore }
            guard parsed.isInformational else {
                let framing = try framing(of: parsed)
                guard framing.hasContent else { return complete(parsed, isReusable: offset == bytes.byteCount) }
                if case .length(let length) = framing {
                    guard length <= limits.bodyBytes else { return tooLarge(parsed) }
                    content.reserveCapacity(length)
                }
                return try decode(bytes.extracting(offset...), parsed, BodyDecoder(framing: framing, limits: limits))
            }
            // 101 answers an Upgrade, which is never asked for (RFC 9110 section 15.2.2).
            guard parsed.status != 101, count < Self.maxInformationalHeads else { return fail(.broken(.malformed)) }
            _ = try BodyFraming.ofResponse(parsed, to: method)
            receiving = .head(informationalHeads: count + 1)
            parser.reset()
            if offset == bytes.byteCount { return .needMore }
        }
        guard case .body(let head, let decoder) = receiving else { return .needMore }
        // Taken out while it is changed, so that it is not copied.
        receiving = .over
        return try decode(bytes, head, decoder)
    }

    private mutating func decode(
        _ bytes: RawSpan, _ head: ResponseHead, _ decoder: BodyDecoder
    ) throws(HTTPParseError) -> Step {
        var decoder = decoder
        let progress: BodyDecoder.Progress
        do throws(HTTPParseError) {
            progress = try decoder.decode(bytes, into: &content)
        } catch {
            guard error.reason == .contentTooLarge else {
                receiving = .broken(head)
                throw error
            }
            return tooLarge(head)
        }
        if progress.isComplete { return complete(head, isReusable: progress.consumed == bytes.byteCount) }
        receiving = .body(head, decoder)
        return .needMore
    }

    private mutating func framing(of head: ResponseHead) throws(HTTPParseError) -> BodyFraming {
        do throws(HTTPParseError) {
            return try BodyFraming.ofResponse(head, to: method)
        } catch {
            receiving = .broken(head)
            throw error
        }
    }

    /// One head, from `offset` on, which is moved behind it.
    private mutating func parseHead(_ bytes: RawSpan, _ offset: inout Int) throws(HTTPParseError) -> ResponseHead? {
        let rest = bytes.extracting(offset..<bytes.byteCount)
        if partialHead.isEmpty {
            guard let parsed = try parser.parse(rest) else {
                partialHead.append(rest)
                return nil
            }
            offset += parsed.byteCount
            return parsed.head
        }
        // Taken out while it grows, so that it is not copied.
        var head: [UInt8] = []
        swap(&head, &partialHead)
        let already = head.count
        head.append(rest)
        guard let parsed = try parser.parse(head.span.bytes) else {
            partialHead = head
            return nil
        }
        offset += parsed.byteCount - already
        return parsed.head
    }

    /// The status and the fields of a failure say what to do; its content only explains, and is not needed in full.
    private mutating func tooLarge(_ head: ResponseHead) -> Step {
        content = []
        receiving = .broken(head)
        return head.status < 300 ? fail(.broken(.tooLarge)) : complete(head, isReusable: false)
    }

    private mutating func complete(_ head: ResponseHead, isReusable: Bool) -> Step {
        receiving = .over
        response = head
        // A server that answers early may not read the rest of the request, and then takes it for the next one.
        return .complete(isReusable: isReusable && head.isPersistent && sending == .all)
    }

    private mutating func fail(_ error: UpstreamError) -> Step {
        receiving = incompleteHead.map { .broken($0) } ?? .over
        return .failed(error)
    }
}
