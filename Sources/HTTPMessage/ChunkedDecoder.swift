/// The chunked transfer coding (RFC 9112 section 7.1), one byte after the other, so that it can stop and go on anywhere.
///
/// Extensions are checked against their grammar and ignored. Trailer lines are checked like field lines and discarded: nothing here
/// has a use for them, and merging them into the header section is how they become dangerous (RFC 9110 section 6.5.1).
struct ChunkedDecoder: Sendable {
    private enum State: Sendable, Equatable {
        case size
        /// White space after the size, a name or a value: `;` must follow, or `=` after a name.
        case blankAfterSize, blankAfterName, blankAfterValue
        case beforeName, name, beforeValue, token, quoted, quotedPair, afterQuoted
        case lineFeed
        case content
        case contentCarriageReturn, contentLineFeed
        case trailerStart, trailerName, trailerValue, trailerLineFeed
        case lastLineFeed
        case complete
    }

    private let limits: HTTPLimits
    private var state = State.size
    private var size = 0
    private var hasDigit = false
    /// Content of the current chunk still to come.
    private var remaining = 0
    private var lineBytes = 0
    /// Chunk lines beyond eight bytes each, all added up: RFC 9112 section 7.1.1 wants the total of extensions bounded.
    private var excessBytes = 0
    private var trailerBytes = 0
    private var trailerLines = 0

    init(limits: HTTPLimits) { self.limits = limits }

    var isComplete: Bool { state == .complete }

    /// Advances `offset` to the next piece of content and past it, and returns its range; `nil` when the input is used up or the
    /// message is complete. `position` says where the input stands in the body, for the offset of an error; `room` how much more
    /// content is allowed.
    mutating func next(
        _ bytes: RawSpan, _ offset: inout Int, position: Int, room: Int
    ) throws(HTTPParseError) -> Range<Int>? {
        while offset < bytes.byteCount, state != .complete {
            if state == .content {
                let start = offset
                let count = min(remaining, bytes.byteCount &- offset)
                offset &+= count
                remaining &-= count
                if remaining == 0 { state = .contentCarriageReturn }
                return start..<offset
            }
            if let reason = step(bytes[at: offset], room: room) { throw HTTPParseError(reason, at: position &+ offset) }
            offset &+= 1
        }
        return nil
    }

    private mutating func step(_ byte: UInt8, room: Int) -> HTTPParseError.Reason? {
        switch state {
        case .size, .blankAfterSize, .beforeName, .name, .blankAfterName, .beforeValue, .token, .quoted, .quotedPair,
            .afterQuoted,
            .blankAfterValue:
            return chunkLine(byte)
        case .lineFeed:
            guard byte == 0x0A else { return .bareCarriageReturn }
            return beginChunk(room: room)
        case .contentCarriageReturn:
            guard byte == 0x0D else { return .chunkEndMissing }
            state = .contentLineFeed
        case .contentLineFeed:
            guard byte == 0x0A else { return .chunkEndMissing }
            state = .size
        case .trailerStart, .trailerName, .trailerValue, .trailerLineFeed:
            return trailer(byte)
        case .lastLineFeed:
            guard byte == 0x0A else { return .bareCarriageReturn }
            state = .complete
        case .content, .complete: break
        }
        return nil
    }

    // MARK: Chunk lines

    /// `chunk-size [ chunk-ext ] CRLF`, `chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
    private mutating func chunkLine(_ byte: UInt8) -> HTTPParseError.Reason? {
        if byte == 0x0D { return endOfChunkLine() }
        if byte == 0x0A { return .bareLineFeed }
        lineBytes &+= 1
        guard lineBytes <= limits.chunkLineBytes else { return .chunkLineTooLong }
        if lineBytes > 8 {
            excessBytes &+= 1
            guard excessBytes <= limits.fieldsBytes else { return .chunkExtensionsTooLarge }
        }
        switch state {
        case .size: return sizeDigit(byte)
        case .blankAfterSize, .blankAfterValue, .afterQuoted, .blankAfterName:
            return afterPart(byte)
        case .beforeName:
            if byte.isBlank { return nil }
            guard ByteSet.token.contains(byte) else { return .chunkExtensionInvalid }
            state = .name
        case .name:
            if ByteSet.token.contains(byte) { return nil }
            state = .blankAfterName
            return afterPart(byte)
        case .beforeValue:
            if byte.isBlank { return nil }
            if byte == UInt8(ascii: "\"") {
                state = .quoted
                return nil
            }
            guard ByteSet.token.contains(byte) else { return .chunkExtensionInvalid }
            state = .token
        case .token:
            if ByteSet.token.contains(byte) { return nil }
            state = .blankAfterValue
            return afterPart(byte)
        case .quoted:
            guard byte.isFieldContent else { return .chunkExtensionInvalid }
            if byte == UInt8(ascii: "\"") { state = .afterQuoted }
            if byte == UInt8(ascii: "\\") { state = .quotedPair }
        case .quotedPair:
            guard byte.isFieldContent else { return .chunkExtensionInvalid }
            state = .quoted
        case .lineFeed, .content, .contentCarriageReturn, .contentLineFeed, .trailerStart, .trailerName, .trailerValue,
            .trailerLineFeed, .lastLineFeed, .complete:
            break
        }
        return nil
    }

    private mutating func sizeDigit(_ byte: UInt8) -> HTTPParseError.Reason? {
        let digit = byte.hexValue
        if digit < 16 {
            guard size <= Int.max >> 4 else { return .chunkSizeInvalid }
            size = size << 4 | Int(digit)
            hasDigit = true
            return nil
        }
        guard hasDigit, byte == UInt8(ascii: ";") || byte.isBlank else { return .chunkSizeInvalid }
        state = .blankAfterSize
        return afterPart(byte)
    }

    /// Behind a size, name or value, white space may stand only before the next `;` or `=`.
    private mutating func afterPart(_ byte: UInt8) -> HTTPParseError.Reason? {
        if byte == UInt8(ascii: ";") {
            state = .beforeName
        } else if byte == UInt8(ascii: "="), state == .blankAfterName {
            state = .beforeValue
        } else if byte.isBlank {
            // The state is now one in which the line cannot end.
            if state == .afterQuoted { state = .blankAfterValue }
        } else {
            return .chunkExtensionInvalid
        }
        return nil
    }

    private mutating func endOfChunkLine() -> HTTPParseError.Reason? {
        switch state {
        case .size:
            guard hasDigit else { return .chunkSizeInvalid }
        case .name, .token, .afterQuoted:
            break
        case .blankAfterSize: return .chunkSizeInvalid
        default: return .chunkExtensionInvalid
        }
        state = .lineFeed
        return nil
    }

    private mutating func beginChunk(room: Int) -> HTTPParseError.Reason? {
        guard size <= room else { return .contentTooLarge }
        remaining = size
        state = size == 0 ? .trailerStart : .content
        size = 0
        hasDigit = false
        lineBytes = 0
        return nil
    }

    // MARK: Trailer section

    private mutating func trailer(_ byte: UInt8) -> HTTPParseError.Reason? {
        if state == .trailerStart, byte == 0x0D {
            state = .lastLineFeed
            return nil
        }
        trailerBytes &+= 1
        guard trailerBytes <= limits.fieldsBytes else { return .fieldsTooLarge }
        switch state {
        case .trailerStart:
            trailerLines &+= 1
            guard trailerLines <= limits.fieldLines else { return .tooManyFields }
            if byte == 0x0A { return .bareLineFeed }
            guard ByteSet.token.contains(byte) else { return byte.isBlank ? .obsFold : .fieldNameInvalid }
            state = .trailerName
        case .trailerName:
            if ByteSet.token.contains(byte) { return nil }
            if byte == UInt8(ascii: ":") {
                state = .trailerValue
                return nil
            }
            return byte == 0x0D ? .colonMissing : byte.isBlank ? .whitespaceBeforeColon : .fieldNameInvalid
        case .trailerValue:
            if byte == 0x0D {
                state = .trailerLineFeed
            } else if !byte.isFieldContent {
                return byte == 0x0A ? .bareLineFeed : .controlCharacter
            }
        default:
            guard byte == 0x0A else { return .bareCarriageReturn }
            state = .trailerStart
        }
        return nil
    }
}
